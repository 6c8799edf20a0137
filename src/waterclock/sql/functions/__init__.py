"""The functions and operators of the dialect, one entry each.

To add one, add a line to the module of its family:

    scalar("initcap", (TEXT,), TEXT, "INITCAP({0})", "First letters of words in capitals.")

The name, the types of the arguments, the type of the result, the Spark SQL, and a sentence for the
documentation. Where a template is not enough, a function of the `Use` gives the SQL; where the
result's type depends on those of the arguments, a function of them gives it. Types may be
polymorphic (`ANYELEMENT`, `ANYARRAY`, ...). An operator is an entry whose name is its sign. An
argument's SQL can be put anywhere an operand may stand. What can not be done exactly raises
`Refused`, which says what; it is never done inexactly.

`FUNCTIONS` and `OPERATORS` have all entries by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

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
from waterclock.sql.functions.registry import Function


def _by_name(entries: Iterable[Function]) -> Mapping[str, tuple[Function, ...]]:
    found: dict[str, list[Function]] = {}
    for entry in entries:
        found.setdefault(entry.name, []).append(entry)
    return {name: tuple(each) for name, each in found.items()}


FUNCTIONS = _by_name(
    (
        *strings.FUNCTIONS,
        *numbers.FUNCTIONS,
        *datetimes.FUNCTIONS,
        *jsons.FUNCTIONS,
        *json_texts.FUNCTIONS,
        *json_editing.FUNCTIONS,
        *json_paths.FUNCTIONS,
        *byte_strings.FUNCTIONS,
        *arrays.FUNCTIONS,
        *aggregates.FUNCTIONS,
        *windows.FUNCTIONS,
        *sets.FUNCTIONS,
        *system.FUNCTIONS,
        *patterns.FUNCTIONS,
        *matches.FUNCTIONS,
    )
)
OPERATORS = _by_name(
    (
        *arithmetic.OPERATORS,
        *comparisons.OPERATORS,
        *times.OPERATORS,
        *strings.OPERATORS,
        *patterns.OPERATORS,
        *arrays.OPERATORS,
        *jsons.OPERATORS,
        *json_texts.OPERATORS,
        *json_paths.OPERATORS,
    )
)

__all__ = ["FUNCTIONS", "OPERATORS", "Function"]
