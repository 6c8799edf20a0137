"""Sort keys: what Spark is to sort by so that rows come as PostgreSQL sorts them."""

from __future__ import annotations

from waterclock.sql.binding.errors import UndefinedFunction
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.types import is_array, name_of, shown
from waterclock.sql.errors import FeatureNotSupported


def sort_key(value: Typed, descending: bool, nulls_first: bool | None) -> str:
    """A key with its direction; nulls come last unless the direction or a word says otherwise."""
    check_sortable(value)
    return directed(key_sql(value), descending, nulls_first)


def directed(sql: str, descending: bool, nulls_first: bool | None) -> str:
    first = descending if nulls_first is None else nulls_first
    return f"{sql} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"


def check_sortable(value: Typed) -> None:
    """Raise if values of the type have no order, or not the one that PostgreSQL has."""
    if is_array(value.type) or name_of(value.type) == "jsonb":
        raise FeatureNotSupported.of(f"sorting by values of type {shown(value.type)}", value.at)
    if name_of(value.type) == "json":
        raise UndefinedFunction(
            f"could not identify an ordering operator for type {shown(value.type)}", value.at
        )


def check_groupable(value: Typed) -> None:
    """Raise if equal values of the type are not the same, or there is no telling."""
    if name_of(value.type) == "json":
        raise UndefinedFunction(
            f"could not identify an equality operator for type {shown(value.type)}", value.at
        )
    if name_of(value.type) in ("interval", "_interval"):
        raise FeatureNotSupported(
            "grouping by values of type interval is not supported",
            value.at,
            hint="Group by extract(epoch from ...): intervals of the same length are equal.",
        )
