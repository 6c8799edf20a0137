"""What storage has of a source: reclocked data, one shard of bindings, nothing in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.state import State
from waterclock.storage.api import Write
from waterclock.storage.reclock.remap import Remap, RemapUpdate
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.ingestion import Ingestion
from waterclock.testing.examples import examples
from waterclock.testing.increments import Increment, increments
from waterclock.testing.source_world import KIND, OUTPUT, ROWS, SourceWorld, Upstream


class Scene:
    """A source over an upstream with some partitions."""

    def __init__(self, **partitions: list[str]) -> None:
        self.world = SourceWorld()
        self.upstream = Upstream({int(name[1:]): texts for name, texts in partitions.items()})
        self.description = self.world.create(KIND, b"", KAFKA.schema, {OUTPUT: ROWS})
        self.data = self.description.outputs[OUTPUT]
        self.ingestion = self.started()

    def started(self) -> Ingestion:
        return self.world.ingestion(self.description, {KIND: self.upstream.kind()})

    def step(self, later_ms: int = 1000) -> int | None:
        return self.world.step(self.ingestion, later_ms=later_ms).changed_at

    def times(self) -> dict[str, int]:
        return {row[0]: time for row, time in self.world.updates(self.data)}

    def remap(self) -> Remap:
        rows = self.world.updates(self.description.remap)
        updates = [
            RemapUpdate(KAFKA._element(row), time, diff) for (row, time), diff in rows.items()
        ]
        return Remap.of_updates(updates, more_may_appear=True)


@pytest.mark.semantics(161, 162)
@examples(25)
@given(st.lists(st.lists(st.integers(0, 300), min_size=2, max_size=2), min_size=1, max_size=4))
def test_any_number_of_events_may_share_a_time(batches: list[list[int]]) -> None:
    """None, one or hundreds: what one binding covers has its time, whatever the partition."""
    scene = Scene(p0=[], p1=[])
    expected: dict[str, int] = {}
    for number, batch in enumerate(batches):
        new = [f"{number}/{p}/{n}" for p, count in enumerate(batch) for n in range(count)]
        for p, count in enumerate(batch):
            scene.upstream.partitions[p] += [f"{number}/{p}/{n}" for n in range(count)]
        time = scene.step()
        assert (time is None) == (not new)
        expected |= {text: time for text in new if time is not None}
    assert scene.times() == expected
    assert len(set(expected.values())) <= len(batches)


@pytest.mark.semantics(110)
def test_nothing_is_stamped_with_an_offset() -> None:
    """Neither in what is shown nor in what is stored; the offsets are in the bindings alone."""
    scene = Scene(p0=[f"m{n}" for n in range(40)], p1=["x"])
    for _ in range(3):
        scene.step()
        scene.upstream.partitions[0] += ["more", "and more"]
        scene.upstream.partitions[0] = [f"m{n}" for n in range(len(scene.upstream.partitions[0]))]
    bound = {binding.time for binding in scene.remap().bindings}

    def look(state: State) -> tuple[set[str], tuple[str, ...], set[int]]:
        shard = state.shards[str(scene.data)]
        times = {t for b in shard.batches.values() for t in (b.min_time, b.max_time)}
        return set(state.shards), shard.schema.names, times

    shards, names, times = scene.world.store.read(look)
    assert shards == {str(scene.data), str(scene.description.remap)}
    assert names == ROWS.names
    assert "offset" not in names
    assert times <= bound, "every update that is stored is at a binding's time"
    assert set(scene.times().values()) <= bound
    assert min(bound) >= 1000, "and those are times of the clock, far beyond all offsets"


@pytest.mark.semantics(120, 165)
def test_bindings_go_straight_into_one_shard() -> None:
    """By an append of the ingestion itself, before what they bind, all partitions in one."""
    scene = Scene(p0=["a", "b"], p1=["c"], p2=["d"])
    written: list[list[tuple[str, int]]] = []

    def watched(writes: Sequence[Write]) -> bool:
        filled = [(w.capability.id, w.updates) for w in writes]
        counts = [(str(each), rows.num_rows) for each, rows in filled if rows is not None]
        written.extend([counts] if counts else [])
        return False

    remap, data = str(scene.description.remap), str(scene.data)
    scene.world.crash_at = watched
    scene.step()
    assert written == [[(remap, 3)], [(remap, 6)], [(data, 4)]], (
        "where it begins, then how far it is"
    )
    written.clear()
    scene.upstream.partitions[1].append("e")
    scene.upstream.partitions[2].append("f")
    scene.step()
    assert written == [[(remap, 4)], [(data, 2)]], "two elements of the frontier out, two in"
    before = scene.remap()
    scene.world.open()
    scene.ingestion = scene.started()
    assert scene.remap() == before
    reads = len(scene.upstream.reads)
    scene.step()
    assert len(scene.upstream.reads) == reads, "what the shard says is bound is not read again"


@pytest.mark.semantics(106, 158, 159)
def test_bindings_add_up_to_increments_before_and_after_compaction() -> None:
    """At milliseconds of the clock; what was bound at two times is one sum when they are one."""
    first, second = 1649686076392, 1649686079487
    world = SourceWorld()
    upstream = Upstream({1: ["m"] * 42, 2: ["m"] * 40})
    description = world.create(KIND, b"", KAFKA.schema, {OUTPUT: ROWS})
    ingestion = world.ingestion(description, {KIND: upstream.kind()})
    world.now = first
    world.step(ingestion, later_ms=0)
    upstream.partitions[1] += ["m"] * 3
    upstream.partitions[2] += ["m"] * 4
    world.step(ingestion, later_ms=second - first)

    def stored() -> list[Increment]:
        found = increments(
            RemapUpdate(KAFKA._element(row), time, diff)
            for (row, time), diff in world.updates(description.remap).items()
        )
        return [each for each in found if each.count]

    given = [(1, first, 42), (2, first, 40), (1, second, 3), (2, second, 4)]
    assert stored() == [Increment(*each) for each in given]
    assert world.holds.capability(description.remap).frontier.timeline == EPOCH_MILLIS
    world.holds.allow_compaction(second)
    while world.storage.maintenance.step():
        pass
    assert world.updates(description.remap)
    assert stored() == [Increment(1, second, 45), Increment(2, second, 44)]
    assert len(world.updates(description.remap)) == 2, "what was taken back is gone"


@pytest.mark.semantics(147, 154)
def test_a_source_without_a_key_counts_equal_rows() -> None:
    scene = Scene(p0=["same", "same"], p1=["same", "other"])
    scene.step()
    scene.upstream.partitions[1].append("same")
    time = scene.step()
    assert time is not None
    assert scene.world.contents(scene.data, time - 1) == Counter({("same",): 3, ("other",): 1})
    assert scene.world.contents(scene.data, time) == Counter({("same",): 4, ("other",): 1})
