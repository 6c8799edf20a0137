"""The loop over all sources: each at its own pace, none held up by another."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator

import pytest

from waterclock.model.ids import GlobalId
from waterclock.persist.errors import Unavailable
from waterclock.persist.notes import Notes
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources import loop
from waterclock.storage.sources.api import Connector, Kind, Probe, SourceDescription, Surroundings
from waterclock.storage.sources.errors import UnknownKind
from waterclock.storage.sources.ledger import STATES
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.status import Health
from waterclock.testing.source_world import KIND, OUTPUT, ROWS, SourceWorld, Upstream, unreachable


def wait_until(condition) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.005)


class Stage:
    """Sources that run by themselves."""

    def __init__(self) -> None:
        self.world = SourceWorld()
        self.kinds: dict[str, Kind] = {}
        self.changed: list[int] = []
        self.can_note = True
        self.wrote: list[int] = []
        self.rest_s = 0.0
        self.loop = Ingestions(
            self.world.storage,
            self.world.store,
            self.kinds,
            Surroundings(lambda: time.time_ns() // 1_000_000, state_folder=self.world.state_folder),
            self.world.holds.take,
            interval_ms=20,
            changed=self.note_change,
            delay_s=self.delay_s,
        )

    def note_change(self, time: int) -> None:
        """The contents have changed."""
        if not self.can_note:
            raise Unavailable("the store does not answer")
        self.changed.append(time)

    def delay_s(self, collections: Collection[GlobalId], rows: int) -> float:
        """How long a source is to rest after it wrote so many rows."""
        assert collections
        self.wrote.append(rows)
        return self.rest_s

    def add(self, upstream: Upstream, kind: Kind | None = None) -> SourceDescription:
        name = f"{KIND}{len(self.kinds)}"
        self.kinds[name] = kind or upstream.kind()
        description = self.world.create(name, b"", KAFKA.schema, {OUTPUT: ROWS})
        self.loop.add(description)
        return description

    def count(self, description: SourceDescription) -> int:
        return len(self.world.updates(description.outputs[OUTPUT]))

    def health(self, source: GlobalId) -> Health:
        [found] = [each for each in self.loop.reports() if each.id == source]
        return found.status.health


@pytest.fixture
def stage() -> Iterator[Stage]:
    made = Stage()
    yield made
    made.loop.close()


def test_state_on_disk_goes_with_its_source(stage: Stage) -> None:
    kept, dropped = stage.add(Upstream({0: ["a"]})), stage.add(Upstream({0: ["b"]}))
    folder = stage.world.state_folder
    outputs = [str(source.outputs[OUTPUT]) for source in (kept, dropped)]
    notes = Notes(stage.world.store, STATES)
    for name in [*outputs, "u999"]:
        (folder / name / "state").mkdir(parents=True)
        notes.put(name, b"record")
    stage.world.store.commit(stage.loop.removal([dropped.id]))
    stage.loop.remove(dropped.id)
    wait_until(lambda: not (folder / outputs[1]).exists())
    assert notes.all().keys() == {outputs[0], "u999"}
    stage.loop.remove_strays()
    assert [path.name for path in folder.iterdir()] == [outputs[0]]


def test_sources_run_until_they_are_removed(stage: Stage) -> None:
    upstream = Upstream({0: ["a"]})
    source = stage.add(upstream)
    wait_until(lambda: stage.count(source) == 1)
    upstream.partitions[0].append("b")
    wait_until(lambda: stage.count(source) == 2)
    wait_until(lambda: len(stage.changed) == 2)
    stage.world.store.commit(stage.loop.removal([source.id]))
    stage.loop.remove(source.id)
    stage.loop.remove(source.id)
    assert stage.loop.reports() == ()
    assert stage.world.upper(source.remap) is None


def test_a_source_that_hangs_holds_up_no_other(stage: Stage) -> None:
    let_go = threading.Event()
    hanging = Upstream({0: ["a"]})
    kind = hanging.kind()

    def opened(definition: bytes, surroundings: Surroundings) -> Connector:
        connector = kind.open(definition, surroundings)
        probe = connector.probe

        def hangs() -> Probe:
            assert let_go.wait(600)
            return probe()

        connector.probe = hangs  # type: ignore[method-assign]
        return connector

    stuck = stage.add(hanging, Kind(kind.progress, opened, kind.envelope))
    stalled = stage.add(Upstream({0: ["x"]}, fault=unreachable()))
    upstream = Upstream({0: []})
    well = stage.add(upstream)
    for number in range(5):
        upstream.partitions[0].append(f"m{number}")
        wait_until(lambda wanted=number + 1: stage.count(well) == wanted)
    assert stage.health(stuck.id) is Health.STARTING
    assert stage.health(stalled.id) is Health.STALLED
    let_go.set()
    wait_until(lambda: stage.count(stuck) == 1)


def test_a_failed_source_is_found_by_its_collections(stage: Stage) -> None:
    upstream = Upstream({0: ["a", "b"]})
    source = stage.add(upstream)
    wait_until(lambda: stage.count(source) == 2)
    assert stage.loop.failed(source.collections) is None
    upstream.partitions[0].pop()
    wait_until(lambda: stage.health(source.id) is Health.FAILED)
    found = stage.loop.failed([source.outputs[OUTPUT]])
    assert found is not None
    assert found.id == source.id
    assert stage.loop.failed([GlobalId.user(9999)]) is None


def test_the_bell_lets_resting_sources_look_at_once(stage: Stage) -> None:
    upstream = Upstream({0: []})
    name = f"{KIND}slow"
    stage.kinds[name] = upstream.kind()
    made = stage.world.create(name, b"", KAFKA.schema, {OUTPUT: ROWS})
    slow = SourceDescription(
        made.id, made.name, made.kind, made.definition, made.remap, made.outputs, 600_000
    )
    stage.loop.add(slow)
    wait_until(lambda: stage.health(slow.id) is Health.RUNNING)
    upstream.partitions[0].append("a")
    stage.loop.wake()
    wait_until(lambda: stage.count(slow) == 1)


def test_a_source_rests_when_views_are_behind(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever waits for it does not wake it either, and other sources go on."""
    monkeypatch.setattr(loop, "_LONGEST_REST_S", 600.0)
    stage.rest_s = 600.0
    upstream, other = Upstream({0: ["a", "b"]}), Upstream({0: []})
    resting, well = stage.add(upstream), stage.add(other)
    wait_until(lambda: stage.wrote == [2])
    stage.rest_s = 0.0
    upstream.partitions[0].append("c")
    for number in range(3):
        stage.loop.wake()
        other.partitions[0].append(f"m{number}")
        wait_until(lambda wanted=number + 1: stage.count(well) == wanted)
    assert stage.count(resting) == 2
    assert stage.wrote == [2, 1, 1, 1]


def test_a_change_that_could_not_be_told_is_told_later(stage: Stage) -> None:
    stage.can_note = False
    upstream = Upstream({0: ["a"]})
    source = stage.add(upstream)
    wait_until(lambda: stage.count(source) == 1)
    found = stage.loop.ask(source.id, 0, wants_head=True).result(60)  # answered all the same
    assert found.head is not None
    assert stage.changed == []
    stage.can_note = True
    wait_until(lambda: stage.changed == [found.bound_at])


def test_unknown_kinds_are_refused(stage: Stage) -> None:
    made = stage.world.create("telegraph", b"", KAFKA.schema, {OUTPUT: ROWS})
    with pytest.raises(UnknownKind):
        stage.loop.add(made)
