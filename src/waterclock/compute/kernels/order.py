"""One total order on values of any type, and on rows, the same in every run.

It depends on the values alone: not on where they are stored, nor on the order of arrival. Numbers,
dates and times go by size; false is before true; texts and bytes go by their bytes, unsigned, the
shorter first, as Spark's default collation does; structs go field by field, lists element by
element, and maps entry by entry. NaN is the greatest float. Null is least. Two values rank the same
iff they are the same, so minus zero, which is not the same as zero, is just before it; normalise
first to make them tie.

A rank is a number that compares as the value does among the values ranked together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.kernels.codes import Codes, is_word, ordinals, words
from waterclock.persist.consolidate import entries

_LIMIT = 2**62


def ranks(array: pa.Array) -> Codes:
    """The rank of each value: 0 for null, from 1 on for others, and none above their number."""
    if pa.types.is_map(array.type):
        array = entries(array)
    kind = array.type
    if pa.types.is_struct(kind):
        fields = lexicographic([ranks(field) for field in array.flatten()], len(array))
        found = ordinals(fields)[0] + 1
    elif pa.types.is_list(kind):
        found = _list_ranks(array)
    elif is_word(kind):
        found = ordinals(words(array))[0] + 1
    else:
        found = _encoded_ranks(array)
    if array.null_count:
        found = np.where(array.is_valid().to_numpy(zero_copy_only=False), found, 0)
    return found


def lexicographic(columns: Sequence[Codes], length: int) -> Codes:
    """One non-negative number for each row of ranks, in the order of the rows.

    No rank may be so high that it has no room in 64 bits beside the number of rows.
    """
    result = np.zeros(length, dtype=np.int64)
    for column in columns:
        width = int(column.max(initial=0)) + 1
        if int(result.max(initial=0)) + 1 > _LIMIT // width:
            result, _ = ordinals(result)
        result = result * width + column
    return result


def directed(rank: Codes, *, descending: bool, nulls_first: bool) -> Codes:
    """Ranks turned round if need be, with nulls where they are wanted."""
    highest = int(rank.max(initial=0))
    turned = highest + 1 - rank if descending else rank
    return np.where(rank == 0, 0 if nulls_first else highest + 1, turned)


def _encoded_ranks(array: pa.Array) -> Codes:
    """Decimals, texts and bytes: the distinct values are sorted, the others follow them."""
    encoded = array.dictionary_encode()
    order = pc.array_sort_indices(encoded.dictionary).to_numpy()
    places = np.empty(len(order) + 1, dtype=np.int64)
    places[order] = np.arange(1, len(order) + 1)
    places[-1] = 0  # for nulls, whose index is taken as -1
    return places[encoded.indices.fill_null(-1).to_numpy()]  # type: ignore[no-any-return]


def _list_ranks(array: pa.ListArray) -> Codes:
    """A list as the bytes of its elements' ranks, highest byte first, compares as the list does."""
    lengths = array.value_lengths().fill_null(0).to_numpy()
    offsets = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))) * 8
    elements = np.ascontiguousarray(ranks(array.flatten()).astype(">i8"))
    buffers = [None, pa.py_buffer(offsets.astype(np.int64)), pa.py_buffer(elements)]
    return _encoded_ranks(pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(array), buffers))
