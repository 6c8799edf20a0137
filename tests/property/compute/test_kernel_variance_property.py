"""Variances and standard deviations are those of the exact values, rounded once."""

from __future__ import annotations

import math
import statistics
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_histories_property import (
    INT32,
    INT64,
    PRICE,
    TIMES,
    WIDE,
    collide,
    histories,
    holds,
    plain,
    played,
    windows,
)

from waterclock.compute.kernels.aggregates import Aggregate, Function
from waterclock.compute.kernels.limbs import split
from waterclock.compute.kernels.reduce import ReduceSpec, diff_columns, reduce, state_schema
from waterclock.compute.kernels.trace import MemoryTrace
from waterclock.compute.kernels.variance import squared, variance
from waterclock.testing.examples import examples

EXACT = {
    pa.int8(): st.integers(-128, 127),
    pa.int32(): INT32 | st.integers(-(10**5), 10**5),
    pa.int64(): INT64 | st.integers(-(2**62), 2**62),
    pa.decimal128(9, 2): PRICE,
    pa.decimal128(18, 2): PRICE,
    pa.decimal128(38, 0): WIDE,
}
AGGREGATES = (
    Aggregate("a", Function.VAR_POP, "c1", pa.float64()),
    Aggregate("b", Function.VAR_SAMP, "c1", pa.float64()),
    Aggregate("c", Function.STDDEV_POP, "c1", pa.float64()),
    Aggregate("d", Function.STDDEV_SAMP, "c1", pa.float64()),
    Aggregate("e", Function.AVG, "c1", pa.float64()),
)


def spreads(values: list[Any]) -> list[float | None]:
    """The four of them, from Python's fractions."""
    exact = [Fraction(value) for value in values]
    population = float(statistics.pvariance(exact)) if exact else None
    sample = float(statistics.variance(exact)) if len(exact) > 1 else None
    roots = [None if v is None else math.sqrt(v) for v in (population, sample)]
    return [population, sample, *roots]


@pytest.mark.semantics(44)
@examples(150)
@given(
    histories([{pa.string(): st.sampled_from(["a", "b"])}, EXACT]),
    windows(),
    st.booleans(),
)
def test_spreads_at_every_time(
    history: pa.Table, cut: list[tuple[int, int]], few_hashes: bool
) -> None:
    whole = pa.types.is_integer(history.schema.field("c1").type)
    spec = ReduceSpec(("c0",), AGGREGATES if whole else AGGREGATES[:-1])
    trace = MemoryTrace(state_schema(spec, history.schema), diff_columns(spec, history.schema))
    with pytest.MonkeyPatch.context() as patch:
        if few_hashes:
            collide(patch)
        output, errors = played(lambda d, t: reduce(spec, d, t), history, cut, trace)
    assert not errors
    rows = list(zip(*(c.to_pylist() for c in history.columns), strict=True))
    for time in range(TIMES):
        groups: dict[Any, list[Any]] = {}
        counts: dict[Any, int] = {}
        for key, value, t, d in rows:
            if t <= time:
                counts[key, value] = counts.get((key, value), 0) + d
        for (key, value), n in counts.items():
            if n:
                groups.setdefault(key, []).extend([value] * n)
        expected = {
            (plain(key), *map(plain, spreads([v for v in values if v is not None])))
            for key, values in groups.items()
        }
        assert {row[:5] for row in holds(output, time)} == expected


@examples(300)
@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**29)),
        min_size=1,
        max_size=4,
    ),
    st.integers(0, 6),
    st.booleans(),
)
def test_variance_of_many_copies_of_large_numbers(
    copies: list[tuple[int, int]], scale: int, sample: bool
) -> None:
    """With so many rows that neither numerator nor denominator fits into 64 bits."""
    values = pa.array([value for value, _ in copies], pa.int64())
    weights = np.array([n for _, n in copies])
    limbs = split(values)
    total = [np.array([int((limb * weights).sum())]) for limb in limbs]
    squares = [np.array([int((limb * weights).sum())]) for limb in squared(limbs)]
    n = int(weights.sum())
    found, exists, possible = variance(total, squares, np.array([n]), scale, sample=sample)
    unit = Fraction(1, 10**scale)
    first = sum(Fraction(v) * unit * m for v, m in copies)
    second = sum((Fraction(v) * unit) ** 2 * m for v, m in copies)
    divisor = n - 1 if sample else n
    assert exists[0] == (divisor > 0)
    if divisor > 0:
        assert possible[0]
        assert found[0] == float((second - first**2 / n) / divisor)


def test_squares_of_the_longest_numbers() -> None:
    cases: tuple[tuple[pa.DataType, list[Any]], ...] = (
        (pa.int64(), [-(2**63), 2**63 - 1, 0, -1]),
        (pa.int32(), [-(2**31), 2**31 - 1, 3, -1]),
        (pa.decimal128(38, 0), [Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(-7)]),
    )
    for kind, values in cases:
        limbs = squared(split(pa.array(values, kind)))
        for i, value in enumerate(values):
            assert sum(int(limb[i]) << (32 * k) for k, limb in enumerate(limbs)) == int(value) ** 2


def test_a_sum_of_squares_that_no_rows_can_have_is_an_error() -> None:
    """One value too many was taken away, in a way that the counts do not show."""
    spec = ReduceSpec((), AGGREGATES[:1], always=True)
    schema = pa.schema([("c1", pa.int64()), ("mz_timestamp", pa.int64()), ("mz_diff", pa.int64())])
    delta = pa.table([[5, 1], [0, 0], [-1, 3]], schema=schema)
    trace = MemoryTrace(state_schema(spec, schema), diff_columns(spec, schema))
    step = reduce(spec, delta, trace)
    assert step.errors.num_rows == 1
    assert step.output["mz_diff"].to_pylist() == [-1]
