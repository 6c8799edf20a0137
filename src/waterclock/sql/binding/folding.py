"""Constants converted while binding, so that they are still constants afterwards.

Only what is exact and simple: numbers into other types of numbers, texts into other types of texts.
Everything else is left to the engine, which computes the same.
"""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import pyarrow as pa

from waterclock.model.pg_types import NO_MODIFIER, PgType, column_type, format_type
from waterclock.persist.numerics import python_value
from waterclock.persist.rows import arrow_type
from waterclock.sql.binding import constants
from waterclock.sql.binding.errors import Rejected
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.casts import FLOATS, INTEGERS, TEXTS
from waterclock.sql.dialect.types import digits, is_array, name_of, shown
from waterclock.sql.types import shown_type

_EXACT = Context(prec=100, rounding=ROUND_HALF_UP)
_LARGEST_IN_FLOAT4 = 2**24
_SHORT_EXPONENT = 22
"""A number up to this size, with all the digits of a float, is not too long to be written out."""
_CERTAIN_DIGITS = {"float4": 6, "float8": 15}


def folded(value: Typed, target: PgType, *, explicit: bool) -> Typed | None:
    """The constant in another type; None if it is none, or not one to be converted here.

    Raises `Rejected` if the type does not hold it.
    """
    scalar = None if value.known is None else value.known.scalar
    if scalar is None or is_array(target) or is_array(value.type):
        return None
    if not scalar.is_valid:
        return constants.null_of(target, value.at)
    have, want = name_of(value.type), name_of(target)
    if have == "regclass":
        number = None if value.known is None else value.known.number
        is_number = number is not None and want in INTEGERS
        return _number(number, target, want, value.at) if is_number else None
    if have in TEXTS and want in TEXTS:
        return _text(scalar.as_py(), have, target, value.at, explicit=explicit)
    if have in FLOATS and have != want:
        return _float(scalar.as_py(), have, target, value.at)
    if have not in INTEGERS | {"numeric"} or (have == want and want != "numeric"):
        return None
    return _number(python_value(scalar), target, want, value.at)


def _text(text: str, have: str, target: PgType, at: int, *, explicit: bool) -> Typed | None:
    if have == "bpchar" and name_of(target) != "bpchar":
        text = text.rstrip(" ")
    if name_of(target) in ("varchar", "bpchar") and target.modifier != NO_MODIFIER:
        length = target.modifier - 4
        if len(text.rstrip(" ")) > length and not explicit:
            raise Rejected("22001", f"value too long for type {format_type(target)}", at)
        text = text[:length]
        if name_of(target) == "bpchar":
            text = text.ljust(length)
    elif name_of(target) not in ("text", "varchar", "bpchar"):
        return None
    return constants.known(pa.scalar(text), target, at)


def _number(number: Any, target: PgType, want: str, at: int) -> Typed | None:
    value = Decimal(number)
    if want == "regtype" and value == int(value):
        return constants.known(pa.scalar(shown_type(str(int(value)))), target, at)
    if want == "numeric":
        return _numeric(value, target, at)
    if want in INTEGERS:
        whole = int(_EXACT.quantize(value, Decimal(1)))
        try:
            return constants.known(pa.scalar(whole, arrow_type(column_type(target))), target, at)
        except (pa.ArrowInvalid, OverflowError):
            raise Rejected("22003", f"{shown(target)} out of range", at) from None
    if want not in FLOATS or (want == "float4" and abs(value) > _LARGEST_IN_FLOAT4):
        return None
    if want == "float4" and value != int(value):
        return None
    return constants.known(pa.scalar(float(value), arrow_type(column_type(target))), target, at)


def _float(number: float, have: str, target: PgType, at: int) -> Typed | None:
    """A floating-point number in another type; None if that does not hold it."""
    want = name_of(target)
    if not math.isfinite(number):
        return None
    if want == "numeric":  # by the digits that are certain, as PostgreSQL does
        value = Decimal(f"{number:.{_CERTAIN_DIGITS[have]}g}")
        return _numeric(value, target, at) if abs(value.adjusted()) < _SHORT_EXPONENT else None
    if want in INTEGERS:
        return _number(round(number), target, want, at)
    if want not in FLOATS:
        return None
    held = pa.scalar(number, arrow_type(column_type(target)))
    is_lost = not math.isfinite(held.as_py()) or (held.as_py() == 0) != (number == 0)
    return None if is_lost else constants.known(held, target, at)


def _numeric(value: Decimal, target: PgType, at: int) -> Typed:
    if target.modifier == NO_MODIFIER:
        return constants.decimal(value, at)
    precision, scale = digits(target)
    rounded = _EXACT.quantize(value, Decimal(1).scaleb(-scale))
    if rounded and rounded.adjusted() >= precision - scale:
        raise Rejected("22003", "numeric field overflow", at)
    return constants.known(pa.scalar(rounded, pa.decimal128(precision, scale)), target, at)
