"""Values between JSON and columns.

Going out: booleans and numbers that JSON has are JSON's; JSON values are themselves; an array is a
list; a null is null. Everything else, `numeric` included, is the text that PostgreSQL would print,
because JSON has nothing that holds it exactly. So are a float's NaN and infinities.

A `bigint` is a number, and JSON numbers have no limit; a reader that keeps them as floats (as
JavaScript does) loses digits beyond 2^53, and may cast to `text` in the query.

Coming in, a parameter is written as text for its type to read, so that whatever a literal in SQL
could say can be said. How types read and write text is the other protocol's knowledge: it comes
through the port `Texts`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import msgspec
import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.manner import Manner
from waterclock.model.pg_types import PgType, UnknownType, element_of, format_type, type_info

_PLAIN = ("bool", "int2", "int4", "int8", "oid", "mz_timestamp")
_FLOATS = ("float4", "float8")
_JSON = ("json", "jsonb")


class BadParameter(WaterclockError):
    """A parameter is of a kind that no SQL type is written as."""

    sqlstate: ClassVar[str] = "22023"


class Texts(Protocol):
    """How values of SQL types are written as text, in the manner of a session."""

    def encode(self, column: pa.Array, declared: PgType, manner: Manner) -> pa.Array:
        """The column as text; nulls stay nulls."""

    def decode(self, text: str | None, declared: PgType, manner: Manner) -> pa.Scalar:
        """The value that the text stands for, None for null; a `WaterclockError` if for none."""


def type_name(declared: PgType) -> str:
    """The type as SQL writes it. Some of the system's relations have types without a name here."""
    try:
        return format_type(declared)
    except UnknownType:
        return f"type {declared.oid}"


def json_rows(
    batch: pa.RecordBatch, types: Sequence[PgType], texts: Texts, manner: Manner
) -> list[list[Any]]:
    """The rows of a batch as lists of what JSON can hold."""
    columns = [
        json_values(column, declared, texts, manner)
        for column, declared in zip(batch.columns, types, strict=True)
    ]
    return [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * batch.num_rows


def json_values(column: pa.Array, declared: PgType, texts: Texts, manner: Manner) -> list[Any]:
    """The values of a column, each as what stands for it in JSON."""
    element = element_of(declared.oid)
    if element is not None and pa.types.is_list(column.type):
        inner = PgType(element.oid, declared.modifier)
        return _lists(column, json_values(column.flatten(), inner, texts, manner))
    name = _name(declared)
    if name in _PLAIN and not pa.types.is_string(column.type):
        return list(column.to_pylist())
    if name in _FLOATS and pa.types.is_floating(column.type):
        return [_number(value) for value in column.to_pylist()]
    if name in _JSON:
        return [None if v is None else msgspec.Raw(v.encode()) for v in column.to_pylist()]
    return list(texts.encode(column, declared, manner).to_pylist())


def parameter(given: msgspec.Raw, declared: PgType) -> str | None:
    """The text in which a JSON value is handed to the type; None for null.

    A number stays as it was written, so that a numeric keeps all its digits.
    """
    value = msgspec.json.Decoder(float_hook=str).decode(given)
    if value is None:
        return None
    if isinstance(value, str):
        return value
    if _name(declared) in _JSON:
        return bytes(given).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    element = element_of(declared.oid)
    if isinstance(value, list) and element is not None:
        inner = PgType(element.oid, declared.modifier)
        elements = msgspec.json.decode(given, type=list[msgspec.Raw])
        return "{" + ",".join(_element(parameter(each, inner)) for each in elements) + "}"
    raise BadParameter(
        f"a JSON {'list' if isinstance(value, list) else 'object'} can not be a value of type"
        f" {type_name(declared)}",
        hint="Give the value as text, as a literal in SQL would have it.",
    )


def _element(text: str | None) -> str:
    if text is None:
        return "NULL"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _name(declared: PgType) -> str | None:
    try:
        return type_info(declared.oid).name
    except UnknownType:
        return None


def _number(value: float | None) -> float | str | None:
    if value is None or math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _lists(column: pa.ListArray, flat: list[Any]) -> list[list[Any] | None]:
    """The elements, which are in one list, in lists as long as those of the column."""
    found: list[list[Any] | None] = []
    start = 0
    for length in column.value_lengths().to_pylist():
        if length is None:
            found.append(None)
            continue
        found.append(flat[start : start + length])
        start += length
    return found
