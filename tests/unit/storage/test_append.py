"""Append: a window of times becomes known, whole, durably, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

import pyarrow as pa
import pytest

from waterclock.model.errors import (
    ForeignTime,
    FrontierRegression,
    NoProgress,
    UpdateOutsideWindow,
)
from waterclock.model.lattice import EpochMillis
from waterclock.model.timeline import Timeline
from waterclock.persist import compaction
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.errors import Unavailable
from waterclock.persist.inline import INLINE_ROWS
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.rows import DIFF, TIME, WrongColumns
from waterclock.storage.api import ReadCapability, Write, WriteCapability
from waterclock.storage.errors import CapabilityMisstated, CapabilityUnknown, CollectionTwice
from waterclock.testing.storage_world import (
    END,
    TABLE,
    HeldConsensus,
    MemoryWorld,
    World,
    at,
    batch,
    contents,
    drain,
    is_readable,
    many,
    refused,
    shard_in,
    triples_of,
    uppers_of,
    user,
    write,
)

Table = tuple[ReadCapability, WriteCapability]
OTHER: Timeline[int] = Timeline("other clock", EpochMillis())


@pytest.mark.semantics(25, 65)
def test_the_window_becomes_readable_and_the_past_stays(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    [written] = storage.append(write(written, 3, ((1, "a"), 0, 1), ((2, "b"), 2, 1)))
    assert written.frontier == at(3)
    before = [contents(storage, read, time) for time in (0, 1, 2)]
    assert before == [{(1, "a"): 1}, {(1, "a"): 1}, {(1, "a"): 1, (2, "b"): 1}]
    assert not is_readable(storage, read, 3)
    storage.append(write(written, 5, ((3, None), 4, 2)))
    assert [contents(storage, read, time) for time in (0, 1, 2)] == before
    assert contents(storage, read, 3) == before[2]
    assert contents(storage, read, 4) == {**before[2], (3, None): 2}
    shard = shard_in(any_world, user(1))
    assert (shard.since, shard.upper) == (0, 5)


@pytest.mark.semantics(1, 67)
def test_one_append_inserts_deletes_and_updates_whole_rows(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    [written] = storage.append(write(written, 1, ((1, "old"), 0, 1), ((2, "gone"), 0, 1)))
    storage.append(
        write(
            written,
            2,
            ((1, "old"), 1, -1),
            ((1, "new"), 1, 1),
            ((2, "gone"), 1, -1),
            ((3, "added"), 1, 1),
        )
    )
    assert contents(storage, read, 1) == {(1, "new"): 1, (3, "added"): 1}
    seen = triples_of(drain(storage.subscribe_at(read, snapshot=False)))
    assert seen[(1, "old"), 1] == -1, "the whole old row goes"
    assert seen[(1, "new"), 1] == 1, "the whole new row comes"


@pytest.mark.semantics(66)
def test_an_append_of_nothing_is_progress(world: MemoryWorld, table: Table) -> None:
    read, written = table
    [written] = world.storage.append(Write(written, None, at(4)))
    [written] = world.storage.append(Write(written, batch(), at(9)))
    assert contents(world.storage, read, 8) == {}
    assert shard_in(world, user(1)).upper == 9
    assert not shard_in(world, user(1)).batches


@pytest.mark.semantics(66)
def test_an_append_that_stays_where_it_is_is_an_error(world: MemoryWorld, table: Table) -> None:
    _, written = table
    with refused(world, NoProgress):
        world.storage.append(write(written, 0))
    with refused(world, NoProgress):
        world.storage.append(write(written, 0, ((1, "a"), 0, 1)))


@pytest.mark.semantics(65)
@pytest.mark.parametrize("count", [1, INLINE_ROWS + 1])
@pytest.mark.parametrize("outside", [4, 8, 9, 2**63 - 1, -1])
def test_times_outside_the_window_are_refused(
    world: MemoryWorld, table: Table, outside: int, count: int
) -> None:
    [written] = world.storage.append(write(table[1], 5))
    inside = [((k, "in"), 5 + k % 3, 1) for k in range(count)]
    with refused(world, UpdateOutsideWindow) as caught:
        world.storage.append(write(written, 8, *inside, ((-1, "out"), outside, 1)))
    assert "u1" in str(caught[0])
    [written] = world.storage.append(write(written, 8, *inside))
    assert shard_in(world, user(1)).upper == 8


@pytest.mark.semantics(33, 65)
def test_a_frontier_does_not_go_back(world: MemoryWorld, table: Table) -> None:
    [written] = world.storage.append(write(table[1], 5))
    with refused(world, FrontierRegression):
        world.storage.append(write(written, 4))
    assert shard_in(world, user(1)).upper == 5


@pytest.mark.semantics(10)
def test_a_new_frontier_of_another_timeline_is_refused(world: MemoryWorld, table: Table) -> None:
    with refused(world, ForeignTime):
        world.storage.append(Write(table[1], None, OTHER.frontier(1)))
    with refused(world, ForeignTime):
        world.storage.append(Write(table[1], None, OTHER.empty()))


@pytest.mark.semantics(39)
def test_after_the_end_nothing_can_be_written_and_everything_read(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    last = 2**63 - 1
    [ended] = storage.append(write(written, END, ((1, "a"), 0, 1), ((2, "z"), last, 1)))
    assert ended.frontier == END
    for stale in (written, ended):
        with refused(any_world, CapabilityUnknown):
            storage.append(write(stale, 9, ((1, "a"), 8, 1)))
    read2, written2 = storage.acquire_capabilities(user(1))
    assert written2.frontier == END
    with refused(any_world, CapabilityUnknown):
        storage.append(write(written2, 9))
    assert contents(storage, read2, 10**15) == {(1, "a"): 1}
    assert contents(storage, read, last) == {(1, "a"): 1, (2, "z"): 1}


WRONG = {
    "missing column": batch(((1, "a"), 0, 1)).drop_columns("v"),
    "extra column": batch(((1, "a"), 0, 1)).append_column("w", pa.array([1])),
    "other order": batch(((1, "a"), 0, 1)).select(["v", "k", TIME, DIFF]),
    "no time": batch(((1, "a"), 0, 1)).drop_columns(TIME),
    "wrong type": pa.record_batch(
        {"k": pa.array([1], pa.int32()), "v": ["a"], TIME: [0], DIFF: [1]}
    ),
    "wrong type of time": pa.record_batch({"k": [1], "v": ["a"], TIME: [0.0], DIFF: [1]}),
    "null": pa.record_batch(
        {"k": pa.array([1, None]), "v": ["a", "b"], TIME: [0, 0], DIFF: [1, 1]}
    ),
    "null time": pa.record_batch(
        {"k": [1], "v": ["a"], TIME: pa.array([None], pa.int64()), DIFF: [1]}
    ),
    "null diff": pa.table({"k": [1], "v": ["a"], TIME: [0], DIFF: pa.array([None], pa.int64())}),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_updates_must_have_the_columns_of_the_collection(
    world: MemoryWorld, table: Table, wrong: pa.RecordBatch
) -> None:
    with refused(world, WrongColumns):
        world.storage.append(Write(table[1], wrong, at(1)))
    with refused(world, WrongColumns):
        asyncio.run(world.storage.append_async(Write(table[1], wrong, at(1))))
    world.storage.append(write(table[1], 1, ((1, None), 0, 1)))


def test_nullability_is_judged_by_values_and_tables_do_as_well(
    world: MemoryWorld, table: Table
) -> None:
    read, written = table
    loose = pa.table({"k": [1, 2], "v": ["a", None], TIME: [0, 0], DIFF: [1, 1]})
    chunked = pa.concat_tables([loose.slice(0, 1), loose.slice(1, 1)])
    world.storage.append(Write(written, chunked, at(1)))
    assert contents(world.storage, read, 0) == {(1, "a"): 1, (2, None): 1}


# Several collections at once


@pytest.mark.semantics(65)
def test_several_collections_are_written_together_or_not_at_all(any_world: World) -> None:
    storage = any_world.storage
    (read1, write1), (read2, write2) = (storage.create(user(n), TABLE) for n in (1, 2))
    with refused(any_world, UpdateOutsideWindow):
        storage.append(
            Write(write1, many(INLINE_ROWS + 1, 0), at(1)), write(write2, 1, ((1, "a"), 1, 1))
        )
    with refused(any_world, WrongColumns):
        storage.append(write(write1, 1), Write(write2, WRONG["missing column"], at(1)))
    moved = storage.append(
        Write(write1, many(INLINE_ROWS + 1, 0), at(1)), write(write2, 2, ((1, "a"), 1, 1))
    )
    assert [(w.id, w.frontier) for w in moved] == [(user(1), at(1)), (user(2), at(2))]
    assert len(contents(storage, read1, 0)) == INLINE_ROWS + 1
    assert contents(storage, read2, 1) == {(1, "a"): 1}
    entries = any_world.durable().position
    storage.append(write(moved[0], 5), write(moved[1], 5))
    assert any_world.durable().position == entries + 1, "one entry of the log"


def test_one_append_names_a_collection_once(world: MemoryWorld, table: Table) -> None:
    _, written = table
    with refused(world, CollectionTwice):
        world.storage.append(write(written, 1), write(written, 1))
    clone = world.storage.clone_capability(written)
    with refused(world, CollectionTwice):
        world.storage.append(write(written, 1), write(clone, 1))


def test_an_append_of_no_writes_does_nothing(world: MemoryWorld, table: Table) -> None:
    before = world.durable()
    assert world.storage.append() == ()
    assert world.durable() == before
    assert table


def test_blobs_of_a_refused_append_are_swept(world: MemoryWorld, table: Table) -> None:
    with refused(world, UpdateOutsideWindow):
        world.storage.append(Write(table[1], many(1000, 7), at(1)))
    assert list(world.blob.list("shard/"))
    while world.storage.maintain():
        pass
    assert not list(world.blob.list("shard/"))


class BrokenBlob(MemoryBlob):
    broken = False

    def put(self, key: str, data: bytes | pa.Buffer) -> None:
        if self.broken:
            raise Unavailable("disk full")
        super().put(key, data)


@pytest.mark.semantics(26)
def test_a_window_that_could_not_be_stored_is_not_committed() -> None:
    blob = BrokenBlob()
    world = MemoryWorld(blob)
    read, written = world.storage.create(user(1), TABLE)
    blob.broken = True
    with refused(world, Unavailable):
        world.storage.append(Write(written, many(1000, 0), at(1)))
    assert not is_readable(world.storage, read, 0)
    blob.broken = False
    world.storage.append(Write(written, many(1000, 0), at(1)))
    assert len(contents(world.storage, read, 0)) == 1000
    world.storage.close()


@pytest.mark.semantics(23)
def test_only_updates_are_stored(world: MemoryWorld, table: Table) -> None:
    _, written = table
    for time in range(5):
        [written] = world.storage.append(write(written, time + 1, ((time, "x"), time, 1)))
    batches = shard_in(world, user(1)).batches
    assert [b.rows for b in batches] == [1, 1, 1, 1, 1], "each row once, not once per time"


# Several writers


@pytest.mark.semantics(26, 27, 46)
def test_upper_is_held_by_the_writer_behind(any_world: World) -> None:
    storage = any_world.storage
    read, ahead = storage.create(user(1), TABLE)
    behind = storage.clone_capability(ahead)
    [ahead] = storage.append(write(ahead, 10, ((1, "early"), 2, 1), ((2, "late"), 8, 1)))
    assert shard_in(any_world, user(1)).upper == 0
    subscription = storage.subscribe_at(read)
    assert subscription.receive(0) is None, "half a window is not shown"
    [behind] = storage.append(write(behind, 5, ((3, "other"), 2, 1)))
    shown = drain(subscription)
    assert triples_of(shown) == {((1, "early"), 2): 1, ((3, "other"), 2): 1}
    assert uppers_of(shown) == [at(5)]
    assert not is_readable(storage, read, 5)
    storage.append(write(behind, 20))
    shown = drain(subscription)
    assert triples_of(shown) == {((2, "late"), 8): 1}
    assert uppers_of(shown) == [at(10)], "now the other one is behind"


@pytest.mark.semantics(46, 53)
def test_dropping_the_writer_behind_frees_upper(world: MemoryWorld, table: Table) -> None:
    read, ahead = table
    behind = world.storage.clone_capability(ahead)
    [ahead] = world.storage.append(write(ahead, 10, ((1, "a"), 3, 1)))
    world.storage.drop_capability(behind)
    assert shard_in(world, user(1)).upper == 10
    assert contents(world.storage, read, 3) == {(1, "a"): 1}


@pytest.mark.semantics(27)
def test_what_is_beyond_upper_stays_hidden_through_compaction_and_restart(
    world: MemoryWorld, table: Table
) -> None:
    read, ahead = table
    behind = world.storage.clone_capability(ahead)
    for time in range(5):
        [ahead] = world.storage.append(
            Write(ahead, many(1000, time, first=1000 * time), at(time + 1))
        )
    [behind] = world.storage.append(write(behind, 2))
    world.storage.maintain()
    world.reopen()
    shown = drain(world.storage.subscribe_at(read))
    assert max(time for _, time in triples_of(shown)) == 1
    assert len(contents(world.storage, read, 1)) == 2000
    world.storage.append(write(behind, 5))
    assert len(contents(world.storage, read, 4)) == 5000


def test_two_stale_writers_can_not_both_win(world: MemoryWorld, table: Table) -> None:
    _, written = table
    world.storage.append(write(written, 5))
    with refused(world, CapabilityMisstated):
        world.storage.append(write(written, 5, ((1, "a"), 0, 1)))


# From coroutines


def write_each(
    world: MemoryWorld, writers: int, rounds: int, *, asynchronous: bool
) -> list[Counter]:  # type: ignore[type-arg]
    tables = [world.storage.create(user(n + 1), TABLE) for n in range(writers)]

    def rows(n: int, time: int) -> pa.RecordBatch:
        if n % 8 == 0 and time == 1:
            return many(INLINE_ROWS + n + 1, time)
        return batch(((n, f"at {time}"), time, 1), ((n, f"at {time - 1}"), time, -1))

    async def writer(n: int) -> None:
        capability = tables[n][1]
        for time in range(rounds):
            change = Write(capability, rows(n, time), at(time + 1))
            [capability] = await world.storage.append_async(change)
            assert capability.frontier == at(time + 1)

    async def everybody() -> None:
        await asyncio.gather(*(writer(n) for n in range(writers)))

    if asynchronous:
        asyncio.run(everybody())
    else:
        for n in range(writers):
            capability = tables[n][1]
            for time in range(rounds):
                [capability] = world.storage.append(Write(capability, rows(n, time), at(time + 1)))
    return [triples_of(drain(world.storage.subscribe_at(read))) for read, _ in tables]


@pytest.mark.semantics(54)
def test_32_coroutines_write_what_32_callers_would(world: MemoryWorld) -> None:
    found = write_each(world, 32, 5, asynchronous=True)
    entries = world.durable().position
    one_by_one = MemoryWorld()
    assert found == write_each(one_by_one, 32, 5, asynchronous=False)
    assert entries < one_by_one.durable().position, "grouping saves entries, and nothing else"
    one_by_one.storage.close()


@pytest.mark.semantics(43, 54)
def test_what_shares_a_block_is_kept_apart(
    any_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By readers, by a checkpoint and a merge of one of the collections, and by a restart."""
    monkeypatch.setattr(compaction, "FEWEST_TINY", 128)
    storage, rounds = any_world.storage, 128 // 2 + 1
    tables = [storage.create(user(n + 1), TABLE) for n in range(3)]

    async def writer(n: int) -> None:
        capability = tables[n][1]
        for time in range(rounds * (1 + (n == 0))):
            row = ((n, str(time)), time, 1)
            [capability] = await storage.append_async(write(capability, time + 1, row))

    async def everybody() -> None:
        await asyncio.gather(*(writer(n) for n in range(3)))

    def found(at_time: int) -> list[dict[object, int]]:
        return [dict(contents(any_world.storage, read, at_time)) for read, _ in tables]

    asyncio.run(everybody())
    blocks = any_world.storage._store.read(
        lambda state: [
            {id(part.inline) for batch in shard.batches.values() for part in batch.parts}
            for shard in state.shards.values()
        ]
    )
    assert blocks[0] & blocks[1] & blocks[2], "nothing was committed together"
    expected = [{(n, str(time)): 1 for time in range(rounds)} for n in range(3)]
    assert found(rounds - 1) == expected
    checkpoint(storage._store)
    assert found(rounds - 1) == expected
    any_world.reopen()
    assert found(rounds - 1) == expected
    while any_world.storage.maintain():
        pass
    sizes = [len(shard_in(any_world, user(n)).batches) for n in (1, 2, 3)]
    assert sizes == [1, rounds, rounds], "only the first has so many batches that they are merged"
    assert found(rounds - 1) == expected
    any_world.reopen()
    assert found(rounds - 1) == expected


def test_one_that_is_refused_harms_none_it_was_committed_with(world: MemoryWorld) -> None:
    tables = [world.storage.create(user(n + 1), TABLE) for n in range(4)]
    loose = pa.table({"k": [7], "v": ["a"], TIME: pa.nulls(1, pa.int64()), DIFF: [1]})

    async def attempts() -> list[object]:
        good = [write(written, 5, ((n, "a"), n, 1)) for n, (_, written) in enumerate(tables)]
        timeless, late = Write(tables[1][1], loose, at(5)), write(tables[2][1], 5, ((2, "a"), 5, 1))
        given = [good[0], timeless, late, good[3]]
        appends = [world.storage.append_async(one) for one in given]
        return await asyncio.gather(*appends, return_exceptions=True)

    outcomes = asyncio.run(attempts())
    assert [type(outcome) for outcome in outcomes] == [
        tuple,
        WrongColumns,
        UpdateOutsideWindow,
        tuple,
    ]
    for n, (read, _) in enumerate(tables):
        expected = {(n, "a"): 1} if n in (0, 3) else {}
        assert shard_in(world, user(n + 1)).upper == (5 if expected else 0)
        if expected:
            assert contents(world.storage, read, 4) == expected


def test_errors_reach_the_coroutine(world: MemoryWorld, table: Table) -> None:
    _, written = table

    async def attempts() -> list[object]:
        return await asyncio.gather(
            world.storage.append_async(write(written, 0)),
            world.storage.append_async(write(written, 3, ((1, "a"), 3, 1))),
            world.storage.append_async(write(written, 5)),
            world.storage.append_async(write(written, 6)),
            return_exceptions=True,
        )

    *refusals, first, second = asyncio.run(attempts())
    assert [type(refusal) for refusal in refusals] == [NoProgress, UpdateOutsideWindow]
    assert isinstance(first, tuple)
    assert isinstance(second, CapabilityMisstated)
    assert shard_in(world, user(1)).upper == 5
    with refused(world, UpdateOutsideWindow):
        large = Write(first[0], many(1000, 9), at(9))
        asyncio.run(world.storage.append_async(large))


def test_a_cancelled_coroutine_gives_up_the_answer_only(world: MemoryWorld, table: Table) -> None:
    _, written = table

    async def give_up() -> None:
        task = asyncio.create_task(world.storage.append_async(write(written, 5)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.to_thread(world.storage.clone_capability, table[0])

    asyncio.run(give_up())
    assert shard_in(world, user(1)).upper == 5


def test_a_loop_that_is_gone_holds_nobody_up() -> None:
    """Its coroutine was cancelled and the loop closed while the log was still at it."""
    log = HeldConsensus()
    world = MemoryWorld(consensus=log)
    read, written = world.storage.create(user(1), TABLE)

    async def give_up() -> None:
        task = asyncio.create_task(world.storage.append_async(write(written, 5)))
        await asyncio.to_thread(log.asked.wait, 120)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    world.storage._store._sync_s = 60.0  # a slow disk: no event loop commits by itself
    log.hold()
    asyncio.run(give_up())
    log.let_through.set()
    world.storage.clone_capability(read)
    assert shard_in(world, user(1)).upper == 5
    world.storage.close()


def test_threads_write_side_by_side(any_world: World) -> None:
    storage = any_world.storage
    tables = [storage.create(user(n + 1), TABLE) for n in range(8)]

    def fill(written: WriteCapability) -> None:
        for time in range(20):
            [written] = storage.append(write(written, time + 1, ((time, "x"), time, 1)))

    threads = [threading.Thread(target=fill, args=(w,)) for _, w in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for read, _ in tables:
        assert len(contents(storage, read, 19)) == 20
