"""Arrow columns from single values, as `scalars_in` and `binary_in` have them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from waterclock.model.pg_types import PgType, column_type
from waterclock.model.schema import Array, Date, Float, Interval, Numeric, TimeOfDay, Timestamp
from waterclock.persist.numerics import numeric_array
from waterclock.persist.rows import arrow_type


def build(values: Sequence[Any], declared: PgType) -> pa.Array:
    """A column of the declared type from what its values are held as; None is a null."""
    held = column_type(declared)
    target = arrow_type(held)
    match held:
        case Date():
            return pa.array(values, pa.int32()).view(target)
        case TimeOfDay() | Timestamp():
            return pa.array(values, pa.int64()).view(target)
        case Interval():
            return _intervals(values, target)
        case Numeric():
            return numeric_array(values)
        case Float():
            return pa.array(values, pa.string()).cast(target)
        case Array():
            raise AssertionError("an array is built from its elements")
        case _:
            return pa.array(values, target)


def build_lists(sizes: Sequence[int | None], flat: pa.Array) -> pa.Array:
    """Lists of these sizes, None being a null, over their elements."""
    offsets = np.zeros(len(sizes) + 1, dtype=np.int32)
    np.cumsum([size or 0 for size in sizes], out=offsets[1:])
    missing = pa.array([size is None for size in sizes], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(offsets), flat, mask=missing)


def _intervals(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    filled = [(0, 0, 0) if value is None else value for value in values]
    columns = [
        pa.array([value[i] for value in filled], target.field(i).type)
        for i in range(target.num_fields)
    ]
    missing = pa.array([value is None for value in values], pa.bool_())
    return pa.StructArray.from_arrays(columns, fields=list(target), mask=missing)
