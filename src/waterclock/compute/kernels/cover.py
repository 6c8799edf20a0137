"""Intervals over a row of places: what covers each place."""

from __future__ import annotations

import numpy as np

from waterclock.compute.kernels.codes import Codes, Mask


def lowest_cover(starts: Codes, ends: Codes, values: Codes, size: int, default: int) -> Codes:
    """For each place the lowest value of an interval that covers it, or the default.

    Every interval goes from its start up to, and without, its end, and is not empty. An interval is
    the union of two that have the largest power of two as length that fits, and one of such length
    is the union of two of half that length. So the values are entered at the longest lengths and
    handed down from length to length: the cost is that of places and intervals times the logarithm
    of the longest interval, however the intervals overlap.
    """
    level = np.frexp((ends - starts).astype(np.float64))[1] - 1
    lowest = np.full(size, default, dtype=np.int64)
    for k in range(int(level.max(initial=0)), -1, -1):
        here = level == k
        np.minimum.at(lowest, starts[here], values[here])
        np.minimum.at(lowest, ends[here] - (1 << k), values[here])
        if k > 0:
            half = 1 << (k - 1)
            handed = lowest.copy()
            np.minimum(handed[half:], lowest[:-half], out=handed[half:])
            lowest = handed
    return lowest


def is_covered(starts: Codes, ends: Codes, size: int) -> Mask:
    """For each place whether any interval covers it."""
    depth = np.zeros(size + 1, dtype=np.int64)
    np.add.at(depth, starts, 1)
    np.add.at(depth, ends, -1)
    return np.cumsum(depth[:-1]) > 0
