"""The command line: one file per command, and what they share.

Read ``group.py`` for how a command is found and how errors become exit codes, ``subject.py`` for
where a step comes from, ``asked.py`` for what may be asked of a search.
"""

from shardwright.cli.group import main as main
