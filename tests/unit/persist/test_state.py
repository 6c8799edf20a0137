"""Since and upper follow the capabilities, step by step."""

from __future__ import annotations

import pytest

from waterclock.persist.records import (
    Appended,
    Batch,
    Bound,
    Capability,
    Checkpointed,
    Created,
    Downgraded,
    Expired,
    Granted,
    Opened,
    Part,
    Replaced,
    Right,
    Swept,
)
from waterclock.persist.schema_codec import encode_schema
from waterclock.persist.state import Shard, State, at_or_after, later
from waterclock.testing.persist_world import NUMBERS

COLUMNS = encode_schema(NUMBERS)


def batch(number: int, *keys: str) -> Batch:
    return Batch(number, 5, 5, False, tuple(Part(1, 1, key=key) for key in keys))


@pytest.fixture
def state() -> State:
    """One shard at 5 with a reader and a writer."""
    state = State()
    state.apply_entry(
        [
            Created("s", "epoch_ms", COLUMNS, None, 5),
            Granted("s", Capability("r", Right.READ, 5, None)),
            Granted("s", Capability("w", Right.WRITE, 5, None)),
        ]
    )
    return state


def frontiers(state: State) -> tuple[Bound, Bound]:
    shard = state.shards["s"]
    return shard.since, shard.upper


def grant(state: State, capability: str, right: Right, frontier: int) -> None:
    state.apply(Granted("s", Capability(capability, right, frontier, None)))


def test_a_shard_begins_with_both_frontiers_at_its_start(state: State) -> None:
    assert frontiers(state) == (5, 5)
    assert state.shard_of == {"r": "s", "w": "s"}
    assert state.shards["s"].columns.names == ["n", "mz_timestamp", "mz_diff"]


@pytest.mark.semantics(33, 46)
def test_each_frontier_is_the_meet_of_its_capabilities(state: State) -> None:
    grant(state, "r2", Right.READ, 5)
    grant(state, "w2", Right.WRITE, 5)
    state.apply(Downgraded("s", "r", 9))
    state.apply(Appended("s", "w", 20, None))
    assert frontiers(state) == (5, 5)
    state.apply(Downgraded("s", "r2", 7))
    assert frontiers(state) == (7, 5)
    state.apply(Appended("s", "w2", 11, None))
    assert frontiers(state) == (7, 11)
    state.apply(Downgraded("s", "r2", None))
    assert frontiers(state) == (9, 11)


@pytest.mark.semantics(33)
def test_a_capability_granted_late_does_not_move_a_frontier_back(state: State) -> None:
    state.apply(Downgraded("s", "r", 9))
    grant(state, "old", Right.READ, 6)
    assert frontiers(state) == (9, 5)
    state.apply(Downgraded("s", "old", 8))
    assert frontiers(state) == (9, 5)


@pytest.mark.semantics(39, 40)
def test_dropping_the_last_one_releases_the_frontier_for_good(state: State) -> None:
    state.apply(Downgraded("s", "r", None))
    assert frontiers(state) == (None, 5)
    state.apply(Appended("s", "w", None, None))
    assert frontiers(state) == (None, None)
    assert state.shard_of == {}
    assert "s" in state.shards


def test_expiry_of_the_last_one_leaves_the_frontier(state: State) -> None:
    state.apply(Downgraded("s", "r", 8))
    state.apply(Expired("s", "r"))
    state.apply(Expired("s", "w"))
    assert frontiers(state) == (8, 5)
    assert state.shard_of == {}
    grant(state, "again", Right.READ, 8)
    state.apply(Downgraded("s", "again", 9))
    assert frontiers(state) == (9, 5)


def test_expiry_of_the_slowest_lets_the_frontier_go_on(state: State) -> None:
    grant(state, "r2", Right.READ, 5)
    state.apply(Downgraded("s", "r2", 9))
    state.apply(Expired("s", "r"))
    assert frontiers(state) == (9, 5)


def test_a_reader_does_not_hold_the_upper(state: State) -> None:
    state.apply(Appended("s", "w", 50, None))
    assert frontiers(state) == (5, 50)
    state.apply(Expired("s", "r"))
    assert frontiers(state) == (5, 50)


def test_batches_come_and_go(state: State) -> None:
    state.apply(Appended("s", "w", 6, batch(1, "a", "b")))
    state.apply(Appended("s", "w", 7, batch(2)))
    assert state.next_batch == 3
    state.apply(Replaced("s", (1, 2), batch(3, "c")))
    assert list(state.shards["s"].batches) == [3]
    assert state.next_batch == 4
    assert state.garbage == {"a", "b"}
    assert state.referenced() == {"a", "b", "c"}
    state.apply(Swept(("a", "x")))
    assert state.garbage == {"b"}
    state.apply(Replaced("s", (3,), None))
    assert state.shards["s"].batches == {}
    assert state.next_batch == 4, "the id of a batch is never used again"


def test_a_new_checkpoint_makes_garbage_of_the_old(state: State) -> None:
    state.apply_entry([Checkpointed(1, "checkpoint/1-1")])
    assert (state.checkpoint, state.garbage) == ("checkpoint/1-1", set())
    assert state.referenced() == {"checkpoint/1-1"}
    state.apply_entry([Checkpointed(2, "checkpoint/1-2")])
    assert (state.checkpoint, state.garbage) == ("checkpoint/1-2", {"checkpoint/1-1"})
    assert state.position == 3


def test_an_owner_brings_its_epoch(state: State) -> None:
    state.apply_entry([Opened(4, "x")])
    assert state.epoch == 4


def test_a_copy_shares_nothing_that_changes(state: State) -> None:
    copy = State.from_checkpoint(state.to_checkpoint())
    assert copy == state
    before = state.to_checkpoint()
    copy.apply_entry([Appended("s", "w", 9, batch(1, "a")), Downgraded("s", "r", None)])
    assert state.to_checkpoint() == before
    assert Shard.from_record(state.shards["s"].record()) == state.shards["s"]


def test_bounds() -> None:
    assert later(1, 2) == 2
    assert later(None, 2) is later(2, None) is later(None, None) is None
    assert at_or_after(3, 3)
    assert not at_or_after(4, 3)
    assert not at_or_after(None, 3)
