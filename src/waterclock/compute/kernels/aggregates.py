"""Aggregates whose state is a handful of numbers that add up.

Each aggregated column has accumulators: how many values are not null, and then as they are needed
the limbs of their sum, those of the sum of their squares, or how many are true. Several aggregates
of one column share them. Beside all columns there is the number of rows. An accumulator is linear
in the diffs, which is what makes it a diff column of an arrangement; every result below is a
function of the accumulators alone.

Sums of floats are not here: they depend on the order of addition, so a retraction would not take
away what an insertion brought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import pyarrow as pa

from waterclock.compute.kernels.codes import Codes, Mask
from waterclock.compute.kernels.limbs import (
    MAX_ROWS,
    as_decimal,
    as_float64,
    as_int64,
    decimal_array,
    limb_count,
    quotient,
    split,
)
from waterclock.compute.kernels.variance import squared, variance
from waterclock.persist.rows import DIFF


class Function(Enum):
    """What an aggregate computes. `any` is `bool_or`."""

    COUNT_ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    BOOL_AND = "bool_and"
    BOOL_OR = "bool_or"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"


_SUMMED = {Function.SUM, Function.AVG}
_SPREAD = {Function.VAR_POP, Function.VAR_SAMP, Function.STDDEV_POP, Function.STDDEV_SAMP}
_SAMPLE = {Function.VAR_SAMP, Function.STDDEV_SAMP}
_ROOT = {Function.STDDEV_POP, Function.STDDEV_SAMP}


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate: the output column's name and type, the function, and the input column.

    Types: a count is int64. A sum of integers is int64; one of decimals is a decimal of the same
    scale. An average of integers is float64; one of decimals is a decimal of at least the same
    scale. Variances and standard deviations, of integers or decimals, are float64. `bool_and` and
    `bool_or` are bool. `COUNT_ROWS` has no column.
    """

    name: str
    function: Function
    column: str | None
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Measure:
    """The accumulators of one column: their names as diff columns of the arrangement."""

    column: str
    valid: str
    limbs: tuple[str, ...]
    squares: tuple[str, ...]
    trues: str | None

    @property
    def names(self) -> tuple[str, ...]:
        trues = (self.trues,) if self.trues else ()
        return (self.valid, *self.limbs, *self.squares, *trues)

    def contributions(self, array: pa.Array, diffs: Codes) -> list[Codes]:
        """What each row adds to each accumulator."""
        valid = diffs
        if array.null_count:
            valid = diffs * array.is_valid().to_numpy(zero_copy_only=False)
        parts = [valid]
        limbs = split(array) if self.limbs else []
        parts += [limb * diffs for limb in limbs]
        if self.squares:
            parts += [limb * diffs for limb in squared(limbs)]
        if self.trues:
            parts.append(diffs * array.fill_null(False).to_numpy(zero_copy_only=False))
        return parts


def measures(aggregates: Sequence[Aggregate], types: Mapping[str, pa.DataType]) -> list[Measure]:
    """One measure for each aggregated column, in the order of first use."""
    columns = dict.fromkeys(a.column for a in aggregates if a.column is not None)
    result = []
    for i, column in enumerate(columns):
        functions = {a.function for a in aggregates if a.column == column}
        spread = functions & _SPREAD
        limbs = limb_count(types[column]) if spread or functions & _SUMMED else 0
        result.append(
            Measure(
                column,
                f"mz_acc_{i}_valid",
                tuple(f"mz_acc_{i}_limb_{k}" for k in range(limbs)),
                tuple(f"mz_acc_{i}_square_{k}" for k in range(2 * limbs if spread else 0)),
                f"mz_acc_{i}_true" if functions & {Function.BOOL_AND, Function.BOOL_OR} else None,
            )
        )
    return result


@dataclass(frozen=True, slots=True)
class Result:
    """An aggregate's values for many groups: 64-bit words, comparable bit by bit, and two masks.

    Where a value is not valid its words are zero. Where `out_of_range` holds, the true value does
    not fit the type.
    """

    type: pa.DataType
    words: tuple[Codes, ...]
    valid: Mask
    out_of_range: Mask

    def array(self, places: Codes) -> pa.Array:
        """The values of some of the groups as an Arrow array."""
        words, valid = [word[places] for word in self.words], self.valid[places]
        if pa.types.is_decimal128(self.type):
            return decimal_array(words[0].view(np.uint64), words[1], valid, self.type)
        if pa.types.is_float64(self.type):
            return pa.array(words[0].view(np.float64), mask=~valid)
        if pa.types.is_boolean(self.type):
            return pa.array(words[0] != 0, mask=~valid)
        return pa.array(words[0], self.type, mask=~valid)


def result(
    aggregate: Aggregate,
    totals: Mapping[str, Codes],
    column: tuple[Measure, pa.DataType] | None,
) -> Result:
    """The aggregate, given what each accumulator has added up to in each group."""
    if column is None:
        return _counted(totals[DIFF])
    measure, kind = column
    valid = totals[measure.valid]
    limbs = [totals[name] for name in measure.limbs]
    some = valid > 0
    match aggregate.function:
        case Function.COUNT_ROWS | Function.COUNT:
            return _counted(valid)
        case Function.BOOL_AND | Function.BOOL_OR:
            assert measure.trues is not None
            least = valid if aggregate.function is Function.BOOL_AND else np.int64(1)
            return _made(aggregate.type, (totals[measure.trues] >= least,), some)
        case Function.SUM:
            return _sum(aggregate.type, limbs, some)
        case Function.AVG:
            divisor = np.clip(valid, 1, MAX_ROWS)
            return _average(aggregate.type, kind, limbs, divisor, some)
        case Function.VAR_POP | Function.VAR_SAMP | Function.STDDEV_POP | Function.STDDEV_SAMP:
            squares = [totals[name] for name in measure.squares]
            return _spread(aggregate, kind, limbs, squares, valid)


def _sum(kind: pa.DataType, limbs: list[Codes], some: Mask) -> Result:
    if pa.types.is_decimal128(kind):
        low, high, fits = as_decimal(limbs, kind.precision)
        return _made(kind, (low.view(np.int64), high), some, fits)
    values, fits = as_int64(limbs)
    return _made(kind, (values,), some, fits)


def _average(
    kind: pa.DataType, of: pa.DataType, limbs: list[Codes], divisor: Codes, some: Mask
) -> Result:
    if pa.types.is_decimal128(kind):
        low, high, fits = quotient(limbs, divisor, kind.scale - of.scale, kind.precision)
        return _made(kind, (low.view(np.int64), high), some, fits)
    return _made(kind, ((as_float64(limbs) / divisor).view(np.int64),), some)


def _spread(
    aggregate: Aggregate, of: pa.DataType, limbs: list[Codes], squares: list[Codes], count: Codes
) -> Result:
    scale = of.scale if pa.types.is_decimal128(of) else 0
    values, exists, possible = variance(
        limbs, squares, count, scale, sample=aggregate.function in _SAMPLE
    )
    if aggregate.function in _ROOT:
        values = np.sqrt(values)
    return _made(aggregate.type, (values.view(np.int64),), exists, possible)


def _counted(values: Codes) -> Result:
    return _made(pa.int64(), (values,), np.ones(len(values), dtype=np.bool_))


def _made(
    kind: pa.DataType,
    words: tuple[Codes | Mask, ...],
    valid: Mask,
    fits: Mask | None = None,
) -> Result:
    clean = tuple(np.where(valid, word, 0).astype(np.int64, copy=False) for word in words)
    beyond = np.zeros(len(valid), dtype=np.bool_) if fits is None else valid & ~fits
    return Result(kind, clean, valid, beyond)
