"""Exact sums of wide integers in 64-bit columns.

A value is split into limbs of 32 bits: all but the top one unsigned, the top one signed. Each limb
is multiplied by the diff and added up in an int64 column of its own, and only who reads a sum
carries from limb to limb. So adding needs no carry, any number of partial sums may be added in any
order, and a retraction takes away exactly what the insertion brought.

The bound: a limb is below 2^32, so the true sum of a limb's column is below 2^63 as long as fewer
than 2^31 rows are summed. int64 addition is exact modulo 2^64, so what happens on the way there
does not matter. `MAX_ROWS` is that bound; whoever reads sums must report a larger count as an
error.

Decimals are integers here, scaled by a power of ten that the caller knows.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.compute.kernels.codes import Codes, Mask

MAX_ROWS = 2**31 - 1

Words = npt.NDArray[np.uint64]

_BITS = 32
_MASK = np.int64(2**32 - 1)
_STEP = 9  # 10^9 is the largest power of ten below 2^32


def limb_count(kind: pa.DataType) -> int:
    """How many limbs hold any value of the type."""
    if pa.types.is_decimal128(kind):
        return 1 if kind.precision <= 9 else 2 if kind.precision <= 18 else 4
    assert pa.types.is_signed_integer(kind), kind
    return 2 if kind.bit_width == 64 else 1


def split(array: pa.Array) -> list[Codes]:
    """The limbs of each value, lowest first; those of a null are zero."""
    count = limb_count(array.type)
    if array.null_count:
        array = array.fill_null(pa.scalar(0, array.type))
    if pa.types.is_decimal128(array.type):
        raw = np.frombuffer(array.buffers()[1], dtype="<u4")
        quarters = raw[array.offset * 4 : (array.offset + len(array)) * 4].reshape(-1, 4)
        lower = [quarters[:, i].astype(np.int64) for i in range(count - 1)]
        return [*lower, quarters[:, count - 1].astype(np.int32).astype(np.int64)]
    values = array.to_numpy().astype(np.int64)
    return [values] if count == 1 else [values & _MASK, values >> _BITS]


def carried(limbs: Sequence[Codes], count: int) -> list[Codes]:
    """The same numbers in that many limbs (no fewer), all but the top one within 32 bits."""
    result: list[Codes] = []
    carry = np.zeros_like(limbs[0])
    for i in range(count):
        limb = limbs[i] + carry if i < len(limbs) else carry
        if i < count - 1:
            result.append(limb & _MASK)
            carry = limb >> _BITS
        else:
            result.append(limb)
    return result


def as_int64(limbs: Sequence[Codes]) -> tuple[Codes, Mask]:
    """The numbers of at most two limbs as int64, and which of them fit."""
    if len(limbs) == 1:
        return limbs[0], np.ones(len(limbs[0]), dtype=np.bool_)
    low, high = carried(limbs, 2)
    return (high << _BITS) | low, _within_32(high)


def as_float64(limbs: Sequence[Codes]) -> npt.NDArray[np.float64]:
    """The numbers of at most two limbs, each rounded to the nearest double.

    What does not fit into 64 bits goes through Python's integers: correct, slow and very rare.
    """
    values, fits = as_int64(limbs)
    result: npt.NDArray[np.float64] = values.astype(np.float64)
    if not fits.all():
        low, high = carried(limbs, 2)
        large = np.flatnonzero(~fits)
        pairs = zip(high[large].tolist(), low[large].tolist(), strict=True)
        result[large] = [float((h << _BITS) + rest) for h, rest in pairs]
    return result


def as_decimal(limbs: Sequence[Codes], precision: int) -> tuple[Words, Codes, Mask]:
    """The numbers as the low and high words of 128-bit integers, and which have few enough digits.

    At most four limbs, sums of fewer than `MAX_ROWS` values each.
    """
    parts = carried(limbs, 4)
    low = ((parts[1] << _BITS) | parts[0]).view(np.uint64)
    high = (parts[3] << _BITS) | parts[2]
    return low, high, _within_32(parts[3]) & _has_digits(low, high, precision)


def decimal_array(low: Words, high: Codes, valid: Mask, kind: pa.DataType) -> pa.Array:
    """128-bit integers as an Arrow array of decimals."""
    words = np.column_stack((low, high.view(np.uint64)))
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(low), [bits, pa.py_buffer(np.ascontiguousarray(words))])


def quotient(
    limbs: Sequence[Codes], divisor: Codes, power: int, precision: int
) -> tuple[Words, Codes, Mask]:
    """The numbers times ten to that power, divided, halves rounded away from zero.

    Divisors must be from 1 to `MAX_ROWS`. The result is as that of `as_decimal`.
    """
    size = 6 + power // _STEP
    negative = carried(limbs, 5)[4] < 0
    number = carried([np.where(negative, -limb, limb) for limb in limbs], size)
    for start in range(0, power, _STEP):
        factor = np.int64(10 ** min(_STEP, power - start))
        number = carried([limb * factor for limb in number], size)
    rest = np.zeros_like(divisor)
    for i in reversed(range(size)):
        number[i], rest = np.divmod((rest << _BITS) | number[i], divisor)
    number[0] = number[0] + (2 * rest >= divisor)
    number = carried(number, size)
    fits = ~np.any(number[4:], axis=0)
    low, high, few = as_decimal([np.where(negative, -n, n) for n in number[:4]], precision)
    return low, high, fits & few


def _within_32(values: Codes) -> Mask:
    return (values >= -(2**31)) & (values < 2**31)


def _has_digits(low: Words, high: Codes, precision: int) -> Mask:
    """Whether the 128-bit integer lies strictly between -10^precision and 10^precision."""
    top, bottom = 10**precision, -(10**precision)
    below = _less(low, high, top)
    at_most = _less(low, high, bottom + 1)
    return below & ~at_most


def _less(low: Words, high: Codes, bound: int) -> Mask:
    bound_high, bound_low = np.int64(bound >> 64), np.uint64(bound & (2**64 - 1))
    return (high < bound_high) | ((high == bound_high) & (low < bound_low))  # type: ignore[no-any-return]
