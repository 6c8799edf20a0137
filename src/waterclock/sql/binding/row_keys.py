"""Rows as keys: what they are sorted by, and told apart by.

A row that is known by its fields is sorted and grouped by them, as PostgreSQL compares records: the
first field that differs decides, and a null comes behind every value. Where there may be no row,
that is a key of its own before the fields.

DISTINCT and set operations see what is shown of a row, which is its text. Rows of the same types
are equal where their texts are, unless values of a field can be equal and look different.
"""

from __future__ import annotations

from collections.abc import Callable

from waterclock.model.pg_types import BOOL, RECORD
from waterclock.sql.binding.errors import DatatypeMismatch
from waterclock.sql.binding.row_order import SortedBy
from waterclock.sql.binding.typed import Role, Typed, missing_sql
from waterclock.sql.dialect.equality import may_look_different
from waterclock.sql.dialect.types import element_type, is_array, name_of, shown
from waterclock.sql.errors import FeatureNotSupported

Settle = Callable[[Typed], Typed]
_UNLIKE_THEIR_TEXT = frozenset({"float4", "float8", "bpchar", "json"})
"""Both zeros are equal, blanks at the end do not count, and `json` is not compared at all."""


def keys_of(value: Typed, settle: Settle) -> list[Typed]:
    """The value, in a type; of a row, whether there is one, and its fields."""
    if value.role is not Role.ROW:
        return [settle(value)]
    fields = [key for part in value.parts for key in keys_of(part, settle)]
    missing = missing_sql(value)
    if missing is None:
        return fields
    there = f"(CASE WHEN NOT {missing} THEN TRUE END)"
    return [Typed(there, BOOL, value.at, tuple(value.parts)), *fields]


def sorted_by(
    value: Typed, descending: bool, nulls_first: bool | None, settle: Settle
) -> list[SortedBy]:
    """The sort keys. Where nulls go is said of the row as a whole, not of its fields."""
    keys = keys_of(value, settle)
    if value.role is not Role.ROW:
        return [SortedBy(key, descending, nulls_first) for key in keys]
    has_first = missing_sql(value) is not None
    return [
        SortedBy(key, descending, nulls_first if has_first and place == 0 else None)
        for place, key in enumerate(keys)
    ]


def check_told_by_text(row: Typed, settle: Settle) -> None:
    """Raise if rows may be equal and have different texts."""
    for part in row.parts:
        if part.role is Role.ROW:
            check_told_by_text(part, settle)
            continue
        declared = settle(part).type
        held = element_type(declared) if is_array(declared) else declared
        is_unlike = name_of(held) in _UNLIKE_THEIR_TEXT or held.oid == RECORD.oid
        if is_unlike or may_look_different(held):
            raise FeatureNotSupported(
                f"making rows distinct that have a field of type {shown(declared)} is not"
                " supported",
                row.at,
                hint="Name their columns instead.",
            )


def check_alike(left: Typed, right: Typed, settle: Settle) -> None:
    """Raise if two rows that are compared as records are not of the same types."""
    one, other = (keys_of(row, settle) for row in (left, right))
    if len(one) != len(other):
        what = "cannot compare record types with different numbers of columns"
        raise DatatypeMismatch(what, right.at)
    for place, (mine, yours) in enumerate(zip(one, other, strict=True), start=1):
        if mine.type.oid != yours.type.oid:
            kinds = f"{shown(mine.type)} and {shown(yours.type)}"
            what = f"cannot compare dissimilar column types {kinds} at record column {place}"
            raise DatatypeMismatch(what, right.at)
