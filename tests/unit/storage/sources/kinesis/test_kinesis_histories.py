"""Whatever happens upstream and here, each record comes once, in order, after those before it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kinesis_fakes import FakeRuntime, FakeStream, Life

from waterclock.storage.reclock.shape import END
from waterclock.storage.sources.aws.errors import Throttled
from waterclock.storage.sources.kinesis.shards import Shard
from waterclock.storage.sources.kinesis.stream import IteratorExpired
from waterclock.testing.examples import examples


@pytest.mark.semantics(151, 164, 173)
@given(seed=st.integers(0, 2**32))
@examples(150)
def test_a_random_history(seed: int) -> None:
    pick = Random(seed)
    stream = FakeStream(FakeRuntime(), pick.choice([1, 10**55, 10**128]), pick.randint(1, 4))
    expected: dict[str, list[str]] = {}
    parents: dict[str, tuple[str, ...]] = {}
    for n in range(pick.randint(1, 3)):
        stream.add(Shard(f"s{n}"))
        parents[f"s{n}"] = ()
    life: Life | None = None
    for turn in range(pick.randint(5, 40)):
        if life is None and pick.random() < 0.3:
            life = Life(stream)
        opened = [shard for shard, held in stream.held.items() if not held.is_closed]
        match pick.randrange(9):
            case 0 | 1 | 2:
                shard = pick.choice(opened)
                values = [f"{turn}.{n}" for n in range(pick.randint(1, 6))]
                stream.put(shard, *values)
                expected.setdefault(shard, []).extend(values)
            case 3:
                shard, children = pick.choice(opened), (f"s{turn}a", f"s{turn}b")
                stream.split(shard, *children)
                parents |= dict.fromkeys(children, (shard,))
            case 4 if len(opened) > 1:
                first, second = pick.sample(opened, 2)
                stream.merge(first, second, f"s{turn}m")
                parents[f"s{turn}m"] = (first, second)
            case 5:
                stream.runtime.now_s += pick.choice([1, 60, 400])
            case 6 if life is not None:
                life.open()
            case 7 if life is not None:
                shard = pick.choice(opened)
                stream.faults[shard] = [pick.choice([Throttled("slowly"), IteratorExpired()])]
            case _ if life is not None:
                try:
                    life.step(dies=pick.random() < 0.4)
                except (Throttled, IteratorExpired):  # the ingestion opens the connector again
                    life.open()
    life = life or Life(stream)
    stream.faults.clear()
    life.settle()
    came: dict[str, list[str]] = {}
    first_of: dict[str, int] = {}
    last_of: dict[str, int] = {}
    for (shard, _, value), time in zip(life.rows, life.times, strict=True):
        came.setdefault(shard, []).append(value)
        first_of.setdefault(shard, time)
        last_of[shard] = time
    assert came == expected
    for child, found in parents.items():
        for parent in found:
            if child in first_of and parent in last_of:
                assert last_of[parent] < first_of[child]
    bound = life.bound.uppers
    for shard, held in stream.held.items():
        assert (bound[shard] == END) == held.is_closed
        assert len({number for name, number, _ in life.rows if name == shard}) == len(held.records)
