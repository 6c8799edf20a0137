"""The temporal filter by example: what a step emits, what waits, and what a step costs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from waterclock.compute.kernels.step import Step, Window
from waterclock.compute.kernels.temporal import (
    DUE,
    NEVER,
    Bound,
    TemporalSpec,
    state_schema,
    temporal,
    waiting,
)
from waterclock.compute.kernels.trace import MemoryTrace
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.rows import DIFF, TIME

UNTIL = TemporalSpec(("row",), (), (Bound("until", inclusive=False),))
BETWEEN = TemporalSpec(
    ("row",), (Bound("from", inclusive=True),), (Bound("until", inclusive=True),)
)
Listed = list[tuple[str, int, int]]


def updates(*changes: tuple[str, int | None, int | None, int, int]) -> pa.Table:
    """Of a row, the times from and until when it is wanted, time and diff."""
    names = ["row", "from", "until", TIME, DIFF]
    kinds = [pa.string(), *[pa.int64()] * 4]
    columns = [
        pa.array([change[place] for change in changes], kind) for place, kind in enumerate(kinds)
    ]
    return pa.table(columns, names=names)


NOTHING = updates()


def stepped(spec: TemporalSpec, delta: pa.Table, trace: MemoryTrace, *window: int) -> Listed:
    step = temporal(spec, delta, trace, Window(*window))
    trace.insert(step.arranged)
    return listed(step)


def listed(step: Step) -> Listed:
    columns = (column.to_pylist() for column in step.output.columns)
    return sorted(zip(*columns, strict=True))


@pytest.fixture
def trace() -> MemoryTrace:
    return MemoryTrace(state_schema(BETWEEN, NOTHING.schema))


def test_a_row_comes_and_goes_without_a_change(trace: MemoryTrace) -> None:
    assert stepped(BETWEEN, updates(("a", 10, 20, 3, 2)), trace, 0, 5) == []
    assert stepped(BETWEEN, NOTHING, trace, 5, 10) == []
    assert stepped(BETWEEN, NOTHING, trace, 10, 11) == [("a", 10, 2)]
    assert stepped(BETWEEN, NOTHING, trace, 11, 1000) == [("a", 21, -2)]
    assert trace.num_rows == 0


def test_a_row_that_comes_late_is_there_from_then_on(trace: MemoryTrace) -> None:
    delta = updates(("a", 10, 20, 15, 1), ("too late", 10, 20, 21, 1), ("in time", 0, 20, 20, 1))
    assert stepped(BETWEEN, delta, trace, 0, 30) == [
        ("a", 15, 1),
        ("a", 21, -1),
        ("in time", 20, 1),
        ("in time", 21, -1),
    ]


def test_a_retraction_takes_back_what_waits(trace: MemoryTrace) -> None:
    stepped(BETWEEN, updates(("a", 10, 20, 0, 1), ("b", 0, 20, 0, 1)), trace, 0, 5)
    assert stepped(BETWEEN, updates(("a", 10, 20, 7, -1), ("b", 0, 20, 7, -1)), trace, 5, 8) == [
        ("b", 7, -1)
    ]
    assert waiting(trace, Window(8, NEVER)).num_rows == 0
    assert stepped(BETWEEN, NOTHING, trace, 8, 100) == []


def test_a_null_bound_is_never_reached(trace: MemoryTrace) -> None:
    delta = updates(("a", None, 20, 0, 1), ("b", 10, None, 0, 1), ("c", None, None, 0, 1))
    assert stepped(BETWEEN, delta, trace, 0, 100) == []
    assert trace.num_rows == 0


def test_what_never_ends_does_not_wait(trace: MemoryTrace) -> None:
    delta = updates(("a", -5, NEVER, 1, 1), ("b", NEVER, NEVER, 1, 1))
    assert stepped(BETWEEN, delta, trace, 0, 2) == [("a", 1, 1)]
    assert trace.num_rows == 0


def test_state_follows_what_waits_and_a_step_what_is_due(tmp_path: Path) -> None:
    """Rows that live for a second, for a long time; then nobody looks for a week."""
    layout = Layout.of_schema(state_schema(UNTIL, NOTHING.schema), (DUE,))
    state = Arrangement.open(tmp_path, layout, 0)
    most = emitted = 0
    week = 7 * 86_400_000

    def step(delta: pa.Table, upper: int) -> Step:
        lower = state.upper
        with state.trace() as open_trace:
            done = temporal(UNTIL, delta, open_trace, Window(lower, upper))
        cover = Cover(lower, upper)
        state.advance(upper, [cover] if write_run(tmp_path, layout, cover, done.arranged) else [])
        while state.is_mergeable:
            for _ in state.merge(upper):
                pass
        return done

    for start in range(0, 20_000, 100):
        times = np.arange(start, start + 100)
        names = pa.array(times).cast(pa.string())
        columns = [names, pa.array(times), pa.array(times + 1000), pa.array(times)]
        delta = pa.table([*columns, pa.array(np.ones(100, dtype=np.int64))], schema=NOTHING.schema)
        emitted += step(delta, start + 100).output.num_rows
        most = max(most, state.rows)
    assert most < 10_000, "a thousand wait; what was emitted may be there twice until it is merged"
    rest = step(NOTHING, week).output
    assert emitted + rest.num_rows == 2 * 20_000
    with state.trace() as open_trace:
        assert waiting(open_trace, Window(0, NEVER)).num_rows == 0
