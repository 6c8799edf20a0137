"""One committer: plans are refused alone, answered when durable, and never left waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillRunning
from contextlib import suppress
from dataclasses import dataclass

import pytest

from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.errors import DiskFull, NotWritten, Unavailable, WaterclockError
from waterclock.persist.inline import INLINE_ROWS
from waterclock.persist.log import recover
from waterclock.persist.maintenance import Maintenance
from waterclock.persist.records import AnyEvent, Created, Replaced
from waterclock.persist.retry import Retry
from waterclock.persist.schema_codec import encode_schema
from waterclock.persist.state import State
from waterclock.persist.store import Plan, Store, epoch_of, new_key
from waterclock.testing.persist_world import (
    NUMBERS,
    append,
    batches_of,
    create,
    numbers,
    open_store,
)

PATIENCE_S = 120


class Refused(WaterclockError):
    """A plan of these tests does not like the state."""


class Gate(MemoryConsensus):
    """A log whose appends wait while the gate is shut, and fail while it is broken."""

    def __init__(self) -> None:
        super().__init__()
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()
        self.failure: BaseException | None = None

    def append(self, position: int, entry: bytes) -> None:
        self.waiting.set()
        assert self.open.wait(PATIENCE_S)
        if self.failure is not None:
            raise self.failure
        super().append(position, entry)

    def shut(self) -> None:
        self.waiting.clear()
        self.open.clear()


@pytest.fixture
def gate() -> Gate:
    return Gate()


@pytest.fixture
def store(gate: Gate) -> Iterator[Store]:
    store = open_store(consensus=gate)
    yield store
    gate.open.set()
    store.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


def creation(shard: str) -> Plan[str]:
    """Create the shard unless it exists, and answer its name."""

    def plan(state: State) -> tuple[list[AnyEvent], str]:
        if shard in state.shards:
            raise Refused(f"{shard} exists")
        return [Created(shard, "epoch_ms", encode_schema(NUMBERS), None, 0)], shard

    return plan


def await_queued(store: Store, count: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(store._committer._queue) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


def believe_slow(store: Store) -> None:
    """Have the store take the disk for slow, so that no event loop commits by itself."""
    store._sync_s = 60.0


def shards(store: Store) -> list[str]:
    return store.read(lambda state: list(state.shards))


def test_a_plan_is_answered_and_its_events_are_seen(store: Store) -> None:
    assert store.commit(creation("a")) == "a"
    assert shards(store) == ["a"]


def test_a_refused_plan_leaves_no_trace_and_its_group_goes_on(
    gate: Gate, store: Store, pool: ThreadPoolExecutor
) -> None:
    gate.shut()
    first = pool.submit(store.commit, creation("first"))
    assert gate.waiting.wait(PATIENCE_S)
    names = [name for i in range(5) for name in (f"s{i}", f"s{i}")]
    rest = [pool.submit(store.commit, creation(name)) for name in names]
    end = gate.end()
    gate.open.set()
    assert first.result(PATIENCE_S) == "first"
    outcomes = [one.exception(PATIENCE_S) for one in rest]
    assert sum(isinstance(outcome, Refused) for outcome in outcomes) == 5
    assert sorted(shards(store)) == ["first", *(f"s{i}" for i in range(5))]
    assert gate.end() <= end + 1 + len(names)


def test_any_exception_of_a_plan_goes_to_its_caller(store: Store) -> None:
    def wrong(_: State) -> tuple[list[AnyEvent], None]:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        store.commit(wrong)
    assert store.commit(creation("a")) == "a"


def test_plans_see_what_will_be_and_readers_what_is(
    gate: Gate, store: Store, pool: ThreadPoolExecutor
) -> None:
    gate.shut()
    writing = pool.submit(store.commit, creation("a"))
    assert gate.waiting.wait(PATIENCE_S)
    again = pool.submit(store.commit, creation("a"))
    looking = pool.submit(store.commit, lambda state: ([], list(state.shards)))
    assert shards(store) == []
    for early in (writing, again, looking):
        with pytest.raises(StillRunning):
            early.result(0.05)
    gate.open.set()
    assert writing.result(PATIENCE_S) == "a"
    assert isinstance(again.exception(PATIENCE_S), Refused)
    assert looking.result(PATIENCE_S) == ["a"]
    assert shards(store) == ["a"]


def test_many_callers_share_entries(gate: Gate, store: Store, pool: ThreadPoolExecutor) -> None:
    before = gate.end()
    gate.shut()
    running = [pool.submit(store.commit, creation("s0"))]
    assert gate.waiting.wait(PATIENCE_S)
    running += [pool.submit(store.commit, creation(f"s{i}")) for i in range(1, 16)]
    await_queued(store, 15)
    gate.open.set()
    assert {one.result(PATIENCE_S) for one in running} == {f"s{i}" for i in range(16)}
    assert gate.end() == before + 2


async def committed(store: Store, shard: str) -> str:
    return await store.commit_soon(creation(shard))


def test_a_plan_without_events_makes_no_entry(gate: Gate, store: Store) -> None:
    before = gate.end()
    assert store.commit(lambda state: ([], state.epoch)) == 1
    assert gate.end() == before


def test_coroutines_of_one_turn_make_one_entry(gate: Gate, store: Store) -> None:
    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(store.commit_soon(creation(f"s{i}")) for i in range(50)))

    before = gate.end()
    assert asyncio.run(all_at_once()) == [f"s{i}" for i in range(50)]
    assert gate.end() == before + 1


def test_several_event_loops_and_threads_commit_together(
    gate: Gate, store: Store, pool: ThreadPoolExecutor
) -> None:
    async def one_by_one(name: str) -> list[str]:
        found = [await store.commit_soon(creation(f"{name}{i}")) for i in range(20)]
        with pytest.raises(Refused):
            await store.commit_soon(creation(f"{name}0"))
        return found

    loops = [pool.submit(asyncio.run, one_by_one(name)) for name in "abcd"]
    threads = [pool.submit(store.commit, creation(f"t{i}")) for i in range(20)]
    for one, name in zip(loops, "abcd", strict=True):
        assert one.result(PATIENCE_S) == [f"{name}{i}" for i in range(20)]
    for thread in threads:
        thread.result(PATIENCE_S)
    assert len(shards(store)) == 100
    assert gate.end() <= 102


def test_cancelling_gives_up_the_answer_not_the_change(gate: Gate, store: Store) -> None:
    async def give_up() -> None:
        believe_slow(store)
        gate.shut()
        writing = asyncio.ensure_future(store.commit_soon(creation("a")))
        assert await asyncio.to_thread(gate.waiting.wait, PATIENCE_S)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        gate.open.set()
        assert await store.commit_soon(creation("b")) == "b"

    asyncio.run(give_up())
    assert shards(store) == ["a", "b"]


def test_an_event_loop_that_is_gone_stops_nobody(gate: Gate, store: Store) -> None:
    async def leave() -> None:
        asyncio.ensure_future(store.commit_soon(creation("a")))  # noqa: RUF006
        await asyncio.sleep(0)
        assert await asyncio.to_thread(gate.waiting.wait, PATIENCE_S)

    believe_slow(store)
    gate.shut()
    asyncio.run(leave())
    gate.open.set()
    assert store.commit(creation("b")) == "b"
    assert shards(store) == ["a", "b"]


@dataclass(eq=False)
class Doing:
    """A bell that does something."""

    set: Callable[[], object]


def test_watchers_hear_of_their_shard_only(store: Store) -> None:
    heard: list[str] = []
    create(store, "a")
    create(store, "b")
    bell_a, bell_b = Doing(lambda: heard.append("a")), Doing(lambda: heard.append("b"))
    store.watch("a", bell_a)
    store.watch("b", bell_b)
    append(store, "a", 1, None)
    append(store, "a", 2, numbers([(1, 1, 1)]))
    append(store, "b", 1, None)
    assert heard == ["a", "a", "b"]
    del bell_a
    append(store, "a", 3, None)
    append(store, "b", 2, None)
    assert heard == ["a", "a", "b", "b"]


def test_a_watcher_called_after_the_commit_sees_it(store: Store) -> None:
    create(store, "a")
    seen: list[object] = []
    bell = Doing(lambda: seen.append(store.read(lambda s: s.shards["a"].upper)))
    store.watch("a", bell)
    append(store, "a", 7, None)
    assert seen == [7]


def fail(gate: Gate, failure: BaseException) -> None:
    gate.failure = failure


@pytest.mark.parametrize("failure", [Unavailable("gone"), AssertionError("a bug below")])
def test_a_failure_reaches_everybody(
    gate: Gate, store: Store, pool: ThreadPoolExecutor, failure: BaseException
) -> None:
    woken = threading.Event()
    create(store, "a")
    store.watch("a", woken)
    gate.shut()
    running = [pool.submit(store.commit, creation("b"))]
    assert gate.waiting.wait(PATIENCE_S)
    running += [pool.submit(store.commit, creation(f"s{i}")) for i in range(5)]
    running.append(pool.submit(asyncio.run, committed(store, "async")))
    fail(gate, failure)
    gate.open.set()
    for one in running:
        assert one.exception(PATIENCE_S) is failure
    assert woken.wait(PATIENCE_S)
    gate.failure = None
    for call in (
        lambda: store.commit(creation("late")),
        lambda: asyncio.run(committed(store, "late")),
        lambda: shards(store),
    ):
        with pytest.raises(type(failure)):
            call()


def test_a_watcher_that_fails_stops_nobody(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[int] = []

    def explode() -> None:
        raise ZeroDivisionError

    bells = [Doing(explode), Doing(lambda: heard.append(1))]
    for bell in bells:
        store.watch("a", bell)
    assert store.commit(creation("a")) == "a"
    assert heard == [1]
    assert "a watcher of the store failed" in caplog.text


def test_a_bug_in_the_committer_leaves_nobody_waiting(
    store: Store, pool: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    def wrong_events(_: State) -> tuple[list[AnyEvent], None]:
        return [Replaced("no such shard", (1,), None)], None

    hit = pool.submit(store.commit, wrong_events)
    assert isinstance(hit.exception(PATIENCE_S), KeyError)
    late = pool.submit(store.commit, creation("late"))
    assert isinstance(late.exception(PATIENCE_S), KeyError)
    assert "stopped after an internal error" in caplog.text
    pool.submit(store.close).result(PATIENCE_S)


def test_closing_finishes_what_was_submitted(
    gate: Gate, store: Store, pool: ThreadPoolExecutor
) -> None:
    gate.shut()
    running = [pool.submit(store.commit, creation("s0"))]
    assert gate.waiting.wait(PATIENCE_S)
    running += [pool.submit(store.commit, creation(f"s{i}")) for i in range(1, 5)]
    await_queued(store, 4)
    closing = pool.submit(store.close)
    gate.open.set()
    closing.result(PATIENCE_S)
    assert {one.result(PATIENCE_S) for one in running} == {f"s{i}" for i in range(5)}
    with pytest.raises(Unavailable, match="the store is closed"):
        store.commit(creation("late"))
    with pytest.raises(Unavailable, match="the store is closed"):
        shards(store)
    store.close()


def test_closing_while_others_submit_never_hangs(pool: ThreadPoolExecutor) -> None:
    for turn in range(25):
        store = open_store()
        ready = threading.Barrier(5)

        def work(store: Store = store, ready: threading.Barrier = ready) -> None:
            ready.wait(PATIENCE_S)
            with suppress(Unavailable):
                while True:
                    store.commit(lambda _: ([], None))

        async def work_async(store: Store = store, ready: threading.Barrier = ready) -> None:
            ready.wait(PATIENCE_S)
            with suppress(Unavailable):
                while True:
                    await store.commit_soon(lambda _: ([], None))

        workers = [pool.submit(work) for _ in range(2)]
        workers += [pool.submit(asyncio.run, work_async()) for _ in range(2)]
        ready.wait(PATIENCE_S)
        time.sleep(0.002 * (turn % 4))
        pool.submit(store.close).result(PATIENCE_S)
        for worker in workers:
            worker.result(PATIENCE_S)


def test_closing_wakes_watchers(store: Store) -> None:
    woken = threading.Event()
    store.watch("a", woken)
    store.close()
    assert woken.is_set()


# Blobs


def pinned_keys(store: Store) -> set[str]:
    with store._lock:
        return set(store._live_pins())


def with_garbage(store: Store, count: int = 3) -> list[str]:
    """A shard whose batches were replaced by nothing; their keys."""
    create(store, "g")
    for i in range(count):
        append(store, "g", i + 1, numbers([(n, i, 1) for n in range(INLINE_ROWS + 1)]))
    batches = batches_of(store, "g")
    store.commit(lambda _: ([Replaced("g", tuple(b.id for b in batches), None)], None))
    return [key for batch in batches for key in batch.keys]


def test_pins_keep_garbage_from_being_deleted(store: Store) -> None:
    keys = with_garbage(store)
    assert sorted(store.deletable(100)) == sorted(keys)
    assert len(store.deletable(2)) == 2
    with store.pinned(lambda _: ("found", keys[:2])) as found:
        assert found == "found"
        with store.pinned(lambda _: (None, [keys[0], keys[0]])):
            assert store.deletable(100) == [keys[2]]
        assert store.deletable(100) == [keys[2]]
    assert sorted(store.deletable(100)) == sorted(keys)
    with pytest.raises(Refused), store.pinned(lambda _: (None, keys)):
        raise Refused("inside")
    assert sorted(store.deletable(100)) == sorted(keys)
    assert pinned_keys(store) == set()


def test_letting_go_needs_no_lock(store: Store) -> None:
    """The garbage collector may do it in a thread that is inside the lock."""
    reading = store.pinned(lambda _: (None, ["a/1-x"]))
    writing = store.writing("a/1-y")
    reading.__enter__()
    writing.__enter__()
    assert pinned_keys(store) == {"a/1-x"}
    with store._lock:
        reading.__exit__(None, None, None)
        assert not writing.__exit__(Refused, Refused("never mind"), None)
        assert set(store._pins) == {"a/1-x"}
    assert pinned_keys(store) == set()
    assert store.orphans(store.take_abandoned()) == ["a/1-y"]


def test_who_gives_up_while_orphans_are_sought_may_still_commit(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """His plan may have come after ours, and refers to his blob."""
    key = new_key("shard/a", store.epoch, ".parquet")
    writing = store.writing(key)
    writing.__enter__()
    commit = store.commit

    def commit_and_interrupt(plan: Plan[None]) -> None:
        commit(plan)
        assert not writing.__exit__(Refused, Refused("interrupted"), None)

    monkeypatch.setattr(store, "commit", commit_and_interrupt)
    assert store.orphans([key]) == []
    monkeypatch.undo()
    assert store.orphans(store.take_abandoned()) == [key]


def test_orphans_are_what_nobody_needs(store: Store) -> None:
    create(store, "a")
    append(store, "a", 1, numbers([(n, 0, 1) for n in range(INLINE_ROWS + 1)]))
    garbage = with_garbage(store, 1)
    [used] = [key for batch in batches_of(store, "a") for key in batch.keys]
    lost = new_key("shard/a", store.epoch, ".parquet")
    older = new_key("shard/a", 0)
    later = new_key("shard/a", store.epoch + 1)
    foreign = ["README.txt", "notes/1", "shard/a/x-1", "shard/a/-1", "1"]
    listed = [used, *garbage, lost, older, later, *foreign]
    assert store.orphans(listed) == [lost, older]
    with store.writing(lost), store.pinned(lambda _: (None, [older])):
        assert store.orphans(listed) == []
    assert store.take_abandoned() == []
    with pytest.raises(Refused), store.writing(lost):
        raise Refused("never mind")
    assert store.take_abandoned() == [lost]
    assert store.take_abandoned() == []


def test_keys_tell_the_epoch_of_their_writer() -> None:
    assert epoch_of(new_key("shard/u1", 17, ".parquet")) == 17
    assert epoch_of("checkpoint/3-99") == 3
    assert new_key("a", 1) != new_key("a", 1)


def test_what_an_interrupted_writer_gave_up_is_kept_if_it_is_committed(
    gate: Gate, store: Store, pool: ThreadPoolExecutor
) -> None:
    """The wait for a commit may be interrupted while the commit goes on."""
    create(store, "a")
    Maintenance(store).run()
    gate.shut()
    writing = pool.submit(
        append, store, "a", 1, numbers([(n, 0, 1) for n in range(INLINE_ROWS + 1)])
    )
    assert gate.waiting.wait(PATIENCE_S)
    [key] = store.blob.list("shard/")
    with store._lock:  # as an interrupted `writing` leaves it
        store._writing.discard(key)
        store._abandoned.append(key)
    sweep = pool.submit(Maintenance(store).run)
    with pytest.raises(StillRunning):
        sweep.result(0.1)
    assert list(store.blob.list("shard/")) == [key]
    gate.open.set()
    writing.result(PATIENCE_S)
    sweep.result(PATIENCE_S)
    assert list(store.blob.list("shard/")) == [key]


def test_touched_shards_are_told_once(store: Store) -> None:
    assert store.take_touched() == set()
    create(store, "a")
    create(store, "b")
    assert store.take_touched() == {"a", "b"}
    append(store, "b", 1, None)
    assert store.take_touched() == {"b"}
    assert store.take_touched() == set()


def test_after_opening_all_shards_count_as_touched() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    with open_store(blob, consensus) as store:
        create(store, "a")
    with open_store(blob, consensus) as store:
        assert store.epoch == 2
        assert store.take_touched() == {"a"}


# A world that refuses


def test_a_full_disk_refuses_writes_answers_reads_and_passes(gate: Gate, store: Store) -> None:
    create(store, "a")
    gate.failure = DiskFull("could not append to log: full")
    for _ in range(3):
        with pytest.raises(DiskFull):
            store.commit(creation("b"))
        with pytest.raises(DiskFull):
            asyncio.run(committed(store, "b"))
    assert shards(store) == ["a"]
    assert store.commit(lambda state: ([], sorted(state.shards))) == ["a"], "nothing is ahead"
    assert not store.has_failed
    gate.failure = None
    assert store.commit(creation("b")) == "b"
    assert recover(store.blob, gate).shards.keys() == {"a", "b"}


def test_a_full_disk_is_told_at_once(gate: Gate) -> None:
    """Nobody makes room within the pauses of a retry, and everybody would wait for them."""
    pauses: list[float] = []
    store = open_store(consensus=gate, retry=Retry(sleep=pauses.append))
    gate.failure = DiskFull("full")
    with pytest.raises(DiskFull):
        store.commit(creation("a"))
    assert pauses == []
    gate.failure = NotWritten("busy")
    with pytest.raises(NotWritten):
        store.commit(creation("a"))
    assert len(pauses) == 11
    assert not store.has_failed
    gate.failure = None
    assert store.commit(creation("a")) == "a"
    store.close()


def test_a_refusal_after_an_unknown_outcome_is_final(gate: Gate) -> None:
    """The attempt that was refused changed nothing, but the one before it may have."""
    store = open_store(consensus=gate, retry=Retry(attempts=3, sleep=lambda _: None))
    failures = iter([Unavailable("lost"), DiskFull("full"), DiskFull("full")])
    told: list[BaseException] = []
    store.on_failure = told.append

    def failing(_position: int, _entry: bytes) -> None:
        raise next(failures)

    gate.append = failing  # type: ignore[method-assign]
    with pytest.raises(Unavailable) as caught:
        store.commit(creation("a"))
    assert not isinstance(caught.value, NotWritten)
    assert store.has_failed
    assert told == [caught.value]


def test_one_that_was_refused_harms_none_of_the_next_group(
    gate: Gate, store: Store, pool: ThreadPoolExecutor
) -> None:
    create(store, "a")
    gate.failure = DiskFull("full")
    gate.shut()
    first = pool.submit(store.commit, creation("b"))
    assert gate.waiting.wait(PATIENCE_S)
    late = [pool.submit(store.commit, creation(name)) for name in ("b", "c")]
    await_queued(store, 2)
    gate.waiting.clear()
    gate.failure = DiskFull("full")
    gate.open.set()
    assert isinstance(first.exception(PATIENCE_S), DiskFull)
    assert all(isinstance(each.exception(PATIENCE_S), DiskFull) for each in late)
    gate.failure = None
    assert [store.commit(creation(name)) for name in ("b", "c")] == ["b", "c"]
