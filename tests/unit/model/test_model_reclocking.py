"""Reclocking between any two timelines, with partial orders on both sides."""

from __future__ import annotations

import pytest

from waterclock.model.collection import Update
from waterclock.model.errors import ForeignTime, FrontierRegression
from waterclock.model.lattice import EpochMillis, Product
from waterclock.model.partitioned import Partitioned, SourceTime, progress_frontier
from waterclock.model.reclocking import Remap
from waterclock.model.timeline import EPOCH_MILLIS, Time, Timeline
from waterclock.model.updates import read

TOPIC = Timeline("topic", Partitioned())
OFFSETS: Timeline[int] = Timeline("offsets", EpochMillis())
PAIRS = Timeline("pairs", Product(EpochMillis(), EpochMillis()))
ONE, TWO, THREE, FOUR = (EPOCH_MILLIS.time(hour) for hour in (13, 14, 15, 16))


def message(partition: int, offset: int) -> Time[SourceTime]:
    return TOPIC.time(SourceTime.of_message(partition, offset))


def known(first: int, second: int) -> object:
    return progress_frontier(TOPIC, {0: first, 1: second}, more_may_appear=True)


@pytest.mark.semantics(109, 113, 118)
def test_total_order_to_total_order() -> None:
    bindings = {t: OFFSETS.frontier(f) for t, f in zip((ONE, TWO, THREE, FOUR), (0, 1, 3, 6))}  # noqa: B905
    remap = Remap(OFFSETS, EPOCH_MILLIS, bindings)
    updates = [Update(f"m{n}", OFFSETS.time(n), 1) for n in range(6)]
    hours = {update.data: update.time for update in remap.reclocked(updates)}
    assert hours == {"m0": TWO, "m1": THREE, "m2": THREE, "m3": FOUR, "m4": FOUR, "m5": FOUR}


@pytest.mark.semantics(115, 116, 117)
def test_partitions_to_total_order() -> None:
    bindings = {ONE: known(0, 0), TWO: known(3, 1), THREE: known(4, 3)}
    remap = Remap(TOPIC, EPOCH_MILLIS, bindings)  # type: ignore[arg-type]
    texts = ("abcd", "efgh")
    updates = [
        Update(text, message(partition, offset), 1)
        for partition, part in enumerate(texts)
        for offset, text in enumerate(part)
    ]
    found = remap.reclocked(updates)
    assert {u.data for u in found if u.time == TWO} == set("abce")
    assert {u.data for u in found if u.time == THREE} == set("dfg")
    assert len(found) == 7  # h is beyond all bindings


@pytest.mark.semantics(114, 118)
def test_partial_order_to_partial_order_counts_nothing_twice() -> None:
    left, right, both = (PAIRS.time(pair) for pair in ((1, 0), (0, 1), (1, 1)))
    remap = Remap(OFFSETS, PAIRS, {left: OFFSETS.frontier(2), right: OFFSETS.frontier(1)})
    found = remap.reclocked([Update("x", OFFSETS.time(0), 1), Update("y", OFFSETS.time(1), 1)])
    assert read(found, left).counts == {"x": 1, "y": 1}
    assert read(found, right).counts == {"x": 1}
    assert read(found, both).counts == {"x": 1, "y": 1}
    assert read(found, PAIRS.least()).counts == {}
    assert Update("x", both, -1) in found  # known along two ways, there once


def test_an_empty_frontier_shows_everything() -> None:
    remap = Remap(OFFSETS, EPOCH_MILLIS, {ONE: OFFSETS.empty()})
    assert remap.shows(ONE, OFFSETS.time(10**9))
    assert not remap.shows(EPOCH_MILLIS.time(12), OFFSETS.time(0))


def test_a_binding_can_not_forget() -> None:
    with pytest.raises(FrontierRegression):
        Remap(OFFSETS, EPOCH_MILLIS, {ONE: OFFSETS.frontier(3), TWO: OFFSETS.frontier(2)})


def test_bindings_are_of_their_timelines() -> None:
    with pytest.raises(ForeignTime):
        Remap(OFFSETS, EPOCH_MILLIS, {OFFSETS.time(1): OFFSETS.frontier(2)})
    with pytest.raises(ForeignTime):
        Remap(OFFSETS, EPOCH_MILLIS, {ONE: EPOCH_MILLIS.frontier(2)})
