"""Functions that give the elements or members of JSON as rows, of `jsonb` and of `json`."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.model.pg_types import JSONB, RECORD, TEXT, PgType
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect import raw_jsons as raw
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.types import ANYELEMENT, JSON
from waterclock.sql.functions.registry import Function, Invalid, Refused, SqlRule, Use, rows, scalar

_Template = Callable[[str], str]


def _rows_of(name: str, wanted: str, is_raw: bool, template: _Template) -> SqlRule:
    """The rows of a JSON value of one kind; other kinds are errors, as in PostgreSQL."""
    tests = {"array": js.is_array, "object": js.is_object, "scalar": js.is_scalar}
    told = {"array": "an array", "object": "an object", "scalar": "a scalar"}

    def written(use: Use) -> str:
        [value] = (each.sql for each in use.arguments)
        return js.held({"v": value}, "y", checked)

    def checked(value: str) -> str:
        plain = raw.bare(value) if is_raw else value
        cases = " ".join(
            f"WHEN {test(plain)} THEN {raised('22023', _wrong(name, told[kind]))}"
            for kind, test in tests.items()
            if kind != wanted
        )
        return f"(CASE {cases} ELSE {template(value)} END)"

    return written


def _wrong(name: str, kind: str) -> str:
    if "array" in name and name.startswith("jsonb"):
        return f"cannot extract elements from {kind}"
    if "array" in name and kind == "an object":
        return f"cannot call {name} on a non-array"
    return f"cannot call {name} on {kind}"


def _json_rows(prefix: str, kind: PgType) -> list[Function]:
    is_raw = kind == JSON
    pieces, members = js.pieces, js.members
    text_of: _Template = raw.text_of_json if is_raw else js.text_of_json

    def texts(value: str) -> str:
        return f"TRANSFORM({pieces(value)}, e -> {text_of('e')})"

    def keys(value: str) -> str:
        return f"TRANSFORM({members(value)}, e -> e.k)"

    def each(value: str) -> str:
        return f"TRANSFORM({members(value)}, e -> NAMED_STRUCT('key', e.k, 'value', e.v))"

    def each_text(value: str) -> str:
        pair = f"NAMED_STRUCT('key', e.k, 'value', {text_of('e.v')})"
        return f"TRANSFORM({members(value)}, e -> {pair})"

    def entry(
        end: str, wanted: str, template: _Template, result: PgType, doc: str, *names: str
    ) -> Function:
        name = f"{prefix}_{end}"
        last = TEXT if end.endswith("text") else kind
        columns = tuple((each, last if each == "value" else TEXT) for each in names)
        rule = _rows_of(name, wanted, is_raw, template)
        return rows(name, (kind,), result, rule, doc, columns=columns)

    return [
        entry("object_keys", "object", keys, TEXT, "The names of an object's members."),
        entry("array_elements", "array", pieces, kind, "The elements of an array.", "value"),
        entry("array_elements_text", "array", texts, TEXT, "The same, as text.", "value"),
        entry("each", "object", each, RECORD, "The members of an object.", "key", "value"),
        entry("each_text", "object", each_text, RECORD, "The same, as text.", "key", "value"),
    ]


def _without_columns(use: Use) -> str:
    del use
    what = 'a column definition list is required for functions returning "record"'
    raise Invalid("42601", what)


def _records(prefix: str, kind: PgType) -> list[Function]:
    """Objects as rows of columns that the query tells: `binding.records` writes these."""
    return [
        rows(
            *(f"{prefix}_to_record", (kind,), RECORD, _without_columns),
            "The members of an object as a row of the columns that are told behind AS.",
        ),
        rows(
            *(f"{prefix}_to_recordset", (kind,), RECORD, _without_columns),
            "The objects of an array as rows of such columns.",
        ),
    ]


def _of_relation(use: Use) -> str:
    del use
    raise Refused("rows of a relation here")  # `binding.populating` writes these


def _populating(prefix: str, kind: PgType) -> list[Function]:
    name, arguments = f"{prefix}_populate_record", (ANYELEMENT, kind)
    return [
        scalar(
            *(name, arguments, RECORD, _of_relation),
            "An object as a row of a relation, which is told by NULL of its type, or a row of it.",
        ),
        rows(
            *(f"{name}set", arguments, RECORD, _of_relation),
            "The objects of an array as rows of a relation.",
        ),
    ]


POPULATE = frozenset(
    f"{kind}_populate_record{end}" for kind in ("json", "jsonb") for end in ("", "set")
)
RECORDS = frozenset(f"{kind}_to_record{end}" for kind in ("json", "jsonb") for end in ("", "set"))
JSON_ROWS: tuple[Function, ...] = (
    *(*_json_rows("jsonb", JSONB), *_json_rows("json", JSON)),
    *(*_records("jsonb", JSONB), *_records("json", JSON)),
    *(*_populating("jsonb", JSONB), *_populating("json", JSON)),
)
