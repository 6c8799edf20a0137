"""The reduce: exact sums, errors that come and heal, groups that go and return, empty input."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from waterclock.compute.kernels.aggregates import Aggregate, Function
from waterclock.compute.kernels.errors import NEGATIVE
from waterclock.compute.kernels.limbs import MAX_ROWS, carried, quotient, split
from waterclock.compute.kernels.minmax import Extreme, MinMaxSpec, minmax
from waterclock.compute.kernels.minmax import initial_output as initial_minmax
from waterclock.compute.kernels.minmax import state_schema as minmax_schema
from waterclock.compute.kernels.reduce import (
    ReduceSpec,
    diff_columns,
    initial_output,
    reduce,
    state_schema,
)
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import MemoryTrace

ROWS = Aggregate("n", Function.COUNT_ROWS, None, pa.int64())
SUM = Aggregate("s", Function.SUM, "v", pa.int64())
LONGEST = 10**38 - 1


def updates(
    rows: list[tuple[Any, ...]], kinds: tuple[pa.DataType, ...], names: str = "kv"
) -> pa.Table:
    """Rows of (values..., time, diff)."""
    every = (*kinds, pa.int64(), pa.int64())
    columns = [pa.array([row[i] for row in rows], kind) for i, kind in enumerate(every)]
    return pa.table(columns, names=[*names[: len(kinds)], "mz_timestamp", "mz_diff"])


def trace_for(spec: ReduceSpec, delta: pa.Table) -> MemoryTrace:
    return MemoryTrace(state_schema(spec, delta.schema), diff_columns(spec, delta.schema))


def run(spec: ReduceSpec, delta: pa.Table) -> Step:
    return reduce(spec, delta, trace_for(spec, delta))


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = zip(*(c.to_pylist() for c in table.columns), strict=True)
    return sorted(rows, key=lambda r: (r[-2], r[-1], repr(r)))


def test_a_group_goes_and_returns_within_one_step() -> None:
    delta = updates(
        [("a", 1, 0, 1), ("a", 1, 3, -1), ("a", 5, 7, 1), ("b", 2, 3, 1)],
        (pa.string(), pa.int64()),
    )
    assert listed(run(ReduceSpec(("k",), (ROWS, SUM)), delta).output) == [
        ("a", 1, 1, 0, 1),
        ("a", 1, 1, 3, -1),
        ("b", 1, 2, 3, 1),
        ("a", 1, 5, 7, 1),
    ]


def test_a_change_that_leaves_the_result_alone_is_silent() -> None:
    delta = updates(
        [
            *(("a", 1, 0, 1), ("a", 4, 0, 1)),
            *(("a", 1, 2, -1), ("a", 4, 2, -1), ("a", 2, 2, 1), ("a", 3, 2, 1)),
        ],
        (pa.string(), pa.int64()),
    )
    step = run(ReduceSpec(("k",), (ROWS, SUM)), delta)
    assert listed(step.output) == [("a", 2, 5, 0, 1)]


def test_overflow_is_an_error_from_when_to_when_it_holds() -> None:
    top = 2**63 - 1
    delta = updates(
        [("a", top, 0, 1), ("a", 1, 2, 1), ("a", -1, 4, 1), ("b", 7, 2, 1)],
        (pa.string(), pa.int64()),
    )
    step = run(ReduceSpec(("k",), (SUM,)), delta)
    text = 'value of "s" is out of range for its type'
    assert listed(step.errors) == [("(a)", text, 2, 1), ("(a)", text, 4, -1)]
    assert listed(step.output) == [
        ("a", top, 0, 1),
        ("a", top, 2, -1),
        ("b", 7, 2, 1),
        ("a", top, 4, 1),
    ]


def test_an_error_from_an_earlier_step_heals_in_a_later_one() -> None:
    spec = ReduceSpec(("k",), (ROWS,))
    delta = updates([(None, 1, 0, -1)], (pa.string(), pa.int64()))
    trace = trace_for(spec, delta)
    first = reduce(spec, delta, trace)
    assert listed(first.errors) == [("(null)", NEGATIVE, 0, 1)]
    assert first.output.num_rows == 0
    trace.insert(first.arranged)
    second = reduce(spec, updates([(None, 1, 5, 3)], (pa.string(), pa.int64())), trace)
    assert listed(second.errors) == [("(null)", NEGATIVE, 5, -1)]
    assert listed(second.output) == [(None, 2, 5, 1)]


def test_a_count_of_zero_with_a_sum_is_an_error() -> None:
    delta = updates([("a", 1, 0, 1), ("a", 2, 0, -1)], (pa.string(), pa.int64()))
    step = run(ReduceSpec(("k",), (SUM,)), delta)
    assert step.errors["message"].to_pylist() == [NEGATIVE]
    assert step.output.num_rows == 0


def test_more_rows_than_sums_are_exact_for_is_an_error() -> None:
    delta = updates([("a", 1, 0, MAX_ROWS), ("a", 1, 1, 1)], (pa.string(), pa.int64()))
    step = run(ReduceSpec(("k",), (SUM,)), delta)
    assert listed(step.output) == [("a", MAX_ROWS, 0, 1), ("a", MAX_ROWS, 1, -1)]
    assert step.errors["message"].to_pylist() == ["group has too many rows for exact sums"]


@pytest.mark.parametrize("value", [LONGEST, -LONGEST])
def test_the_longest_decimals_sum_exactly(value: int) -> None:
    kind = pa.decimal128(38, 0)
    total = Aggregate("s", Function.SUM, "v", kind)
    mean = Aggregate("m", Function.AVG, "v", kind)
    delta = updates(
        [("a", Decimal(value), 0, 1_000_003), ("a", Decimal(value), 1, -1_000_002)],
        (pa.string(), kind),
    )
    step = run(ReduceSpec(("k",), (total, mean)), delta)
    assert listed(step.output) == [("a", Decimal(value), Decimal(value), 1, 1)]
    assert [row[-2:] for row in listed(step.errors)] == [(0, 1), (1, -1)]
    only_mean = run(ReduceSpec(("k",), (mean,)), delta)
    assert listed(only_mean.output) == [("a", Decimal(value), 0, 1)]


def test_averages_round_half_away_from_zero() -> None:
    kind = pa.decimal128(5, 2)
    mean = Aggregate("m", Function.AVG, "v", pa.decimal128(9, 2))
    delta = updates(
        [
            *(("a", Decimal("0.01"), 0, 1), ("a", Decimal("0.00"), 0, 1)),
            *(("b", Decimal("-0.01"), 0, 1), ("b", Decimal("0.00"), 0, 1)),
            *(("c", Decimal("0.01"), 0, 1), ("c", Decimal("0.00"), 0, 2)),
        ],
        (pa.string(), kind),
    )
    found = run(ReduceSpec(("k",), (mean,)), delta).output
    assert found["m"].to_pylist() == [Decimal("0.01"), Decimal("-0.01"), Decimal("0.00")]


def test_quotients_of_wide_numbers_against_pythons_integers() -> None:
    draw = np.random.default_rng(3)
    numbers = [int(a) * 10**19 + int(b) for a, b in draw.integers(-(10**18), 10**18, (200, 2))]
    divisors = draw.integers(1, MAX_ROWS, 200)
    limbs = split(pa.array([Decimal(n) for n in numbers], pa.decimal128(38, 0)))
    for power in (0, 4, 13):
        low, high, fits = quotient(limbs, divisors, power, 38)
        for i, (number, divisor) in enumerate(zip(numbers, divisors.tolist(), strict=True)):
            exact = (2 * abs(number) * 10**power + divisor) // (2 * divisor)
            assert fits[i] == (exact < 10**38)
            if fits[i]:
                sign = -1 if number < 0 else 1
                assert (int(high[i]) << 64) + int(low[i]) == sign * exact


def test_limbs_carry_also_below_zero() -> None:
    parts = carried([np.array([-1]), np.array([0])], 3)
    assert [int(p[0]) for p in parts] == [2**32 - 1, 2**32 - 1, -1]


def test_average_of_integers_whose_sum_exceeds_64_bits() -> None:
    mean = Aggregate("m", Function.AVG, "v", pa.float64())
    delta = updates([("a", 2**63 - 1, 0, 3)], (pa.string(), pa.int64()))
    found = run(ReduceSpec(("k",), (mean,)), delta).output
    assert found["m"].to_pylist() == [float(3 * (2**63 - 1)) / 3]


def test_float_keys_are_shown_normalised_and_nulls_form_a_group() -> None:
    delta = updates(
        [
            *((-0.0, 1, 0, 1), (0.0, 1, 0, 1), (None, 1, 0, 2)),
            *((math.nan, 1, 0, 1), (-math.nan, 1, 0, 1)),
        ],
        (pa.float64(), pa.int64()),
    )
    found = run(ReduceSpec(("k",), (ROWS,)), delta).output
    assert found["n"].to_pylist() == [2, 2, 2]
    zero = next(k for k in found["k"].to_pylist() if k == 0)
    assert math.copysign(1, zero) == 1


def test_global_aggregate_of_nothing() -> None:
    price = Aggregate("d", Function.SUM, "v", pa.decimal128(20, 2))
    flag = Aggregate("b", Function.BOOL_OR, "k", pa.bool_())
    spec = ReduceSpec((), (ROWS, price, flag), always=True)
    delta = updates(
        [(True, Decimal(1), 4, 1), (True, Decimal(1), 6, -1)], (pa.bool_(), pa.decimal128(9, 2))
    )
    first = initial_output(spec, delta.schema, 2)
    assert listed(first) == [(0, None, None, 2, 1)]
    step = run(spec, delta)
    assert step.output.schema == first.schema
    assert listed(step.output) == [
        (0, None, None, 4, -1),
        (1, Decimal("1.00"), True, 4, 1),
        (1, Decimal("1.00"), True, 6, -1),
        (0, None, None, 6, 1),
    ]
    assert initial_output(ReduceSpec(("k",), (ROWS,)), delta.schema, 2).num_rows == 0


def test_nulls_do_not_count_in_sums() -> None:
    spec = ReduceSpec(
        ("k",),
        (ROWS, SUM, Aggregate("c", Function.COUNT, "v", pa.int64())),
    )
    delta = updates([("a", None, 0, 2), ("a", 7, 1, 1)], (pa.string(), pa.int64()))
    assert listed(run(spec, delta).output) == [
        ("a", 2, None, 0, 0, 1),
        ("a", 2, None, 0, 1, -1),
        ("a", 3, 7, 1, 1, 1),
    ]


def test_empty_delta_keeps_the_schemas() -> None:
    spec = ReduceSpec(("k",), (ROWS, SUM))
    full = updates([("a", 1, 0, 1)], (pa.string(), pa.int64()))
    step, empty = run(spec, full), run(spec, full[:0])
    for a, b in ((step.output, empty.output), (step.arranged, empty.arranged)):
        assert a.schema == b.schema
        assert b.num_rows == 0


def test_least_and_greatest_of_floats() -> None:
    spec = MinMaxSpec(("k",), "v", (("low", Extreme.MIN), ("high", Extreme.MAX)))
    delta = updates(
        [
            *(("a", math.nan, 0, 1), ("a", 1.0, 1, 1), ("a", math.nan, 2, -1)),
            *(("a", 1.0, 3, -1), ("a", None, 3, 1)),
        ],
        (pa.string(), pa.float64()),
    )
    found = minmax(spec, delta, MemoryTrace(minmax_schema(spec, delta.schema))).output
    shown = [(str(a), str(b), t) for _, a, b, t, d in listed(found) if d > 0]
    assert shown == [("nan", "nan", 0), ("1.0", "nan", 1), ("1.0", "1.0", 2), ("None", "None", 3)]


def test_least_value_of_nothing() -> None:
    spec = MinMaxSpec((), "v", (("low", Extreme.MIN),), always=True)
    delta = updates([("a", "x", 1, 1), ("a", "x", 2, -1)], (pa.string(), pa.string()))
    assert listed(initial_minmax(spec, delta.schema, 0)) == [(None, 0, 1)]
    step = minmax(spec, delta, MemoryTrace(minmax_schema(spec, delta.schema)))
    assert listed(step.output) == [(None, 1, -1), ("x", 1, 1), ("x", 2, -1), (None, 2, 1)]


def test_decimals_of_all_widths_survive_the_split() -> None:
    for precision in (9, 18, 38):
        value = 10**precision - 1
        array = pa.array([Decimal(value), None, Decimal(-value)], pa.decimal128(precision, 0))
        limbs = split(array[1:])
        assert all(limb[0] == 0 for limb in limbs)
        whole = sum(int(limb[1]) << (32 * i) for i, limb in enumerate(limbs))
        assert Context(prec=60).create_decimal(whole) == -value
