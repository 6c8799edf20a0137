"""Sort keys and group keys: what Spark is to sort and group by, so that it does as PostgreSQL.

Rows are grouped by values that are held alike. For `jsonb` that is not enough: 1.0 and 1 are equal
and stay what they are. A group shows one of its values, so that such a number can not be written
otherwise either; it is an error when it is met.
"""

from __future__ import annotations

from waterclock.model.pg_types import RECORD
from waterclock.sql.binding.errors import UndefinedFunction
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.equality import may_look_different
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.json_ordering import order_key
from waterclock.sql.dialect.types import (
    element_type,
    is_array,
    is_unconstrained,
    name_of,
    shown,
)
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.arrays import SORTED_IN_ARRAYS, array_order


def sort_key(value: Typed, descending: bool, nulls_first: bool | None) -> str:
    """A key with its direction; nulls come last unless the direction or a word says otherwise."""
    check_sortable(value)
    return directed(order_sql(value), descending, nulls_first)


def directed(sql: str, descending: bool, nulls_first: bool | None) -> str:
    first = descending if nulls_first is None else nulls_first
    return f"{sql} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if first else 'LAST'}"


def order_sql(value: Typed) -> str:
    """What the engine is to sort by."""
    if is_array(value.type):
        return array_order(value.sql)
    if name_of(value.type) == "jsonb":
        return order_key(value.sql)
    return key_sql(value)


def check_sortable(value: Typed, *, has_arrays: bool = False) -> None:
    """Raise if values of the type have no order, or not the one that PostgreSQL has.

    With `has_arrays`, the caller can sort by arrays of structs.
    """
    is_known_array = is_array(value.type) and name_of(element_type(value.type)) in SORTED_IN_ARRAYS
    if is_known_array and has_arrays:
        return
    if is_array(value.type):
        raise FeatureNotSupported.of(f"sorting by values of type {shown(value.type)}", value.at)
    if value.type.oid == RECORD.oid:
        raise FeatureNotSupported(
            "sorting by rows is not supported", value.at, hint="Sort by their columns."
        )
    if name_of(value.type) in ("regtype", "regclass"):
        raise FeatureNotSupported(
            f"sorting by values of type {shown(value.type)} is not supported",
            value.at,
            hint="Cast them to text, or to oid.",
        )
    if name_of(value.type) == "json":
        raise UndefinedFunction(
            f"could not identify an ordering operator for type {shown(value.type)}", value.at
        )


def check_groupable(value: Typed) -> None:
    """Raise if there is no telling whether values of the type are equal."""
    if value.type.oid == RECORD.oid:
        what = "grouping by rows, or making them distinct, is not supported"
        raise FeatureNotSupported(what, value.at, hint="Name their columns instead.")
    if name_of(value.type) == "json":
        raise UndefinedFunction(
            f"could not identify an equality operator for type {shown(value.type)}", value.at
        )


_ZEROS = raised(
    "0A000", "grouping by jsonb in which a number has zeros at its end is not supported"
)


def grouped_sql(value: Typed) -> str:
    """A value that is going to be grouped by, or made distinct; an error if that may be wrong."""
    if is_unconstrained(element_type(value.type) if is_array(value.type) else value.type):
        raise FeatureNotSupported(
            "comparing rows with numbers without a declared scale here is not supported",
            value.at,
            hint="Cast them to numeric(p,s).",
        )
    if name_of(value.type) in ("interval", "_interval"):
        raise FeatureNotSupported(
            "comparing rows with intervals here is not supported",
            value.at,
            hint="Cast them to text, or to seconds: extract(epoch from ...).",
        )
    if name_of(value.type) not in ("jsonb", "_jsonb"):
        return value.sql
    same = f"{key_sql(value)} <=> {value.sql}"
    return f"(CASE WHEN {same} THEN {value.sql} ELSE {_ZEROS} END)"


def group_key_sql(value: Typed) -> str:
    """What rows are grouped by: the same for values that are equal."""
    return key_sql(value) if may_look_different(value.type) else value.sql
