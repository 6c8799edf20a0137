"""Constants: what their text means in a type, and how they are written."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from decimal import Context as DecimalContext

import pyarrow as pa

from waterclock.errors import WaterclockError
from waterclock.model.pg_types import (
    INT4,
    INT8,
    NUMERIC,
    TIME,
    PgType,
    column_type,
    format_type,
    numeric,
)
from waterclock.model.schema import Bool, Date, Float, Int, Numeric, Text, Timestamp
from waterclock.model.schema import Decimal as DecimalType
from waterclock.persist.numerics import number_of, parts_of
from waterclock.persist.rows import arrow_type
from waterclock.sql.binding.errors import Rejected, located
from waterclock.sql.binding.typed import Known, Typed, operand
from waterclock.sql.dialect.datetimes import DAY_MICROS
from waterclock.sql.dialect.facts import SessionFacts
from waterclock.sql.dialect.literals import decimal_literal, null, scalar_literal
from waterclock.sql.dialect.types import MOST_DIGITS, UNKNOWN, is_array
from waterclock.sql.errors import FeatureNotSupported

_EXACT = DecimalContext(prec=2 * MOST_DIGITS, rounding=ROUND_HALF_UP)
_PLAIN_BOOLS = {"t": True, "true": True, "f": False, "false": False}
_BOUNDS = re.compile(r"\s*\[(?!1:)[^\]]*\][^{]*=")
"""Before the elements of an array that does not begin at 1."""
_ISO_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def number(text: str, at: int, *, negated: bool = False) -> Typed:
    """A number as it was written: int4, int8 or numeric, the first that it fits."""
    value = Decimal(f"-{text}" if negated else text)
    if text.isdigit():
        for declared, bits in ((INT4, 31), (INT8, 63)):
            if -(2**bits) <= value < 2**bits:
                held = arrow_type(column_type(declared))
                return known(pa.scalar(int(value), held), declared, at)
    if value.adjusted() >= MOST_DIGITS:
        long = Known(text=str(value), is_number=True)
        return Typed("", UNKNOWN, at, nullable=False, known=long)
    return decimal(value, at)


def decimal(value: Decimal, at: int) -> Typed:
    """A numeric with exactly its digits."""
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if 0 < exponent <= MOST_DIGITS:
        value = Decimal(int(value))
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale, 1)
    if precision > MOST_DIGITS:
        raise too_long(at)
    declared = numeric(precision, scale)
    scalar = pa.scalar(value, pa.decimal128(precision, scale))
    sql = f"CAST({decimal_literal(value)} AS DECIMAL({precision},{scale}))"
    return Typed(sql, declared, at, nullable=False, known=Known(scalar=scalar))


def too_long(at: int) -> FeatureNotSupported:
    return FeatureNotSupported.of(f"a number of more than {MOST_DIGITS} digits", at)


def scaled(number: Decimal, at: int) -> Typed:
    """A numeric as one of those that have scales of their own."""
    try:
        scalar = pa.scalar(parts_of(number), arrow_type(column_type(NUMERIC)))
    except WaterclockError as error:
        raise located(error, at) from None
    return known(scalar, NUMERIC, at)


def known(scalar: pa.Scalar, declared: PgType, at: int) -> Typed:
    """A constant of a type."""
    sql = operand(scalar_literal(scalar, declared))
    return Typed(sql, declared, at, nullable=not scalar.is_valid, known=Known(scalar=scalar))


def string(text: str, at: int) -> Typed:
    """A string constant, which has no type yet."""
    return Typed("", UNKNOWN, at, nullable=False, known=Known(text=text))


def nothing(at: int) -> Typed:
    """NULL, which has no type yet."""
    return Typed("", UNKNOWN, at, known=Known())


def constant_array(values: Sequence[Typed]) -> pa.Array | None:
    """Constants of one type, as an array; None if one of them is no constant of the type."""
    held = arrow_type(column_type(values[0].type))
    scalars = [None if value.known is None else value.known.scalar for value in values]
    if any(scalar is None or scalar.type != held for scalar in scalars):
        return None
    return pa.array(scalars, held)


def null_of(declared: PgType, at: int) -> Typed:
    scalar = pa.scalar(None, arrow_type(column_type(declared)))
    return Typed(null(declared), declared, at, known=Known(scalar=scalar))


def read(text: str, declared: PgType, facts: SessionFacts, at: int) -> Typed:
    """A text as a constant of the type; raises what PostgreSQL's input function does."""
    if is_array(declared) and _BOUNDS.match(text):
        raise FeatureNotSupported.of("an array with bounds of its own", at)
    try:
        if facts.parse_text is not None:
            scalar = facts.parse_text(text, declared)
        else:
            scalar = read_plainly(text, declared)
    except WaterclockError as error:
        raise located(error, at) from None
    # The end of a day is a time of its own in PostgreSQL; a day here has no such moment.
    if declared.oid == TIME.oid and scalar.cast(pa.int64()).as_py() == DAY_MICROS:
        raise FeatureNotSupported.of("the time 24:00:00", at)
    if declared == NUMERIC:
        return decimal(number_of(scalar.as_py()), at)
    return known(scalar, declared, at)


def read_plainly(text: str, declared: PgType) -> pa.Scalar:
    """The plainest forms of the plainest types; the others need a `parse_text`."""
    held = arrow_type(column_type(declared))
    word = text.strip()
    try:
        match column_type(declared):
            case Text():
                return pa.scalar(text, held)
            case Bool() if word.lower() in _PLAIN_BOOLS:
                return pa.scalar(_PLAIN_BOOLS[word.lower()], held)
            case Int():
                return pa.scalar(int(word), held)
            case Float():
                return pa.scalar(float(word), held)
            case DecimalType(_, scale):
                return pa.scalar(_EXACT.quantize(Decimal(word), Decimal(1).scaleb(-scale)), held)
            case Numeric():
                return pa.scalar(parts_of(Decimal(word)), held)
            case Date() if _ISO_DATE.fullmatch(word):
                return pa.scalar(datetime.date.fromisoformat(word), held)
            case Timestamp(zoned) if _ISO_DATE.match(word):
                moment = datetime.datetime.fromisoformat(word)
                if zoned and moment.tzinfo is None:
                    moment = moment.replace(tzinfo=datetime.UTC)
                return pa.scalar(moment, held)
    except (ValueError, OverflowError, InvalidOperation, pa.ArrowInvalid):
        raise Rejected(
            "22P02", f'invalid input syntax for type {format_type(declared)}: "{text}"', 0
        ) from None
    raise FeatureNotSupported.of(f'the constant "{text}" of type {format_type(declared)}')
