"""The parameters of Bind as values of the types that the statement has."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from waterclock.adapter.api import Format, StatementDescription
from waterclock.catalog.system.types import REG_TYPES
from waterclock.model.pg_types import NO_MODIFIER, PgType, column_type
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.errors import BadMessage
from waterclock.pgwire.messages import Bind
from waterclock.pgwire.values.binary_in import decode_binary
from waterclock.pgwire.values.errors import InvalidBinary, decode_utf8
from waterclock.pgwire.values.rows import formats_for
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.zones import Zone

_TEXTS = frozenset({25, 1043})
_INTEGERS = {20: pa.int64(), 21: pa.int16(), 23: pa.int32()}
_SHORT = 5
"""A number of fewer digits fits all integers."""


def decode_parameters(bind: Bind, types: Sequence[PgType], zone: Zone) -> list[pa.Scalar]:
    """A scalar for each parameter; the message must fit the statement (see `check_bind`)."""
    formats = formats_for(bind.parameters, bind.parameter_formats)
    return [
        _scalar(number, value, declared, form, zone)
        for number, (value, declared, form) in enumerate(
            zip(bind.parameters, types, formats, strict=True), 1
        )
    ]


def check_bind(bind: Bind, statement: StatementDescription) -> None:
    """Raise `BadMessage` unless the numbers of parameters, columns and formats fit."""
    given, formats = len(bind.parameters), len(bind.parameter_formats)
    if formats > 1 and formats != given:
        raise BadMessage(f"bind message has {formats} parameter formats but {given} parameters")
    wanted = len(statement.parameters)
    if given != wanted:
        raise BadMessage(
            f"bind message supplies {given} parameters,"
            f' but prepared statement "{bind.statement}" requires {wanted}'
        )
    columns, results = len(statement.columns or ()), len(bind.result_formats)
    if results > 1 and results != columns and statement.columns is not None:
        raise BadMessage(
            f"bind message has {results} result formats but query has {columns} columns"
        )


def _named(number: int, value: bytes | None, form: Format) -> pa.Scalar:
    """Something of the catalog: its name in text, which is looked up later, its OID in binary."""
    if value is None:
        return pa.scalar(None, pa.string())
    if form is Format.TEXT:
        return pa.scalar(decode_utf8(value), pa.string())
    if len(value) != 4:
        raise InvalidBinary(f"incorrect binary data format in bind parameter {number}")
    return pa.scalar(int.from_bytes(value, "big"), pa.int64())


def _common(value: bytes, declared: PgType, form: Format) -> pa.Scalar | None:
    """A value of the most common types, read without an array of one; None for all others.

    It is also None for a value that is not plainly right, so that the other way tells what is
    wrong.
    """
    if declared.oid in _TEXTS and declared.modifier == NO_MODIFIER:
        return pa.scalar(decode_utf8(value), pa.string())
    held = _INTEGERS.get(declared.oid)
    if held is None:
        return None
    if form is Format.BINARY:
        width = held.bit_width // 8
        number = int.from_bytes(value, "big", signed=True) if len(value) == width else None
    else:
        number = int(value) if len(value) < _SHORT and value.isdigit() else None
    return None if number is None else pa.scalar(number, held)


def _scalar(
    number: int, value: bytes | None, declared: PgType, form: Format, zone: Zone
) -> pa.Scalar:
    if declared.oid in REG_TYPES:
        return _named(number, value, form)
    if value is None:
        return pa.scalar(None, arrow_type(column_type(declared)))
    common = _common(value, declared, form)
    if common is not None:
        return common
    if form is Format.TEXT:
        return decode_text(pa.array([decode_utf8(value)], pa.string()), declared, zone)[0]
    try:
        return decode_binary([value], declared)[0]
    except InvalidBinary as fault:
        if fault.message == "incorrect binary data format":
            raise InvalidBinary(f"{fault.message} in bind parameter {number}") from None
        raise
