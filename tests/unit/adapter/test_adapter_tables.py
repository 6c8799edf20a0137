"""Writes to tables: grouped, at times in one order, refused when what they read has changed."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pytest

from waterclock.adapter.tables import Dependence, TableGone, TableWriter, WriteConflict
from waterclock.compute.snapshot import contents_at
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.oracle.oracle import PREFIX, Oracle
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.notes import Notes
from waterclock.persist.records import AnyEvent
from waterclock.persist.rows import DIFF, row_schema
from waterclock.persist.state import State
from waterclock.persist.store import Plan, Store
from waterclock.storage.api import Description, ReadCapability, Write, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.storage.sources.unchanged import SourceChanged, SourceMoved

ONE, TWO = GlobalId.user(1), GlobalId.user(2)
NUMBER = Schema((Column("n", Int(64)),))


class World:
    def __init__(self) -> None:
        store = Store.open(MemoryBlob(), MemoryConsensus(), "test")
        self.storage = Storage(store)
        self.now = 1000
        self.woken = 0
        self.oracle = Oracle(Notes(store, PREFIX), lambda: self.now)
        self.writer = TableWriter(self.storage, self.oracle, lambda: self.now, self._wake)
        self.readers: dict[GlobalId, ReadCapability] = {}
        self.writers: dict[GlobalId, WriteCapability] = {}
        for table in (ONE, TWO):
            self.readers[table], writer = self.storage.create(table, Description(NUMBER))
            self.writers[table] = writer
            self.writer.add(writer)

    def _wake(self) -> None:
        self.woken += 1

    def rows(self, table: GlobalId, time: int) -> list[int]:
        found = contents_at(self.storage, self.readers[table], time, row_schema(NUMBER))
        return sorted(found["n"].to_pylist())


@pytest.fixture
def world() -> Iterator[World]:
    made = World()
    yield made
    made.writer.close()
    made.storage.close()


def numbers(*values: int, diff: int = 1) -> pa.Table:
    return pa.table({"n": pa.array(values, pa.int64()), DIFF: pa.array([diff] * len(values))})


@pytest.mark.semantics(80, 86, 98)
def test_a_write_to_two_tables_happens_at_one_time(world: World) -> None:
    time = asyncio.run(world.writer.write({ONE: numbers(1, 2), TWO: numbers(3)}))
    assert time >= 1000
    assert (world.rows(ONE, time), world.rows(TWO, time)) == ([1, 2], [3])
    assert (world.rows(ONE, time - 1), world.rows(TWO, time - 1)) == ([], [])
    assert world.oracle.read_ts() == time
    assert world.woken == 1


@pytest.mark.semantics(82, 83, 93)
def test_many_writers_share_commits_and_each_is_visible_afterwards(world: World) -> None:
    async def write(number: int) -> tuple[int, int]:
        before = world.oracle.read_ts()
        time = await world.writer.write({ONE: numbers(number)})
        assert time > before
        assert world.oracle.read_ts() >= time
        return number, time

    async def all_of_them() -> list[tuple[int, int]]:
        return await asyncio.gather(*(write(number) for number in range(50)))

    written = asyncio.run(all_of_them())
    last = max(time for _, time in written)
    assert world.rows(ONE, last) == list(range(50))
    for number, time in written:
        assert number in world.rows(ONE, time)
    assert world.woken < 50


@pytest.mark.semantics(87, 99)
def test_a_write_that_depends_on_what_has_changed_is_refused(world: World) -> None:
    async def run() -> None:
        read = await world.writer.write({ONE: numbers(1)})
        await world.writer.write({TWO: numbers(9)})
        await world.writer.write({ONE: numbers(2)}, Dependence(read, frozenset({ONE})))
        with pytest.raises(WriteConflict):
            await world.writer.write({ONE: numbers(3)}, Dependence(read, frozenset({ONE})))

    asyncio.run(run())
    assert world.rows(ONE, world.oracle.read_ts()) == [1, 2]


@pytest.mark.semantics(99)
def test_the_first_time_after_the_read_counts_and_that_of_the_read_does_not(world: World) -> None:
    async def run() -> None:
        read = await world.writer.write({ONE: numbers(1)})
        await world.writer.write({TWO: numbers(2)}, Dependence(read, frozenset({ONE})))
        read = await world.writer.write({ONE: numbers(3)})
        changed_at = await world.writer.write({ONE: numbers(4)})
        assert changed_at == read + 1
        with pytest.raises(WriteConflict):
            await world.writer.write({TWO: numbers(5)}, Dependence(read, frozenset({ONE})))

    asyncio.run(run())
    assert world.rows(TWO, world.oracle.read_ts()) == [2]


class Sources:
    """Sources that are told to have changed when the commit comes to it; `Unchanged`."""

    def __init__(self, *faults: Exception) -> None:
        self.faults = list(faults)
        self.asked: list[tuple[object, int]] = []

    def has_changed(self, *_: object) -> bool:
        return False

    def unchanged(
        self, reads: Sequence[tuple[Collection[GlobalId], int]], until: int
    ) -> Plan[None]:
        self.asked.append((reads, until))

        def plan(_: State) -> tuple[list[AnyEvent], None]:
            if self.faults:
                raise self.faults.pop(0)
            return [], None

        return plan


@pytest.mark.semantics(99, 101)
def test_what_a_source_does_during_the_commit(world: World) -> None:
    """It has moved: look again. It has changed: refuse who depends on it, and nobody else."""
    source = GlobalId.user(7)

    async def run() -> list[object]:
        read = await world.writer.write({ONE: numbers(1)})
        depends = Dependence(read, frozenset(), frozenset({source}))
        world.writer.sources = sources = Sources(SourceMoved("s"), SourceMoved("s"))
        written = await world.writer.write({ONE: numbers(2)}, depends)
        assert [until for _, until in sources.asked][-1] == written
        assert len(sources.asked) == 3
        world.writer.sources = Sources(SourceChanged("s"), SourceChanged("s"))
        return await asyncio.gather(
            world.writer.write({ONE: numbers(3)}, depends),
            world.writer.write({ONE: numbers(4)}),
            return_exceptions=True,
        )

    refused, fine = asyncio.run(run())
    assert isinstance(refused, WriteConflict)
    assert isinstance(fine, int)
    assert world.rows(ONE, world.oracle.read_ts()) == [1, 2, 4]


@pytest.mark.semantics(85)
def test_quiet_tables_are_complete_up_to_now(world: World) -> None:
    world.now = 5000
    world.writer.advance()
    assert world.rows(ONE, 5000) == []
    time = asyncio.run(world.writer.write({TWO: numbers(1)}))
    assert time > 5000, "what was complete stays as it is"


@pytest.mark.semantics(101)
def test_a_bad_write_fails_alone(world: World) -> None:
    async def run() -> list[object]:
        wrong = pa.table({"m": pa.array([1], pa.int64()), DIFF: pa.array([1])})
        return await asyncio.gather(
            world.writer.write({ONE: numbers(1)}),
            world.writer.write({ONE: wrong}),
            world.writer.write({GlobalId.user(9): numbers(1)}),
            world.writer.write({ONE: numbers(2)}),
            return_exceptions=True,
        )

    first, second, third, fourth = asyncio.run(run())
    assert isinstance(first, int)
    assert isinstance(fourth, int)
    assert isinstance(second, Exception)
    assert isinstance(third, TableGone)
    assert world.rows(ONE, world.oracle.read_ts()) == [1, 2]


@pytest.mark.semantics(87, 99)
def test_writes_of_one_commit_do_not_lose_each_other(world: World) -> None:
    """Two that read the same and change it: one of them reads again, however they are grouped."""

    async def run() -> tuple[object, ...]:
        read = await world.writer.write({ONE: numbers(1)})
        needs = Dependence(read, frozenset({ONE}))
        changed = pa.concat_tables([numbers(1, diff=-1), numbers(2)])
        return await asyncio.gather(
            world.writer.write({ONE: changed}, needs),
            world.writer.write({ONE: changed}, needs),
            return_exceptions=True,
        )

    first, second = asyncio.run(run())
    assert isinstance(first, int)
    assert isinstance(second, WriteConflict)
    assert world.rows(ONE, first) == [2]


@pytest.mark.semantics(87, 99)
def test_what_a_write_depends_on_is_not_changed_at_its_time_either(world: World) -> None:
    """A write that depends on nothing comes later, in a commit of its own, and refuses nobody."""

    async def run() -> tuple[int, ...]:
        read = await world.writer.write({ONE: numbers(1), TWO: numbers(1)})
        return await asyncio.gather(
            world.writer.write({ONE: numbers(2)}),
            world.writer.write({TWO: numbers(3)}, Dependence(read, frozenset({ONE}))),
            world.writer.write({TWO: numbers(4)}),
        )

    blind, dependent, beside = asyncio.run(run())
    assert blind > dependent
    assert beside == dependent, "what it changes nobody has read"
    assert world.rows(ONE, dependent) == [1]
    assert world.rows(TWO, dependent) == [1, 3, 4]


@pytest.mark.semantics(87, 99)
def test_writes_that_depend_on_what_the_others_change_are_not_at_one_time(world: World) -> None:
    """The one that comes first is right; the other has read what that changes."""

    async def run() -> list[object]:
        read = await world.writer.write({ONE: numbers(1), TWO: numbers(1)})
        return await asyncio.gather(
            world.writer.write({TWO: numbers(2)}, Dependence(read, frozenset({ONE}))),
            world.writer.write({ONE: numbers(2)}, Dependence(read, frozenset({TWO}))),
            return_exceptions=True,
        )

    first, second = asyncio.run(run())
    assert isinstance(first, int)
    assert isinstance(second, WriteConflict)
    assert world.rows(ONE, world.oracle.read_ts()) == [1]


@pytest.mark.semantics(93)
def test_what_is_written_in_one_turn_is_committed_together(world: World) -> None:
    async def run() -> list[int]:
        return await asyncio.gather(*(world.writer.write({ONE: numbers(n)}) for n in range(20)))

    assert len(set(asyncio.run(run()))) == 1
    assert world.woken == 1


def test_nothing_is_taken_after_the_end(world: World) -> None:
    world.writer.close()
    with pytest.raises(TableGone):
        asyncio.run(world.writer.write({ONE: numbers(1)}))


@pytest.mark.semantics(101)
def test_a_right_that_has_gone_fails_nobody_else(world: World) -> None:
    """Every commit names all tables; only who writes to the one that has gone is refused."""
    world.storage.drop_capability(world.writers[TWO])

    async def run() -> list[object]:
        return await asyncio.gather(
            world.writer.write({ONE: numbers(1)}),
            world.writer.write({TWO: numbers(2)}),
            world.writer.write({ONE: numbers(3), TWO: numbers(4)}),
            world.writer.write({ONE: numbers(5)}),
            return_exceptions=True,
        )

    first, second, third, fourth = asyncio.run(run())
    assert isinstance(first, int)
    assert isinstance(fourth, int)
    assert isinstance(second, TableGone)
    assert isinstance(third, TableGone)
    assert world.rows(ONE, world.oracle.read_ts()) == [1, 5]
    assert world.writer.written == {ONE}


def test_quiet_tables_go_on_beside_one_that_has_gone(world: World) -> None:
    world.storage.drop_capability(world.writers[TWO])
    world.now = 5000
    world.writer.advance()
    assert world.rows(ONE, 5000) == []
    assert world.writer.written == {ONE}


@pytest.mark.semantics(85)
def test_a_right_that_has_moved_is_found_again(world: World) -> None:
    [moved] = world.storage.append(Write(world.writers[TWO], None, EPOCH_MILLIS.frontier(7000)))
    time = asyncio.run(world.writer.write({ONE: numbers(1), TWO: numbers(2)}))
    assert time >= 7000, "what was complete stays as it is"
    assert moved.frontier == EPOCH_MILLIS.frontier(7000)
    assert (world.rows(ONE, time), world.rows(TWO, time)) == ([1], [2])


def test_a_write_is_taken_back_while_it_waits(world: World) -> None:
    async def run() -> tuple[bool, bool]:
        waiting = world.writer.begin({ONE: numbers(1)})
        was_revoked = waiting.try_revoke()
        done = world.writer.begin({ONE: numbers(2)})
        await done.outcome
        return was_revoked, done.try_revoke()

    assert asyncio.run(run()) == (True, False)
    assert world.rows(ONE, world.oracle.read_ts()) == [2]
