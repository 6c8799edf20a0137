"""At every time: each group's aggregates are those of the rows it has at that time."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_histories_property import (
    ANY,
    INT32,
    INT64,
    PRICE,
    TIMES,
    WIDE,
    Multiset,
    collide,
    histories,
    holds,
    plain,
    plain_row,
    played,
    rows_of,
    windows,
)

from waterclock.compute.kernels.aggregates import Aggregate, Function
from waterclock.compute.kernels.reduce import (
    ReduceSpec,
    diff_columns,
    initial_output,
    reduce,
    state_schema,
)
from waterclock.compute.kernels.trace import MemoryTrace
from waterclock.testing.examples import examples

INTS = {pa.int16(): st.integers(-3, 3), pa.int32(): INT32, pa.int64(): INT64}
DECIMALS = {pa.decimal128(9, 2): PRICE, pa.decimal128(18, 2): PRICE, pa.decimal128(38, 0): WIDE}
BOOLS = {pa.bool_(): st.booleans()}


def more_digits(kind: pa.DataType) -> int:
    """How many more decimals a mean has; none for one type, so that halves occur."""
    return 0 if kind.precision == 9 else 4


def spec_for(history: pa.Table, keys: int, *, always: bool = False) -> ReduceSpec:
    """Every aggregate of an int, a decimal and a bool column that follow the keys."""
    number, money, flag = (f"c{keys + i}" for i in range(3))
    kind = history.schema.field(money).type
    total = pa.decimal128(min(38, kind.precision + 10), kind.scale)
    more = more_digits(kind)
    mean = pa.decimal128(min(38, kind.precision + more), kind.scale + more)
    return ReduceSpec(
        tuple(f"c{i}" for i in range(keys)),
        (
            Aggregate("rows", Function.COUNT_ROWS, None, pa.int64()),
            Aggregate("count", Function.COUNT, number, pa.int64()),
            Aggregate("sum", Function.SUM, number, pa.int64()),
            Aggregate("avg", Function.AVG, number, pa.float64()),
            Aggregate("total", Function.SUM, money, total),
            Aggregate("mean", Function.AVG, money, mean),
            Aggregate("all", Function.BOOL_AND, flag, pa.bool_()),
            Aggregate("any", Function.BOOL_OR, flag, pa.bool_()),
        ),
        always,
    )


def shifted(digits: int, scale: int) -> Decimal:
    return Decimal(digits).scaleb(-scale, Context(prec=80))


def half_up(numerator: int, denominator: int) -> int:
    magnitude = (2 * abs(numerator) + denominator) // (2 * denominator)
    return -magnitude if numerator < 0 else magnitude


def aggregated(rows: list[Any], money: pa.DataType) -> list[Any] | None:
    """The aggregates of rows of (int, decimal, bool), or None if one does not fit."""
    ints = [r[0] for r in rows if r[0] is not None]
    coins = [r[1] for r in rows if r[1] is not None]
    flags = [r[2] for r in rows if r[2] is not None]
    cents = sum(int(c.scaleb(money.scale, Context(prec=80))) for c in coins)
    more = more_digits(money)
    mean = half_up(cents * 10**more, len(coins)) if coins else 0
    if ints and not -(2**63) <= sum(ints) < 2**63:
        return None
    if abs(cents) >= 10 ** min(38, money.precision + 10):
        return None
    if abs(mean) >= 10 ** min(38, money.precision + more):
        return None
    return [
        len(rows),
        len(ints),
        sum(ints) if ints else None,
        float(sum(ints)) / len(ints) if ints else None,
        shifted(cents, money.scale) if coins else None,
        shifted(mean, money.scale + more) if coins else None,
        all(flags) if flags else None,
        any(flags) if flags else None,
    ]


def evaluated(history: pa.Table, keys: int, time: int, *, always: bool) -> tuple[Multiset, int]:
    """The output at the time from scratch, and how many groups are in error."""
    counts: dict[Any, int] = {}
    for *row, t, d in zip(*(c.to_pylist() for c in history.columns), strict=True):
        if t <= time:
            place = (plain_row(row[:keys], normal=True), tuple(row[keys:]))
            counts[place] = counts.get(place, 0) + d
    groups: dict[Any, list[Any]] = {(): []} if always else {}
    for (key, rest), n in counts.items():
        if n:
            groups.setdefault(key, []).extend([rest] * n)
    money = history.schema.field(f"c{keys + 1}").type
    result: Multiset = {}
    wrong = 0
    for key, rows in groups.items():
        values = aggregated(rows, money)
        if values is None:
            wrong += 1
        else:
            result[key + tuple(plain(v) for v in values)] = 1
    return result, wrong


def check(history: pa.Table, cut: list[tuple[int, int]], keys: int, *, always: bool) -> None:
    spec = spec_for(history, keys, always=always)
    trace = MemoryTrace(state_schema(spec, history.schema), diff_columns(spec, history.schema))
    output, errors = played(lambda d, t: reduce(spec, d, t), history, cut, trace)
    output += rows_of(initial_output(spec, history.schema, 0))
    for time in range(TIMES):
        expected, wrong = evaluated(history, keys, time, always=always)
        assert holds(output, time) == expected
        assert sum(holds(errors, time).values()) == wrong


@pytest.mark.semantics(44)
@examples(100)
@given(
    st.integers(0, 2).flatmap(
        lambda n: st.tuples(st.just(n), histories([*[ANY] * n, INTS, DECIMALS, BOOLS]))
    ),
    windows(),
    st.booleans(),
)
def test_reduce_at_every_time(
    case: tuple[int, pa.Table], cut: list[tuple[int, int]], few_hashes: bool
) -> None:
    keys, history = case
    with pytest.MonkeyPatch.context() as patch:
        if few_hashes:
            collide(patch)
        check(history, cut, keys, always=False)


@pytest.mark.semantics(44)
@examples(60)
@given(histories([INTS, DECIMALS, BOOLS]), windows())
def test_global_reduce_always_has_its_row(history: pa.Table, cut: list[tuple[int, int]]) -> None:
    check(history, cut, 0, always=True)
