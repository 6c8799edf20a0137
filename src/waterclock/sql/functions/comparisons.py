"""Comparisons, type by type.

Strings compare by their bytes, as in the collation C. A NaN equals itself and is greater than any
other number. Intervals compare by their length, a month being 30 days. Those of `jsonb` are among
the operators of JSON.
"""

from __future__ import annotations

from waterclock.model.pg_types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    MZ_TIMESTAMP,
    NUMERIC,
    OID,
    REGTYPE,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UINT8,
    UUID,
    PgType,
)
from waterclock.sql.dialect import scaled
from waterclock.sql.dialect.datetimes import total_micros
from waterclock.sql.dialect.equality import equality_key
from waterclock.sql.dialect.types import (
    ANYARRAY,
    BPCHAR,
    CHAR,
    NAME,
    element_type,
    is_unconstrained,
    name_of,
    shown,
)
from waterclock.sql.functions.arrays import SORTED_IN_ARRAYS, array_order
from waterclock.sql.functions.registry import Argument, Function, Refused, SqlRule, Use, scalar

SIGNS = {
    "=": "Whether both are equal.",
    "<>": "Whether they differ.",
    "<": "Whether the first comes before the second.",
    "<=": "Whether the first does not come after the second.",
    ">": "Whether the first comes after the second.",
    ">=": "Whether the first does not come before the second.",
}
_PLAIN = (
    *(BOOL, TEXT, NAME, CHAR, BYTEA, UUID, DATE, TIME, TIMESTAMP, TIMESTAMPTZ, OID),
    *(UINT8, MZ_TIMESTAMP),
)
_WHOLE = (INT2, INT4, INT8)
_FLOATS = (FLOAT4, FLOAT8)


def _plain(sign: str, left: PgType, right: PgType) -> Function:
    return scalar(sign, (left, right), BOOL, f"({{0}} {sign} {{1}})", SIGNS[sign])


def _floats(sign: str, left: PgType, right: PgType) -> Function:
    """Numbers of which both zeros are equal, without being the same.

    The engine takes one of two columns that are equal for the other: so one of them is no column.
    """
    if sign != "=":
        return _plain(sign, left, right)
    return scalar(sign, (left, right), BOOL, "({0} = {1} + 0D)", SIGNS[sign])


def _types(sign: str) -> list[Function]:
    """Names of types are equal or not; their order would be that of numbers that nobody sees."""
    return [_plain(sign, REGTYPE, REGTYPE)] if sign in ("=", "<>") else []


def _without_blanks(sign: str) -> Function:
    sql = f"(RTRIM({{0}}) {sign} RTRIM({{1}}))"
    return scalar(sign, (BPCHAR, BPCHAR), BOOL, sql, SIGNS[sign])


def _numerics(sign: str) -> SqlRule:
    """Numbers with scales of their own are compared by value."""

    def written(use: Use) -> str:
        left, right = use.arguments
        if not is_unconstrained(left.type) and not is_unconstrained(right.type):
            return f"({left.sql} {sign} {right.sql})"
        one, other = (scaled.into(each.sql, each.type) for each in use.arguments)
        return f"({one}.v {sign} {other}.v)"

    return written


def _intervals(sign: str) -> SqlRule:
    def written(use: Use) -> str:
        left, right = use.arguments
        return f"({total_micros(left.sql)} {sign} {total_micros(right.sql)})"

    return written


def _arrays(sign: str) -> SqlRule:
    def written(use: Use) -> str:
        if sign not in ("=", "<>"):
            one, other = (_ordered(each) for each in use.arguments)
        else:
            one, other = (equality_key(each.sql, each.type) for each in use.arguments)
        return f"({one} {sign} {other})"

    return written


def _ordered(array: Argument) -> str:
    if name_of(element_type(array.type)) not in SORTED_IN_ARRAYS:
        raise Refused(f"the order of values of type {shown(array.type)}")
    return array_order(array.sql)


def _of_sign(sign: str) -> list[Function]:
    doc = SIGNS[sign]
    return [
        *(_plain(sign, each, each) for each in _PLAIN),
        *(_plain(sign, one, other) for one in _WHOLE for other in _WHOLE),
        *(_floats(sign, one, other) for one in _FLOATS for other in _FLOATS),
        *_types(sign),
        _without_blanks(sign),
        scalar(sign, (NUMERIC, NUMERIC), BOOL, _numerics(sign), doc),
        scalar(sign, (INTERVAL, INTERVAL), BOOL, _intervals(sign), doc),
        scalar(sign, (ANYARRAY, ANYARRAY), BOOL, _arrays(sign), doc),
    ]


OPERATORS: tuple[Function, ...] = tuple(entry for sign in SIGNS for entry in _of_sign(sign))
