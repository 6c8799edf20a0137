"""Keys: which rows belong together, decided as SQL does and never by a hash.

A key's hash only says where to look; what is found is compared value by value. Before either,
floats are normalised as Spark does for grouping and joining, also deep inside structs, lists and
maps: minus zero becomes zero, and every NaN the same NaN, equal to itself.

For grouping, null equals null. For a join each pair of key columns is compared with `=`, under
which a null matches nothing, or with `<=>`, under which it matches a null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.kernels.codes import Codes, Mask, dense_rows, flat
from waterclock.persist.consolidate import entries
from waterclock.persist.hashing import Hashes, hash_rows


def normalised(array: pa.Array) -> pa.Array:
    """The same values with one zero and one NaN."""
    kind = array.type
    if not _has_floats(kind):
        return array
    if pa.types.is_struct(kind):
        fields = [normalised(field) for field in array.flatten()]
        return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        lengths = array.value_lengths().fill_null(0).to_numpy()
        offsets = pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
        elements = normalised(array.flatten())
        return pa.ListArray.from_arrays(offsets, elements, type=kind, mask=array.is_null())
    if pa.types.is_map(kind):
        pairs = normalised(entries(array))
        parts = pairs.flatten().flatten()
        mask = array.is_null()
        return pa.MapArray.from_arrays(pairs.offsets, *parts, type=kind, mask=mask)
    zero, nan = pa.scalar(0.0, kind), pa.scalar(float("nan"), kind)
    return pc.if_else(pc.is_nan(array), nan, pc.add(array, zero))  # -0.0 + 0.0 is 0.0


def _has_floats(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_has_floats(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_floating(kind))


def key_columns(table: pa.Table, names: Sequence[str]) -> list[pa.Array]:
    """The normalised key columns of the table."""
    return [normalised(flat(table[name])) for name in names]


def key_hashes(columns: Sequence[pa.Array], length: int) -> Hashes:
    """The hash under which an arrangement files each key. The columns must be normalised."""
    if length == 0:
        return np.empty(0, dtype=np.uint64)
    return hash_rows(columns, length)


def shared_codes(
    left: Sequence[pa.Array], right: Sequence[pa.Array], lengths: tuple[int, int]
) -> tuple[Codes, Codes, int]:
    """Dense codes for the normalised keys of two tables, equal exactly where the keys are."""
    both = [pa.concat_arrays(pair) for pair in zip(left, right, strict=True)]
    codes, count = dense_rows(both, sum(lengths))
    return codes[: lengths[0]], codes[lengths[0] :], count


def matchable(columns: Sequence[pa.Array], null_safe: Sequence[bool], length: int) -> Mask:
    """Whether the row can match any row at all: it has no null in a column compared with `=`."""
    able = np.ones(length, dtype=np.bool_)
    for column, safe in zip(columns, null_safe, strict=True):
        if not safe and column.null_count:
            able &= column.is_valid().to_numpy(zero_copy_only=False)
    return able
