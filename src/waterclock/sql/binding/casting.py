"""Which conversions PostgreSQL does by itself, in an assignment, or only when it is told to."""

from __future__ import annotations

from waterclock.model.pg_types import PgType
from waterclock.sql.binding.api import Context
from waterclock.sql.dialect.types import (
    POLYMORPHIC,
    UNKNOWN,
    category,
    element_type,
    is_array,
    name_of,
)

_I, _A, _E = Context.IMPLICIT, Context.ASSIGNMENT, Context.EXPLICIT


def _of(context: Context, source: str, *targets: str) -> dict[tuple[str, str], Context]:
    return {(source, target): context for target in targets}


_CASTS: dict[tuple[str, str], Context] = {
    **_of(_I, "int2", "int4", "int8", "numeric", "float4", "float8", "oid"),
    **_of(_I, "int4", "int8", "numeric", "float4", "float8", "oid"),
    **_of(_I, "int8", "numeric", "float4", "float8", "oid"),
    **_of(_I, "numeric", "float4", "float8"),
    **_of(_I, "float4", "float8"),
    **_of(_I, "uint8", "numeric", "float4", "float8"),
    **_of(_A, "int2", "uint8", "mz_timestamp"),
    **_of(_A, "int4", "int2", "uint8", "mz_timestamp"),
    **_of(_A, "int8", "int2", "int4", "uint8", "mz_timestamp"),
    **_of(_A, "numeric", "int2", "int4", "int8", "uint8", "mz_timestamp"),
    **_of(_A, "float4", "int2", "int4", "int8", "numeric"),
    **_of(_A, "float8", "int2", "int4", "int8", "numeric", "float4"),
    **_of(_A, "uint8", "int2", "int4", "int8", "mz_timestamp"),
    **_of(_A, "oid", "int4", "int8"),
    **_of(_I, "text", "regclass"),
    **_of(_I, "varchar", "regclass"),
    **_of(_I, "regclass", "oid"),
    **_of(_A, "regclass", "int4", "int8"),
    **_of(_I, "regtype", "oid"),
    **_of(_A, "regtype", "int4", "int8"),
    **{(source, "regtype"): _I for source in ("oid", "int2", "int4", "int8")},
    **_of(_A, "mz_timestamp", "int8", "numeric", "timestamp", "timestamptz"),
    **_of(_E, "bool", "int4"),
    **_of(_E, "int4", "bool"),
    **_of(_I, "text", "varchar", "bpchar", "name"),
    **_of(_I, "varchar", "text", "bpchar", "name"),
    **_of(_I, "bpchar", "text", "varchar", "name"),
    **_of(_I, "name", "text"),
    **_of(_A, "name", "varchar", "bpchar"),
    **_of(_I, "char", "text"),
    **_of(_A, "char", "varchar", "bpchar"),
    **_of(_A, "text", "char"),
    **_of(_I, "date", "timestamp", "timestamptz"),
    **_of(_I, "timestamp", "timestamptz"),
    **_of(_A, "date", "mz_timestamp"),
    **_of(_A, "timestamp", "mz_timestamp"),
    **_of(_A, "timestamptz", "mz_timestamp"),
    **_of(_A, "timestamp", "date", "time"),
    **_of(_A, "timestamptz", "date", "time", "timestamp"),
    **_of(_I, "time", "interval"),
    **_of(_A, "interval", "time"),
    **_of(_A, "json", "jsonb"),
    **_of(_A, "jsonb", "json"),
    **_of(_E, "jsonb", "bool", "int2", "int4", "int8", "numeric", "float4", "float8"),
}
_BINARY = {("text", "varchar"), ("varchar", "text")}


def cast_context(source: PgType, target: PgType) -> Context | None:
    """How willing a conversion is at the least; None if there is none."""
    if source.oid == target.oid:
        return _I
    if is_array(source) and is_array(target):
        return cast_context(element_type(source), element_type(target))
    if (
        source.oid in POLYMORPHIC
        or target.oid in POLYMORPHIC
        or is_array(source) != is_array(target)
    ):
        return _through_text(source, target)
    return _CASTS.get((name_of(source), name_of(target))) or _through_text(source, target)


def _through_text(source: PgType, target: PgType) -> Context | None:
    """Anything has a text, which is read as something else only when that is asked for."""
    if category(target) == "S" and name_of(target) != "name":
        return _A
    return _E if category(source) == "S" else None


def is_implicit(source: PgType, target: PgType) -> bool:
    """Whether a function that wants the one type takes the other."""
    if source.oid == UNKNOWN.oid or target.oid == source.oid:
        return True
    return cast_context(source, target) is _I


def same_family(source: PgType, target: PgType) -> bool:
    """Whether a value of one type is one of the other, without change."""
    return source.oid == target.oid or (name_of(source), name_of(target)) in _BINARY
