"""SubscribeAt: the contents at a time, then every change at its own time, and how far both go."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from waterclock.errors import WaterclockError
from waterclock.model.errors import ForeignTime, TimeForgotten, UnknownColumn
from waterclock.model.lattice import EpochMillis
from waterclock.model.timeline import Timeline
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.errors import Unavailable
from waterclock.persist.inline import INLINE_BYTES, INLINE_ROWS
from waterclock.persist.parts import ConditionFailed
from waterclock.storage.api import (
    Message,
    Progress,
    ReadCapability,
    Updates,
    Write,
    WriteCapability,
    held_after,
)
from waterclock.storage.errors import SubscriptionCancelled
from waterclock.storage.subscription import Subscription
from waterclock.testing.storage_world import (
    END,
    TABLE,
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
LARGE = INLINE_ROWS + 1


class CountingBlob(MemoryBlob):
    """Counts how often an object is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []

    def open(self, key: str) -> pa.NativeFile:
        self.opened.append(key)
        return super().open(key)


class Receiver:
    """A thread that takes messages until there are no more."""

    def __init__(self, subscription: Subscription) -> None:
        self.messages: list[Message] = []
        self.error: BaseException | None = None
        self._subscription = subscription
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.messages.extend(self._subscription)
        except WaterclockError as error:
            self.error = error

    def join(self) -> None:
        self.thread.join(120)
        assert not self.thread.is_alive()


# What it says


@pytest.mark.semantics(61)
def test_contents_then_changes_each_with_progress(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    [written] = storage.append(write(written, 3, ((1, "a"), 0, 1), ((1, "a"), 1, 1)))
    subscription = storage.subscribe_at(read, as_of=at(2))
    first = drain(subscription)
    assert triples_of(first) == {((1, "a"), 2): 2}, "contents come at the time asked for"
    assert uppers_of(first) == [at(3)]
    assert isinstance(first[-1], Progress), "progress comes after what it speaks of"
    [written] = storage.append(write(written, 6, ((1, "a"), 3, -1), ((2, "b"), 5, 1)))
    [written] = storage.append(write(written, 7))
    second = drain(subscription)
    assert triples_of(second) == {((1, "a"), 3): -1, ((2, "b"), 5): 1}
    assert uppers_of(second) == [at(7)]
    storage.append(write(written, 8))
    assert drain(subscription) == [Progress(at(8))]
    assert drain(subscription) == []


@pytest.mark.semantics(61)
def test_an_early_subscription_and_a_late_one_agree(any_world: World) -> None:
    """Small and large batches, read as they come or all at once."""
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    early = storage.subscribe_at(read)
    as_they_come: list[Message] = []
    for t in range(8):
        rows = many(LARGE if t % 3 == 0 else 5, t, first=100 * t)
        if t == 5:
            rows = many(50, t, first=0, diff=-1)
        [written] = storage.append(Write(written, rows, at(t + 1)))
        as_they_come += drain(early)
    late = drain(storage.subscribe_at(read))
    assert triples_of(as_they_come) == triples_of(late)
    assert uppers_of(as_they_come) == [at(t) for t in range(1, 9)]
    assert uppers_of(late) == [at(8)]


def test_wide_rows_are_kept_out_of_the_log_and_come_back(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    wide = "x" * (INLINE_BYTES + 1)
    storage.append(write(written, 1, ((1, wide), 0, 1)))
    [kept] = shard_in(any_world, user(1)).batches
    assert kept.keys
    assert contents(storage, read, 0) == {(1, wide): 1}


@pytest.mark.semantics(14)
def test_an_answer_never_changes(any_world: World) -> None:
    """Whatever is written, compacted or restarted later."""
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    answers = {}
    for t in range(12):
        rows = many(1200, t, first=300 * t)
        if t % 4 == 3:
            rows = many(1200, t, first=300 * (t - 1), diff=-1)
        [written] = storage.append(Write(written, rows, at(t + 1)))
        answers[t] = contents(storage, read, t)
        storage.maintain()
        if t % 5 == 4:
            storage = any_world.reopen()
            read = storage.downgrade_capability(read, at(t - 2))
        for u in range(read.frontier.only() or 0, t + 1):
            assert contents(storage, read, u) == answers[u]


@pytest.mark.semantics(15, 40)
def test_the_forgotten_past_is_refused(world: MemoryWorld, table: Table) -> None:
    read, written = table
    world.storage.append(write(written, 10))
    read = world.storage.downgrade_capability(read, at(5))
    with refused(world, TimeForgotten) as caught:
        world.storage.subscribe_at(read, as_of=at(4))
    assert str(caught[0]) == ("collection u1 can not be read at {4} with a capability at {5}")
    with refused(world, TimeForgotten):
        world.storage.subscribe_at(read, as_of=END)
    assert contents(world.storage, read, 5) == {}


@pytest.mark.semantics(15)
def test_a_capability_bounds_its_holder_whatever_others_hold(
    world: MemoryWorld, table: Table
) -> None:
    later = world.storage.downgrade_capability(world.storage.clone_capability(table[0]), at(5))
    with refused(world, TimeForgotten):
        world.storage.subscribe_at(later, as_of=at(4))


@pytest.mark.semantics(10)
def test_a_time_of_another_timeline_is_refused(world: MemoryWorld, table: Table) -> None:
    with refused(world, ForeignTime):
        world.storage.subscribe_at(table[0], as_of=OTHER.frontier(5))


@pytest.mark.semantics(15, 27, 62)
def test_it_waits_until_the_time_is_known(world: MemoryWorld, table: Table) -> None:
    read, written = table
    receiver = Receiver(world.storage.subscribe_at(read, as_of=at(5)))
    [written] = world.storage.append(write(written, 5, ((1, "a"), 2, 1)))
    time.sleep(0.05)
    assert receiver.messages == [], "time 5 may still change"
    [written] = world.storage.append(write(written, 6, ((2, "b"), 5, 1)))
    world.storage.append(write(written, END))
    receiver.join()
    assert triples_of(receiver.messages) == {((1, "a"), 5): 1, ((2, "b"), 5): 1}
    assert receiver.error is None


@pytest.mark.semantics(39)
def test_it_ends_with_the_collection(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    subscription = storage.subscribe_at(read)
    [written] = storage.append(write(written, 1, ((1, "a"), 0, 1)))
    storage.append(write(written, END, ((2, "b"), 10**12, 1)))
    messages = list(subscription)
    assert messages[-1] == Progress(END)
    assert triples_of(messages) == {((1, "a"), 0): 1, ((2, "b"), 10**12): 1}
    with pytest.raises(StopIteration):
        next(subscription)
    with pytest.raises(StopIteration):
        subscription.receive(0)
    assert list(storage.subscribe_at(read, as_of=at(10**13), snapshot=False)) == [Progress(END)]


def test_since_may_be_beyond_upper(world: MemoryWorld, table: Table) -> None:
    read, written = table
    read = world.storage.downgrade_capability(read, at(10))
    subscription = world.storage.subscribe_at(read)
    [written] = world.storage.append(write(written, 9, ((1, "a"), 3, 1)))
    assert drain(subscription) == []
    world.storage.append(write(written, 12, ((2, "b"), 11, 1)))
    assert triples_of(drain(subscription)) == {((1, "a"), 10): 1, ((2, "b"), 11): 1}


# Options


@pytest.mark.semantics(64)
def test_without_snapshot_no_contents_are_read() -> None:
    blob = CountingBlob()
    world = MemoryWorld(blob)
    read, written = world.storage.create(user(1), TABLE)
    [written] = world.storage.append(Write(written, many(5000, 0), at(1)))
    [written] = world.storage.append(Write(written, many(5000, 1), at(2)))
    subscription = world.storage.subscribe_at(read, as_of=at(1), snapshot=False)
    assert drain(subscription) == []
    [written] = world.storage.append(Write(written, many(LARGE, 2), at(3)))
    messages = drain(subscription)
    assert len(triples_of(messages)) == LARGE
    assert uppers_of(messages) == [at(3)]
    [new] = shard_in(world, user(1)).batches[-1].keys
    assert blob.opened == [new]
    blob.opened.clear()
    drain(world.storage.subscribe_at(read, as_of=at(1)))
    assert len(set(blob.opened)) == 3, "with one, they are"
    world.storage.close()


@pytest.mark.semantics(64)
@pytest.mark.parametrize("count", [10, 1000])
def test_filter_and_projection_are_applied_before_sending(any_world: World, count: int) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    [written] = storage.append(Write(written, many(count, 0), at(1)))
    subscription = storage.subscribe_at(
        read, columns=["v"], condition=(pc.field("k") >= 3) & (pc.field("k") < 5)
    )
    messages = drain(subscription)
    assert triples_of(messages) == {(("row 3",), 0): 1, (("row 4",), 0): 1}
    for message in messages:
        if isinstance(message, Updates):
            assert message.batch.schema.names == ["v", "mz_timestamp", "mz_diff"]
    storage.append(Write(written, many(count, 1, diff=-1), at(2)))
    assert triples_of(drain(subscription)) == {(("row 3",), 1): -1, (("row 4",), 1): -1}


@pytest.mark.semantics(64)
def test_rows_made_equal_by_projection_add_up(world: MemoryWorld, table: Table) -> None:
    read, written = table
    world.storage.append(
        write(written, 2, ((1, "a"), 0, 1), ((1, "b"), 0, 1), ((1, "a"), 1, -1), ((1, "c"), 1, 1))
    )
    assert triples_of(drain(world.storage.subscribe_at(read, columns=["k"]))) == {((1,), 0): 2}
    nothing = world.storage.subscribe_at(read, columns=[])
    assert triples_of(drain(nothing)) == {((), 0): 2}
    swapped = world.storage.subscribe_at(read, columns=["v", "k"], as_of=at(1))
    assert triples_of(drain(swapped)) == {(("b", 1), 1): 1, (("c", 1), 1): 1}


def test_a_condition_that_is_null_does_not_hold(world: MemoryWorld, table: Table) -> None:
    read, written = table
    world.storage.append(write(written, 1, ((1, None), 0, 1), ((2, "b"), 0, 1)))
    found = drain(world.storage.subscribe_at(read, condition=pc.field("v") != "a"))
    assert triples_of(found) == {((2, "b"), 0): 1}


def test_an_unknown_column_is_refused(world: MemoryWorld, table: Table) -> None:
    with refused(world, UnknownColumn):
        world.storage.subscribe_at(table[0], columns=["k", "w"])


@pytest.mark.parametrize("wrong", [pc.field("w") == 1, pc.field("mz_diff") == 1, pc.field("k")])
def test_a_condition_that_can_not_be_applied_is_refused_at_once(
    world: MemoryWorld, table: Table, wrong: pc.Expression
) -> None:
    with pytest.raises(ConditionFailed):
        world.storage.subscribe_at(table[0], condition=wrong)


@pytest.mark.parametrize("rows", [1, LARGE])
def test_a_condition_that_fails_on_a_row_is_no_end_of_the_collection(
    world: MemoryWorld, table: Table, rows: int
) -> None:
    read, written = table
    world.storage.append(Write(written, many(rows, 0), at(1)))
    fails = pc.scalar(1) / pc.field("k") == 1
    subscription = world.storage.subscribe_at(read, condition=fails)
    for _ in range(2):
        with pytest.raises(ConditionFailed, match="divide by zero"):
            next(subscription)


def test_an_update_that_changes_nothing_is_not_shown(world: MemoryWorld, table: Table) -> None:
    read, written = table
    world.storage.append(write(written, 1, ((1, "a"), 0, 0), ((2, "b"), 0, 1)))
    shown = [m for m in drain(world.storage.subscribe_at(read)) if isinstance(m, Updates)]
    assert [m.batch["mz_diff"].to_pylist() for m in shown] == [[1]]


def test_a_count_below_zero_is_shown_as_it_is(world: MemoryWorld, table: Table) -> None:
    """Storage hides nothing; whoever shows rows to a user decides what to say of it."""
    read, written = table
    world.storage.append(write(written, 1, ((1, "a"), 0, -1)))
    assert contents(world.storage, read, 0) == {(1, "a"): -1}


# Ending it


@pytest.mark.semantics(63)
def test_the_receiver_may_cancel(world: MemoryWorld, table: Table) -> None:
    read, written = table
    world.storage.append(write(written, 1, ((1, "a"), 0, 1)))
    subscription = world.storage.subscribe_at(read)
    next(subscription)
    with refused(world, SubscriptionCancelled) as caught:
        subscription.cancel()
        next(subscription)
    assert str(caught[0]) == (
        "the subscription to collection u1 has ended: the receiver has cancelled it"
    )
    with pytest.raises(SubscriptionCancelled):
        subscription.receive(0)
    subscription.close()
    subscription.close()


@pytest.mark.semantics(63)
def test_another_thread_may_cancel_while_it_blocks(world: MemoryWorld, table: Table) -> None:
    subscription = world.storage.subscribe_at(table[0])
    receiver = Receiver(subscription)
    time.sleep(0.02)
    subscription.cancel("the server is tired")
    subscription.cancel("too late to give another reason")
    receiver.join()
    assert str(receiver.error).endswith("has ended: the server is tired")


@pytest.mark.semantics(63)
def test_a_cancel_is_not_lost_however_it_falls(world: MemoryWorld, table: Table) -> None:
    """It comes at the worst moment: when the receiver is about to look for news."""
    subscription = world.storage.subscribe_at(table[0])

    class Interrupted(threading.Event):
        def clear(self) -> None:
            subscription.cancel()
            super().clear()

    subscription._news = Interrupted()
    receiver = Receiver(subscription)
    receiver.thread.join(60)
    heard = not receiver.thread.is_alive()
    subscription._news.set()
    receiver.join()
    assert heard
    assert isinstance(receiver.error, SubscriptionCancelled)


@pytest.mark.semantics(63)
def test_storage_ends_subscriptions_when_it_closes(any_world: World) -> None:
    read, _ = any_world.storage.create(user(1), TABLE)
    receiver = Receiver(any_world.storage.subscribe_at(read))
    time.sleep(0.02)
    any_world.storage.close()
    receiver.join()
    assert isinstance(receiver.error, Unavailable)


@pytest.mark.semantics(63)
def test_a_cancelled_subscription_keeps_nothing(world: MemoryWorld, table: Table) -> None:
    read, written = table
    world.storage.append(Write(written, many(LARGE, 0), at(1)))
    store = world.storage._store
    subscription = world.storage.subscribe_at(read)
    next(subscription)
    world.storage.drop_capability(read)
    for _ in range(5):
        world.storage.maintain()
    assert list(world.blob.list("shard/")), "it is being read"
    assert any(store._watchers.values())
    subscription.close()
    for _ in range(5):
        world.storage.maintain()
    assert not list(world.blob.list("shard/"))
    del subscription
    assert not any(store._watchers.values())


@pytest.mark.semantics(63)
def test_the_receiver_of_a_cancel_lets_go_of_everything(world: MemoryWorld, table: Table) -> None:
    ended = world.storage.subscribe_at(table[0])
    ended.cancel()
    with pytest.raises(SubscriptionCancelled):
        next(ended)
    del ended
    gc.collect()  # the error it raised remembers where it came from
    assert not any(world.storage._store._watchers.values())


@pytest.mark.semantics(53)
def test_it_ends_when_its_capability_is_dropped(world: MemoryWorld, table: Table) -> None:
    read, written = table
    clone = world.storage.clone_capability(read)
    receiver = Receiver(world.storage.subscribe_at(clone))
    other = world.storage.subscribe_at(read)
    time.sleep(0.02)
    world.storage.drop_capability(clone)
    receiver.join()
    assert isinstance(receiver.error, SubscriptionCancelled)
    assert "capability was dropped or has expired" in str(receiver.error)
    world.storage.append(write(written, 1))
    assert drain(other) == [Progress(at(1))]


@pytest.mark.semantics(63)
def test_downgrading_past_what_was_received_ends_it(world: MemoryWorld, table: Table) -> None:
    read, written = table
    subscription = world.storage.subscribe_at(read)
    [written] = world.storage.append(write(written, 5, ((1, "a"), 4, 1)))
    drain(subscription)
    read = world.storage.downgrade_capability(read, held_after(at(5)))
    [written] = world.storage.append(write(written, 6, ((2, "b"), 5, 1)))
    assert triples_of(drain(subscription)) == {((2, "b"), 5): 1}, "held as it should be"
    world.storage.downgrade_capability(read, at(6))
    world.storage.append(write(written, 9, ((3, "c"), 7, 1)))
    with refused(world, TimeForgotten) as caught:
        subscription.receive(0)
    assert str(caught[0]) == (
        "the subscription to collection u1 has come to time 5, which is before its since {6}"
    )


def test_the_hold_is_the_last_complete_time() -> None:
    assert held_after(at(9)) == at(8)
    assert held_after(END) == END


# Alongside everything else


@pytest.mark.semantics(28, 61)
def test_compaction_under_a_subscription_is_not_noticed(world: MemoryWorld, table: Table) -> None:
    read, written = table
    for t in range(6):
        [written] = world.storage.append(Write(written, many(1500, t, first=1000 * t), at(t + 1)))
    half_read = world.storage.subscribe_at(read)
    messages = [next(half_read)]
    untouched = triples_of(drain(world.storage.subscribe_at(read)))
    clone = world.storage.clone_capability(read)
    world.storage.downgrade_capability(clone, at(5))
    keys = set(world.blob.list("shard/"))
    for _ in range(20):
        world.storage.maintain()
    assert keys <= set(world.blob.list("shard/")), "what is being read is kept"
    messages += drain(half_read)
    assert triples_of(messages) == untouched
    while world.storage.maintain():
        pass
    assert not keys & set(world.blob.list("shard/")), "and afterwards it is not"
    assert triples_of(drain(world.storage.subscribe_at(read))) == untouched


def test_many_receivers_see_the_same(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    receivers = [Receiver(storage.subscribe_at(read)) for _ in range(6)]

    def changes() -> Iterator[pa.RecordBatch]:
        for t in range(30):
            yield many(LARGE, t) if t % 10 == 0 else batch(((t, "x"), t, 1), ((t, "y"), t, -1))

    for t, change in enumerate(changes()):
        [written] = storage.append(Write(written, change, at(t + 1)))
    storage.append(write(written, END))
    expected = triples_of(drain(storage.subscribe_at(read)))
    for receiver in receivers:
        receiver.join()
        assert receiver.error is None
        assert triples_of(receiver.messages) == expected
        uppers = uppers_of(receiver.messages)
        assert uppers == sorted(uppers)
        assert len(set(uppers)) == len(uppers)
        assert uppers[-1] == END


def test_a_time_that_is_complete_but_not_asked_for_is_not_announced(
    world: MemoryWorld, table: Table
) -> None:
    read, written = table
    world.storage.append(write(written, 5, ((1, "a"), 4, 1)))
    resumed = world.storage.subscribe_at(read, as_of=at(4), snapshot=False)
    assert resumed.receive(0) is None
    assert is_readable(world.storage, read, 4)


def test_an_abandoned_subscription_can_be_collected_anywhere() -> None:
    """The garbage collector chooses the moment, also one inside the store."""
    world = MemoryWorld()
    read, written = world.storage.create(user(1), TABLE)
    world.storage.append(Write(written, many(LARGE, 0), at(1)))
    gc.disable()
    try:
        subscription = world.storage.subscribe_at(read)
        next(subscription)
        del subscription
        looking = threading.Thread(
            target=world.storage._store.read, args=(lambda _: gc.collect(),), daemon=True
        )
        looking.start()
        looking.join(60)
    finally:
        gc.enable()
    assert not looking.is_alive()
    world.storage.close()
