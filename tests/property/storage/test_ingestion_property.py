"""A source under any schedule of growth, crashes, faults and compaction is exact in the end.

Exact means: every message is there once, at the first time whose binding has passed it, and no
answer that was once given for a time is ever another one.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.persist.rows import updates
from waterclock.storage.reclock.remap import Remap
from waterclock.storage.reclock.shape import KAFKA
from waterclock.testing.examples import examples
from waterclock.testing.source_world import (
    KIND,
    OUTPUT,
    ROWS,
    Crash,
    SourceWorld,
    Upstream,
    unreachable,
)

EVENTS = st.one_of(
    st.tuples(st.just("step"), st.integers(0, 50)),
    st.tuples(st.just("crash at an append"), st.integers(0, 3)),
    st.tuples(st.just("crash in a read"), st.integers(0, 4)),
    st.tuples(st.just("fault")),
    st.tuples(st.just("compact"), st.integers(0, 60)),
    st.tuples(st.just("restart")),
)
GROWTH = st.tuples(st.just("grow"), st.integers(0, 3), st.integers(0, 3))
"""Before each event something comes, or nothing: a crash with nothing to read shows little."""


class Run:
    """One schedule, played."""

    def __init__(self) -> None:
        self.world = SourceWorld()
        self.upstream = Upstream({0: []})
        self.source = self.world.create(KIND, b"", KAFKA.schema, {OUTPUT: ROWS})
        self.data = self.source.outputs[OUTPUT]
        self.told: dict[int, Any] = {}
        self.start()

    def start(self) -> None:
        self.ingestion = self.world.ingestion(self.source, {KIND: self.upstream.kind()})

    def play(self, action: tuple[Any, ...]) -> None:
        match action:
            case "grow", partition, count:
                texts = self.upstream.partitions.setdefault(partition, [])
                texts += [f"{partition}/{len(texts) + n}" for n in range(count)]
            case "step", later:
                self.step(later)
            case "crash at an append", after:
                left = iter(range(after))
                self.world.crash_at = lambda _writes: next(left, None) is None
                self.step(1)
                self.world.crash_at = None
            case "crash in a read", after:
                self.upstream.breaks_after = after
                self.step(1)
                self.upstream.breaks_after = None
            case ("fault",):
                self.upstream.fault = unreachable()
                self.step(1)
                self.upstream.fault = None
            case "compact", before:
                self.world.holds.allow_compaction(self.world.now - before)
            case _:
                self.world.open()
                self.start()

    def step(self, later: int) -> None:
        try:
            self.world.step(self.ingestion, later_ms=later)
        except Crash:
            self.world.open()
            self.start()
        self.listen()

    def listen(self) -> None:
        """Whatever is complete now must never be told otherwise."""
        upper = self.world.upper(self.data)
        since = self.world.holds.capability(self.data).frontier.only()
        assert upper is not None
        assert since is not None
        for time in [*self.told, upper - 1]:
            if since <= time < upper:
                found = self.world.contents(self.data, time)
                assert self.told.setdefault(time, found) == found

    def check(self) -> None:
        since = self.world.holds.capability(self.data).frontier.only() or 0
        found = self.world.updates(self.data)
        assert set(found.values()) <= {1}
        stamped = {row[0]: time for row, time in found}
        assert len(stamped) == len(found)
        rows = self.world.updates(self.source.remap)
        remap = Remap.of_updates(
            [each for row in rows.items() for each in _updates(*row)], more_may_appear=True
        )
        texts = {
            text: (partition, offset)
            for partition, there in self.upstream.partitions.items()
            for offset, text in enumerate(there)
        }
        assert stamped.keys() == texts.keys()
        for text, place in texts.items():
            time = remap.time_of(*place)
            assert time is not None
            assert max(stamped[text], since) == max(time, since)


def _updates(place: tuple[tuple[Any, ...], int], diff: int) -> Any:
    row, time = place
    return KAFKA.updates([_batch(row, time, diff)])


def _batch(row: tuple[Any, ...], time: int, diff: int) -> Any:
    return updates(KAFKA.schema, [(row, time, diff)])


@pytest.mark.semantics(103, 109, 113, 116, 151, 160)
@examples(100)
@given(st.lists(st.tuples(GROWTH, EVENTS), max_size=14))
def test_exact_under_any_schedule(rounds: list[tuple[tuple[Any, ...], tuple[Any, ...]]]) -> None:
    run = Run()
    for growth, event in rounds:
        run.play(growth)
        run.play(event)
    for _ in range(2):
        run.step(10)
    run.check()
