"""SQL types as PostgreSQL's clients know them: by number, name and modifier.

A `PgType` is what a column is declared or described as; a `ColumnType` is what its values are held
as. Several of the former share one of the latter: `varchar(20)` and `text` are both held as text.
The numbers are PostgreSQL's own, so that drivers recognise them; the few types that PostgreSQL does
not have carry numbers below those of users' objects.

This module knows no values: how one is written as text or bytes is the protocol's business.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, assert_never

from waterclock.errors import WaterclockError
from waterclock.model import interval_fields
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

NO_MODIFIER = -1


class UnknownType(WaterclockError):
    """No type has that name or number."""

    sqlstate: ClassVar[str] = "42704"


@dataclass(frozen=True, slots=True)
class PgType:
    """A type with its modifier, such as the 20 of `varchar(20)`, in PostgreSQL's encoding."""

    oid: int
    modifier: int = NO_MODIFIER


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """What is known of a type whatever its modifier."""

    oid: int
    array_oid: int
    name: str
    """The name in pg_type, such as `int4`."""
    sql_name: str
    """The name that `format_type` shows, such as `integer`."""
    length: int
    """Bytes of a value, or -1 if that varies."""
    category: str
    """PostgreSQL's typcategory."""
    held_as: Callable[[int], ColumnType]
    """The column type, given the modifier."""


def _always(column_type: ColumnType) -> Callable[[int], ColumnType]:
    return lambda _modifier: column_type


def _numeric(modifier: int) -> ColumnType:
    if modifier == NO_MODIFIER:
        return Numeric()
    packed = modifier - 4
    return Decimal(packed >> 16, packed & 0xFFFF)


_TEXT = _always(Text())

TYPES: tuple[TypeInfo, ...] = (
    TypeInfo(16, 1000, "bool", "boolean", 1, "B", _always(Bool())),
    TypeInfo(17, 1001, "bytea", "bytea", -1, "U", _always(Bytes())),
    TypeInfo(18, 1002, "char", '"char"', 1, "Z", _TEXT),
    TypeInfo(19, 1003, "name", "name", 64, "S", _TEXT),
    TypeInfo(20, 1016, "int8", "bigint", 8, "N", _always(Int(64))),
    TypeInfo(21, 1005, "int2", "smallint", 2, "N", _always(Int(16))),
    TypeInfo(23, 1007, "int4", "integer", 4, "N", _always(Int(32))),
    TypeInfo(25, 1009, "text", "text", -1, "S", _TEXT),
    TypeInfo(26, 1028, "oid", "oid", 4, "N", _always(Int(64))),
    TypeInfo(114, 199, "json", "json", -1, "U", _TEXT),
    TypeInfo(700, 1021, "float4", "real", 4, "N", _always(Float(32))),
    TypeInfo(701, 1022, "float8", "double precision", 8, "N", _always(Float(64))),
    TypeInfo(1042, 1014, "bpchar", "character", -1, "S", _TEXT),
    TypeInfo(1043, 1015, "varchar", "character varying", -1, "S", _TEXT),
    TypeInfo(1082, 1182, "date", "date", 4, "D", _always(Date())),
    TypeInfo(1083, 1183, "time", "time without time zone", 8, "D", _always(TimeOfDay())),
    TypeInfo(
        1114, 1115, "timestamp", "timestamp without time zone", 8, "D", _always(Timestamp(False))
    ),
    TypeInfo(
        1184, 1185, "timestamptz", "timestamp with time zone", 8, "D", _always(Timestamp(True))
    ),
    TypeInfo(1186, 1187, "interval", "interval", 16, "T", _always(Interval())),
    TypeInfo(1700, 1231, "numeric", "numeric", -1, "N", _numeric),
    TypeInfo(2206, 2211, "regtype", "regtype", 4, "N", _TEXT),
    TypeInfo(2950, 2951, "uuid", "uuid", 16, "U", _always(Uuid())),
    TypeInfo(3802, 3807, "jsonb", "jsonb", -1, "U", _always(Json())),
    TypeInfo(16464, 16465, "uint8", "uint8", 8, "N", _always(Decimal(20, 0))),
    TypeInfo(16552, 16553, "mz_timestamp", "mz_timestamp", 8, "N", _always(Int(64))),
)

_RECORD = TypeInfo(2249, 2287, "record", "record", -1, "P", _TEXT)
_REGCLASS = TypeInfo(2205, 2210, "regclass", "regclass", 4, "N", _TEXT)
_OF_RESULTS = (_RECORD, _REGCLASS)
"""No column of a relation can be of these: only expressions of queries are."""

_BY_OID = {info.oid: info for info in (*TYPES, *_OF_RESULTS)}
_BY_ARRAY_OID = {info.array_oid: info for info in TYPES}
_BY_NAME = {
    **{info.sql_name: info for info in TYPES},
    **{info.name: info for info in TYPES if info.name != "char"},
    **{
        alias: next(info for info in TYPES if info.name == name)
        for alias, name in {
            "int": "int4",
            "float": "float8",
            "decimal": "numeric",
            "dec": "numeric",
            "string": "text",
            "char": "bpchar",
            "time": "time",
            "double": "float8",
        }.items()
    },
}

BOOL, INT2, INT4, INT8 = PgType(16), PgType(21), PgType(23), PgType(20)
FLOAT4, FLOAT8, NUMERIC = PgType(700), PgType(701), PgType(1700)
TEXT, BYTEA, UUID, JSONB = PgType(25), PgType(17), PgType(2950), PgType(3802)
DATE, TIME, TIMESTAMP, TIMESTAMPTZ = PgType(1082), PgType(1083), PgType(1114), PgType(1184)
INTERVAL, MZ_TIMESTAMP, UINT8, OID = PgType(1186), PgType(16552), PgType(16464), PgType(26)
REGTYPE = PgType(2206)
"""The name of a type, held as `format_type` shows it; to clients it is the type's number."""
REGCLASS = PgType(_REGCLASS.oid)
"""The name of a relation, held as it is shown."""
RECORD = PgType(_RECORD.oid)
"""A row as a value, held as the text that PostgreSQL shows."""


def type_info(oid: int) -> TypeInfo:
    """What is known of the type of that number, which is not an array's; `UnknownType`."""
    info = _BY_OID.get(oid)
    if info is None:
        raise UnknownType(f"type with OID {oid} does not exist")
    return info


def type_named(name: str) -> TypeInfo:
    """The type of that name or alias, without modifier or brackets; `UnknownType`."""
    info = _BY_NAME.get(name)
    if info is None:
        raise UnknownType(f'type "{name}" does not exist')
    return info


def element_of(oid: int) -> TypeInfo | None:
    """The type of an array's elements; None if the number is not that of an array."""
    return _BY_ARRAY_OID.get(oid)


def array_of(element: PgType) -> PgType:
    """The array type over an element type, which keeps the element's modifier."""
    return PgType(type_info(element.oid).array_oid, element.modifier)


def numeric(precision: int, scale: int) -> PgType:
    """`numeric(precision, scale)`."""
    return PgType(NUMERIC.oid, (precision << 16 | scale) + 4)


def with_fixed_scale(declared: PgType) -> PgType:
    """What a type was before each `numeric` had a scale of its own, if it is such a one.

    All values then had 18 digits behind the point. What was stored like that stays so.
    """
    if declared in (NUMERIC, array_of(NUMERIC)):
        return PgType(declared.oid, numeric(38, 18).modifier)
    return declared


def column_type(declared: PgType) -> ColumnType:
    """What values of the type are held as."""
    element = element_of(declared.oid)
    if element is not None:
        return Array(element.held_as(declared.modifier))
    return type_info(declared.oid).held_as(declared.modifier)


_HELD_INT = {16: INT2, 32: INT4, 64: INT8}
_HELD_FLOAT = {32: FLOAT4, 64: FLOAT8}


def pg_type_of(held: ColumnType) -> PgType:
    """The type that a value computed as the column type is described as."""
    match held:
        case Bool():
            return BOOL
        case Int(bits):
            return _HELD_INT[bits]
        case Float(bits):
            return _HELD_FLOAT[bits]
        case Decimal(precision, scale):
            return numeric(precision, scale)
        case Numeric():
            return NUMERIC
        case Text():
            return TEXT
        case Bytes():
            return BYTEA
        case Date():
            return DATE
        case TimeOfDay():
            return TIME
        case Timestamp(zoned):
            return TIMESTAMPTZ if zoned else TIMESTAMP
        case Interval():
            return INTERVAL
        case Uuid():
            return UUID
        case Json() | Struct():
            return JSONB
        case Array(element):
            return array_of(pg_type_of(element))
        case _:
            assert_never(held)


def format_type(declared: PgType) -> str:
    """The type as SQL writes it, such as `numeric(10,2)` or `character varying(20)[]`."""
    element = element_of(declared.oid)
    if element is not None:
        return f"{format_type(PgType(element.oid, declared.modifier))}[]"
    info = type_info(declared.oid)
    if declared.modifier == NO_MODIFIER:
        return info.sql_name
    match info.name:
        case "numeric":
            packed = declared.modifier - 4
            return f"numeric({packed >> 16},{packed & 0xFFFF})"
        case "varchar" | "bpchar":
            return f"{info.sql_name}({declared.modifier - 4})"
        case "timestamp" | "timestamptz" | "time":
            first, _, rest = info.sql_name.partition(" ")
            return f"{first}({declared.modifier}) {rest}"
        case "interval":
            return f"interval{interval_fields.shown(declared.modifier)}"
        case _:
            return info.sql_name


def type_names() -> Mapping[int, str]:
    """What a `regtype` shows, by the number of the type: of all there are, and of no type."""
    found = {705: "unknown", 2249: "record"}
    for info in TYPES:
        found[info.oid] = info.sql_name
        found[info.array_oid] = f"{info.sql_name}[]"
    return found
