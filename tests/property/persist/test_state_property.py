"""The state is a function of the log: rebuilt from any checkpoint it is the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.persist.records import (
    AnyEvent,
    Appended,
    Batch,
    Block,
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
    decode_checkpoint,
    decode_entry,
    encode_checkpoint,
    encode_entry,
)
from waterclock.persist.schema_codec import encode_schema
from waterclock.persist.state import Outlook, Shard, State
from waterclock.testing.examples import examples
from waterclock.testing.persist_world import EVERY_TYPE
from waterclock.testing.reference import farther, moved_back

many = examples(60)


def draw_event(draw: st.DrawFn, state: State, number: int) -> AnyEvent:
    """Something that may happen in the state; `number` makes new names."""
    kinds = ["create", "open", "checkpoint", "sweep"]
    if state.shards:
        kinds += ["grant"] * 3
    if state.shard_of:
        kinds += ["down", "down", "drop", "expire"]
    if any(_writers(shard) for shard in state.shards.values()):
        kinds += ["append"] * 4
    if any(shard.batches for shard in state.shards.values()):
        kinds.append("replace")
    match draw(st.sampled_from(kinds)):
        case "create":
            return Created(
                f"s{number}", "epoch_ms", encode_schema(EVERY_TYPE), None, draw(st.integers(0, 5))
            )
        case "open":
            return Opened(state.epoch + 1, f"owner{number}")
        case "checkpoint":
            return Checkpointed(state.position, f"checkpoint/{number}")
        case "sweep":
            return Swept(tuple(sorted(state.garbage)[:2]))
        case "grant":
            shard = state.shards[draw(st.sampled_from(sorted(state.shards)))]
            right = draw(st.sampled_from(Right))
            held = shard.since if right is Right.READ else shard.upper
            lease = draw(st.none() | st.integers(1, 9))
            return Granted(shard.id, Capability(f"c{number}", right, held or 0, lease))
        case "append":
            return _draw_append(draw, state, number)
        case "replace":
            shard = draw(st.sampled_from([s for s in state.shards.values() if s.batches]))
            removed = draw(st.sets(st.sampled_from(sorted(shard.batches))))
            merged = Batch(state.next_batch, 0, 1, True, (Part(1, 1, key=f"merged/{number}"),))
            return Replaced(shard.id, tuple(sorted(removed)), draw(st.sampled_from([None, merged])))
        case kind:
            return _draw_move(draw, state, kind)


def _writers(shard: Shard) -> list[str]:
    return [c.id for c in shard.capabilities.values() if c.right is Right.WRITE]


def _draw_append(draw: st.DrawFn, state: State, number: int) -> AnyEvent:
    shard = draw(st.sampled_from([s for s in state.shards.values() if _writers(s)]))
    writer = draw(st.sampled_from(_writers(shard)))
    frontier = shard.capabilities[writer].frontier
    assert frontier is not None
    key = draw(st.sampled_from([None, f"part/{number}"]))
    part = Part(1, 1, inline=None if key else Block(1, b"x"), key=key)
    batch = draw(st.sampled_from([None, Batch(state.next_batch, 0, 3, False, (part,))]))
    return Appended(shard.id, writer, draw(_at_or_after(frontier)), batch)


def _draw_move(draw: st.DrawFn, state: State, kind: str) -> AnyEvent:
    capability = draw(st.sampled_from(sorted(state.shard_of)))
    shard = state.shard_of[capability]
    if kind == "expire":
        return Expired(shard, capability)
    frontier = state.shards[shard].capabilities[capability].frontier
    assert frontier is not None
    to = None if kind == "drop" else draw(_at_or_after(frontier))
    return Downgraded(shard, capability, to)


def _at_or_after(frontier: int) -> st.SearchStrategy[int]:
    return st.integers(frontier, frontier + 4)


@st.composite
def logs(draw: st.DrawFn) -> list[list[AnyEvent]]:
    """Entries of events, each of which may happen when it does."""
    state = State()
    entries: list[list[AnyEvent]] = []
    number = 0
    for size in draw(st.lists(st.integers(1, 4), max_size=12)):
        entry: list[AnyEvent] = []
        for _ in range(size):
            number += 1
            event = draw_event(draw, state, number)
            state.apply(event)
            entry.append(event)
        state.position += 1
        entries.append(entry)
    return entries


@pytest.mark.semantics(43)
@many
@given(logs(), st.data())
def test_a_checkpoint_and_the_entries_after_it_are_the_whole_log(
    entries: list[list[AnyEvent]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(entries)))
    whole, early = State(), State()
    for entry in entries:
        whole.apply_entry(entry)
    for entry in entries[:cut]:
        early.apply_entry(entry)
    kept = decode_checkpoint(encode_checkpoint(early.to_checkpoint()))
    recovered = State.from_checkpoint(kept)
    assert recovered == early
    for entry in entries[cut:]:
        recovered.apply_entry(decode_entry(encode_entry(entry)))
    assert recovered == whole
    assert recovered.to_checkpoint() == whole.to_checkpoint()


@many
@given(logs())
def test_a_state_that_follows_is_as_if_it_had_worked_everything_out(
    entries: list[list[AnyEvent]],
) -> None:
    whole, following = State(), State()
    outlook = Outlook.on(following)
    for entry in entries:
        for event in entry:
            outlook.apply(event)
        whole.apply_entry(entry)
        following.follow(outlook, entry)
        assert following == whole
        assert _all_but_batches(outlook) == _all_but_batches(whole)
        assert not any(shard.batches for shard in outlook.shards.values())


def _all_but_batches(state: State) -> object:
    shards = [(s.id, s.since, s.upper, s.capabilities) for s in state.shards.values()]
    return shards, state.shard_of, state.next_batch, state.notes, state.epoch, state.checkpoint


@pytest.mark.semantics(33, 46)
@many
@given(logs())
def test_frontiers_follow_capabilities_and_never_move_back(entries: list[list[AnyEvent]]) -> None:
    state = State()
    for entry in entries:
        for event in entry:
            before = {s.id: (s.since, s.upper) for s in state.shards.values()}
            rights = {c.id: c.right for s in state.shards.values() for c in s.capabilities.values()}
            state.apply(event)
            for shard in state.shards.values():
                since, upper = before.get(shard.id, (shard.since, shard.upper))
                assert not moved_back(since, shard.since)
                assert not moved_back(upper, shard.upper)
                assert shard.since == _expected(event, rights, shard, Right.READ, since)
                assert shard.upper == _expected(event, rights, shard, Right.WRITE, upper)
        assert state.shard_of == {
            c: shard.id for shard in state.shards.values() for c in shard.capabilities
        }
    numbers = [b for shard in state.shards.values() for b in shard.batches]
    assert len(set(numbers)) == len(numbers)
    assert all(number < state.next_batch for number in numbers)


def _expected(
    event: AnyEvent, rights: dict[str, Right], shard: Shard, right: Right, before: Bound
) -> Bound:
    """Where a frontier must be: the least that a live capability holds, but not before it was.

    An event that is about no capability of the right leaves it, and so does the expiry of the last.
    """
    moving = isinstance(event, Appended | Downgraded | Expired) and event.shard == shard.id
    if not moving or rights[event.capability] is not right:  # type: ignore[union-attr]
        return before
    held = [c.frontier for c in shard.capabilities.values() if c.right is right]
    if not held:
        return before if isinstance(event, Expired) else None
    return farther(before, min(bound for bound in held if bound is not None))


@many
@given(st.integers(5, 20), st.integers(0, 4), st.integers(21, 30), st.sampled_from(list(Right)))
def test_a_right_that_is_behind_does_not_take_a_frontier_back(
    start: int, behind: int, moved: int, right: Right
) -> None:
    """No command gives such a right out; the fold does not rely on that."""
    state = State()
    state.apply(Created("s", "epoch_ms", encode_schema(EVERY_TYPE), None, start))
    for name, frontier in (("ahead", start), ("behind", behind)):
        state.apply(Granted("s", Capability(name, right, frontier, None)))
    state.apply(Downgraded("s", "ahead", moved))
    shard = state.shards["s"]
    assert (shard.since, shard.upper) == (start, start)
    state.apply(Downgraded("s", "behind", None))
    assert (shard.since if right is Right.READ else shard.upper) == moved
