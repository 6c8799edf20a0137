"""Values that are equal without being the same, and what tells whether they are.

1.0 equals 1 as `numeric` and in `jsonb`, a month equals 30 days, and `character` is compared
without the blanks at its end. Each such value has a key, which is the same for values that are
equal. The keys of numbers and intervals are also in the order of the values; those of `jsonb` are
not. An array is compared by the keys of its elements.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.pg_types import NO_MODIFIER, PgType
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.types import (
    element_type,
    is_array,
    is_unconstrained,
    name_of,
    spark_type,
)


def equality_key(value: str, declared: PgType) -> str:
    """What the engine is to compare for a value of the type."""
    if is_array(declared):
        key = equality_key("e", element_type(declared))
        return value if key == "e" else f"TRANSFORM({value}, e -> {key})"
    match name_of(declared):
        case "numeric" if is_unconstrained(declared):
            return f"{value}.v"
        case "interval":
            return dt.total_micros(value)
        case "jsonb":
            return js.canonical(value)
        case "bpchar":
            return f"RTRIM({value})"
        case _:
            return value


def may_look_different(declared: PgType) -> bool:
    """Whether values of the type, or elements of it, can be equal and look different.

    Values of `character(n)` are all padded to the same length; those without a length are not.
    """
    held = element_type(declared) if is_array(declared) else declared
    if name_of(held) == "bpchar":
        return held.modifier == NO_MODIFIER
    return name_of(held) in ("jsonb", "interval") or is_unconstrained(held)


def extreme(values: Sequence[str], declared: PgType, sign: str) -> str:
    """The first of the values that is the greatest, or the least, by its key."""
    one, best = (equality_key(each, declared) for each in ("e", "b"))
    better = f"b IS NULL OR {one} {sign} {best}"
    step = f"CASE WHEN e IS NULL THEN b WHEN {better} THEN e ELSE b END"
    start = f"CAST(NULL AS {spark_type(declared)})"
    return f"AGGREGATE(ARRAY({', '.join(values)}), {start}, (b, e) -> {step})"
