"""The command's door: finds a command, runs it, and turns every error into text and an exit code.

A command's module is loaded when the command is named, so that planning a saved graph loads no
framework and ``--help`` loads nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, final

import click

from shardwright.cli.answer import json_line
from shardwright.errors import ShardwrightError, UsageError, did_you_mean

COMMANDS = {
    "demo": "Train a tiny GPT on 8 virtual devices, and show that nothing changed but the time.",
    "plan": "Find the best plan for a step on some machines; no hardware is needed.",
    "run": "Plan a reference model, run it, and set what was measured beside what was planned.",
    "explain": "Say what a saved plan does, how long a step takes and what a device holds.",
    "check": "Check that a saved plan is one for a step.",
    "diff": "Say what two plans do differently.",
    "solve": "Solve a problem of the public benchmark: one strategy per node, under a limit.",
    "hardware": "List the devices and hosts that are known, or show one.",
}

EXIT_CODES = """\b
Exit codes:
  0  done; of plan: the plan fits, within the gap that was asked for
  1  the planned program could not be run, or disagreed with one device
  2  the call is wrong: usage, a damaged or stale plan, unknown machines
  3  no plan: nothing fits (what is short and the smallest change that
     would fit are printed), or the recipe makes no sense here
  4  constraints clash; the message names them
  5  the plan fits, but its gap is above the one that was asked for
"""


@final
class House(click.Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names of all commands, in the order in which they are told."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, its module loaded now."""
        if cmd_name not in COMMANDS:
            raise UsageError(
                f'there is no command "{cmd_name}"', hint=did_you_mean(cmd_name, COMMANDS)
            )
        command: click.Command = importlib.import_module(f"shardwright.cli.{cmd_name}").command
        command.help = command.help or COMMANDS[cmd_name]
        command.epilog = EXIT_CODES
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without loading one."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Run one command and leave with its exit code."""
        words = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        sys.exit(_run(lambda: super(House, self).main(words, *rest, **extra), "--json" in words))


def _run(command: Any, as_json: bool) -> int:  # noqa: FBT001
    try:
        answer = command()
    except ShardwrightError as error:
        return _fail(error.text(), error.exit_code, as_json=as_json)
    except click.ClickException as error:
        error.show(sys.stderr)
        return _fail("", error.exit_code, as_json=as_json, said=error.format_message())
    except (click.Abort, KeyboardInterrupt):
        return _fail("stopped", 130, as_json=as_json)
    except BrokenPipeError:
        # The reader left (`| head`): nothing more may be written, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return answer if isinstance(answer, int) else 0


def _fail(text: str, exit_code: int, *, as_json: bool, said: str = "") -> int:
    if text:
        click.echo(f"error: {text}", err=True)
    if as_json:
        click.echo(json_line({"error": text or said, "exit_code": exit_code}))
    return exit_code


@click.group(cls=House, epilog=EXIT_CODES, context_settings={"max_content_width": 100})
@click.version_option(package_name="shardwright")
def main() -> None:
    """Shardwright: automatic parallelism for training steps.

    A step written for one device goes in; a plan for many, or the running program, comes out.
    """
