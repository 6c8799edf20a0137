"""JSON objects as rows of columns that a query tells: `jsonb_to_record(j) AS t(a int, b text)`.

A member is read as the text of its value would be read in the column's type, so that "7" and 7 are
the same integer; JSON's null is null, and so is a member that is not there. A column of an array
takes the elements of a JSON array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from waterclock.model.manner import Manner
from waterclock.model.pg_types import TEXT, PgType
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect import json_reading
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect import raw_jsons as raw
from waterclock.sql.dialect.casts import NoConversion, cast_sql
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.types import JSON, element_type, is_array, name_of, shown
from waterclock.sql.errors import FeatureNotSupported

_WRONG = "22023"


Columns = Sequence[tuple[str, PgType]]


def records(
    name: str,
    value: Typed,
    columns: Columns,
    manner: Manner,
    at: int,
    defaults: Sequence[str] | None = None,
) -> str:
    """An array of structs with the fields `f0`, `f1`, ...; of one for a single object.

    `defaults` stand for members that are not there.
    """
    is_raw = value.type == JSON
    writer = _Rows(columns, manner, is_raw, defaults)
    try:
        if name.endswith("recordset"):
            return _of_array(name, value.sql, writer)
        row = writer.row("d.v")
    except NoConversion as problem:
        raise FeatureNotSupported.of(str(problem), at) from None
    plain = raw.bare("d.v") if is_raw else "d.v"
    wrong = raised(_WRONG, f"cannot call {name} on an array or a scalar")
    body = f"(CASE WHEN NOT {js.is_object(plain)} THEN {wrong} ELSE ARRAY({row}) END)"
    return let({"v": value.sql}, "d", body)


@dataclass(frozen=True, slots=True)
class _Rows:
    """Writes rows of the columns."""

    columns: Columns
    manner: Manner
    is_raw: bool
    defaults: Sequence[str] | None

    def row(self, value: str) -> str:
        members = js.members(value)
        fields = [f"'f{place}', {self._field(place)}" for place in range(len(self.columns))]
        return let({"m": members}, "r", f"NAMED_STRUCT({', '.join(fields)})")

    def _field(self, place: int) -> str:
        name, declared = self.columns[place]
        is_it = f"k -> k.k = {quoted(name)}"
        found = f"TRY_ELEMENT_AT(FILTER(r.m, {is_it}), -1).v"
        bare = raw.bare(found) if self.is_raw else found
        read = _converted("c.v", declared, self.manner, is_raw=self.is_raw)
        converted = let({"v": bare}, "c", read)
        if self.defaults is None:
            return converted
        return f"(CASE WHEN EXISTS(r.m, {is_it}) THEN {converted} ELSE {self.defaults[place]} END)"


def _of_array(name: str, value: str, writer: _Rows) -> str:
    is_raw = writer.is_raw
    plain = raw.bare("d.v") if is_raw else "d.v"
    item = raw.bare("x") if is_raw else "x"
    pieces = js.pieces("d.v")
    not_array = raised(_WRONG, f"cannot call {name} on a non-array")
    not_object = raised(_WRONG, f"argument of {name} must be an array of objects")
    each = f"CASE WHEN {js.is_object(item)} THEN {writer.row('x')} ELSE {not_object} END"
    body = (
        f"(CASE WHEN NOT {js.is_array(plain)} THEN {not_array}"
        f" ELSE TRANSFORM({pieces}, x -> {each}) END)"
    )
    return let({"v": value}, "d", body)


def _converted(value: str, declared: PgType, manner: Manner, *, is_raw: bool) -> str:
    """A JSON value in the type of a column."""
    if is_array(declared):
        return _array(value, declared, manner, is_raw=is_raw)
    if name_of(declared) in ("json", "jsonb"):
        made = json_reading.normal(value) if is_raw and name_of(declared) == "jsonb" else value
        return f"(CASE WHEN {value} <> 'null' THEN {made} END)"
    try:
        made = cast_sql("w.v", TEXT, declared, manner, explicit=False).sql
    except NoConversion:
        raise NoConversion(f"a column of type {shown(declared)} of JSON") from None
    text = raw.text_of_json(value) if is_raw else js.text_of_json(value)
    return let({"v": text}, "w", f"({made})")


def _array(value: str, declared: PgType, manner: Manner, *, is_raw: bool) -> str:
    inner = element_type(declared)
    items = js.pieces(value)
    nested = raised("0A000", "an array of more than one dimension is not supported")
    text = raised("0A000", "an array of JSON that is written as text is not supported")
    wrong = raised("22P02", "expected JSON array")
    item = raw.bare("y") if is_raw else "y"
    one = let({"v": item}, "i", _converted("i.v", inner, manner, is_raw=is_raw))
    if name_of(inner) not in ("json", "jsonb"):
        one = f"CASE WHEN {js.is_array(item)} THEN {nested} ELSE {one} END"
    return (
        f"(CASE WHEN {js.is_array(value)} THEN TRANSFORM({items}, y -> {one})"
        f" WHEN LEFT({value}, 1) = '\"' THEN {text} WHEN {value} <> 'null' THEN {wrong} END)"
    )
