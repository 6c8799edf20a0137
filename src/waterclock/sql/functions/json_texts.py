"""Functions and operators of `json`, which is whatever text it was given as.

They give what PostgreSQL gives to the letter: blanks in a value stay, and in what is built they
stand where PostgreSQL puts them, which is not the same for each function.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.manner import Manner
from waterclock.model.pg_types import INT4, TEXT, PgType
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect import raw_jsons as raw
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.texts import text_of
from waterclock.sql.dialect.types import (
    ANY,
    ANYELEMENT,
    JSON,
    TEXT_ARRAY,
    element_type,
    is_array,
    name_of,
)
from waterclock.sql.functions.jsons import (
    AS_NUMBERS,
    name_in_json,
    pairs_of,
    text_in_json,
)
from waterclock.sql.functions.registry import Argument, Function, SqlRule, Use, scalar

_WRONG = "22023"


def _taken(*, as_text: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, step = (each.sql for each in use.arguments)
        is_place = name_of(use.arguments[1].type) == "int4"
        found = raw.element(value, step) if is_place else raw.member(value, step)
        return raw.text_of_json(found) if as_text else found

    return written


def _deep(*, as_text: bool) -> SqlRule:
    def written(use: Use) -> str:
        value, path = (each.sql for each in use.arguments)
        found = raw.at_path(value, path)
        return raw.text_of_json(found) if as_text else found

    return written


def _typeof(use: Use) -> str:
    return let({"v": raw.bare(use.arguments[0].sql)}, "t", js.KINDS.format("t.v"))


def _array_length(use: Use) -> str:
    [value] = (each.sql for each in use.arguments)
    of_object = raised(_WRONG, "cannot get array length of a non-array")
    of_scalar = raised(_WRONG, "cannot get array length of a scalar")
    plain = raw.bare(value)
    return (
        f"(CASE WHEN {js.is_array(plain)} THEN SIZE({js.pieces(value)})"
        f" WHEN {js.is_object(plain)} THEN {of_object} WHEN {value} IS NOT NULL THEN {of_scalar}"
        " END)"
    )


# --- Making ---------------------------------------------------------------------------------------


def json_text_of(value: str, declared: PgType, manner: Manner) -> str:
    """Any value as `json`; null stays null."""
    if is_array(declared):
        inner = f"COALESCE({json_text_of('e', element_type(declared), manner)}, 'null')"
        return f"CONCAT('[', ARRAY_JOIN(TRANSFORM({value}, e -> {inner}), ','), ']')"
    name = name_of(declared)
    if name in ("json", "jsonb"):
        return value
    if name in AS_NUMBERS or name == "bool":
        return text_of(value, declared, manner)
    if name in ("float4", "float8"):
        text = text_of(value, declared, manner)
        odd = f"(ISNAN({value}) OR ABS({value}) = CAST('Infinity' AS DOUBLE))"
        return f"(CASE WHEN {odd} THEN CONCAT('\"', {text}, '\"') ELSE {text} END)"
    return js.string_of(text_in_json(value, declared, manner))


def _item(argument: Argument, use: Use) -> str:
    return f"COALESCE({json_text_of(argument.sql, argument.type, use.manner)}, 'null')"


def row_text_of(fields: Sequence[tuple[str, Argument]], manner: Manner) -> str:
    """A row as an object of its columns, without blanks."""
    texts = [
        f"{quoted(js.string_literal(name) + ':')},"
        f" COALESCE({json_text_of(value.sql, value.type, manner)}, 'null')"
        for name, value in fields
    ]
    items = ", ',', ".join(texts)
    return f"CONCAT('{{', {items}, '}}')" if texts else "'{}'"


def _to_json(use: Use) -> str:
    [value] = use.arguments
    return json_text_of(value.sql, value.type, use.manner)


def _built_array(use: Use) -> str:
    items = ", ', ', ".join(_item(each, use) for each in use.arguments)
    return f"CONCAT('[', {items}, ']')" if items else "'[]'"


def _built_object(use: Use) -> str:
    texts = [
        f"{js.string_of(name_in_json(key, place, use))}, ' : ', {_item(value, use)}"
        for place, (key, value) in enumerate(pairs_of(use))
    ]
    items = ", ', ', ".join(texts)
    return f"CONCAT('{{', {items}, '}}')" if texts else "'{}'"


OPERATORS: tuple[Function, ...] = (
    scalar("->", (JSON, TEXT), JSON, _taken(as_text=False), "A member."),
    scalar("->", (JSON, INT4), JSON, _taken(as_text=False), "An element, from 0."),
    scalar("->>", (JSON, TEXT), TEXT, _taken(as_text=True), "A member, as text."),
    scalar("->>", (JSON, INT4), TEXT, _taken(as_text=True), "An element, as text."),
    scalar("#>", (JSON, TEXT_ARRAY), JSON, _deep(as_text=False), "What is at a path."),
    scalar("#>>", (JSON, TEXT_ARRAY), TEXT, _deep(as_text=True), "The same, as text."),
)
FUNCTIONS: tuple[Function, ...] = (
    scalar("json_typeof", (JSON,), TEXT, _typeof, "What kind of JSON it is."),
    scalar("json_array_length", (JSON,), INT4, _array_length, "How many elements."),
    scalar("to_json", (ANYELEMENT,), JSON, _to_json, "A value as JSON."),
    scalar("json_build_array", (), JSON, _built_array, "An empty array.", never_null=True),
    scalar(
        *("json_build_array", (ANY,), JSON, _built_array, "An array of the arguments."),
        is_variadic=True,
        never_null=True,
    ),
    scalar("json_build_object", (), JSON, _built_object, "An empty object.", never_null=True),
    scalar(
        *("json_build_object", (ANY,), JSON, _built_object, "An object of names and values."),
        is_variadic=True,
        never_null=True,
    ),
)
