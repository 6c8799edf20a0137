"""Load generators as sources: at every binding the contents are what the ticks add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from waterclock.storage.api import Write
from waterclock.storage.reclock.shape import LOAD_GENERATOR
from waterclock.storage.sources.generators.api import Generator, Options
from waterclock.storage.sources.generators.connector import KIND, NAME, encoded, generator_of
from waterclock.storage.sources.status import Health
from waterclock.testing.source_world import Crash, SourceWorld

OPTIONS = {
    "counter": {"cardinality": 3},
    "auction": {"maximum": 130},
    "bank": {"maximum": 250},
    "tpch": {"scale": 0.001, "maximum": 60},
}


def expected(generator: Generator, output: str, offset: int) -> Counter[tuple[Any, ...]]:
    """What all ticks before the offset add up to."""
    found: Counter[tuple[Any, ...]] = Counter()
    for piece in generator.pieces(0, offset):
        if piece.output == output:
            batch = generator.make(output, piece.first, piece.last)
            *columns, _, diffs = (column.to_pylist() for column in batch.columns)
            for row, diff in zip(zip(*columns, strict=True), diffs, strict=True):
                found[row] += diff
    return Counter({row: count for row, count in found.items() if count})


@pytest.mark.semantics(109, 114, 151)
@pytest.mark.parametrize("kind", OPTIONS)
def test_contents_at_every_binding(kind: str) -> None:
    world = SourceWorld()
    more: dict[str, Any] = OPTIONS[kind]
    options = Options(kind=kind, tick_ms=100, created_ms=world.now, seed=3, **more)
    generator = generator_of(options)
    source = world.create(NAME, encoded(options), LOAD_GENERATOR.schema, generator.outputs)
    ingestion = world.ingestion(source, {NAME: KIND})
    outputs = set(source.outputs.values())

    def writes_data(writes: Sequence[Write]) -> bool:
        return any(w.capability.id in outputs and w.updates is not None for w in writes)

    times, crashes = [], 0
    for later in (50, 130, 900, 40, 8000, 17_000):
        if later in (900, 8000):  # after the binding, before its data is there
            world.crash_at = writes_data
        try:
            world.step(ingestion, later_ms=later)
        except Crash:
            crashes += 1
            world.open()
            ingestion = world.ingestion(source, {NAME: KIND})
            world.step(ingestion, later_ms=1)
        times.append(world.now)
    assert crashes == 2
    world.step(ingestion)
    assert (ingestion.status.health is Health.FINISHED) == (generator.ends_at is not None)
    for time in times:
        [(offset,)] = world.contents(source.remap, time) or [(generator.ends_at,)]
        for output, collection in source.outputs.items():
            assert world.contents(collection, time) == expected(generator, output, offset)
