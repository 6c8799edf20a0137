"""One source, step by step: what it binds, reads and appends, and what a crash leaves of it."""

from __future__ import annotations

import dataclasses
import logging
from collections import Counter

import pytest

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import MessageDefinition, TextDefinition
from waterclock.storage.reclock.progress import Range, SourceFrontier
from waterclock.storage.reclock.remap import Remap, RemapUpdate
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import SourceDescription
from waterclock.storage.sources.errors import SourceFault, TransientFault
from waterclock.storage.sources.ingestion import Ingestion
from waterclock.storage.sources.status import Health
from waterclock.testing.record_world import RecordWorld
from waterclock.testing.source_world import (
    KIND,
    OUTPUT,
    ROWS,
    Crash,
    SourceWorld,
    Upstream,
    unreachable,
)


class Scene:
    """A source over an upstream with two partitions."""

    def __init__(self) -> None:
        self.world = SourceWorld()
        self.upstream = Upstream({0: list("abcd"), 1: ["e"]})
        self.description: SourceDescription = self.world.create(
            KIND, b"", KAFKA.schema, {OUTPUT: ROWS}
        )
        self.ingestion = self.started()

    def started(self) -> Ingestion:
        return self.world.ingestion(self.description, {KIND: self.upstream.kind()})

    def restart(self) -> None:
        """Kill the server, and start another."""
        self.world.open()
        self.ingestion = self.started()

    def step(self) -> int | None:
        return self.world.step(self.ingestion).changed_at

    @property
    def data(self) -> GlobalId:
        return self.description.outputs[OUTPUT]

    def stamped(self) -> dict[str, int]:
        """The time of each message; each is there once."""
        updates = self.world.updates(self.data)
        assert set(updates.values()) <= {1}
        assert len({row for row, _ in updates}) == len(updates)
        return {row[0]: time for row, time in updates}

    def remap(self) -> Remap:
        rows = self.world.updates(self.description.remap)
        updates = [
            RemapUpdate(KAFKA._element(row), time, diff) for (row, time), diff in rows.items()
        ]
        return Remap.of_updates(updates, more_may_appear=True)

    def require_definite(self) -> None:
        """Every message is at the time that the bindings say."""
        remap = self.remap()
        for partition, texts in self.upstream.partitions.items():
            for offset, text in enumerate(texts):
                assert self.stamped().get(text) == remap.time_of(partition, offset)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.semantics(106, 107, 109, 110, 151)
def test_a_step_binds_reads_and_appends(scene: Scene) -> None:
    first = scene.step()
    assert scene.stamped() == dict.fromkeys("abcde", first)
    scene.upstream.partitions[1] += ["f", "g"]
    second = scene.step()
    assert scene.stamped() == dict.fromkeys("abcde", first) | dict.fromkeys("fg", second)
    assert scene.upstream.reads[-1] == (Range(1, 1, 3),)
    assert scene.upstream.committed[-1] == SourceFrontier({0: 4, 1: 3}, True)
    assert scene.ingestion.status.health is Health.RUNNING
    scene.require_definite()


@pytest.mark.semantics(116)
def test_a_partition_appears(scene: Scene) -> None:
    first = scene.step()
    scene.upstream.partitions[2] = ["new"]
    second = scene.step()
    assert scene.stamped() == dict.fromkeys("abcde", first) | {"new": second}
    scene.require_definite()


@pytest.mark.semantics(103, 142)
def test_a_quiet_source_is_complete_up_to_now(scene: Scene) -> None:
    scene.step()
    assert scene.step() is None
    assert scene.world.upper(scene.data) == scene.world.now + 1
    assert scene.world.upper(scene.description.remap) == scene.world.now + 1
    assert len(scene.upstream.reads) == 1


def is_of(collection: GlobalId):  # type: ignore[no-untyped-def]
    """Whether an append that writes rows writes some to the collection."""

    def matches(writes) -> bool:  # type: ignore[no-untyped-def]
        return any(w.capability.id == collection and w.updates is not None for w in writes)

    return matches


@pytest.mark.semantics(151, 161)
def test_a_crash_between_binding_and_append(scene: Scene) -> None:
    scene.step()
    scene.upstream.partitions[0].append("x")
    scene.world.crash_at = is_of(scene.data)
    with pytest.raises(Crash):
        scene.step()
    bound_at = scene.world.now
    assert "x" not in scene.stamped()
    scene.restart()
    scene.upstream.partitions[0].append("y")
    scene.step()
    assert scene.stamped()["x"] == bound_at  # as it was bound, not as it was read
    assert scene.stamped()["y"] > bound_at
    assert scene.upstream.reads[-2:] == [(Range(0, 4, 5),), (Range(0, 5, 6),)]
    scene.require_definite()


def test_a_crash_in_the_middle_of_a_read(scene: Scene) -> None:
    scene.step()
    scene.upstream.partitions[0] += ["x", "y"]
    scene.upstream.breaks_after = 1
    with pytest.raises(Crash):
        scene.step()
    bound_at = scene.world.now
    scene.restart()
    scene.step()
    assert {scene.stamped()[text] for text in "xy"} == {bound_at}
    scene.require_definite()


def test_a_crash_before_the_binding(scene: Scene) -> None:
    scene.step()
    scene.upstream.partitions[0].append("x")
    scene.world.crash_at = is_of(scene.description.remap)
    with pytest.raises(Crash):
        scene.step()
    scene.restart()
    assert scene.step() == scene.world.now
    assert scene.stamped()["x"] == scene.world.now


def test_a_crash_at_the_very_first_binding(scene: Scene) -> None:
    scene.world.crash_at = is_of(scene.description.remap)
    with pytest.raises(Crash):
        scene.step()
    scene.restart()
    scene.step()
    scene.require_definite()
    assert len(scene.stamped()) == 5


def test_a_pending_binding_outlives_compaction(scene: Scene) -> None:
    scene.step()
    scene.upstream.partitions[0].append("x")
    scene.world.crash_at = is_of(scene.data)
    with pytest.raises(Crash):
        scene.step()
    bound_at = scene.world.now
    scene.restart()
    scene.upstream.fault = unreachable()
    for _ in range(3):
        scene.step()
        scene.world.holds.allow_compaction(scene.world.now)  # all that nobody holds
    scene.restart()
    scene.upstream.fault = None
    scene.step()
    assert scene.stamped()["x"] == bound_at


@pytest.mark.semantics(160)
def test_upstream_going_back_fails_the_source(scene: Scene) -> None:
    scene.step()
    contents = scene.stamped()
    scene.upstream.partitions[0].pop()
    outcome = scene.world.step(scene.ingestion)
    assert outcome.is_over
    status = scene.ingestion.status
    assert status.health is Health.FAILED
    assert status.error is not None
    assert "partition 0 has gone back" in status.error.message
    assert status.error.hint
    assert scene.stamped() == contents
    scene.restart()
    assert scene.world.step(scene.ingestion).is_over  # and so it stays


def test_a_transient_fault_stalls_and_heals(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scene.step()
    scene.upstream.fault = unreachable()
    pauses = [scene.world.step(scene.ingestion).again_ms for _ in range(10)]
    assert pauses[:4] == [250, 500, 1000, 2000]
    assert pauses[-1] == 30_000
    status = scene.ingestion.status
    assert (status.health, str(status.error)) == (Health.STALLED, "could not connect")
    scene.upstream.fault = None
    scene.upstream.partitions[0].append("x")
    at = scene.step()
    assert scene.ingestion.status.health is Health.RUNNING
    assert scene.stamped()["x"] == at
    said = [record.getMessage().partition(" ")[2] for record in caplog.records]
    assert [text.partition(" ")[2] for text in said] == [
        "has stalled: could not connect",  # once, however often it was tried
        "goes on",
    ]
    scene.upstream.fault = OSError("connection reset")
    assert scene.world.step(scene.ingestion).again_ms == 250


def test_a_bug_of_a_connector_fails_the_source_only(scene: Scene) -> None:
    scene.upstream.fault = ValueError("what is this")
    assert scene.world.step(scene.ingestion).is_over
    assert "internal error" in str(scene.ingestion.status.error)


@pytest.mark.semantics(105)
def test_a_finished_source_ends_its_collections(scene: Scene) -> None:
    scene.upstream.is_final = True
    scene.step()
    outcome = scene.world.step(scene.ingestion)
    assert outcome.is_over
    assert scene.ingestion.status.health is Health.FINISHED
    assert [scene.world.upper(c) for c in scene.description.collections] == [None, None]
    assert scene.world.contents(scene.description.remap, scene.world.now) == Counter()
    assert scene.world.contents(scene.data, 10**9).total() == 5
    scene.restart()
    assert scene.world.step(scene.ingestion).is_over
    assert scene.ingestion.status.health is Health.FINISHED


def test_statistics(scene: Scene) -> None:
    scene.step()
    statistics = scene.ingestion.report().statistics
    assert (statistics.messages, statistics.updates) == (5, 5)
    assert (statistics.offsets_known, statistics.offsets_committed) == (5, 5)
    assert statistics.bytes > 0
    assert statistics.lag_ms == 0
    scene.world.now += 700
    assert scene.ingestion.report().statistics.lag_ms == 700


def test_a_stopped_source_does_nothing(scene: Scene) -> None:
    scene.ingestion.stop()
    assert scene.world.step(scene.ingestion).is_over
    assert scene.upstream.reads == []
    assert scene.ingestion.status.health is Health.STARTING


def test_times_never_go_back_with_the_clock(scene: Scene) -> None:
    first = scene.step()
    assert first is not None
    scene.world.now -= 500_000
    scene.upstream.partitions[0].append("x")
    second = scene.world.ingestion
    del second
    assert scene.world.step(scene.ingestion, later_ms=0).changed_at == first + 1
    assert scene.world.step(scene.ingestion, later_ms=0).changed_at is None


def test_what_is_wrong_without_a_place_for_it_fails_the_source() -> None:
    """A source whose outputs have no errors beside them can not go on with one."""
    text = MessageDefinition(origin='topic "t"', value=TextDefinition())
    world = RecordWorld({"t": text})
    without = dataclasses.replace(world.description, errors={})
    ingestion = world.world.ingestion(without, world.kinds)
    world.upstream.append("t", (None, b"fine"), (None, b"\xff"))
    world.world.step(ingestion)
    assert ingestion.status.health is Health.FAILED
    error = ingestion.status.error
    assert isinstance(error, SourceFault)
    assert error.message.startswith('can not read the value of topic "t", partition 0, offset 1')
    assert error.detail == "It is at partition t/0, offset 1."


def test_a_source_that_has_no_partition_yet_outlives_a_restart() -> None:
    world = RecordWorld({"t": MessageDefinition(origin="t", value=TextDefinition())})
    world.step()
    world.restart()
    world.step()
    world.upstream.append("t", (None, b"first"))
    world.restart()
    world.step()
    assert world.rows("t", world.now) == {("first",): 1}


def test_what_hinders_a_part_is_shown_while_the_rest_goes_on(scene: Scene) -> None:
    scene.upstream.hindrance = TransientFault("partition 1 is slow")
    first = scene.step()
    assert scene.stamped() == dict.fromkeys("abcde", first)
    assert scene.ingestion.status.health is Health.STALLED
    assert str(scene.ingestion.status.error) == "partition 1 is slow"
    assert scene.upstream.committed  # the connector is not dropped
    scene.upstream.hindrance = None
    scene.step()
    assert scene.ingestion.status.health is Health.RUNNING


def test_lag_counts_what_upstream_says_of_it(scene: Scene) -> None:
    scene.step()
    before = scene.ingestion.report().statistics.lag_ms
    scene.upstream.behind_ms = 60_000
    outcome = scene.world.step(scene.ingestion)
    assert outcome.again_ms == 0  # there is more, although nobody knows how much
    scene.upstream.hindrance = TransientFault("slowly")
    assert scene.world.step(scene.ingestion).again_ms is None
    after = scene.ingestion.report().statistics.lag_ms
    assert before is not None
    assert after is not None
    assert after >= 60_000 > before
