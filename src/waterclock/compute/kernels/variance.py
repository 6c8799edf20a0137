"""Variance of exact numbers, from exact sums.

The accumulators are n, the sum of x, and the sum of x squared, all of them whole numbers (decimals
are scaled by a power of ten). From them the variance is one fraction,

    (n * sum(x*x) - sum(x)**2) / (n * d * 10**(2 * scale))        d = n, or n - 1 for a sample

whose numerator and denominator are computed exactly, and which is rounded once, to the nearest
double. The standard deviation is the double's square root. So the result depends on what the group
holds and on nothing else. Spark itself takes the values as doubles and adds them up in the order in
which they come, so that the last digits of its results vary; they agree with these to about that.

Where the fraction's parts are whole numbers that a double can hold, the processor's division is
that rounding. The others go through Python's integers, one by one: correct, and slower.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from waterclock.compute.kernels.codes import Codes, Mask
from waterclock.compute.kernels.limbs import Words, carried

Doubles = npt.NDArray[np.float64]

_BITS = 32
_LOW = np.uint64(2**32 - 1)
_EXACT = 2.0**52
"""Whole numbers below this are doubles, and so is twice as much: an estimate may be that wrong."""


def squared(limbs: Sequence[Codes]) -> list[Codes]:
    """The squares of numbers given in limbs, in twice as many limbs, each within 32 bits."""
    negative = limbs[-1] < 0
    magnitude = carried([np.where(negative, -limb, limb) for limb in limbs], len(limbs))
    parts: list[Words] = [part.astype(np.uint64) for part in magnitude]
    result: list[Words] = [np.zeros_like(parts[0]) for _ in range(2 * len(parts))]
    for i, one in enumerate(parts):
        for j, other in enumerate(parts):
            product = one * other
            result[i + j] += product & _LOW
            result[i + j + 1] += product >> np.uint64(_BITS)
    return carried([part.view(np.int64) for part in result], len(result))


def variance(
    total: Sequence[Codes], squares: Sequence[Codes], count: Codes, scale: int, *, sample: bool
) -> tuple[Doubles, Mask, Mask]:
    """The variances, which of them exist, and which are of a possible multiset.

    A negative variance is what remains when more was taken away than there was.
    """
    divisor = count - 1 if sample else count
    exists = divisor > 0
    result = np.zeros(len(count))
    possible = np.ones(len(count), dtype=np.bool_)
    near_total, near_squares = _estimate(total), _estimate(squares)
    unit = 10.0 ** (2 * scale)
    small = exists & (np.abs(near_total) < 2.0**30) & (near_squares * count < 2.0**60)
    numerator = count * _lowest(squares) - _lowest(total) ** 2
    denominator = count * divisor.astype(np.float64) * unit
    small &= (np.abs(numerator) < _EXACT) & (denominator < _EXACT)
    result[small] = numerator[small] / denominator[small]
    possible[small] = numerator[small] >= 0
    for place in np.flatnonzero(exists & ~small).tolist():
        n, d = int(count[place]), int(divisor[place])
        exact = n * _whole(squares, place) - _whole(total, place) ** 2
        result[place] = exact / (n * d * 10 ** (2 * scale))
        possible[place] = exact >= 0
    return np.maximum(result, 0.0), exists, possible


def _estimate(limbs: Sequence[Codes]) -> Doubles:
    """The numbers up to a relative error of a few units in the last place."""
    parts = carried(limbs, len(limbs))
    result: Doubles = np.zeros(len(limbs[0]))
    for i, part in enumerate(parts):
        result += part.astype(np.float64) * 2.0 ** (_BITS * i)
    return result


def _lowest(limbs: Sequence[Codes]) -> Codes:
    """The numbers modulo 2^64: the numbers themselves if they fit."""
    return limbs[0] + (limbs[1] << _BITS) if len(limbs) > 1 else limbs[0]


def _whole(limbs: Sequence[Codes], place: int) -> int:
    return sum(int(limb[place]) << (_BITS * i) for i, limb in enumerate(limbs))
