"""Reclocking in the pipeline agrees with the model, whatever is bound when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.collection import Update
from waterclock.model.partitioned import SourceTime
from waterclock.model.reclocking import Remap as ModelRemap
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.storage.reclock.progress import SourceFrontier, source_timeline
from waterclock.storage.reclock.remap import Remap, RemapUpdate, bound
from waterclock.testing.increments import increments, of_increments

TIMELINE = source_timeline("u1")


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, SourceFrontier]]:
    """Frontiers that grow at growing times; partitions appear on the way."""
    uppers: dict[int | str | None, int] = {}
    time = 0
    found = []
    for _ in range(draw(st.integers(1, 6))):
        time += draw(st.integers(1, 5))
        for partition in list(uppers):
            uppers[partition] += draw(st.integers(0, 4))
        if draw(st.booleans()):
            uppers[len(uppers)] = draw(st.integers(0, 4))
        found.append((time, SourceFrontier(uppers, True)))
    return found


def remap_updates(history: list[tuple[int, SourceFrontier]]) -> list[RemapUpdate]:
    updates: list[RemapUpdate] = []
    known = None
    for time, frontier in history:
        updates += bound(known, frontier, time)
        known = frontier
    return updates


@pytest.mark.semantics(109, 113, 117, 118)
@given(histories())
def test_a_message_is_where_the_model_puts_it(history: list[tuple[int, SourceFrontier]]) -> None:
    remap = Remap.of_updates(remap_updates(history), more_may_appear=True)
    bindings = {EPOCH_MILLIS.time(t): f.as_frontier(TIMELINE) for t, f in history}
    model = ModelRemap(TIMELINE, EPOCH_MILLIS, bindings)
    places = [(partition, offset) for partition in range(4) for offset in range(12)]
    updates = [Update(p, TIMELINE.time(SourceTime.of_message(*p)), 1) for p in places]
    expected = {update.data: update.time.value for update in model.reclocked(updates)}
    found = {place: remap.time_of(*place) for place in places}
    assert {place: time for place, time in found.items() if time is not None} == expected


@pytest.mark.semantics(113, 160)
@given(histories(), st.randoms())
def test_reclocking_is_monotone_and_vectorised_alike(history, pick) -> None:  # type: ignore[no-untyped-def]
    updates = remap_updates(history)
    pick.shuffle(updates)
    remap = Remap.of_updates(updates, more_may_appear=True)
    for partition, upper in history[-1][1].uppers.items():
        times = remap.times_of(partition, np.arange(upper))
        assert (np.diff(times) >= 0).all()
        assert times.tolist() == [remap.time_of(partition, offset) for offset in range(upper)]


@pytest.mark.semantics(159)
@given(histories())
def test_increments_say_the_same(history: list[tuple[int, SourceFrontier]]) -> None:
    updates = remap_updates(history)
    remap = of_increments(increments(updates), more_may_appear=True)
    for time, frontier in history:
        found = remap.at(time)
        seen = {} if found is None else dict(found.uppers)
        assert {p: n for p, n in frontier.uppers.items() if n} == {
            p: n for p, n in seen.items() if n
        }


@given(histories(), st.integers(0, 30))
def test_compaction_is_not_seen_from_its_time_on(history, since) -> None:  # type: ignore[no-untyped-def]
    updates = remap_updates(history)
    whole = Remap.of_updates(updates, more_may_appear=True)
    moved = [RemapUpdate(u.element, max(u.time, since), u.diff) for u in updates]
    compacted = Remap.of_updates(moved, more_may_appear=True)
    for time in range(since, 31):
        assert compacted.at(time) == whole.at(time)
