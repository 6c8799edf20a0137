"""Exact consolidation: updates of the same row at the same time become one, and zero sums vanish.

A row is one opaque value, so two rows are the same iff every column is, with null equal to null,
one NaN equal to another, and zero different from minus zero. Sameness is decided by dictionary-
encoding each column and combining the codes, never by a hash: a collision would be a wrong answer.

Nested values work the same way: a struct's code combines those of its fields, and a list's code is
that of the bytes of its elements' codes. A map is the list of its entries, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.rows import DIFF, TIME

Codes = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

_CODE_LIMIT = 2**62


def consolidate(table: pa.Table, *, since: int | None = None) -> pa.Table:
    """The same updates, each (row, time) once and none with diff 0.

    Times below `since` advance to it first.

    The order of the result is that of each row's first appearance.
    """
    if table.num_rows == 0:
        return table
    times = table[TIME].to_numpy()
    if since is not None:
        times = np.maximum(times, since)
    diffs = table[DIFF].to_numpy()
    rows = row_codes(
        [
            column
            for name, column in zip(table.column_names, table.columns, strict=True)
            if name not in (TIME, DIFF)
        ],
        table.num_rows,
    )
    keys = _combined(rows, _encoded(pa.array(times)))
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    sums = np.add.reduceat(diffs[order], starts)
    firsts = order[starts][sums != 0]
    sums = sums[sums != 0]
    arrival = np.argsort(firsts)
    kept = table.take(pa.array(firsts[arrival]))
    return _with_times_and_diffs(kept, times[firsts[arrival]], sums[arrival])


def _with_times_and_diffs(table: pa.Table, times: Codes, diffs: Codes) -> pa.Table:
    time_at, diff_at = table.schema.get_field_index(TIME), table.schema.get_field_index(DIFF)
    table = table.set_column(time_at, table.schema.field(time_at), pa.array(times, pa.int64()))
    return table.set_column(diff_at, table.schema.field(diff_at), pa.array(diffs, pa.int64()))


def row_codes(columns: Sequence[pa.Array | pa.ChunkedArray], length: int) -> Codes:
    """A non-negative number for each row, equal exactly where the rows are the same."""
    codes = np.zeros(length, dtype=np.int64)
    for column in columns:
        codes = _combined(codes, _array_codes(column))
    return codes


def same_rows(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> Mask:
    """At which places the rows of both are the same. Each has a column at least."""
    same = np.ones(len(left[0]), dtype=np.bool_)
    for one, other in zip(left, right, strict=True):
        if pa.types.is_nested(one.type) or pa.types.is_floating(one.type):
            codes = row_codes([pa.concat_arrays([one, other])], 2 * len(one))
            same &= codes[: len(one)] == codes[len(one) :]
        else:
            equal = pc.fill_null(pc.equal(one, other), False)
            if one.null_count and other.null_count:
                equal = pc.or_(equal, pc.and_(one.is_null(), other.is_null()))
            same &= equal.to_numpy(zero_copy_only=False)
    return same


def last_of_equals(columns: Sequence[pa.Array], hashes: npt.NDArray[np.uint64]) -> Mask:
    """Which rows have no equal one after them. Rows are in order of their hashes, and equal rows
    have equal ones.
    """
    last = np.ones(len(hashes), dtype=np.bool_)
    firsts = np.flatnonzero(hashes[1:] == hashes[:-1])
    if not len(firsts):
        return last
    seconds = firsts + 1
    same = same_rows(
        [column.take(pa.array(firsts)) for column in columns],
        [column.take(pa.array(seconds)) for column in columns],
    )
    if same.all():
        last[firsts] = False
        return last
    shared = np.union1d(firsts, seconds)  # different rows with one hash may lie between equal ones
    codes = row_codes([column.take(pa.array(shared)) for column in columns], len(shared))
    _, from_the_end = np.unique(codes[::-1], return_index=True)
    last[shared] = False
    last[shared[len(codes) - 1 - from_the_end]] = True
    return last


def _array_codes(column: pa.Array | pa.ChunkedArray) -> Codes:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):  # combine_chunks keeps an empty chunked array chunked
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    if pa.types.is_map(array.type):
        array = entries(array)
    if pa.types.is_struct(array.type):
        return row_codes([array.is_valid(), *array.flatten()], len(array))
    if pa.types.is_list(array.type):
        return _list_codes(array)
    if pa.types.is_floating(array.type):  # NaNs that differ in their bits are told apart otherwise
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    return _encoded(array)


def entries(maps: pa.MapArray) -> pa.ListArray:
    """Maps as lists of structs of a key and a value."""
    kind = maps.type
    entry = pa.struct([kind.key_field, kind.item_field])
    return maps.cast(pa.list_(entry))


def _list_codes(array: pa.ListArray) -> Codes:
    """Lists are equal iff their elements' codes are, so the codes' bytes stand for the list."""
    flat = array.flatten()
    lengths = array.value_lengths().fill_null(0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths))) * 8
    elements = np.ascontiguousarray(_array_codes(flat))
    joined = pa.LargeBinaryArray.from_buffers(
        pa.large_binary(),
        len(array),
        [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(elements)],
    )
    return _combined(
        _encoded(joined), array.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
    )


def _encoded(array: pa.Array) -> Codes:
    return array.dictionary_encode(null_encoding="encode").indices.to_numpy().astype(np.int64)  # type: ignore[no-any-return]


def _combined(left: Codes, right: Codes) -> Codes:
    """One code for each pair of codes."""
    if len(left) == 0:
        return left
    if not _fits(left, right):  # dense again: at most as many codes as rows
        left, right = _encoded(pa.array(left)), _encoded(pa.array(right))
        assert _fits(left, right), "too many rows to consolidate at once"
    return left * (int(right.max()) + 1) + right


def _fits(left: Codes, right: Codes) -> bool:
    """Whether the pairs of codes can be told apart in 64 bits."""
    return int(left.max()) + 1 <= _CODE_LIMIT // (int(right.max()) + 1)
