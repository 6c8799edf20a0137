"""Opening, taking over and appending exactly once, also when the world answers badly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.consensus.unreliable import UnreliableConsensus
from waterclock.persist.errors import (
    Damaged,
    Fenced,
    FormatTooNew,
    PositionTaken,
    Unavailable,
    WaterclockError,
)
from waterclock.persist.log import open_log, recover
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.records import (
    FORMAT,
    AnyEvent,
    Checkpointed,
    Created,
    Opened,
    decode_entry,
    encode_entry,
    seal,
)
from waterclock.persist.retry import Retry
from waterclock.persist.schema_codec import encode_schema
from waterclock.persist.state import State
from waterclock.testing.persist_world import (
    IMPATIENT,
    NUMBERS,
    append,
    contents,
    create,
    numbers,
    open_store,
)


def created(shard: str) -> AnyEvent:
    return Created(shard, "epoch_ms", encode_schema(NUMBERS), None, 0)


def entries(consensus: MemoryConsensus) -> list[tuple[AnyEvent, ...]]:
    return [decode_entry(entry) for _, entry in consensus.read(1)]


@pytest.fixture
def blob() -> MemoryBlob:
    return MemoryBlob()


@pytest.fixture
def consensus() -> MemoryConsensus:
    return MemoryConsensus()


def test_the_first_opening_finds_nothing(blob: MemoryBlob, consensus: MemoryConsensus) -> None:
    _, state = open_log(blob, consensus, "a", IMPATIENT)
    assert state == State(position=1, epoch=1)
    assert entries(consensus) == [(Opened(1, "a"),)]


@pytest.mark.semantics(43)
def test_opening_finds_what_was_appended(blob: MemoryBlob, consensus: MemoryConsensus) -> None:
    log, state = open_log(blob, consensus, "a", IMPATIENT)
    assert log.append([created("s1"), created("s2")]) == len(
        encode_entry([created("s1"), created("s2")])
    )
    log.append([created("s3")])
    _, found = open_log(blob, consensus, "b", IMPATIENT)
    assert list(found.shards) == ["s1", "s2", "s3"]
    assert (found.position, found.epoch) == (4, state.epoch + 1)


@pytest.mark.semantics(43)
def test_opening_after_a_checkpoint_finds_the_same(
    blob: MemoryBlob, consensus: MemoryConsensus
) -> None:
    with open_store(blob, consensus) as store:
        create(store, "s")
        for time in range(10):
            append(store, "s", time + 1, numbers([(time, time, 1)]))
        before = consensus.end()
        checkpoint(store)
        assert [position for position, _ in consensus.read(1)] == [before]
        append(store, "s", 20, numbers([(10, 10, 1), (0, 15, -1)]))
        expected = store.read(State.to_checkpoint)
    found = recover(blob, consensus)
    assert found.to_checkpoint() == expected
    with open_store(blob, consensus) as store:
        assert contents(store, "s", 19) == {(n,): 1 for n in range(1, 11)}
        checkpoint(store)
        checkpoint(store)
    assert recover(blob, consensus).shards == found.shards


def test_recovery_changes_nothing(blob: MemoryBlob, consensus: MemoryConsensus) -> None:
    log, _ = open_log(blob, consensus, "a", IMPATIENT)
    recover(blob, consensus)
    log.append([created("s")])
    assert consensus.end() == 3


def test_taking_over_fences_the_owner_off(blob: MemoryBlob, consensus: MemoryConsensus) -> None:
    old, _ = open_log(blob, consensus, "a", IMPATIENT)
    new, _ = open_log(blob, consensus, "b", IMPATIENT)
    with pytest.raises(Fenced, match="another server has taken over"):
        old.append([created("s")])
    new.append([created("s")])
    with pytest.raises(Fenced):
        old.append([created("s")])
    assert len(entries(consensus)) == 3


def test_a_fenced_owner_notices_although_the_log_was_truncated(
    blob: MemoryBlob, consensus: MemoryConsensus
) -> None:
    old, _ = open_log(blob, consensus, "a", IMPATIENT)
    with open_store(blob, consensus) as new:
        create(new, "s")
        checkpoint(new)
        with pytest.raises(Fenced):
            old.append([created("s2")])


def test_a_fenced_store_refuses_everything(blob: MemoryBlob, consensus: MemoryConsensus) -> None:
    old = open_store(blob, consensus)
    create(old, "s")
    with open_store(blob, consensus) as new:
        assert contents(new, "s", 0) == {}
        with pytest.raises(Fenced):
            append(old, "s", 1, numbers([(1, 0, 1)]))
        for refused in (
            lambda: create(old, "t"),
            lambda: old.read(lambda state: state.position),
            lambda: contents(old, "s", 0),
            lambda: old.commit(lambda _: ([], None)),
            lambda: old.orphans([]),
        ):
            with pytest.raises(Fenced):
                refused()
        append(new, "s", 1, numbers([(2, 0, 1)]))
        assert contents(new, "s", 0) == {(2,): 1}
    old.close()


@pytest.mark.semantics(43)
@pytest.mark.parametrize("seed", range(8))
def test_an_append_through_failures_takes_effect_once(blob: MemoryBlob, seed: int) -> None:
    inner = MemoryConsensus()
    unreliable = UnreliableConsensus(inner, seed, 0.5)
    log, _ = open_log(blob, unreliable, "a", IMPATIENT)
    for number in range(30):
        log.append([created(f"s{number}")])
    found = [
        event.shard for entry in entries(inner) for event in entry if isinstance(event, Created)
    ]
    assert found == [f"s{number}" for number in range(30)]
    assert sum(isinstance(e, Opened) for entry in entries(inner) for e in entry) == 1


@pytest.mark.parametrize("seed", range(4))
def test_two_owners_through_failures_never_interleave(blob: MemoryBlob, seed: int) -> None:
    inner = MemoryConsensus()
    unreliable = UnreliableConsensus(inner, seed, 0.4)
    old, _ = open_log(blob, unreliable, "a", IMPATIENT)
    for number in range(5):
        old.append([created(f"a{number}")])
    new, _ = open_log(blob, unreliable, "b", IMPATIENT)
    for number in range(5):
        with pytest.raises(Fenced):
            old.append([created(f"late{number}")])
        new.append([created(f"b{number}")])
    found = list(recover(blob, inner).shards)
    assert found == [f"{owner}{number}" for owner in "ab" for number in range(5)]


class Dead(MemoryConsensus):
    """Takes appends, and loses every answer while `dead`."""

    dead = False

    def append(self, position: int, entry: bytes) -> None:
        super().append(position, entry)
        if self.dead:
            raise Unavailable("the line is dead")

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        if self.dead:
            raise Unavailable("the line is dead")
        return super().read(start)


def test_an_outcome_that_stays_unknown_is_told(blob: MemoryBlob) -> None:
    consensus = Dead()
    pauses: list[float] = []
    log, _ = open_log(blob, consensus, "a", Retry(attempts=4, sleep=pauses.append))
    consensus.dead = True
    with pytest.raises(Unavailable, match="line is dead"):
        log.append([created("s")])
    assert pauses == [0.02, 0.04, 0.08]


def test_pauses_grow_up_to_a_bound() -> None:
    pauses = list(Retry(attempts=12).pauses())
    assert len(pauses) == 11
    assert pauses == sorted(pauses)
    assert max(pauses) == 5.0
    assert 10 < sum(pauses) < 60


def test_only_failures_of_the_world_are_retried() -> None:
    calls: list[int] = []

    def taken() -> None:
        calls.append(1)
        raise PositionTaken("no")

    with pytest.raises(PositionTaken):
        IMPATIENT.call(taken)
    assert len(calls) == 1


def test_a_gap_that_no_checkpoint_covers_is_damage(
    blob: MemoryBlob, consensus: MemoryConsensus
) -> None:
    log, _ = open_log(blob, consensus, "a", IMPATIENT)
    log.append([created("s")])
    log.append([created("t")])
    consensus.truncate(3)
    with pytest.raises(Damaged, match="the log has no entry 1, and no checkpoint covers it"):
        open_log(blob, consensus, "b", IMPATIENT)


def test_a_missing_checkpoint_is_named(blob: MemoryBlob, consensus: MemoryConsensus) -> None:
    with open_store(blob, consensus) as store:
        create(store, "s")
        checkpoint(store)
        key = store.read(lambda state: state.checkpoint)
    assert key is not None
    blob.delete(key)
    with pytest.raises(WaterclockError, match=f"checkpoint {key} is missing") as refusal:
        open_log(blob, consensus, "b", IMPATIENT)
    assert refusal.value.hint is not None


def test_a_damaged_checkpoint_is_damage(blob: MemoryBlob, consensus: MemoryConsensus) -> None:
    log, _ = open_log(blob, consensus, "a", IMPATIENT)
    blob.put("checkpoint/1-1", seal(b"\xc1"))
    log.append([Checkpointed(1, "checkpoint/1-1")])
    with pytest.raises(Damaged, match="a checkpoint can not be read"):
        open_log(blob, consensus, "b", IMPATIENT)


@pytest.mark.parametrize("where", ["entry", "checkpoint"])
def test_newer_data_is_refused_and_not_claimed(
    blob: MemoryBlob, consensus: MemoryConsensus, where: str
) -> None:
    log, _ = open_log(blob, consensus, "a", IMPATIENT)
    newer = bytes((FORMAT + 1,)) + b"?"
    if where == "entry":
        consensus.append(2, newer)
    else:
        blob.put("checkpoint/1-1", newer)
        log.append([Checkpointed(1, "checkpoint/1-1")])
    end = consensus.end()
    with pytest.raises(FormatTooNew):
        open_log(blob, consensus, "b", IMPATIENT)
    assert consensus.end() == end


class Contended(MemoryConsensus):
    """Somebody else claims the log before each of the first claims of others."""

    rivals = 0

    def append(self, position: int, entry: bytes) -> None:
        if self.rivals:
            self.rivals -= 1
            claim = Opened(self.end(), f"rival{self.rivals}")
            super().append(self.end(), encode_entry([claim]))
        super().append(position, entry)


def test_a_claim_that_came_too_late_is_made_again(blob: MemoryBlob) -> None:
    consensus = Contended()
    consensus.rivals = 3
    _, state = open_log(blob, consensus, "a", IMPATIENT)
    assert (state.position, state.epoch) == (4, 4)
    consensus.rivals = 1000
    with pytest.raises(Unavailable, match="other servers keep taking over"):
        open_log(blob, consensus, "b", IMPATIENT)


class Changing(MemoryConsensus):
    """The owner checkpoints and truncates while a reader looks at what it has read."""

    def __init__(self, blob: MemoryBlob) -> None:
        super().__init__()
        self.blob = blob
        self.change = False

    def read(self, start: int) -> Iterator[tuple[int, bytes]]:
        found = list(super().read(start))
        if self.change:
            self.change = False
            state = State()
            for _, entry in found:
                state.apply_entry(decode_entry(entry))
            super().append(self.end(), encode_entry([created("late")]))
            return iter(found[1:])  # as if the first had been truncated under us
        return iter(found)


def test_opening_reads_again_what_changed_under_it(blob: MemoryBlob) -> None:
    consensus = Changing(blob)
    log, _ = open_log(blob, consensus, "a", IMPATIENT)
    log.append([created("s")])
    consensus.change = True
    _, state = open_log(blob, consensus, "b", IMPATIENT)
    assert list(state.shards) == ["s", "late"]
