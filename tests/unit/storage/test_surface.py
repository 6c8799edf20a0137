"""What Storage offers, and that it offers nothing else."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import waterclock
from waterclock.compute.inputs import STEP_LIMIT
from waterclock.model.errors import FrontierRegression
from waterclock.storage import riders
from waterclock.storage.api import Progress, ReadCapability, Updates, Write, WriteCapability
from waterclock.storage.commands import new_token
from waterclock.storage.contents import (
    amount_waiting,
    had_none,
    is_complete,
    try_changes,
    try_contents,
)
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityUnknown
from waterclock.storage.subscription import Subscription
from waterclock.testing.storage_world import TABLE, MemoryWorld, at, drain, many, user, write

COMMANDS = {
    "create",
    "subscribe_at",
    "clone_capability",
    "downgrade_capability",
    "drop_capability",
    "append",
    "acquire_capabilities",
}
HOUSEKEEPING = {
    *("open", "open_directory", "close", "maintain", "expire_leases", "maintenance", "runtime"),
}
SAME_FOR_COROUTINES = {"append_async"}
SAME_FOR_MANY = {"downgrade_capabilities"}


def public(names: object) -> set[str]:
    return {name for name in dir(names) if not name.startswith("_")}


@pytest.mark.semantics(58)
def test_the_commands_are_exactly_the_seven(world: MemoryWorld) -> None:
    variants = SAME_FOR_COROUTINES | SAME_FOR_MANY
    assert public(world.storage) == COMMANDS | HOUSEKEEPING | variants
    one, other = (inspect.signature(f) for f in (Storage.append, Storage.append_async))
    assert one.parameters == other.parameters


def test_many_are_moved_as_one_is(world: MemoryWorld) -> None:
    storage = world.storage
    first, _ = storage.create(user(1), TABLE)
    second, _ = storage.create(user(2), TABLE)
    moved = storage.downgrade_capabilities([(first, at(3)), (second, at(4))])
    assert [each.frontier for each in moved] == [at(3), at(4)]
    with pytest.raises(FrontierRegression):
        storage.downgrade_capabilities([(moved[0], at(9)), (moved[1], at(1))])
    assert storage.downgrade_capability(moved[0], at(3)) == moved[0], "none of them was moved"


@pytest.mark.semantics(58, 68)
def test_only_two_commands_reveal_anything(world: MemoryWorld) -> None:
    """The others answer with what their caller gave them: capabilities, moved as asked."""
    storage = world.storage
    read, written = storage.create(user(1), TABLE)
    first = storage.clone_capability(written)
    [moved] = storage.append(write(written, 9, ((1, "a"), 3, 1)))
    assert moved == WriteCapability(written.token, user(1), at(9)), "not where upper is: at 0"
    clone = storage.clone_capability(read)
    assert clone == ReadCapability(clone.token, user(1), at(0))
    assert storage.downgrade_capability(clone, at(4)).frontier == at(4), "not since, at 0"
    read2, write2 = storage.acquire_capabilities(user(1))
    assert (read2.frontier, write2.frontier) == (at(0), at(0))
    storage.drop_capability(write2)
    storage.append(write(first, 9))
    kinds = {type(message) for message in drain(storage.subscribe_at(read))}
    assert kinds == {Updates, Progress}


@pytest.mark.semantics(68)
def test_nobody_looks_without_a_capability(world: MemoryWorld) -> None:
    """What the layers above are told on the way of their plans asks for a capability as well."""
    storage = world.storage
    read, written = storage.create(user(1), TABLE)
    other, _ = storage.create(user(2), TABLE)
    [written] = storage.append(write(written, 9, ((1, "a"), 3, 1)))
    leased, _ = storage.acquire_capabilities(user(1), lease_ms=10, write=False)
    assert riders.frontiers(storage, [read, written]) == {user(1): (at(0), at(9))}
    world.clock.now = 10
    dropped = storage.clone_capability(read)
    storage.drop_capability(dropped)
    elsewhere = ReadCapability(other.token, user(1), at(0))
    invented = ReadCapability(new_token(), user(1), at(0))
    for nobody in (leased, dropped, elsewhere, invented):
        for look in (
            lambda held: riders.frontiers(storage, [held]),
            lambda held: is_complete(storage, held, 4),
            lambda held: had_none(storage, [held], 4),
            lambda held: amount_waiting(storage, held, 0),
        ):
            with pytest.raises(CapabilityUnknown):
                look(nobody)


@pytest.mark.semantics(68)
def test_nobody_reads_without_a_capability(tmp_path: Path) -> None:
    """Neither by way of objects that other processes read."""
    with Storage.open_directory(tmp_path, background=False) as storage:
        _, written = storage.create(user(1), TABLE)
        storage.append(Write(written, many(9, 3), at(9)))
        invented = ReadCapability(new_token(), user(1), at(0))
        with pytest.raises(CapabilityUnknown):
            try_contents(storage, invented, 4, at_least=0)
        with pytest.raises(CapabilityUnknown):
            try_changes(storage, invented, 1, STEP_LIMIT)
        with pytest.raises(CapabilityUnknown):
            storage.subscribe_at(invented)


@pytest.mark.semantics(58, 68)
def test_the_layers_above_have_no_other_way_to_the_shards() -> None:
    """They see the state in plans, which are committed; none of them reads it for an answer."""
    source = Path(waterclock.__file__).parent
    above = ("adapter", "catalog", "client", "compute", "http", "oracle", "pgwire", "sql")
    found = {
        f"{path.relative_to(source)}: {match}"
        for layer in above
        for path in (source / layer).rglob("*.py")
        for match in _LOOKS.findall(path.read_text())
    }
    assert found == {"catalog/durable.py: self._store.read(lambda state: self._notes.noted"}


_LOOKS = re.compile(
    r"\w+(?:\.\w+)*store\.read\((?:lambda state: [\w.]+)?|\.shards\b|\bshard_of\b|\bshard_held\b"
)


def test_a_subscription_can_be_received_and_ended() -> None:
    assert public(Subscription) == {"receive", "cancel", "close"}
