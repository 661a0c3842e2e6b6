"""Benchmarks: ``python -m bench.NAME [--quick] [--json FILE]`` prints a table and one JSON line."""
