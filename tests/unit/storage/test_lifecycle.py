"""The life of a collection: through appends, compaction, restarts, to its end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from waterclock.model.errors import TimeForgotten
from waterclock.model.ids import GlobalId
from waterclock.persist.errors import DataInUse, Fenced, Unavailable
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.parts import read_batches
from waterclock.persist.state import State
from waterclock.storage.api import (
    Description,
    ReadCapability,
    Token,
    Updates,
    Write,
    WriteCapability,
    Writers,
)
from waterclock.storage.controller import Storage
from waterclock.storage.errors import CapabilityUnknown
from waterclock.testing.storage_world import (
    END,
    SCHEMA,
    TABLE,
    MemoryWorld,
    Row,
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


def stored(world: MemoryWorld, collection: GlobalId) -> Counter[tuple[Row, int]]:
    """The updates as they are stored, each at the time it is stored with."""
    columns = world.storage._store.read(lambda state: state.shards[str(collection)].columns)
    batches = shard_in(world, collection).batches
    found = read_batches(world.storage._store, batches, columns)
    return triples_of([Updates(piece) for piece in found])


def maintain_all(storage: Storage) -> None:
    while storage.maintain():
        pass


@pytest.mark.semantics(34, 35, 37, 38, 39, 40)
def test_from_binding_to_the_end(any_world: World) -> None:
    storage = any_world.storage

    def frontiers() -> tuple[int | None, int | None]:
        shard = shard_in(any_world, user(1))
        return shard.since, shard.upper

    read, written = storage.create(user(1), TABLE)
    assert frontiers() == (0, 0)
    [written] = storage.append(write(written, 4, ((1, "a"), 0, 1)))
    assert frontiers() == (0, 4)
    read = storage.downgrade_capability(read, at(2))
    assert frontiers() == (2, 4)
    read = storage.downgrade_capability(read, at(7))
    assert frontiers() == (7, 4)
    [written] = storage.append(write(written, 9, ((2, "b"), 8, 1)))
    assert frontiers() == (7, 9)
    storage.drop_capability(written)
    assert frontiers() == (7, None)
    with refused(any_world, CapabilityUnknown):
        storage.append(write(written, 10))
    assert contents(storage, read, 7) == {(1, "a"): 1}
    assert contents(storage, read, 100) == {(1, "a"): 1, (2, "b"): 1}
    storage.drop_capability(read)
    assert frontiers() == (None, None)
    with refused(any_world, CapabilityUnknown):
        storage.subscribe_at(read)
    maintain_all(storage)
    assert shard_in(any_world, user(1)).batches == ()


@pytest.mark.semantics(40)
def test_unreadable_while_still_written(world: MemoryWorld, table: Table) -> None:
    read, written = table
    [written] = world.storage.append(Write(written, many(1000, 0), at(1)))
    world.storage.drop_capability(read)
    [written] = world.storage.append(Write(written, many(1000, 1), at(2)))
    maintain_all(world.storage)
    assert shard_in(world, user(1)).batches == ()
    assert not list(world.blob.list("shard/"))
    with refused(world, CapabilityUnknown):
        world.storage.subscribe_at(world.storage.acquire_capabilities(user(1), write=False)[0])


# Compaction


@pytest.mark.semantics(28, 30, 33)
def test_compaction_changes_no_answer_from_since_on(world: MemoryWorld, table: Table) -> None:
    read, written = table
    storage = world.storage
    for t in range(10):
        rows = many(1000, t, first=500 * t)
        if t % 3 == 2:
            rows = many(1000, t, first=500 * (t - 1), diff=-1)
        [written] = storage.append(Write(written, rows, at(t + 1)))
    before = stored(world, user(1))
    answers = {t: contents(storage, read, t) for t in range(6, 10)}
    read = storage.downgrade_capability(read, at(6))
    maintain_all(storage)
    assert {t: contents(storage, read, t) for t in range(6, 10)} == answers
    shard = shard_in(world, user(1))
    assert (shard.since, shard.upper) == (6, 10)
    after = stored(world, user(1))
    assert len(after) < len(before), "something was compacted"
    late = {place: diff for place, diff in before.items() if place[1] > 6}
    assert {place: diff for place, diff in after.items() if place[1] > 6} == late
    with refused(world, TimeForgotten):
        storage.subscribe_at(read, as_of=at(5))


def test_compaction_moves_early_times_to_since(
    world: MemoryWorld, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a total order, the meet of the joins with since is the later of the two."""
    monkeypatch.setattr("waterclock.persist.compaction.TINY_ROWS", 1)
    read, written = table
    [written] = world.storage.append(
        write(written, 9, ((1, "a"), 1, 1), ((1, "a"), 3, -1), ((2, "b"), 4, 1), ((3, "c"), 5, -1))
    )
    world.storage.downgrade_capability(read, at(5))
    maintain_all(world.storage)
    assert stored(world, user(1)) == {((2, "b"), 5): 1, ((3, "c"), 5): -1}


@pytest.mark.semantics(45)
def test_nothing_is_compacted_that_a_reader_holds(world: MemoryWorld, table: Table) -> None:
    read, written = table
    held = world.storage.clone_capability(read)
    for t in range(8):
        [written] = world.storage.append(Write(written, many(1000, t, first=1000 * t), at(t + 1)))
    before = stored(world, user(1))
    world.storage.drop_capability(read)
    maintain_all(world.storage)
    assert len(shard_in(world, user(1)).batches) < 8, "they were merged"
    assert stored(world, user(1)) == before
    assert len(contents(world.storage, held, 0)) == 1000


# Restart


@pytest.mark.semantics(43, 60)
def test_everything_between_since_and_upper_survives_a_crash(world: MemoryWorld) -> None:
    read, written = world.storage.create(user(1), TABLE)
    expected: Counter[tuple[Row, int]] = Counter()
    for t in range(12):
        rows = many(1500, t, first=t) if t % 2 else batch(((t, "x"), t, 1), ((-t, None), t, 2))
        [written] = world.storage.append(Write(written, rows, at(t + 1)))
        expected += triples_of([Updates(rows)])
        if t % 5 == 0:
            world.storage.maintain()
        if t == 6:
            checkpoint(world.storage._store)
        world.crash()
        shown = drain(world.storage.subscribe_at(read))
        assert triples_of(shown) == expected
        assert uppers_of(shown) == [at(t + 1)]


COMMANDS: dict[str, Callable[[Storage, ReadCapability, WriteCapability], object]] = {
    "create": lambda storage, *_: storage.create(user(2), TABLE, start=at(3), lease_ms=5),
    "append": lambda storage, _, written: storage.append(write(written, 9, ((5, "e"), 8, 1))),
    "large append": lambda storage, _, written: storage.append(
        Write(written, many(1000, 8), at(9))
    ),
    "end": lambda storage, _, written: storage.append(write(written, END)),
    "clone": lambda storage, read, _: storage.clone_capability(read),
    "downgrade": lambda storage, read, _: storage.downgrade_capability(read, at(3)),
    "drop": lambda storage, read, _: storage.drop_capability(read),
    "acquire": lambda storage, *_: storage.acquire_capabilities(user(1), lease_ms=7),
}


@pytest.mark.semantics(69)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS.keys())
def test_a_command_is_durable_when_it_returns(
    any_world: World,
    command: Callable[[Storage, ReadCapability, WriteCapability], object],
) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    [written] = storage.append(write(written, 5, ((1, "a"), 4, 1)))
    before = any_world.durable()
    command(storage, read, written)
    after = any_world.durable()
    assert after != before
    assert after == storage._store.read(State.to_checkpoint)
    any_world.reopen()
    assert any_world.durable().shards == after.shards


@pytest.mark.semantics(49, 69)
def test_new_capabilities_work_after_a_restart(any_world: World) -> None:
    read, written = any_world.storage.create(user(1), TABLE)
    [written] = any_world.reopen().append(write(written, 1, ((1, "a"), 0, 1)))
    clone = any_world.reopen().clone_capability(read)
    clone = any_world.reopen().downgrade_capability(clone, at(0))
    read2, write2 = any_world.reopen().acquire_capabilities(user(1))
    storage = any_world.reopen()
    for reader in (read, clone, read2):
        assert contents(storage, reader, 0) == {(1, "a"): 1}
    storage.append(write(written, 3, ((2, "b"), 1, 1)))
    storage.append(write(write2, 2, ((2, "b"), 1, 1)))
    assert contents(storage, read, 1) == {(1, "a"): 1, (2, "b"): 2}


def test_a_second_server_fences_the_first_off(world: MemoryWorld, table: Table) -> None:
    first = world.storage
    second = world.open()
    with refused(world, Fenced):
        first.append(write(table[1], 1))
    with refused(world, Fenced):
        first.acquire_capabilities(user(1))
    first.close()
    world.storage = second
    second.append(write(table[1], 1))


def test_a_directory_has_one_server(tmp_path: Path) -> None:
    with Storage.open_directory(tmp_path) as storage:
        with pytest.raises(DataInUse):
            Storage.open_directory(tmp_path)
        read, _ = storage.create(user(1), TABLE)
    with Storage.open_directory(tmp_path) as storage:
        storage.clone_capability(read)


def test_closing_is_final_and_idempotent(any_world: World) -> None:
    storage = any_world.storage
    read, written = storage.create(user(1), TABLE)
    storage.close()
    storage.close()
    for action in (
        lambda: storage.create(user(2), TABLE),
        lambda: storage.append(write(written, 1)),
        lambda: storage.append(write(written, 1, ((1, "a"), 0, 1))),
        lambda: storage.subscribe_at(read),
    ):
        with refused(any_world, Unavailable):
            action()


# Who writes


def test_tables_sources_and_the_system_itself_fill_collections(any_world: World) -> None:
    storage = any_world.storage
    ids = (user(1), user(2), GlobalId.system(1))
    source = Description(SCHEMA, Writers.STORAGE)
    created = [
        storage.create(collection, description)
        for collection, description in zip(ids, (TABLE, source, TABLE), strict=True)
    ]
    inner = shard_in(any_world, user(2)).description["writer"]
    writers = [
        created[0][1],
        WriteCapability(Token(inner), user(2), at(0)),  # Storage keeps it, durably, to itself
        created[2][1],
    ]
    for writer in writers:
        storage.append(write(writer, 1, ((writer.id.number, str(writer.id)), 0, 1)))
    storage = any_world.reopen()
    for read, _ in created:
        assert contents(storage, read, 0) == {(read.id.number, str(read.id)): 1}


def test_the_background_expires_and_merges(tmp_path: Path) -> None:
    with Storage.open_directory(tmp_path) as storage:
        read, written = storage.create(user(1), TABLE)
        storage.acquire_capabilities(user(1), lease_ms=1)
        for t in range(6):
            [written] = storage.append(Write(written, many(1000, t, first=1000 * t), at(t + 1)))

        def is_done() -> bool:
            return storage._store.read(
                lambda state: (
                    len(state.shards["u1"].capabilities) == 2
                    and len(state.shards["u1"].batches) < 6
                )
            )

        deadline = time.monotonic() + 120
        while not is_done():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert is_readable(storage, read, 5)
        assert len(contents(storage, read, 5)) == 6000
