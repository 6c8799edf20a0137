"""Outputs that join a source which runs: pausing it, companions, and copies with more columns."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.storage.api import Progress, ReadCapability, Updates
from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import Kind, SourceDescription, Surroundings
from waterclock.storage.sources.companion import Companion, JoiningStopped
from waterclock.storage.sources.errors import SourceFault, TransientFault
from waterclock.storage.sources.ingestion import Stopped
from waterclock.storage.sources.loop import Ingestions, SourceBusy
from waterclock.storage.sources.recency import SourceDropped
from waterclock.storage.sources.transfer import Pair, Transfer
from waterclock.testing.source_world import KIND, OUTPUT, ROWS, SourceWorld, Upstream, unreachable
from waterclock.testing.storage_world import plain_values


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)


class Stage:
    """A source that runs by itself."""

    def __init__(self) -> None:
        self.world = SourceWorld()
        self.upstream = Upstream({0: ["a", "b"]})
        kinds: dict[str, Kind] = {KIND: self.upstream.kind()}
        clock = lambda: time.time_ns() // 1_000_000  # noqa: E731
        self.loop = Ingestions(
            self.world.storage,
            self.world.store,
            kinds,
            Surroundings(clock),
            self.world.holds.take,
            interval_ms=5,
        )
        self.source = self.world.create(KIND, b"", KAFKA.schema, {OUTPUT: ROWS}, with_errors=True)
        self.loop.add(self.source)
        self.output = self.source.outputs[OUTPUT]

    def ids(self, count: int) -> list[GlobalId]:
        return [GlobalId.user(self.world._take_id()) for _ in range(count)]

    def companion(self) -> tuple[Companion, GlobalId]:
        source, remap, rows = self.ids(3)
        description = SourceDescription(source, "c", KIND, b"", remap, {OUTPUT: rows})
        schemas = {remap: KAFKA.schema, rows: ROWS}
        world = self.world
        made = Companion(world.storage, world.store, self.loop, description, schemas)
        return made, rows

    def contents(self, reader: ReadCapability) -> Counter[tuple[Any, ...]]:
        """What a collection holds at the time from which it can be read."""
        found: Counter[tuple[Any, ...]] = Counter()
        subscription = self.world.storage.subscribe_at(reader)
        for message in subscription:
            match message:
                case Updates(batch):
                    *columns, _, diffs = (plain_values(column) for column in batch.columns)
                    for row, diff in zip(zip(*columns, strict=True), diffs, strict=True):
                        found[row] += diff
                case Progress():
                    break
        subscription.close()
        return +found


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.loop.close()


def count(stage: Stage) -> int:
    return sum(stage.world.updates(stage.output).values())


def test_a_paused_source_takes_no_step(stage: Stage) -> None:
    wait_until(lambda: count(stage) == 2)
    paused = stage.loop.pause(stage.source.id)
    with pytest.raises(SourceBusy):
        stage.loop.pause(stage.source.id)
    reads, upper = len(stage.upstream.reads), stage.world.upper(stage.output)
    stage.upstream.partitions[0].append("c")
    stage.loop.wake()
    standing = paused.standing()
    assert standing is not None
    assert standing.complete_to == upper
    assert (len(stage.upstream.reads), stage.world.upper(stage.output)) == (reads, upper)
    stage.loop.resume(stage.source.id)
    wait_until(lambda: count(stage) == 3)
    with pytest.raises(SourceDropped):
        stage.loop.pause(GlobalId.user(999))
    stage.loop.resume(GlobalId.user(999))


def test_a_source_under_another_id(stage: Stage) -> None:
    wait_until(lambda: count(stage) == 2)
    stage.loop.pause(stage.source.id)
    [other] = stage.ids(1)
    old = stage.source
    renamed = SourceDescription(
        other, "s", KIND, b"", old.remap, old.outputs, errors=old.errors, notes=old.notes
    )
    [before] = stage.loop.reports()
    stage.loop.resume(old.id, renamed)
    [after] = stage.loop.reports()
    assert (after.status, after.statistics.messages) == (before.status, 2)
    stage.upstream.partitions[0].append("c")
    wait_until(lambda: count(stage) == 3)
    assert [report.id for report in stage.loop.reports()] == [other]
    assert stage.loop.errors_beside(stage.output) == old.errors[OUTPUT]


@pytest.mark.semantics(113)
def test_a_companion_meets_a_source_that_goes_on(stage: Stage) -> None:
    wait_until(lambda: count(stage) == 2)
    stop = threading.Event()

    def write() -> None:
        while not stop.wait(0.001):
            stage.upstream.partitions[0].append("more")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        companion, rows = stage.companion()
        at = companion.join(stage.source.id)
    finally:
        stop.set()
        writer.join()
    uppers = {stage.world.upper(each) for each in (stage.output, rows)}
    assert uppers == {at + 1}
    assert companion.readers[rows].frontier == EPOCH_MILLIS.frontier(at)
    assert stage.contents(companion.readers[rows]) == stage.world.contents(stage.output, at)
    stage.loop.resume(stage.source.id)
    wait_until(lambda: count(stage) == len(stage.upstream.partitions[0]))
    companion.finish(has_joined=False)
    assert stage.world.upper(rows) is None


def test_a_companion_that_is_not_wanted_any_more(stage: Stage) -> None:
    companion, _ = stage.companion()
    companion.stop()
    with pytest.raises(JoiningStopped):
        companion.join(stage.source.id)
    companion.finish(has_joined=False)
    stage.upstream.partitions[0].append("c")
    wait_until(lambda: count(stage) == 3)


def test_a_companion_whose_upstream_fails(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    wait_until(lambda: count(stage) == 2)
    monkeypatch.setattr("waterclock.storage.sources.companion._PATIENCE_S", 0.0)
    stage.upstream.fault = unreachable()
    companion, _ = stage.companion()
    with pytest.raises(TransientFault):
        companion.join(stage.source.id)
    companion.finish(has_joined=False)
    stage.upstream.fault = SourceFault("it is gone")
    companion, _ = stage.companion()
    with pytest.raises(SourceFault, match="it is gone"):
        companion.join(stage.source.id)
    companion.finish(has_joined=False)


WIDE = Schema((*ROWS.columns, Column("n", Int(32))))


def widen(columns: list[pa.Array], rows: int) -> list[pa.Array]:
    return [*columns, pa.repeat(pa.scalar(7, pa.int32()), rows)]


@pytest.mark.parametrize("piece", [1, 64 << 20])
def test_a_copy_with_more_columns(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    monkeypatch.setattr("waterclock.storage.sources.transfer._PIECE_BYTES", piece)
    for i in range(5):
        stage.upstream.partitions[0].append(f"row {i}")
        known = 3 + i
        wait_until(lambda known=known: count(stage) == known)  # type: ignore[misc]
    [copy] = stage.ids(1)
    hold = stage.world.holds.take([stage.output])
    pairs = [Pair(stage.output, copy, WIDE, widen)]
    transfer = Transfer(stage.world.storage, stage.world.store, hold, pairs)
    at = transfer.join(stage.loop, stage.source.id)
    old = stage.world.contents(stage.output, at)
    reader = transfer.unseen.readers[copy]
    assert stage.contents(reader) == {(*row, 7): times for row, times in old.items()}
    assert stage.world.upper(copy) == at + 1 == stage.world.upper(stage.output)
    assert reader.frontier == EPOCH_MILLIS.frontier(at)
    stage.loop.resume(stage.source.id)
    transfer.unseen.release([copy])
    hold.close()


def test_a_copy_that_is_not_made(stage: Stage) -> None:
    wait_until(lambda: count(stage) == 2)
    [copy, other] = stage.ids(2)
    hold = stage.world.holds.take([stage.output])
    pairs = [Pair(stage.output, copy, WIDE, widen)]
    transfer = Transfer(stage.world.storage, stage.world.store, hold, pairs)
    transfer.stop()
    with pytest.raises(Stopped):
        transfer.join(stage.loop, stage.source.id)
    empty = stage.world.collection(ROWS)
    hold = stage.world.holds.take([empty])
    pairs = [Pair(empty, other, WIDE, widen)]
    transfer = Transfer(stage.world.storage, stage.world.store, hold, pairs)
    with pytest.raises(SourceFault, match="no contents"):
        transfer.join(stage.loop, stage.source.id)
    stage.upstream.partitions[0].append("c")
    wait_until(lambda: count(stage) == 3)


def test_a_frontier_with_a_limit() -> None:
    frontier = SourceFrontier({0: 5, 1: 3, 2: 9}, True)
    assert frontier.limited(SourceFrontier({0: 4, 1: 8}, True)) == SourceFrontier(
        {0: 4, 1: 3}, True
    )
    assert SourceFrontier.single(5).limited(SourceFrontier.single(7)) == SourceFrontier.single(5)
