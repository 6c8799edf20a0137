"""The command line: `waterclock <command>`.

It parses, calls, and turns an error of the user into a message and an exit code. A command's module
is imported only when the command runs, so `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from waterclock.errors import WaterclockError


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it went well, 1 on a `WaterclockError`.

    Wrong usage exits with 2, as argparse does.
    """
    arguments = _parser().parse_args(argv)
    try:
        match arguments.command:
            case "demo":
                _demo()
            case unknown:
                raise AssertionError(f"the parser let through {unknown!r}")
    except WaterclockError as error:
        _report(error)
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="waterclock",
        description="A streaming SQL database on Apache Spark, exact at every time.",
    )
    parser.add_argument(
        "--version", action="version", version=f"waterclock {version('waterclock')}"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser("demo", help="show the storage layer at work on a small example")
    return parser


def _demo() -> None:
    from waterclock.server import demo

    demo.run(sys.stdout)


def _report(error: WaterclockError) -> None:
    print(f"waterclock: {error.message}", file=sys.stderr)
    if error.detail is not None:
        print(f"  detail: {error.detail}", file=sys.stderr)
    if error.hint is not None:
        print(f"  hint: {error.hint}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
