"""Where lines end, and lines as records: plain functions over bytes.

A line ends with a newline; in CSV, one inside quotes does not count. What comes after the last end
is no line yet.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.storage.formats.api import RECORDS

Ints = npt.NDArray[np.int64]
_NEWLINE, _QUOTE = 10, 34


def line_ends(data: bytes, *, quoted: bool) -> Ints:
    """The places after each line, given bytes that begin with one."""
    view = np.frombuffer(data, np.uint8)
    newlines = np.flatnonzero(view == _NEWLINE)
    if quoted and len(newlines):
        quotes = np.flatnonzero(view == _QUOTE)
        newlines = newlines[np.searchsorted(quotes, newlines) % 2 == 0]
    ends: Ints = newlines.astype(np.int64) + 1
    return ends


def records_of(data: bytes, start: int, ends: Ints) -> pa.RecordBatch:
    """The lines as records, without their newlines, each at the place in the file it begins at.

    `ends` are the places in the data after each line, `start` is where the data begins. Empty lines
    are no records.
    """
    begins = np.concatenate(([0], ends[:-1])) if len(ends) else ends
    view = np.frombuffer(data, np.uint8)
    stops = ends - (view[ends - 1] == _NEWLINE)
    stops = stops - ((stops > begins) & (view[stops - 1] == 13))
    filled = stops > begins
    begins, stops = begins[filled], stops[filled]
    count = len(begins)
    columns = {
        "key": pa.nulls(count, pa.binary()),
        "value": _pieces(data, begins, stops),
        "partition": pa.nulls(count, pa.int32()),
        "offset": pa.array(begins + start, pa.int64()),
    }
    arrays = [columns[f.name] if f.name in columns else pa.nulls(count, f.type) for f in RECORDS]
    return pa.RecordBatch.from_arrays(arrays, schema=RECORDS)


def _pieces(data: bytes, begins: Ints, stops: Ints) -> pa.Array:
    """Parts of the data as a binary array: every second piece of one that holds all of it."""
    if not len(begins):
        return pa.array([], pa.binary())
    assert len(data) < 2**31, "a piece of a file fits in one array"
    bounds = np.empty(2 * len(begins) + 1, np.int32)
    bounds[0:-1:2], bounds[1::2] = begins, stops
    bounds[-1] = stops[-1]
    whole = pa.BinaryArray.from_buffers(
        pa.binary(), 2 * len(begins), [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return whole.take(pa.array(np.arange(0, 2 * len(begins), 2)))
