"""`waterclock sql`: statements to a running server, from a flag, a pipe or a person.

With a person at the terminal, psql is started if it is there, since nothing is more familiar.
Otherwise there is a small shell: statements end with a semicolon, lines can be edited and are
remembered, Ctrl-C stops a statement, and a few of psql's commands show what there is.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, TextIO

import psycopg
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from waterclock.errors import WaterclockError
from waterclock.server.usage import DEFAULT_DSN
from waterclock.sql.lexer import lex
from waterclock.sql.tokens import Kind

_HISTORY = Path("~/.waterclock_history")
_HELP = "End a statement with a semicolon. \\? tells of commands, \\q leaves."
_SHOWN = {
    "\\d": ("all relations", "SHOW OBJECTS"),
    "\\dt": ("tables", "SHOW TABLES"),
    "\\dv": ("views", "SHOW VIEWS"),
    "\\dm": ("materialized views", "SHOW MATERIALIZED VIEWS"),
    "\\di": ("indexes", "SHOW INDEXES"),
    "\\ds": ("sources", "SHOW SOURCES"),
    "\\dn": ("schemas", "SHOW SCHEMAS"),
    "\\du": ("roles", "SHOW ROLES"),
    "\\l": ("databases", "SHOW DATABASES"),
}


class NotConnected(WaterclockError):
    """There is no server, or it does not let us in."""

    sqlstate: ClassVar[str] = "08001"


def dsn_of(
    given: str | None, environment: Mapping[str, str], *, host: str | None, port: str | None
) -> str:
    """Where to connect: as it is given, else by the flags, else as the server's settings say.

    Raises `NotConnected` if what is given is no such thing.
    """
    where = {
        "host": host or environment.get("WATERCLOCK_HOST"),
        "port": port or environment.get("WATERCLOCK_PG_PORT"),
    }
    known = conninfo_to_dict(DEFAULT_DSN) | {key: value for key, value in where.items() if value}
    try:
        return make_conninfo("", **{**known, **conninfo_to_dict(given or "")})
    except psycopg.Error as error:
        raise NotConnected(
            f'"{given}" does not say where to connect',
            detail=str(error).strip(),
            hint='Write it as "host=127.0.0.1 port=6875", or as postgresql://127.0.0.1:6875.',
        ) from error


def run(dsn: str, statement: str | None, *, plain: bool, out: TextIO) -> int:
    """Run the statement, what comes from a pipe, or a shell; 1 if a statement failed."""
    interactive = statement is None and sys.stdin.isatty()
    psql = shutil.which("psql")
    if interactive and psql and not plain:
        out.flush()
        os.execv(psql, [psql, dsn])
    with connected(dsn) as connection:
        if not interactive:
            text = sys.stdin.read() if statement is None else statement
            return 0 if execute(connection, text, out) else 1
        _talk(connection, out)
        return 0


def connected(dsn: str) -> psycopg.Connection[Any]:
    """A connection whose notices are printed. Raises `NotConnected`."""
    try:
        connection = psycopg.connect(dsn, autocommit=True)
    except psycopg.Error as error:
        raise NotConnected(
            "could not connect to the server",
            detail=str(error).strip(),
            hint="Start one with `waterclock serve`, or tell where it is: waterclock sql --help",
        ) from error
    connection.add_notice_handler(
        lambda notice: print(f"{notice.severity}:  {notice.message_primary}", file=sys.stderr)
    )
    return connection


def execute(connection: psycopg.Connection[Any], text: str, out: TextIO) -> bool:
    """Run all statements of the text and print their results; whether all went well."""
    cursor = connection.cursor()
    try:
        cursor.execute(text.encode())
        while True:
            _print_result(cursor, out)
            if not cursor.nextset():
                return True
    except psycopg.Error as error:
        _print_error(error, text)
        return False


def _print_result(cursor: psycopg.Cursor[Any], out: TextIO) -> None:
    result = cursor.pgresult
    if result is None or result.status == pq.ExecStatus.EMPTY_QUERY:
        return
    if cursor.description is None:
        print(cursor.statusmessage, file=out)
        return
    names = [column.name for column in cursor.description]
    rows = [
        [_cell(result.get_value(row, place)) for place in range(result.nfields)]
        for row in range(result.ntuples)
    ]
    for line in table(names, rows):
        print(line, file=out)


def _cell(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table, aligned, with the number of rows below."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    yield " | ".join(name.ljust(width) for name, width in zip(names, widths, strict=True)).rstrip()
    yield "-+-".join("-" * width for width in widths)
    for row in rows:
        yield " | ".join(c.ljust(width) for c, width in zip(row, widths, strict=True)).rstrip()
    yield f"({len(rows)} {'row' if len(rows) == 1 else 'rows'})"


def _print_error(error: psycopg.Error, text: str) -> None:
    told = error.diag
    print(f"ERROR:  {told.message_primary or str(error).strip()}", file=sys.stderr)
    if told.statement_position is not None:
        for line in _mark(text, int(told.statement_position)):
            print(line, file=sys.stderr)
    for name, value in (("DETAIL", told.message_detail), ("HINT", told.message_hint)):
        if value is not None:
            print(f"{name}:  {value}", file=sys.stderr)


def _mark(text: str, position: int) -> tuple[str, str]:
    """The line of the text that has the character, and a mark below it. Positions count from 1."""
    start = text.rfind("\n", 0, position - 1) + 1
    number = text.count("\n", 0, start) + 1
    line = text[start:].split("\n", 1)[0]
    prefix = f"LINE {number}: "
    return prefix + line, " " * (len(prefix) + position - 1 - start) + "^"


def _talk(connection: psycopg.Connection[Any], out: TextIO) -> None:
    remember = _history()
    print(f"Connected to {connection.info.host}:{connection.info.port}. {_HELP}", file=out)
    pending = ""
    try:
        while True:
            try:
                line = input("waterclock=> " if not pending else "waterclock-> ")
            except EOFError:
                return
            except KeyboardInterrupt:
                print(file=out)
                pending = ""
                continue
            if not pending and line.strip() in ("\\q", "exit", "quit"):
                return
            if not pending and line.strip().startswith("\\"):
                statement = statement_of(line.strip())
                if statement is None:
                    print("\n".join(commands()), file=out)
                else:
                    _execute_stoppable(connection, statement, out)
                continue
            pending += line + "\n"
            if is_complete(pending):
                _execute_stoppable(connection, pending, out)
                pending = ""
    finally:
        remember()


def _execute_stoppable(connection: psycopg.Connection[Any], text: str, out: TextIO) -> None:
    try:
        execute(connection, text, out)
    except KeyboardInterrupt:  # psycopg has cancelled the statement
        print("cancelled", file=sys.stderr)


def statement_of(command: str) -> str | None:
    """The statement that a command stands for; None for one that is not known."""
    word, _, name = command.rstrip(";").partition(" ")
    if word == "\\d" and name.strip():
        return f"SHOW COLUMNS FROM {name.strip()}"
    return _SHOWN[word][1] if word in _SHOWN and not name.strip() else None


def commands() -> Iterator[str]:
    """What there is, line by line."""
    for command, (what, _) in _SHOWN.items():
        yield f"  {command:<8} {what}"
    for command, what in (("\\d name", "the columns of a relation"), ("\\q", "leave")):
        yield f"  {command:<8} {what}"
    yield "A statement ends with a semicolon and may have many lines; Ctrl-C stops it."


def is_complete(text: str) -> bool:
    """Whether the text ends with a semicolon that is not inside a string or a comment."""
    *tokens, last = lex(text)
    if last.kind is Kind.FAULT:  # such as a string that is still open; if not, the server tells
        return text.rstrip().endswith(";;")
    return not tokens or (tokens[-1].kind is Kind.OPERATOR and tokens[-1].value == ";")


def _history() -> Any:
    """Have lines remembered; what to call at the end."""
    try:
        import readline
    except ImportError:
        return lambda: None
    path = _HISTORY.expanduser()
    with suppress(OSError):
        readline.read_history_file(path)

    def save() -> None:
        readline.set_history_length(1000)
        with suppress(OSError):
            readline.write_history_file(path)

    return save
