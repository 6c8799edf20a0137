"""Random histories for the properties of kernels, and what a collection holds at each time.

A history is a bag of updates, not consolidated and in no order; it is cut into windows at random
times and played through a kernel step by step, with the arrangement carried along. Values become
plain Python tuples that are equal and ordered as SQL has it, so that oracles stay simple.

The tests at the end check that the state carried along is what it should be.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.compute.kernels import keys
from waterclock.compute.kernels.errors import ERROR_SCHEMA
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.trace import MemoryTrace, arranged, arranged_schema
from waterclock.model.collection import Update
from waterclock.model.lattice import EpochMillis
from waterclock.model.timeline import Timeline
from waterclock.model.updates import read
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.examples import examples

TIMES = 7
"""Histories happen at the times from 0 up to, and without, this."""

Row = tuple[Any, ...]
Multiset = dict[Row, int]
Change = tuple[Row, int, int]

_TIMELINE = Timeline("test", EpochMillis())

INT32 = st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1])
INT64 = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1, 2**32, -(2**32) - 1])
FLOAT = st.sampled_from([0.0, -0.0, 1.5, -1.5, math.nan, -math.nan, math.inf, -math.inf])
PRICE = st.integers(-99, 99).map(lambda n: Decimal(n).scaleb(-2))
WIDE = st.sampled_from([0, 1, -7, 10**38 - 1, -(10**38) + 1, 5 * 10**37, 2**64, -(2**96)]).map(
    Decimal
)

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int16(): st.integers(-3, 3),
    pa.int32(): INT32,
    pa.int64(): INT64,
    pa.float32(): FLOAT,
    pa.float64(): FLOAT,
    pa.string(): st.sampled_from(["", "a", "ab", "b", "\u00e9", "\U0001f600", "a\0"]),
    pa.binary(): st.sampled_from([b"", b"\x00", b"\xff", b"ab"]),
    pa.decimal128(9, 2): PRICE,
    pa.decimal128(18, 2): PRICE,
    pa.decimal128(38, 0): WIDE,
    pa.date32(): st.dates(dt.date(1969, 12, 30), dt.date(1970, 1, 3)),
    pa.timestamp("us"): st.datetimes(dt.datetime(1969, 12, 31), dt.datetime(1970, 1, 2)),
}
NESTED: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.list_(pa.float64()): st.lists(FLOAT | st.none(), max_size=2),
    pa.struct([("a", pa.float64()), ("b", pa.int64())]): st.fixed_dictionaries(
        {"a": FLOAT | st.none(), "b": st.integers(0, 1)}
    ),
}
ANY = {**VALUES, **NESTED}


def plain(value: Any, *, normal: bool = False) -> Row:
    """The value as something hashable that orders as SQL does, null first, NaN last.

    Zero and minus zero differ unless `normal`.
    """
    if value is None:
        return ()
    if isinstance(value, float):
        if math.isnan(value):
            return ((1, 0.0, 0.0),)
        return ((0, value, 1.0 if normal and value == 0 else math.copysign(1, value)),)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return (tuple(plain(element, normal=normal) for element in value),)
    return (value,)


def plain_row(row: Sequence[Any], *, normal: bool = False) -> Row:
    return tuple(plain(value, normal=normal) for value in row)


def rows_of(table: pa.Table) -> list[Change]:
    """A table of updates as plain rows, times and diffs."""
    names = [n for n in table.column_names if n not in (TIME, DIFF)]
    columns = [table[name].to_pylist() for name in names]
    values = list(zip(*columns, strict=True)) if names else [()] * table.num_rows
    times, diffs = table[TIME].to_pylist(), table[DIFF].to_pylist()
    return [(plain_row(r), t, d) for r, t, d in zip(values, times, diffs, strict=True)]


def holds(changes: Iterable[Change], time: int) -> Multiset:
    """What the collection with these updates holds at the time, by the reference model."""
    updates = [Update(row, _TIMELINE.time(t), d) for row, t, d in changes]
    return dict(read(updates, _TIMELINE.time(time)).counts)


@st.composite
def histories(
    draw: st.DrawFn,
    kinds: Sequence[dict[pa.DataType, st.SearchStrategy[Any]]],
    *,
    signed: bool = False,
    prefix: str = "c",
) -> pa.Table:
    """Updates of rows with one column from each of the dictionaries, named c0, c1, ...

    Rows come and go, so no count is ever negative, unless `signed`.
    """
    types = [draw(st.sampled_from(list(kind))) for kind in kinds]
    pools = [
        draw(st.lists(kinds[i][kind] | st.none(), min_size=2, max_size=4))
        for i, kind in enumerate(types)
    ]
    row = st.tuples(*(st.sampled_from(pool) for pool in pools))
    life = st.tuples(row, st.integers(0, TIMES - 1), st.integers(0, TIMES), st.integers(1, 2))
    changes: list[tuple[Any, int, int]] = []
    size = draw(st.sampled_from([14, 9, 5, 2, 0]))
    for value, born, lasts, count in draw(st.lists(life, min_size=size, max_size=size)):
        changes.append((value, born, count))
        if born + lasts < TIMES:
            changes.append((value, born + lasts, -count))
    if signed:
        stray = st.tuples(row, st.integers(0, TIMES - 1), st.integers(-2, 2))
        changes += draw(st.lists(stray, max_size=4))
    changes = draw(st.permutations(changes))
    columns = [pa.array([c[0][i] for c in changes], kind) for i, kind in enumerate(types)]
    columns += [pa.array([c[i] for c in changes], pa.int64()) for i in (1, 2)]
    return pa.table(columns, names=[*(f"{prefix}{i}" for i in range(len(types))), TIME, DIFF])


def windows() -> st.SearchStrategy[list[tuple[int, int]]]:
    """All times cut into windows."""
    times = range(1, TIMES)
    choices = [[t for t in times if n >> t & 1] for n in range(0, 1 << TIMES, 2)]
    return st.sampled_from(choices).map(lambda c: list(zip([0, *c], [*c, TIMES], strict=True)))


def within(table: pa.Table, window: tuple[int, int]) -> pa.Table:
    times = table[TIME].to_numpy()
    return table.filter(pa.array((times >= window[0]) & (times < window[1])))


def played(
    kernel: Callable[[pa.Table, MemoryTrace], Step],
    history: pa.Table,
    cut: list[tuple[int, int]],
    trace: MemoryTrace,
) -> tuple[list[Change], list[Change]]:
    """All the output's and the errors' changes once every window has been a step."""
    output: list[Change] = []
    errors: list[Change] = []
    for window in cut:
        step = kernel(within(history, window), trace)
        changes, wrong = rows_of(step.output), rows_of(step.errors)
        assert step.errors.schema == ERROR_SCHEMA
        assert_settled(changes, window)
        assert_settled(wrong, window)
        assert_settled(
            rows_of(step.arranged.drop_columns(["hash"])), window, column=DIFF in trace_diffs(trace)
        )
        trace.insert(step.arranged)
        output += changes
        errors += wrong
    return output, errors


def trace_diffs(trace: MemoryTrace) -> tuple[str, ...]:
    return trace._diffs if len(trace._diffs) == 1 else ()


def assert_settled(changes: list[Change], window: tuple[int, int], *, column: bool = True) -> None:
    """Each row and time once, no diff 0, every time in the window."""
    assert all(window[0] <= time < window[1] for _, time, _ in changes)
    if column:
        assert all(diff for _, _, diff in changes)
        most = Counter((row, time) for row, time, _ in changes).most_common(1)
        assert not most or most[0][1] == 1


def collide(monkeypatch: pytest.MonkeyPatch, values: int = 2) -> None:
    """Make nearly all keys share their hash."""
    honest = keys.hash_rows
    monkeypatch.setattr(
        keys, "hash_rows", lambda columns, n: honest(columns, n) % np.uint64(values)
    )


@examples(60)
@given(histories([ANY, VALUES]), windows())
def test_memory_trace_gives_back_what_was_put_in(
    history: pa.Table, cut: list[tuple[int, int]]
) -> None:
    trace = MemoryTrace(arranged_schema(history.schema))
    for window in cut:
        delta = within(history, window)
        trace.insert(arranged(delta, keys.key_hashes(keys.key_columns(delta, ["c0"]), len(delta))))
    hashes = keys.key_hashes(keys.key_columns(history, ["c0"]), len(history))
    found = trace.lookup(np.concatenate((hashes, hashes)))
    assert holds(rows_of(found.drop_columns(["hash"])), TIMES) == holds(rows_of(history), TIMES)
    assert trace.lookup(np.array([], dtype=np.uint64)).num_rows == 0
