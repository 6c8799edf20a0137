"""Shards stay small, readers notice nothing, and no blob is deleted too early or kept for ever."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from waterclock.model.schema import Array, Column, Int, Schema, Text
from waterclock.persist import compaction, parts, spill
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.blob.unreliable import UnreliableBlob
from waterclock.persist.compaction import FEWEST_TINY, merge, mergeable
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.errors import Unavailable
from waterclock.persist.inline import INLINE_ROWS
from waterclock.persist.maintenance import LOOKS, Maintenance, checkpoint
from waterclock.persist.records import Batch, Part, encode_entry
from waterclock.persist.retry import Retry
from waterclock.persist.rows import update_schema, updates
from waterclock.persist.state import State
from waterclock.persist.store import Store, new_key
from waterclock.testing.persist_world import (
    NUMBERS,
    append,
    batches_of,
    contents,
    create,
    move_since,
    numbers,
    open_store,
    snapshot_batches,
)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as store:
        yield store


def of_rows(number: int, rows: int, *, low: int = 0, high: int = 0, signed: bool = False) -> Batch:
    return Batch(number, low, high, signed, (Part(rows, rows, key=f"k{number}"),))


def many(count: int, time: int, diff: int = 1, start: int = 0) -> pa.Table:
    """Updates of the numbers from `start` on, all at one time."""
    n = np.arange(start, start + count)
    return pa.table([n, n * 0 + time, n * 0 + diff], schema=update_schema(NUMBERS))


def listed(store: Store) -> set[str]:
    return set(store.blob.list(""))


def pinned_keys(store: Store) -> set[str]:
    with store._lock:
        return set(store._live_pins())


def referenced(store: Store) -> set[str]:
    return store.read(State.referenced)


# Which batches


@pytest.mark.parametrize("largest_append", [1, 50, 3000])
def test_few_batches_remain_and_each_row_is_rewritten_rarely(largest_append: int) -> None:
    random = Random(largest_append)
    batches: dict[int, Batch] = {}
    total = rewritten = 0
    most = 0
    for number in range(3000):
        rows = random.randint(1, largest_append)
        batches[number] = of_rows(number, rows)
        total += rows
        while chosen := mergeable(batches.values(), 0):
            rows = sum(batch.rows for batch in chosen)
            rewritten += rows
            for batch in chosen:
                del batches[batch.id]
            batches[10_000 + number] = of_rows(10_000 + number, rows)
            assert len(batches) == 1 or len(chosen) > 1
        most = max(most, len(batches))
    assert most <= FEWEST_TINY + 2 * math.log2(total)
    assert rewritten <= 2 * total * math.log2(total)


def test_large_batches_without_peers_are_left_alone() -> None:
    batches = [of_rows(0, 1_000_000), of_rows(1, 10), of_rows(2, 10), of_rows(3, 10)]
    assert mergeable(batches, 0) == []
    assert mergeable([*batches, of_rows(4, 5000)], 0) == []
    similar = [of_rows(number, 2000) for number in range(10, 14)]
    assert set(mergeable([*batches, *similar], 0)) == {*batches[1:], *similar}
    assert set(mergeable([of_rows(0, 1_000_000), *similar], 0)) == set(similar)


def test_tiny_batches_are_merged_when_they_are_many() -> None:
    tiny = [of_rows(number, 1) for number in range(FEWEST_TINY)]
    assert mergeable(tiny[:-1], 0) == []
    assert len(mergeable(tiny, 0)) == FEWEST_TINY


def test_what_may_cancel_is_rewritten_once_since_has_passed() -> None:
    batch = of_rows(1, 10_000, low=3, high=8, signed=True)
    assert mergeable([batch], 7) == []
    assert mergeable([batch], 8) == [batch]
    assert mergeable([of_rows(1, 10_000, low=8, high=8, signed=True)], 8) == []
    assert mergeable([of_rows(1, 10_000, low=3, high=8)], 8) == []
    assert mergeable([of_rows(1, 10, low=3, high=8, signed=True)], 8) == []


def test_deletions_meet_what_they_delete() -> None:
    inserted = of_rows(1, 20_000, low=1, high=1)
    deleted = of_rows(2, 10_000, low=2, high=2, signed=True)
    assert mergeable([inserted, deleted], 1) == []
    assert mergeable([inserted, deleted], 2) == [deleted, inserted]
    few = of_rows(3, 1_000, low=2, high=2, signed=True)
    assert mergeable([inserted, few], 2) == []


def test_an_unreadable_shard_loses_everything() -> None:
    batches = [of_rows(0, 1_000_000), of_rows(1, 1)]
    assert set(mergeable(batches, None)) == set(batches)
    assert mergeable([], None) == []


# Merging


@pytest.mark.semantics(28, 32)
def test_a_merge_replaces_exactly_what_it_read(store: Store) -> None:
    create(store, "s")
    for time in range(4):
        append(store, "s", time + 1, many(2000, time, start=1000 * time))
    append(store, "s", 5, many(1000, 4, -1))
    move_since(store, "s", 3)
    old = referenced(store)
    before = contents(store, "s", 4)
    assert list(merge(store, "s"))
    [batch] = batches_of(store, "s")
    assert (batch.min_time, batch.max_time, batch.signed) == (3, 4, True)
    assert batch.rows == 5000 - 1000 + 1000 + 1000
    assert contents(store, "s", 4) == before
    assert store.read(lambda state: state.garbage) == old
    assert store.read(lambda state: state.shards["s"].upper) == 5
    assert store.read(lambda state: state.shards["s"].since) == 3


def test_batches_that_cancel_leave_nothing(store: Store) -> None:
    create(store, "s")
    for time in range(4):
        append(store, "s", time + 1, many(2000, time, 1 if time % 2 else -1))
    move_since(store, "s", 3)
    Maintenance(store).run()
    assert batches_of(store, "s") == ()
    assert listed(store) == set()
    assert contents(store, "s", 3) == {}


@pytest.mark.semantics(32)
def test_an_update_that_changes_nothing_is_not_shown(store: Store) -> None:
    create(store, "s")
    append(store, "s", 1, numbers([(1, 0, 0), (2, 0, 1)]))
    append(store, "s", 2, pa.concat_tables([many(2000, 1, 0), many(2000, 1, 1, start=10)]))
    assert all(batch.signed for batch in batches_of(store, "s"))
    assert contents(store, "s", 1) == {(2,): 1} | {(n,): 1 for n in range(10, 2010)}


def test_rows_that_have_no_order_are_merged_too(store: Store) -> None:
    schema = Schema((Column("a", Array(Int(64))), Column("t", Text())))
    create(store, "s", schema)
    for time in range(4):
        rows = [(([n, None], f"{n % 10}"), time, 1) for n in range(1500)]
        append(store, "s", time + 1, updates(schema, rows))
    move_since(store, "s", 3)
    Maintenance(store).run()
    [batch] = batches_of(store, "s")
    assert batch.rows == 1500
    assert set(contents(store, "s", 3).values()) == {4}


def test_appends_made_during_a_merge_are_kept(store: Store) -> None:
    create(store, "s")
    for time in range(4):
        append(store, "s", time + 1, many(2000, time))
    steps = merge(store, "s")
    next(steps)
    append(store, "s", 10, many(500, 9, start=5000))
    move_since(store, "s", 9)
    list(steps)
    assert len(batches_of(store, "s")) == 2
    found = contents(store, "s", 9)
    assert sum(found.values()) == 8500
    assert len(found) == 2500


def test_a_large_merge_goes_in_bounded_steps(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "STEP_ROWS", 1000)
    monkeypatch.setattr(spill, "IN_MEMORY_ROWS", 1000)
    monkeypatch.setattr(parts, "GROUP_ROWS", 500)
    create(store, "s")
    for time in range(4):
        append(store, "s", time + 1, many(2000, time))
    maintenance = Maintenance(store)
    steps = 0
    while maintenance.step():
        steps += 1
        if steps < 10:
            append(store, "s", 10 + steps, numbers([(-steps, 9 + steps, 1)]))
    assert steps > 12
    found = contents(store, "s", 3)
    assert len(found) == 2000
    assert set(found.values()) == {4}
    assert len(contents(store, "s", 40)) == 2009
    assert max(batch.rows for batch in batches_of(store, "s")) >= 8000


def test_maintenance_merges_until_nothing_is_left_to_merge(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.persist.compaction.TINY_ROWS", 1)
    create(store, "s")
    for time in range(0, 6, 2):
        append(store, "s", time + 2, numbers([(1, time, 1), (1, time + 1, -1), (2, time, 1)]))
    move_since(store, "s", 5)
    maintenance = Maintenance(store)
    maintenance.run()
    assert [batch.rows for batch in batches_of(store, "s")] == [1]
    assert not list(merge(store, "s"))
    assert not maintenance.step()
    assert contents(store, "s", 5) == {(2,): 3}


def test_merges_take_turns(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step takes one of them further, and all of them come to an end at about the same time."""
    monkeypatch.setattr(compaction, "STEP_ROWS", 1000)
    monkeypatch.setattr(parts, "GROUP_ROWS", 500)
    shards = [f"s{n}" for n in range(LOOKS + 3)]
    for shard in shards:
        create(store, shard)
        for time in range(4):
            append(store, shard, time + 1, many(2000, time))
    maintenance = Maintenance(store)
    ended: dict[str, int] = {}
    step = 0
    while maintenance.step():
        step += 1
        new = [s for s in shards if s not in ended and len(batches_of(store, s)) == 1]
        assert len(new) <= 1
        ended |= dict.fromkeys(new, step)
    assert ended.keys() == set(shards)
    assert min(ended.values()) > step // 2
    assert not maintenance._merges


def test_a_shard_that_is_written_to_all_the_time_is_looked_at_once_in_a_round(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is an end to the work although there is none to the writing."""
    looked: list[int] = []

    def unmergeable(batches: Iterable[Batch], _: object) -> list[Batch]:
        looked.append(len(list(batches)))
        return []

    monkeypatch.setattr(compaction, "mergeable", unmergeable)
    maintenance = Maintenance(store)
    shards = [f"s{n:02}" for n in range(LOOKS + 1)]
    for shard in shards:
        create(store, shard)
    worked = []
    for time in (1, 2):
        for shard in shards:
            append(store, shard, time, numbers([(1, time - 1, 1)]))
        worked.append(maintenance.step())
    assert worked == [True, False]
    assert looked == [1] * LOOKS + [2], "one step does not look at more"
    maintenance.run()
    assert looked[len(shards) :] == [2] * len(shards), "the next round sees what came meanwhile"


def test_a_merge_that_failed_is_tried_again() -> None:
    blob = UnreliableBlob(MemoryBlob(), 3, 1.0)
    with blob.reliable(), open_store(blob, retry=Retry(2, sleep=lambda _: None)) as store:
        create(store, "s")
        for time in range(4):
            append(store, "s", time + 1, many(2000, time))
        move_since(store, "s", 3)
        maintenance = Maintenance(store)
        maintenance._unlisted = False
        blob._faults._reliable_depth = 0
        for _ in range(3):
            with pytest.raises(Unavailable):
                maintenance.step()
        blob._faults._reliable_depth = 1
        maintenance.run()
        assert len(batches_of(store, "s")) == 1
        assert listed(store) == referenced(store)
        assert set(contents(store, "s", 3).values()) == {4}
        assert pinned_keys(store) == set()
        assert not store._writing


# Deleting


@pytest.mark.semantics(40)
def test_a_shard_that_nobody_can_read_loses_its_blobs(store: Store) -> None:
    create(store, "s")
    for time in range(3):
        append(store, "s", time + 1, many(INLINE_ROWS + 1, time))
    Maintenance(store).run()
    assert len(listed(store)) == 3
    move_since(store, "s", None)
    Maintenance(store).run()
    assert batches_of(store, "s") == ()
    assert listed(store) == set()
    append(store, "s", 4, many(INLINE_ROWS + 1, 3))
    Maintenance(store).run()
    assert listed(store) == set()


@pytest.mark.semantics(28)
def test_a_reader_in_the_middle_keeps_its_blobs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "GROUP_ROWS", 100)
    create(store, "s")
    for time in range(4):
        append(store, "s", time + 1, many(2000, time, start=2000 * time))
    old = listed(store)
    reading = snapshot_batches(store, "s", 3)
    rows = next(reading).num_rows
    move_since(store, "s", 3)
    maintenance = Maintenance(store)
    maintenance.run()
    assert len(batches_of(store, "s")) == 1
    assert old < listed(store)
    rows += sum(batch.num_rows for batch in reading)
    assert rows == 8000
    maintenance.run()
    assert listed(store) == referenced(store)
    assert not old & listed(store)


def test_a_reader_that_leaves_early_lets_go(store: Store) -> None:
    create(store, "s")
    for time in range(4):
        append(store, "s", time + 1, many(2000, time))
    for _ in range(30):
        reading = snapshot_batches(store, "s", 3)
        next(reading)
        reading.close()  # type: ignore[attr-defined]
        assert pinned_keys(store) == set()


@pytest.mark.semantics(43)
def test_orphans_of_a_crash_are_swept_on_opening() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    with open_store(blob, consensus) as store:
        create(store, "s")
        append(store, "s", 1, many(INLINE_ROWS + 1, 0))
        kept = listed(store)
        lost = new_key("shard/s", store.epoch, ".parquet")
    blob.put(lost, b"half a batch")
    blob.put("not-ours/readme", b"")
    foreign = new_key("shard/s", 99, ".parquet")
    blob.put(foreign, b"of a later owner")
    with open_store(blob, consensus) as store:
        Maintenance(store).run()
        assert listed(store) == kept | {foreign, "not-ours/readme"}
        assert len(contents(store, "s", 0)) == INLINE_ROWS + 1


def test_what_a_refused_command_wrote_is_swept(store: Store) -> None:
    create(store, "s")
    maintenance = Maintenance(store)
    maintenance.run()
    store.blob.put("shard/s/1-abc", b"x")
    with pytest.raises(KeyError), store.writing("shard/s/1-abc"):
        raise KeyError
    maintenance.run()
    assert listed(store) == set()


def test_garbage_is_swept_in_small_portions(store: Store) -> None:
    create(store, "s")
    for time in range(100):
        append(store, "s", time + 1, many(INLINE_ROWS + 1, time))
    move_since(store, "s", None)
    maintenance = Maintenance(store)
    maintenance.step()
    assert len(listed(store)) == 100 - 64
    maintenance.run()
    assert listed(store) == set()
    assert store.read(lambda state: state.garbage) == set()


# The log


@pytest.mark.semantics(43)
def test_a_long_log_is_cut_and_reopens_the_same() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    with open_store(blob, consensus) as store:
        maintenance = Maintenance(store, checkpoint_bytes=10_000)
        create(store, "s")
        cuts = set()
        for time in range(200):
            append(store, "s", time + 1, numbers([(time, time, 1)]))
            maintenance.step()
            cuts.add(store.read(lambda state: state.checkpoint))
        maintenance.run()
        assert len(cuts) > 3
        assert len(list(consensus.read(1))) < 100
        assert len(list(blob.list("checkpoint/"))) == 1
        expected = store.read(lambda state: state.shards)["s"].record()
    with open_store(blob, consensus) as store:
        assert store.read(lambda state: state.shards["s"].record()) == expected
        assert contents(store, "s", 199) == {(n,): 1 for n in range(200)}
        Maintenance(store).run()
        assert len(list(blob.list("checkpoint/"))) == 1


def test_a_checkpoint_that_was_never_committed_is_an_orphan() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    with open_store(blob, consensus) as store:
        checkpoint(store)
        checkpoint(store)
    blob.put("checkpoint/1-77", b"crashed before its commit")
    with open_store(blob, consensus) as store:
        Maintenance(store).run()
        assert listed(store) == {store.read(lambda state: state.checkpoint)}


def test_logged_bytes_are_the_bytes_of_the_log(store: Store) -> None:
    before = store.logged_bytes
    create(store, "s")
    assert store.logged_bytes > before
    assert store.logged_bytes - before < 1000 + len(encode_entry([]))


# Memory


def test_a_snapshot_takes_the_memory_of_some_batches_not_of_the_shard(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "GROUP_ROWS", 8 * 1024)
    monkeypatch.setitem(parts.PARQUET_WRITE, "row_group_size", 8 * 1024)
    create(store, "s")
    total = 0
    for time in range(16):
        table = many(50_000, time, start=50_000 * time)
        total += table.nbytes
        append(store, "s", time + 1, table)
    del table
    before = pa.total_allocated_bytes()
    peak = rows = 0
    for batch in snapshot_batches(store, "s", 15):
        rows += batch.num_rows
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert rows == 800_000
    assert peak < total / 4
