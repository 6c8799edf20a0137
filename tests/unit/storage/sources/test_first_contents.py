"""A source that begins with what is upstream already: it is never found empty."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.ingestion import Ingestion
from waterclock.storage.sources.status import Health
from waterclock.testing.source_world import (
    KIND,
    OUTPUT,
    ROWS,
    Crash,
    SourceWorld,
    Upstream,
    unreachable,
)

FIRST = Counter({("a",): 1, ("b",): 1, ("e",): 1})


class Scene:
    def __init__(self) -> None:
        self.world = SourceWorld()
        self.created = self.world.now
        self.upstream = Upstream({0: ["a", "b"], 1: ["e"]})
        self.description = self.world.create(KIND, b"", KAFKA.schema, {OUTPUT: ROWS})
        self.data = self.description.outputs[OUTPUT]
        self.ingestion = self.started()

    def started(self) -> Ingestion:
        kind = replace(self.upstream.kind(), begins_with_contents=True)
        return self.world.ingestion(self.description, {KIND: kind})

    def restart(self) -> None:
        self.world.open()
        self.ingestion = self.started()


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_the_first_contents_are_at_the_first_time(scene: Scene) -> None:
    assert scene.world.upper(scene.data) == scene.created
    assert scene.world.step(scene.ingestion).changed_at == scene.created
    assert scene.world.contents(scene.data, scene.created) == FIRST
    scene.upstream.partitions[0].append("c")
    scene.world.step(scene.ingestion)
    assert scene.world.contents(scene.data, scene.created) == FIRST
    assert scene.world.contents(scene.data, scene.world.now) == FIRST + Counter([("c",)])


@pytest.mark.semantics(151)
def test_a_crash_after_they_were_bound(scene: Scene) -> None:
    scene.world.crash_at = lambda writes: writes[0].capability.id == scene.data
    with pytest.raises(Crash):
        scene.world.step(scene.ingestion)
    assert scene.world.upper(scene.data) == scene.created
    scene.upstream.partitions[1].append("late")
    scene.restart()
    scene.world.step(scene.ingestion)
    assert scene.world.contents(scene.data, scene.created) == FIRST
    assert scene.world.contents(scene.data, scene.world.now) == FIRST + Counter([("late",)])


def test_a_crash_before_they_were_bound(scene: Scene) -> None:
    scene.world.crash_at = lambda writes: writes[0].capability.id == scene.description.remap
    with pytest.raises(Crash):
        scene.world.step(scene.ingestion)
    scene.upstream.partitions[1].append("late")
    scene.restart()
    scene.world.step(scene.ingestion)
    assert scene.world.contents(scene.data, scene.created) == FIRST + Counter([("late",)])


def test_nothing_can_be_read_while_they_are_not_there(scene: Scene) -> None:
    scene.upstream.fault = unreachable()
    for _ in range(3):
        scene.world.step(scene.ingestion)
        assert scene.ingestion.status.health is Health.STALLED
    assert scene.world.upper(scene.data) == scene.created
    scene.upstream.fault = None
    scene.world.step(scene.ingestion)
    assert scene.world.contents(scene.data, scene.created) == FIRST
    assert scene.ingestion.statistics.first_rows_read == 3
