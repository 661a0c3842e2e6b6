"""Predicted against measured figures that others published."""
