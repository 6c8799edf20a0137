"""A stable 64-bit hash of rows, vectorised over Arrow columns.

The same values give the same hash in every process, on every machine and in every version: files on
disk are partitioned and sorted by it. It places rows and never decides that two of them are equal.

Fixed-width values are mixed as 64-bit words; texts and bytes are read eight bytes at a time
straight from Arrow's buffer. Null has a hash of its own. Equal values must be equal in bits: every
NaN counts as one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.consolidate import entries

Hashes = npt.NDArray[np.uint64]

_SEED = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint64(0xD6E8FEB86659FD93)
_MUL1 = np.uint64(0xBF58476D1CE4E5B9)
_MUL2 = np.uint64(0x94D049BB133111EB)
_BLOCK = 1 << 14
"""Rows hashed per block, so that intermediate values stay in the processor's caches."""


def hash_rows(columns: Sequence[pa.Array], length: int) -> Hashes:
    """One hash for each row of the columns."""
    if length > _BLOCK and all(map(_is_fixed, columns)):
        hashes = np.empty(length, dtype=np.uint64)
        for start in range(0, length, _BLOCK):
            block = [column.slice(start, _BLOCK) for column in columns]
            hashes[start : start + _BLOCK] = hash_rows(block, min(_BLOCK, length - start))
        return hashes
    hashes = np.full(length, _SEED, dtype=np.uint64)
    for column in columns:
        hashes = _mix(hashes * _MUL1 + _hash_array(column))
    return hashes


def _is_fixed(array: pa.Array) -> bool:
    """Whether the values have one width, so that some of them are as quickly hashed as all."""
    kind = array.type
    return not (pa.types.is_nested(kind) or pa.types.is_string(kind) or pa.types.is_binary(kind))


def _mix(words: Hashes) -> Hashes:
    """The finaliser of splitmix64: every input bit reaches every output bit."""
    words = (words ^ (words >> np.uint64(30))) * _MUL1
    words = (words ^ (words >> np.uint64(27))) * _MUL2
    return words ^ (words >> np.uint64(31))


def _hash_array(array: pa.Array) -> Hashes:
    if pa.types.is_map(array.type):
        array = entries(array)
    kind = array.type
    if pa.types.is_struct(kind):
        hashes = hash_rows(array.flatten(), len(array))
    elif pa.types.is_list(kind):
        hashes = _hash_lists(array)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        hashes = _hash_bytes(array)
    else:
        hashes = _hash_words(array)
    if array.null_count:
        valid = array.is_valid().to_numpy(zero_copy_only=False)
        hashes = np.where(valid, hashes, _NULL)
    return hashes


def _hash_words(array: pa.Array) -> Hashes:
    """Each value as one or two 64-bit words."""
    kind = array.type
    if pa.types.is_boolean(kind):
        return _mix(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64))
    if pa.types.is_floating(kind):
        array = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), kind), array)
    width = kind.bit_width // 8
    start = array.offset * width
    raw = np.frombuffer(array.buffers()[1], dtype=np.uint8)[start : start + len(array) * width]
    if width == 16:
        pairs = raw.view(np.uint64).reshape(-1, 2)
        return _mix(_mix(pairs[:, 0]) * _MUL2 + pairs[:, 1])
    return _mix(raw.view(f"<i{width}").astype(np.int64).view(np.uint64))


def _hash_bytes(array: pa.Array) -> Hashes:
    """Eight bytes at a time: round k mixes the k-th word of every value that is long enough to have
    one.
    """
    offsets = np.frombuffer(array.buffers()[1], dtype=np.int32)[
        array.offset : array.offset + len(array) + 1
    ]
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets).astype(np.int64)
    hashes = _mix(lengths.view(np.uint64) + _SEED)
    if not len(array) or not lengths.any():
        return hashes
    words = _overlapping_words(array.buffers()[2])
    rows = np.flatnonzero(lengths)
    at, left = starts[rows], lengths[rows]
    while len(rows):
        word = words[at]
        short = left < 8
        keep = (np.uint64(1) << (left[short].astype(np.uint64) * np.uint64(8))) - np.uint64(1)
        word[short] &= keep
        hashes[rows] = _mix(hashes[rows] * _MUL2 + word)
        more = left > 8
        rows, at, left = rows[more], at[more] + 8, left[more] - 8
    return hashes


def _overlapping_words(data: pa.Buffer) -> Hashes:
    """The little-endian 64-bit word that starts at each byte of the buffer (zeros past its end)."""
    padded = np.concatenate((np.frombuffer(data, dtype=np.uint8), np.zeros(8, np.uint8)))
    return np.ndarray(shape=(len(padded) - 7,), dtype="<u8", buffer=padded, strides=(1,))


def _hash_lists(array: pa.ListArray) -> Hashes:
    """The elements' hashes, each mixed with its place in the list, summed."""
    lengths = array.value_lengths().fill_null(0).to_numpy().astype(np.int64)
    ends = np.cumsum(lengths)
    elements = _hash_array(array.flatten())
    place = np.arange(len(elements), dtype=np.int64) - np.repeat(ends - lengths, lengths)
    mixed = _mix(elements + place.view(np.uint64) * _MUL2)
    running = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed, dtype=np.uint64)))
    return _mix(running[ends] - running[ends - lengths] + lengths.view(np.uint64))
