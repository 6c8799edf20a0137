r"""Constants in Spark SQL.

A constant says its own type, so that nothing is left to Spark's rules for untyped ones. Dates and
times are written as the number that they are held as, which needs no calendar and knows no limits.
A `$` before a brace is escaped: Spark would look for a variable, even inside a string.
"""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any, assert_never

import pyarrow as pa

from waterclock.model.pg_types import NUMERIC, PgType, column_type, element_of
from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    Date,
    Float,
    Int,
    Interval,
    Json,
    Numeric,
    Struct,
    Text,
    TimeOfDay,
    Timestamp,
    Uuid,
)
from waterclock.model.schema import Decimal as DecimalType
from waterclock.persist.numerics import number_of, parts_of
from waterclock.persist.rows import arrow_type
from waterclock.sql.dialect.types import spark_type

_ESCAPES = str.maketrans({"\\": "\\\\", "'": "\\'", "$": "\\u0024"})
_INT_SUFFIX = {16: "S", 32: "", 64: "L"}


def quoted(text: str) -> str:
    """A string."""
    return "'" + text.translate(_ESCAPES) + "'"


def null(declared: PgType) -> str:
    return f"CAST(NULL AS {spark_type(declared)})"


def decimal_literal(number: Decimal) -> str:
    """A decimal with exactly the digits given."""
    text = f"{number:f}"
    return f"({text}BD)" if text.startswith("-") else f"{text}BD"


def numeric_literal(number: Decimal) -> str:
    """A number that has its own scale."""
    held = parts_of(number)
    whole, fraction = decimal_literal(held["v"]["w"]), decimal_literal(held["v"]["f"])
    value = f"NAMED_STRUCT('w', {whole}, 'f', {fraction})"
    return f"CAST(NAMED_STRUCT('v', {value}, 's', {held['s']}S) AS {spark_type(NUMERIC)})"


def interval_literal(months: int, days: int, micros: int) -> str:
    return f"NAMED_STRUCT('months', {months}, 'days', {days}, 'micros', {_int(micros, 64)})"


def scalar_literal(scalar: pa.Scalar, declared: PgType) -> str:
    """A value in the Arrow type that values of the declared type are held in."""
    if not scalar.is_valid:
        return null(declared)
    held = column_type(declared)
    match held:
        case Bool():
            return "TRUE" if scalar.as_py() else "FALSE"
        case Int(bits):
            return _int(scalar.as_py(), bits)
        case Float(bits):
            return _float(scalar.as_py(), bits)
        case DecimalType():
            return f"CAST({decimal_literal(scalar.as_py())} AS {spark_type(declared)})"
        case Numeric():
            return numeric_literal(number_of(scalar.as_py()))
        case Text() | Json():
            return quoted(scalar.as_py())
        case Bytes() | Uuid():
            return f"X'{scalar.as_py().hex()}'"
        case Date():
            return f"DATE_FROM_UNIX_DATE({scalar.cast(pa.int32()).as_py()})"
        case TimeOfDay():
            return f"TIME_FROM_MICROS({_int(scalar.cast(pa.int64()).as_py(), 64)})"
        case Timestamp(zoned):
            moment = f"TIMESTAMP_MICROS({_int(scalar.cast(pa.int64()).as_py(), 64)})"
            return moment if zoned else f"CAST({moment} AS TIMESTAMP_NTZ)"
        case Interval():
            fields = scalar.as_py()
            return interval_literal(fields["months"], fields["days"], fields["micros"])
        case Array():
            return _array(scalar, declared)
        case Struct():
            raise AssertionError("no constant is a struct")
        case _:
            assert_never(held)


def _int(number: int, bits: int) -> str:
    text = f"{number}{_INT_SUFFIX[bits]}"
    return f"({text})" if number < 0 else text


def _float(number: float, bits: int) -> str:
    kind = "FLOAT" if bits == 32 else "DOUBLE"
    return f"CAST({quoted(repr(number))} AS {kind})"


def _array(scalar: pa.Scalar, declared: PgType) -> str:
    element = element_of(declared.oid)
    assert element is not None
    inner = PgType(element.oid, declared.modifier)
    items = ", ".join(scalar_literal(each, inner) for each in scalar.values)
    return f"CAST(ARRAY({items}) AS {spark_type(declared)})"


def as_scalar(value: Any, declared: PgType) -> pa.Scalar:
    """A Python value as it is held."""
    return pa.scalar(value, arrow_type(column_type(declared)))


def moment_scalar(moment: datetime.datetime, declared: PgType) -> pa.Scalar:
    """A moment, or a local time, as it is held."""
    return pa.scalar(moment, arrow_type(column_type(declared)))
