"""Functions and operators that find values in `jsonb` by a path, as SQL/JSON has them.

The path decides what is computed, so it is a constant, and so are the values of its variables. A
path of the lax mode raises nothing, so that it makes no difference whether errors are kept silent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from waterclock.model.pg_types import BOOL, JSONB, TEXT, PgType
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.json_path_tree import Path
from waterclock.sql.dialect.json_path_walks import Walks
from waterclock.sql.dialect.json_paths import BadPath, Unsupported, parse_path
from waterclock.sql.dialect.letting import let
from waterclock.sql.functions.regexes import java_regex
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    Invalid,
    Refused,
    SqlRule,
    Use,
    rows,
    scalar,
)

_NOT_ONE = raised("22038", "single boolean result is expected")
_Result = Callable[[str], str]


def _parsed(argument: Argument) -> Path:
    if argument.text is None:
        raise Refused("a jsonpath that is not a constant")
    try:
        return parse_path(argument.text)
    except BadPath as problem:
        raise Invalid("42601", str(problem)) from None
    except Unsupported as problem:
        raise Refused(str(problem)) from None


def _variables(use: Use) -> dict[str, Any]:
    if len(use.arguments) < 3:
        return {}
    text = use.arguments[2].text
    found = None if text is None else js.parsed(text)
    if text is None:
        raise Refused("variables of a jsonpath that are not constant")
    if not isinstance(found, dict):
        raise Invalid("22023", '"vars" argument is not an object')
    if any(isinstance(each, dict | list) for each in found.values()):
        raise Refused("a variable of a jsonpath that is no scalar")
    return found


def _regex(pattern: str, flags: str) -> str:
    """A dot does not match a line break, unless the flag s says so."""
    if set(flags) - {"i", "s"}:
        raise Refused(f'the flags "{flags}" of like_regex')
    text = java_regex(pattern, "i" if "i" in flags else "").text
    if "s" in flags:
        return text
    if "[^" in pattern:
        raise Refused("like_regex with [^ in it", 'Give it the flag "s".')
    return text.replace("sd)", "d)", 1)


def _found(result: _Result, *, is_operator: bool = False) -> SqlRule:
    """What is made of the values that the path leads to. Of an operator, variables are null."""

    def written(use: Use) -> str:
        value, text, *_ = use.arguments
        variables = None if is_operator else _variables(use)
        made = result(Walks("d.v", variables, _regex).values(_parsed(text)))
        known = " AND ".join(
            ["d.v IS NOT NULL", *(f"{each.sql} IS NOT NULL" for each in use.arguments[3:])]
        )
        return let({"v": value.sql}, "d", f"(CASE WHEN {known} THEN {made} END)")

    return written


def _matched(use: Use, *, is_operator: bool) -> str:
    """The one condition that the path is, or leads to."""
    flag = use.arguments[3] if len(use.arguments) > 3 else None
    if flag is not None and flag.value is None:
        raise Refused("a flag of jsonb_path_match() that is not a constant")
    silent = is_operator or (flag is not None and bool(flag.value))

    def made(values: str) -> str:
        one = (
            "CASE WHEN SIZE(m.a) = 1 AND GET(m.a, 0) IN ('true', 'false')"
            " THEN GET(m.a, 0) = 'true' WHEN SIZE(m.a) = 1 AND GET(m.a, 0) = 'null' THEN NULL"
            f" ELSE {'NULL' if silent else _NOT_ONE} END"
        )
        return let({"a": values}, "m", one)

    return _found(made, is_operator=is_operator)(use)


def _match(use: Use) -> str:
    return _matched(use, is_operator=False)


def _matches(use: Use) -> str:
    return _matched(use, is_operator=True)


def _exists(values: str) -> str:
    return f"(SIZE({values}) > 0)"


def _first(values: str) -> str:
    return f"GET({values}, 0)"


def _all(values: str) -> str:
    return values


def _with_options(
    name: str, result: PgType, rule: SqlRule, doc: str, *, is_rows: bool = False
) -> list[Function]:
    """The function alone, with variables, and with a flag that keeps errors silent."""
    kinds = (JSONB, TEXT, JSONB, BOOL)
    ends = ("", " Variables are given as an object.", " Variables, and whether errors are silent.")
    made = rows if is_rows else scalar
    return [
        made(name, kinds[:count], result, rule, doc + end)
        for count, end in zip((2, 3, 4), ends, strict=True)
    ]


FUNCTIONS: tuple[Function, ...] = (
    *_with_options("jsonb_path_exists", BOOL, _found(_exists), "Whether a path leads to a value."),
    *_with_options("jsonb_path_match", BOOL, _match, "Whether the condition of a path holds."),
    *_with_options(
        "jsonb_path_query_array", JSONB, _found(js.array_of), "What a path leads to, as an array."
    ),
    *_with_options("jsonb_path_query_first", JSONB, _found(_first), "What it leads to first."),
)
PATH_ROWS: tuple[Function, ...] = tuple(
    _with_options("jsonb_path_query", JSONB, _found(_all), "What it leads to.", is_rows=True)
)
OPERATORS: tuple[Function, ...] = (
    scalar(
        *("@?", (JSONB, TEXT), BOOL, _found(_exists, is_operator=True)),
        "Whether a path leads to a value.",
    ),
    scalar("@@", (JSONB, TEXT), BOOL, _matches, "Whether the condition of a path holds."),
)
