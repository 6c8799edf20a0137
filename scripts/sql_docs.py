"""Write docs/sql from the table of functions, or check that it is up to date (`--check`).

One page for each family, one line for each entry: what it is called with, what it gives, and the
sentence of its entry. Entries that only exist to be refused by name are listed as such.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from waterclock.model.pg_types import PgType
from waterclock.sql.dialect.types import shown
from waterclock.sql.functions import (
    aggregates,
    arithmetic,
    arrays,
    byte_strings,
    comparisons,
    datetimes,
    json_editing,
    json_paths,
    json_texts,
    jsons,
    matches,
    numbers,
    patterns,
    sets,
    strings,
    system,
    times,
    windows,
)
from waterclock.sql.functions.registry import Function, Kind

FOLDER = Path(__file__).parent.parent / "docs" / "sql"
REMEDY = "make docs-sql"
_HEAD = (
    "<!-- Written by scripts/sql_docs.py from the table of functions; change that instead. -->\n"
)
_NUMBERS = """\
Integers that overflow are errors; so are numerics of more than 38 digits. `NaN` and infinity are
refused as a `numeric`.

A `numeric` has the digits behind the point that PostgreSQL shows. Those of a column that was
declared as `numeric(p,s)`, of sums and of most products are known beforehand. A column declared as
plain `numeric`, a quotient, a mean, a root, a deviation, and what is put together from numbers of
different scales (CASE, UNION, arrays) keep the digits of each value, up to 38 before the point and
36 behind it; a product, quotient or remainder has 38 in all. What needs more is an error (22003):
round or cast the operands. Numbers of different digits can be equal: a group shows one of those
that it was made from.

Logarithms, exponentials and powers of `numeric` have PostgreSQL's digits. Those of constants have
them as part of their type, all others keep the digits of each value. A `numeric` that a RANGE of a
window counts from has 18 digits behind the point at most.

Functions of floating-point numbers give what the C library gives PostgreSQL, but for the last digit
of one to three in a thousand. Cube roots are exact to the last digit, which they are not in C.
They are the same on all machines."""
FAMILIES: Mapping[str, tuple[str, str, tuple[Function, ...]]] = {
    "strings": (
        "Text",
        "Positions and lengths count characters, from 1.",
        strings.FUNCTIONS + byte_strings.FUNCTIONS + strings.OPERATORS,
    ),
    "patterns": (
        "Patterns",
        "LIKE, SIMILAR TO and regular expressions. A pattern that is not a constant is refused"
        " where it would have to be rewritten.",
        patterns.FUNCTIONS + matches.FUNCTIONS + patterns.OPERATORS,
    ),
    "numbers": (
        "Numbers",
        _NUMBERS,
        arithmetic.OPERATORS + numbers.FUNCTIONS,
    ),
    "comparisons": (
        "Comparisons",
        "Texts compare by their bytes, as in the collation C.",
        comparisons.OPERATORS,
    ),
    "times": (
        "Dates, times and intervals",
        "Timestamps go from 4713 BC to the year 294247, and to infinity. The time 24:00 and times"
        "\nof day with a zone are not supported. A zone's abbreviation means the same all year.",
        times.OPERATORS + datetimes.FUNCTIONS,
    ),
    "json": (
        "JSON",
        "A `jsonb` value is in normal form, a `json` value is the text that it was given as."
        "\nOf values that are equal, such as 1.0 and 1, a group shows that whose text comes first."
        "\n\nA path is a constant in the lax mode, with members, elements, filters, and the methods"
        "\n`size()` and `type()`. Arithmetic, `.**` and other methods are refused.",
        (
            *(*jsons.OPERATORS, *json_texts.OPERATORS, *json_paths.OPERATORS),
            *(*jsons.FUNCTIONS, *json_texts.FUNCTIONS),
            *(*json_editing.FUNCTIONS, *json_paths.FUNCTIONS),
        ),
    ),
    "arrays": (
        "Arrays",
        "They have one dimension, and are counted from 1.",
        arrays.OPERATORS + arrays.FUNCTIONS,
    ),
    "aggregates": (
        "Aggregates",
        "All take FILTER, and DISTINCT where it makes a difference.",
        aggregates.FUNCTIONS,
    ),
    "windows": (
        "Window functions",
        "All aggregates can be used over a window too. Frames are of ROWS, RANGE or GROUPS; of"
        "\nEXCLUDE there is all in frames of GROUPS, and in those of RANGE, with offsets over whole"
        "\nnumbers, numerics of a declared scale, dates and timestamps; of ROWS the current row can"
        "\nbe left out. GROUPS are not counted beside GROUP BY."
        "\n\n`rank`, `dense_rank`, `percent_rank` and `cume_dist` with WITHIN GROUP (ORDER BY ...)"
        "\nare aggregates, which tell where a row of constants would be.",
        windows.FUNCTIONS,
    ),
    "sets": ("Functions that give rows", "To be used in FROM.", sets.FUNCTIONS),
    "system": (
        "The session and the time",
        "Constants of a query, but for those that tell what the clock on the wall shows. A view"
        "\nthat is maintained can tell no time but `mz_now()`.",
        system.FUNCTIONS,
    ),
}


def pages() -> dict[str, str]:
    """The text of each page by the name of its file."""
    made = {f"{name}.md": _page(*family) for name, family in FAMILIES.items()}
    made["README.md"] = _index()
    return made


def _index() -> str:
    lines = [
        _HEAD,
        "# SQL functions and operators\n",
        "They mean what they mean in PostgreSQL 15, and the tests compare each entry with it on"
        " generated",
        "arguments. What is not here does not exist (42883); what can not be done as",
        "PostgreSQL does it is refused by name (0A000), never done differently.\n",
        *(
            f"- [{title}]({name}.md): {len(entries)} entries"
            for name, (title, _, entries) in FAMILIES.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _page(title: str, about: str, entries: Iterable[Function]) -> str:
    lines = [_HEAD, f"# {title}\n", f"{about}\n", "| call | gives | |", "| --- | --- | --- |"]
    seen: dict[str, None] = {}
    for entry in sorted(entries, key=lambda each: (each.name.isidentifier(), each.name)):
        seen[f"| `{_call(entry)}` | {_result(entry)} | {entry.doc} |"] = None
    return "\n".join([*lines, *seen]) + "\n"


def _call(entry: Function) -> str:
    types = [shown(each).replace("|", "\\|") for each in entry.arguments]
    if entry.name.isidentifier():
        more = ", ..." if entry.is_variadic else ""
        return f"{entry.name}({', '.join(types)}{more})"
    name = _SPELLED.get(entry.name, entry.name).replace("|", "\\|")
    if len(types) == 1:
        return f"{name} {types[0]}"
    escape = f" ESCAPE {types[2]}" if len(types) > 2 else ""
    return f"{types[0]} {name} {types[1]}{escape}"


_SPELLED = {
    **{"~~": "LIKE", "!~~": "NOT LIKE", "~~*": "ILIKE", "!~~*": "NOT ILIKE"},
    **{"similar": "SIMILAR TO", "!similar": "NOT SIMILAR TO"},
}


def _result(entry: Function) -> str:
    if entry.kind is Kind.SET and entry.columns:
        return ", ".join(f"{name} {shown(kind)}" for name, kind in entry.columns)
    return shown(entry.result) if isinstance(entry.result, PgType) else "numeric"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true", help="only say what is out of date")
    asked = parser.parse_args()
    FOLDER.mkdir(parents=True, exist_ok=True)
    stale = [
        name
        for name, text in pages().items()
        if not (FOLDER / name).is_file() or (FOLDER / name).read_text() != text
    ]
    if asked.check:
        if stale:
            print(
                f"docs/sql is out of date: {', '.join(stale)}\n  remedy: {REMEDY}", file=sys.stderr
            )
        return 1 if stale else 0
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
