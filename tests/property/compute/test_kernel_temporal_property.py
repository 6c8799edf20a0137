"""At every time: a temporal filter is the input's rows whose bounds hold at that time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_histories_property import (
    ANY,
    TIMES,
    Change,
    Multiset,
    Row,
    assert_settled,
    histories,
    holds,
    rows_of,
    windows,
    within,
)

from waterclock.compute.kernels.errors import NO_ERRORS
from waterclock.compute.kernels.step import Window
from waterclock.compute.kernels.temporal import (
    DUE,
    NEVER,
    Bound,
    TemporalSpec,
    output_schema,
    state_schema,
    temporal,
    waiting,
)
from waterclock.compute.kernels.trace import HASH, MemoryTrace
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.examples import examples

LEAST = -(2**63)
MOMENTS = st.integers(-1, TIMES + 3) | st.sampled_from([LEAST, NEVER - 1, NEVER, 2**40])
BOUND = {pa.int64(): MOMENTS}
WIDTH = 4
"""Columns of a history: one of any type, and three that may be bounds."""

HISTORIES = st.booleans().flatmap(lambda s: histories([ANY, BOUND, BOUND, BOUND], signed=s))


@st.composite
def specs(draw: st.DrawFn) -> TemporalSpec:
    """Any columns as the output, any of the bounds in any role."""
    bounds = st.lists(
        st.builds(Bound, st.sampled_from(["c1", "c2", "c3"]), st.booleans()), max_size=2
    )
    kept = draw(st.integers(0, WIDTH))
    return TemporalSpec(
        tuple(f"c{i}" for i in range(kept)), tuple(draw(bounds)), tuple(draw(bounds))
    )


@dataclass(frozen=True)
class Brute:
    """The filter by its definition: the conditions, asked of every row at every time."""

    spec: TemporalSpec

    def at(self, history: pa.Table, time: int) -> Multiset:
        found: Counter[Row] = Counter()
        for row, count in holds(rows_of(history), time).items():
            if self._shows(row, time):
                found[row[: len(self.spec.columns)]] += count
        return {row: count for row, count in found.items() if count}

    def _shows(self, row: Row, time: int) -> bool:
        def value(bound: Bound) -> int | None:
            (*number,) = row[int(bound.column[1:])]
            return number[0] if number else None

        below = [(value(b), b.inclusive) for b in self.spec.lower]
        above = [(value(b), b.inclusive) for b in self.spec.upper]
        return all(b is not None and (b <= time if i else b < time) for b, i in below) and all(
            b is not None and (time <= b if i else time < b) for b, i in above
        )


def played(
    spec: TemporalSpec, history: pa.Table, cut: list[tuple[int, int]], trace: MemoryTrace
) -> list[Change]:
    output: list[Change] = []
    for window in cut:
        step = temporal(spec, within(history, window), trace, Window(*window))
        assert step.output.schema == output_schema(spec, history.schema)
        assert step.arranged.schema == state_schema(spec, history.schema)
        assert step.errors == NO_ERRORS
        changes = rows_of(step.output)
        assert_settled(changes, window)
        assert_settled(rows_of(step.arranged.drop_columns([HASH])), window)
        trace.insert(step.arranged)
        assert waiting(trace, Window(0, window[1])).num_rows == 0, "what was due has been emitted"
        output += changes
    return output


@pytest.mark.semantics(44)
@examples(120)
@given(HISTORIES, windows(), specs())
def test_temporal_filter_at_every_time(
    history: pa.Table, cut: list[tuple[int, int]], spec: TemporalSpec
) -> None:
    trace = MemoryTrace(state_schema(spec, history.schema))
    later = TIMES + 6
    output = played(spec, history, [*cut, (TIMES, TIMES + 2), (TIMES + 2, later)], trace)
    brute = Brute(spec)
    for time in range(later):
        assert holds(output, time) == brute.at(history, time), f"at {time}"


@examples(40)
@given(HISTORIES, windows(), specs())
def test_what_waits_is_what_will_happen(
    history: pa.Table, cut: list[tuple[int, int]], spec: TemporalSpec
) -> None:
    """One step to the end of time emits the rest, and then nothing waits any more."""
    trace = MemoryTrace(state_schema(spec, history.schema))
    output = played(spec, history, cut, trace)
    rest = Window(TIMES, NEVER)
    due = waiting(trace, rest)
    empty = history.slice(0, 0)
    last = temporal(spec, empty, trace, rest)
    assert sorted(numbers(due, DUE)) == sorted(numbers(last.output, TIME))
    trace.insert(last.arranged)
    assert waiting(trace, rest).num_rows == 0
    brute = Brute(spec)
    for time in (*range(TIMES + 5), 2**40 - 1, 2**40, 2**40 + 1, NEVER - 2, NEVER - 1):
        assert holds(output + rows_of(last.output), time) == brute.at(history, time), f"at {time}"


def numbers(table: pa.Table, name: str) -> list[int]:
    """Each time as often as something is due at it, as rows."""
    found: list[int] = table[name].to_pylist()
    return found


@examples(25)
@given(HISTORIES, windows(), specs())
def test_on_disk_as_in_memory(
    history: pa.Table, cut: list[tuple[int, int]], spec: TemporalSpec
) -> None:
    """The files lie in the order of due times, and merging them drops what was emitted."""
    schema = state_schema(spec, history.schema)
    layout = Layout.of_schema(schema, (DUE,))
    assert layout.schema.equals(schema)
    brute = Brute(spec)
    output: list[Change] = []
    with TemporaryDirectory() as folder:
        state = Arrangement.open(Path(folder), layout, 0)
        for lower, upper in [*cut, (TIMES, TIMES + 1), (TIMES + 1, NEVER)]:
            with state.trace() as trace:
                delta = within(history, (lower, upper))
                step = temporal(spec, delta, trace, Window(lower, upper))
            cover = Cover(lower, upper)
            run = write_run(Path(folder), layout, cover, step.arranged)
            state.advance(upper, [cover] if run else [])
            output += rows_of(step.output)
            while state.is_mergeable:
                for _ in state.merge(upper):
                    pass
        with state.trace() as trace:
            assert waiting(trace, Window(0, NEVER)).num_rows == 0
    for time in range(TIMES + 5):
        assert holds(output, time) == brute.at(history, time), f"at {time}"


def test_a_step_reads_what_is_due_and_not_what_waits() -> None:
    class Counting(MemoryTrace):
        read = 0

        def lookup_range(self, low: int, high: int) -> pa.Table:
            found = super().lookup_range(low, high)
            self.read += found.num_rows
            return found

    spec = TemporalSpec(("c0",), (), (Bound("c0", inclusive=False),))
    count = 10_000
    due = np.arange(1, count + 1) * 60_000
    history = pa.table({"c0": due, TIME: np.zeros_like(due), DIFF: np.ones_like(due)})
    trace = Counting(state_schema(spec, history.schema))
    trace.insert(temporal(spec, history, trace, Window(0, 1)).arranged)
    assert trace.num_rows == count
    step = temporal(spec, history[:0], trace, Window(1, 5 * 60_000 + 1))
    assert rows_of(step.output) == [(((n * 60_000,),), n * 60_000, -1) for n in range(1, 6)]
    assert trace.read == 5
