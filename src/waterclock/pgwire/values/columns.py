"""Arrow columns taken apart and put together as bytes, without a loop over rows.

The trick of all encoders: whatever a row is made of, each part of it is a column of byte strings,
and Arrow joins columns row by row. The data buffer of the joined column is the message stream
itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray


def valid_mask(column: pa.Array) -> NDArray[np.bool_] | None:
    """Which rows are not null; None if all are not."""
    if not column.null_count:
        return None
    mask: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def integers(column: pa.Array, held: pa.DataType) -> NDArray[Any]:
    """The numbers that a column of fixed width is made of; 0 for a null."""
    view = column.view(held)
    if view.null_count:
        view = view.fill_null(0)
    numbers: NDArray[Any] = view.to_numpy(zero_copy_only=False)
    return numbers


def fixed_bytes(column: pa.Array) -> NDArray[np.uint8]:
    """A column of fixed-size binary as a matrix of bytes; what a null has is not said."""
    width = column.type.byte_width
    data = np.frombuffer(column.buffers()[1], dtype=np.uint8)
    start = column.offset * width
    return data[start : start + len(column) * width].reshape(len(column), width)


def of_rows(matrix: NDArray[Any], valid: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of byte strings of one length from a matrix, or a vector of anything fixed."""
    rows = len(matrix)
    matrix = np.ascontiguousarray(matrix)
    width = matrix.nbytes // rows if rows else 0
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    column = pa.Array.from_buffers(
        pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(matrix.tobytes())]
    )
    return column if valid is None else masked(column, valid)


def masked(column: pa.Array, valid: NDArray[np.bool_]) -> pa.Array:
    """The column with a null wherever it is not valid."""
    return pc.if_else(pa.array(valid), column, pa.scalar(None, column.type))


def lengths(column: pa.Array) -> NDArray[np.int64]:
    """The number of bytes of each string, -1 for a null."""
    counted = pc.binary_length(column)
    if counted.null_count:
        counted = counted.fill_null(-1)
    numbers: NDArray[Any] = counted.to_numpy(zero_copy_only=False)
    return numbers.astype(np.int64, copy=False)


def joined(parts: list[pa.Array | pa.Scalar], separator: bytes = b"") -> pa.Array:
    """The parts of each row joined; a null part makes a null."""
    return pc.binary_join_element_wise(*parts, pa.scalar(separator, pa.binary()))


def with_length(column: pa.Array) -> tuple[list[pa.Array], NDArray[np.int64]]:
    """A column as the protocol has fields: a length, -1 for a null, then the bytes.

    The parts to be joined, and how many bytes each row takes.
    """
    sizes = lengths(column)
    prefix = of_rows(sizes.astype(">i4"))
    bytes_taken = np.maximum(sizes, 0) + 4
    return [prefix, without_nulls(column)], bytes_taken


def without_nulls(column: pa.Array) -> pa.Array:
    """The column as byte strings, empty instead of null."""
    column = column.cast(pa.binary())
    return column.fill_null(b"") if column.null_count else column


def data_of(column: pa.Array) -> memoryview:
    """All bytes of a column of byte strings that has no nulls and is not a slice."""
    assert column.offset == 0
    if not len(column):
        return memoryview(b"")
    end = np.frombuffer(column.buffers()[1], dtype=np.int32, count=len(column) + 1)
    return memoryview(column.buffers()[2])[int(end[0]) : int(end[-1])]


def regrouped(column: pa.Array, flat: pa.Array) -> pa.Array:
    """Lists like those of `column` over other elements; empty where `column` has a null."""
    sizes = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.zeros(len(column) + 1, dtype=np.int32)
    np.cumsum(sizes, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), flat)
