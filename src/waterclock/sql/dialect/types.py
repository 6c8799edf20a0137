"""Types as the binder sees them: PostgreSQL's categories and names, and what Spark calls them.

An expression's `numeric` type carries the digits that Spark holds it in, if all its values have the
same number of digits behind the point. If they do not, as in a column declared as plain `numeric`
or in a quotient of columns, the type has no modifier and each value has a scale of its own
(`dialect.scaled`).
"""

from __future__ import annotations

from typing import assert_never

from waterclock.model.pg_types import (
    NO_MODIFIER,
    NUMERIC,
    RECORD,
    PgType,
    array_of,
    column_type,
    element_of,
    format_type,
    numeric,
    type_info,
)
from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    ColumnType,
    Date,
    Decimal,
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

UNKNOWN = PgType(705)
"""A string constant, a NULL or a parameter that has not been given a type yet."""
ANY = PgType(2276)
ANYELEMENT, ANYARRAY, ANYNONARRAY = PgType(2283), PgType(2277), PgType(2776)
ANYCOMPATIBLE, ANYCOMPATIBLEARRAY = PgType(5077), PgType(5078)
TEXT_ARRAY = PgType(1009)
VARCHAR, BPCHAR, NAME, CHAR, JSON = PgType(1043), PgType(1042), PgType(19), PgType(18), PgType(114)

POLYMORPHIC = frozenset(
    each.oid for each in (ANY, ANYELEMENT, ANYARRAY, ANYNONARRAY, ANYCOMPATIBLE, ANYCOMPATIBLEARRAY)
)
_PSEUDO_NAMES = {
    UNKNOWN.oid: "unknown",
    ANY.oid: '"any"',
    ANYELEMENT.oid: "anyelement",
    ANYARRAY.oid: "anyarray",
    ANYNONARRAY.oid: "anynonarray",
    ANYCOMPATIBLE.oid: "anycompatible",
    ANYCOMPATIBLEARRAY.oid: "anycompatiblearray",
    RECORD.oid: "record",
}
_PREFERRED = frozenset({"bool", "text", "float8", "timestamptz", "interval", "oid"})
_INTS = {16: "SMALLINT", 32: "INT", 64: "BIGINT"}
_FLOATS = {32: "FLOAT", 64: "DOUBLE"}
MOST_DIGITS = 38


def spark_type(declared: PgType) -> str:
    """The name of the Spark type that holds values of the type."""
    return _spark_name(column_type(declared))


def _spark_name(held: ColumnType) -> str:
    match held:
        case Bool():
            return "BOOLEAN"
        case Int(bits):
            return _INTS[bits]
        case Float(bits):
            return _FLOATS[bits]
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case Numeric():
            return "STRUCT<v: STRUCT<w: DECIMAL(38,0), f: DECIMAL(36,36)>, s: SMALLINT>"
        case Text() | Json():
            return "STRING"
        case Bytes() | Uuid():
            return "BINARY"
        case Date():
            return "DATE"
        case TimeOfDay():
            return "TIME(6)"
        case Timestamp(zoned):
            return "TIMESTAMP" if zoned else "TIMESTAMP_NTZ"
        case Interval():
            return "STRUCT<months: INT, days: INT, micros: BIGINT>"
        case Array(element):
            return f"ARRAY<{_spark_name(element)}>"
        case Struct(fields):
            inner = ", ".join(f"`{each.name}`: {_spark_name(each.type)}" for each in fields)
            return f"STRUCT<{inner}>"
        case _:
            assert_never(held)


def shown(declared: PgType) -> str:
    """The type as messages name it: without a modifier."""
    pseudo = _PSEUDO_NAMES.get(declared.oid)
    return pseudo if pseudo is not None else format_type(PgType(declared.oid))


def name_of(declared: PgType) -> str:
    """The type's short name, such as `int4`; `_int4` for an array of them."""
    element = element_of(declared.oid)
    if element is not None:
        return f"_{element.name}"
    pseudo = _PSEUDO_NAMES.get(declared.oid)
    return pseudo if pseudo is not None else type_info(declared.oid).name


def category(declared: PgType) -> str:
    """PostgreSQL's typcategory: `A` for arrays, `X` for what has no type yet."""
    if declared.oid == UNKNOWN.oid:
        return "X"
    if declared.oid in _PSEUDO_NAMES:
        return "P"
    if element_of(declared.oid) is not None:
        return "A"
    return type_info(declared.oid).category


def is_preferred(declared: PgType) -> bool:
    """Whether the type is the one that others of its category are rather turned into."""
    return name_of(declared) in _PREFERRED


def is_array(declared: PgType) -> bool:
    return element_of(declared.oid) is not None


def element_type(declared: PgType) -> PgType:
    """The type of an array's elements."""
    element = element_of(declared.oid)
    assert element is not None, "an array is asked for its elements"
    return PgType(element.oid, declared.modifier)


def same_type(one: PgType, other: PgType) -> bool:
    """Whether both are the same but for modifiers."""
    return one.oid == other.oid


def plain(declared: PgType) -> PgType:
    """The type without its modifier, except for numerics, whose digits are part of them."""
    if declared.oid == NUMERIC.oid or name_of(declared) == "_numeric":
        return declared
    return PgType(declared.oid)


# --- Numerics -------------------------------------------------------------------------------------

_DIGITS = {"int2": 5, "int4": 10, "int8": 19, "oid": 10, "mz_timestamp": 19, "uint8": 20}


def digits(declared: PgType) -> tuple[int, int]:
    """Precision and scale in which a number of the type is held as a decimal."""
    whole = _DIGITS.get(name_of(declared))
    if whole is not None:
        return whole, 0
    held = column_type(declared)
    assert isinstance(held, Decimal), f"{shown(declared)} is not held in decimal digits"
    return held.precision, held.scale


def is_unconstrained(declared: PgType) -> bool:
    """Whether it is a `numeric` whose values each have a scale of their own."""
    return declared.oid == NUMERIC.oid and declared.modifier == NO_MODIFIER


def bounded(precision: int, scale: int) -> PgType:
    """`numeric` of that many digits, or of as many as there are, keeping those behind the point."""
    return numeric(max(1, min(precision, MOST_DIGITS)), min(scale, MOST_DIGITS))


def common_numeric(types: list[PgType]) -> PgType:
    """The `numeric` in which values of numerics and integers are shown as they are."""
    if any(is_unconstrained(each) for each in types) or len({digits(t)[1] for t in types}) > 1:
        return NUMERIC
    return padded_numeric(types)


def padded_numeric(types: list[PgType]) -> PgType:
    """The `numeric` in which values of numerics and integers are compared."""
    if any(is_unconstrained(each) for each in types):
        return NUMERIC
    held = [digits(each) for each in types]
    scale = max(s for _, s in held)
    if max(p - s for p, s in held) + scale > MOST_DIGITS:
        return NUMERIC
    return bounded(max(p - s for p, s in held) + scale, scale)


def array_type(element: PgType) -> PgType:
    return array_of(element)
