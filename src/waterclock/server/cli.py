"""The command line: `waterclock <command>`.

It parses, calls, and turns an error of the user into a message and an exit code. A command's module
is imported only when the command runs, so `--help` and `--version` answer at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Any

from waterclock.errors import WaterclockError
from waterclock.server.usage import build_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; 0 when it went well, 1 on a `WaterclockError`.

    Wrong usage exits with 2, as argparse does.
    """
    arguments = build_parser(version("waterclock")).parse_args(argv)
    try:
        return _COMMANDS[arguments.command](arguments)
    except WaterclockError as error:
        _report(error)
        return 1
    except KeyboardInterrupt:
        return 130


def _serve(arguments: argparse.Namespace) -> int:
    from waterclock.server.configuration import load
    from waterclock.server.run import run

    run(load(_settings(arguments), os.environ))
    return 0


def _settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The flags that are settings of the server."""
    return {name: value for name, value in vars(arguments).items() if name != "command"}


def _sql(arguments: argparse.Namespace) -> int:
    from waterclock.server import shell

    dsn = shell.dsn_of(arguments.dsn, os.environ, host=arguments.host, port=arguments.pg_port)
    return shell.run(dsn, arguments.statement, plain=arguments.plain, out=sys.stdout)


def _check(arguments: argparse.Namespace) -> int:
    from waterclock.server import checking

    return checking.run(Path(arguments.data), sys.stdout)


def _backup(arguments: argparse.Namespace) -> int:
    from waterclock.server import backup

    backup.back_up(Path(arguments.data), Path(arguments.to), sys.stdout)
    return 0


def _restore(arguments: argparse.Namespace) -> int:
    from waterclock.server import backup

    backup.restore(Path(arguments.source), Path(arguments.data), sys.stdout)
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    from waterclock.server import demo

    demo.run(sys.stdout, os.environ, seconds=arguments.seconds)
    return 0


_COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = MappingProxyType(
    {
        "serve": _serve,
        "sql": _sql,
        "check": _check,
        "backup": _backup,
        "restore": _restore,
        "demo": _demo,
    }
)


def _report(error: WaterclockError) -> None:
    print(f"waterclock: {error.message}", file=sys.stderr)
    if error.detail is not None:
        print(f"  detail: {error.detail}", file=sys.stderr)
    if error.hint is not None:
        print(f"  hint: {error.hint}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
