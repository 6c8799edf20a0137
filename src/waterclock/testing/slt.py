"""SQL tests as text: records of statements and queries with what they should give.

The format is that of sqllogictest, as most databases have grown it:

    statement ok                  it goes well; with words behind `ok`, its tag is those
    CREATE TABLE t (a int)

    statement error 42P01         it is refused with the SQLSTATE
    DROP TABLE nowhere

    query IT rowsort              its rows, with the types of the columns and a sort mode
    SELECT a, b FROM t
    ----
    1  one
    2  NULL

    query error 22012             as for a statement
    SELECT 1 / 0

    connection bob role=bob       what follows is done in this session, opened if it is new

Columns are two blanks apart. NULL is a null, `(empty)` the empty string; a blank next to another is
written as `␠`, unless there is only one column, and a line break as `⏎`. Types are I (integers), R
(other numbers), T (text), B (truth) and O (anything else). The sort modes are `nosort`, the
default, `rowsort` and `valuesort`. Behind it may stand `names`, which puts the names of the columns
first, and `mask=1,3`, which shows these columns, counted from 1, as `*`: for what is not the same
every time.

A record ends with an empty line. A line that begins with `#` is a comment, `halt` ends the file.

`rewritten` gives the file with what really happened in the place of what was expected, and leaves
all else as it is: write the statements, have the rest written, and read whether it is right.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

SEPARATOR = "  "


class Sort(Enum):
    """What is compared of the order of rows."""

    NONE = "nosort"
    ROWS = "rowsort"
    VALUES = "valuesort"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a statement did: its tag, and its rows as texts if it has some; or its SQLSTATE."""

    tag: str = ""
    names: tuple[str, ...] = ()
    kinds: str = ""
    rows: tuple[tuple[str | None, ...], ...] | None = None
    sqlstate: str | None = None
    message: str = ""


class Runner(Protocol):
    """Runs one statement in the session of that name, opened with these facts if it is new."""

    async def __call__(self, session: str, role: str | None, text: str) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Record:
    """One record: where it stands, its words, its SQL, and the rows that it expects."""

    line: int
    """Of its first word, from 1."""
    words: tuple[str, ...]
    sql: str = ""
    expected: tuple[str, ...] | None = None
    lead: tuple[str, ...] = ()
    """The lines before it that are empty or comments."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A record that did not do what it should."""

    record: Record
    wanted: str
    found: str

    def __str__(self) -> str:
        return (
            f"line {self.record.line}: {self.record.sql}\n"
            f"expected:\n{self.wanted}\nfound:\n{self.found}"
        )


class MalformedRecord(Exception):
    """The file is not in the format."""


def parsed(text: str) -> tuple[list[Record], tuple[str, ...]]:
    """The records of a file, and the lines after the last one."""
    lines = text.split("\n")
    records: list[Record] = []
    lead: list[str] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        if not line.strip() or line.startswith("#"):
            lead.append(line)
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].strip():
            end += 1
        record = replace(_record(at + 1, lines[at:end]), lead=tuple(lead))
        records.append(record)
        lead, at = [], end
    return records, tuple(lead)


def _record(number: int, lines: Sequence[str]) -> Record:
    words, body = tuple(lines[0].split()), list(lines[1:])
    if words[0] in ("halt", "connection"):
        if body:
            raise MalformedRecord(f"line {number}: {words[0]} has no lines of its own")
        return Record(number, words)
    if words[0] not in ("statement", "query") or len(words) < 2 or not body:
        raise MalformedRecord(f"line {number}: {lines[0]}")
    expected: tuple[str, ...] | None = None
    if "----" in body:
        mark = body.index("----")
        body, expected = body[:mark], tuple(body[mark + 1 :])
    return Record(number, words, "\n".join(body), expected)


async def compared(text: str, run: Runner) -> list[Mismatch]:
    """Run the records; those that did something else than expected."""
    found: list[Mismatch] = []

    async def compare(record: Record, outcome: Outcome) -> None:
        wanted = _written(record.words, record.expected)
        made = _written(*_fulfilled(record, outcome))
        if wanted != made:
            found.append(Mismatch(record, wanted, f"{made}\n{outcome.message}".strip()))

    await _each(text, run, compare)
    return found


async def rewritten(text: str, run: Runner) -> str:
    """The file with what the records did in the place of what they should."""
    blocks: list[str] = []

    async def write(record: Record, outcome: Outcome) -> None:
        words, expected = _fulfilled(record, outcome)
        blocks.append(_block(replace(record, words=words, expected=expected)))

    async def keep(record: Record) -> None:
        blocks.append(_block(record))

    rest = await _each(text, run, write, keep)
    return "\n".join([*blocks, *rest])


async def _each(
    text: str,
    run: Runner,
    then: Callable[[Record, Outcome], Awaitable[None]],
    other: Callable[[Record], Awaitable[None]] | None = None,
) -> list[str]:
    """Run all records up to `halt`; what comes after it is given back."""
    records, tail = parsed(text)
    session, role = "default", None
    for place, record in enumerate(records):
        if record.words[0] == "halt":
            rest = [_block(each) for each in records[place:]]
            return [*rest, *tail]
        if record.words[0] == "connection":
            session, role = _connection(record)
            if other is not None:
                await other(record)
            continue
        await then(record, await run(session, role, record.sql))
    return list(tail)


def _connection(record: Record) -> tuple[str, str | None]:
    name = record.words[1] if len(record.words) > 1 else "default"
    facts = dict(word.split("=", 1) for word in record.words[2:])
    return name, facts.get("role")


def _block(record: Record) -> str:
    lines = [*record.lead, " ".join(record.words)]
    if record.sql:
        lines.append(record.sql)
    if record.expected is not None:
        lines += ["----", *record.expected]
    return "\n".join(lines)


def _written(words: Sequence[str], expected: Sequence[str] | None) -> str:
    rows = () if expected is None else ("----", *expected)
    return "\n".join([" ".join(words), *rows])


def _fulfilled(record: Record, outcome: Outcome) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The record's words and rows as they would have to be for what happened."""
    kind, first, *rest = record.words
    if outcome.sqlstate is not None:
        return (kind, "error", outcome.sqlstate), None
    if kind == "statement" or outcome.rows is None:
        tag = outcome.tag.split() if first == "ok" and rest else []
        return ("statement", "ok", *tag), None
    modes = [] if first == "error" else rest
    return ("query", outcome.kinds, *modes), tuple(_lines(outcome, modes))


def _lines(outcome: Outcome, modes: Sequence[str]) -> list[str]:
    masked = {int(n) for m in modes if m.startswith("mask=") for n in m[5:].split(",")}
    rows = [
        [
            "*" if place in masked else _cell(value, alone=len(row) == 1)
            for place, value in enumerate(row, start=1)
        ]
        for row in outcome.rows or ()
    ]
    lines = [SEPARATOR.join(row) for row in rows]
    if Sort.ROWS.value in modes:
        lines.sort()
    elif Sort.VALUES.value in modes:
        lines = sorted(cell for row in rows for cell in row)
    return [SEPARATOR.join(outcome.names), *lines] if "names" in modes else lines


def _cell(value: str | None, *, alone: bool) -> str:
    if value is None:
        return "NULL"
    if value == "":
        return "(empty)"
    shown = value.replace("\n", "⏎")
    ambiguous = shown != shown.strip() or SEPARATOR in shown
    if alone:  # only its end can not be seen
        ambiguous = shown != shown.rstrip()
    return shown.replace(" ", "␠") if ambiguous else shown
