"""Which time a read gets, when others hold its inputs too."""

from __future__ import annotations

import pytest

from waterclock.adapter.reading import at_time
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.oracle.selection import Isolation
from waterclock.persist.errors import FREE_SPACE, DiskFull
from waterclock.storage.api import ReadCapability
from waterclock.testing.adapter_world import AdapterWorld, in_world


@pytest.mark.semantics(84, 102)
@in_world
async def test_a_read_is_not_before_what_the_adapter_itself_holds(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    [table] = world.core.current.items()
    core = world.core
    other, _ = core.storage.acquire_capabilities(table.id, write=False)
    assert isinstance(other, ReadCapability)
    # The adapter lets go of everything up to now, while the other keeps the past readable, and
    # nothing was written since, so that the oracle still tells the time of the last write.
    core.holds.allow_compaction(core.oracle.read_ts() + 10)
    held = core.holds.capability(table.id).frontier
    assert other.frontier < held
    moment = core_choice(world)
    assert held.less_equal(EPOCH_MILLIS.time(moment))
    assert await client.rows("SELECT * FROM t") == [(1,)]


@in_world
async def test_a_transaction_reads_one_table_after_another_while_somebody_holds_the_first(
    world: AdapterWorld,
) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int); CREATE TABLE u (a int); INSERT INTO u VALUES (1)")
    only_t = world.core.holds.take([i.id for i in world.core.current.items() if i.name == "t"])
    # Nothing is written for longer than the past is kept: t stays readable as it was, u does not.
    world.core.holds.allow_compaction(world.core.oracle.read_ts() + 10)
    await client.run("BEGIN")
    assert await client.rows("SELECT * FROM t") == []
    assert await client.rows("SELECT * FROM u") == [(1,)]
    await client.run("COMMIT")
    only_t.close()


@in_world
async def test_a_read_does_not_wait_for_a_disk_that_is_full(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1)")
    later = world.core.oracle.read_ts() + 3_600_000
    append = world.consensus.append

    def refuse(*_: object) -> None:
        raise DiskFull("could not append to the log", hint=FREE_SPACE)

    world.consensus.append = refuse  # type: ignore[method-assign]
    with pytest.raises(DiskFull) as caught:
        await client.rows(f"SELECT * FROM t AS OF {later}")
    assert caught.value.sqlstate == "53100"
    assert caught.value.hint == FREE_SPACE
    assert await client.rows("SELECT * FROM t") == [(1,)]
    world.consensus.append = append  # type: ignore[method-assign]
    await client.run("INSERT INTO t VALUES (2)")
    assert sorted(await client.rows("SELECT * FROM t")) == [(1,), (2,)]


def core_choice(world: AdapterWorld) -> int:
    [table] = world.core.current.items()
    moment = world.front.reading.choose([table.id], Isolation.STRICT_SERIALIZABLE)
    moment.close()
    return moment.time


def test_the_time_of_a_read_takes_the_place_of_mz_now() -> None:
    assert at_time("SELECT 1", 7) == "SELECT 1"
    written = r"SELECT MZ_NOW(), 'MZ_NOW()', 'it\'s MZ_NOW()', `MZ_NOW()` WHERE MZ_NOW() < 9"
    assert at_time(written, 7) == (
        r"SELECT CAST(7 AS BIGINT), 'MZ_NOW()', 'it\'s MZ_NOW()', `MZ_NOW()`"
        " WHERE CAST(7 AS BIGINT) < 9"
    )
