"""CREATE, ALTER and DROP READ HOLD: history that stays readable for as long as somebody renews."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from waterclock.adapter import read_holds
from waterclock.adapter.coordinator import Pace
from waterclock.catalog.objects import Role
from waterclock.testing.adapter_world import AdapterWorld, Client, adapter_world

PATIENCE_S = 120.0
SOON = Pace(tick_ms=20, retain_ms=50)
"""History is forgotten at once, unless somebody holds it."""


def quickly_forgetting(test: Callable[[AdapterWorld], object]) -> Callable[[Path], None]:
    def run(tmp_path: Path) -> None:
        async def inside() -> None:
            async with adapter_world(tmp_path, pace=SOON) as world:
                await test(world)  # type: ignore[misc]

        asyncio.run(inside())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, "it never came to pass"
        await asyncio.sleep(0.02)


def since(world: AdapterWorld, name: str) -> int:
    [collection] = [item.id for item in world.core.current.items() if item.name == name]
    found = world.core.holds.since([collection])
    assert found is not None
    return found


async def forgotten(world: AdapterWorld, name: str, moment: int) -> None:
    await until(lambda: since(world, name) > moment)


async def made(world: AdapterWorld) -> Client:
    client = await world.connect()
    await client.run("CREATE TABLE orders (a int); CREATE TABLE sales (a int)")
    await client.run("CREATE TABLE other (a int)")
    await client.run("INSERT INTO orders VALUES (1); INSERT INTO sales VALUES (2)")
    return client


async def held_since(client: Client, name: str) -> int:
    [(found,)] = await client.rows(
        f"SELECT DISTINCT since FROM mz_internal.mz_read_holds WHERE holder = '{name}'"
    )
    return int(found)


@pytest.mark.semantics(46, 47, 49)
@quickly_forgetting
async def test_what_is_held_can_be_read_as_of_the_time_of_the_hold(world: AdapterWorld) -> None:
    client = await made(world)
    tag = await client.tag("CREATE READ HOLD audit ON orders, sales WITH (LEASE = '1 hour')")
    assert tag == "CREATE READ HOLD"
    moment = await held_since(client, "audit")
    await client.run("INSERT INTO orders VALUES (10); INSERT INTO sales VALUES (20)")
    await client.run("DELETE FROM orders WHERE a = 1")
    await forgotten(world, "other", moment + 1)
    assert await client.rows(f"SELECT a FROM orders AS OF {moment}") == [(1,)]
    assert await client.rows(f"SELECT a FROM sales AS OF {moment}") == [(2,)]
    await client.fails(f"SELECT a FROM other AS OF {moment}")

    await asyncio.to_thread(world.close)
    await asyncio.to_thread(world.open)
    client = await world.connect()
    await forgotten(world, "other", moment + 2)
    assert await client.rows(f"SELECT a FROM orders AS OF {moment}") == [(1,)]

    assert await client.tag("DROP READ HOLD audit") == "DROP READ HOLD"
    await forgotten(world, "orders", moment)
    assert (await client.fails(f"SELECT a FROM orders AS OF {moment}")).sqlstate == "22023"


@pytest.mark.semantics(52, 54, 102)
@quickly_forgetting
async def test_advancing_lets_go_of_what_is_before(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE READ HOLD h ON orders WITH (LEASE = '1 hour')")
    moment = await held_since(client, "h")
    await client.run("INSERT INTO orders VALUES (10)")
    await forgotten(world, "other", moment + 100)
    later = moment + 50
    assert await client.tag(f"ALTER READ HOLD h ADVANCE TO {later}") == "ALTER READ HOLD"
    assert await held_since(client, "h") == later
    await until(lambda: since(world, "orders") == later)
    assert len(await client.rows(f"SELECT a FROM orders AS OF {later}")) >= 1
    error = await client.fails(f"ALTER READ HOLD h ADVANCE TO {moment}")
    assert "can not go back" in error.message
    assert error.hint is not None
    assert await held_since(client, "h") == later, "a refused change changes nothing"


@pytest.mark.semantics(55)
@quickly_forgetting
async def test_a_hold_that_is_not_renewed_is_released(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE READ HOLD short ON orders WITH (LEASE = '1s')")
    await client.run("CREATE READ HOLD long ON sales WITH (LEASE = '1 hour')")
    moment = await held_since(client, "short")
    for _ in range(4):  # for longer than the lease in all
        await asyncio.sleep(0.3)
        assert await client.tag("ALTER READ HOLD short RENEW") == "ALTER READ HOLD"
    assert await client.rows(f"SELECT a FROM orders AS OF {moment}") == [(1,)]
    await forgotten(world, "orders", moment)
    error = await client.fails("ALTER READ HOLD short RENEW")
    assert error.sqlstate == "42704"
    assert 'read hold "short" does not exist' in error.message
    assert "lease has run out" in (error.detail or "")
    assert await client.rows(f"SELECT a FROM sales AS OF {await held_since(client, 'long')}")


@quickly_forgetting
async def test_who_holds_what_is_shown(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE READ HOLD h ON orders WITH (LEASE = '10 minutes')")
    rows = await client.rows(
        "SELECT holder, kind, owner, o.name, since, lease_ms, expires_at > now()"
        " FROM mz_internal.mz_read_holds h JOIN mz_objects o ON o.id = h.object_id"
        " WHERE o.name = 'orders' ORDER BY kind"
    )
    moment = await held_since(client, "h")
    assert ("h", "read hold", "waterclock", "orders", moment, 600_000, True) in rows
    [(kept,)] = [row[5:6] for row in rows if row[1] == "retention"]
    assert kept is None, "the system's own hold never expires"
    await client.run("BEGIN; SELECT a FROM sales")
    [(shown,)] = await client.rows(
        "SELECT count(*) FROM mz_internal.mz_read_holds h JOIN mz_objects o ON o.id = h.object_id"
        " WHERE kind = 'transaction' AND o.name = 'sales'"
    )
    assert shown == 1
    assert not await client.rows(
        "SELECT 1 FROM mz_internal.mz_read_holds WHERE kind = 'capability'"
    ), "everybody who holds something is known"


@quickly_forgetting
async def test_only_its_owner_changes_a_hold_and_only_a_reader_has_one(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE ROLE ada LOGIN; CREATE ROLE eve LOGIN")
    await client.run("GRANT SELECT ON orders TO ada")
    ada, eve = await world.connect("ada"), await world.connect("eve")
    assert (await eve.fails("CREATE READ HOLD h ON orders")).sqlstate == "42501"
    await ada.run("CREATE READ HOLD h ON orders WITH (LEASE = '1 hour')")
    for text in ("ALTER READ HOLD h RENEW", "DROP READ HOLD h"):
        error = await eve.fails(text)
        assert (error.sqlstate, error.message) == ("42501", "must be owner of read hold h")
    await client.run("ALTER READ HOLD h RENEW")  # a superuser
    moment = await held_since(ada, "h")

    await client.run("REVOKE SELECT ON orders FROM ada")
    error = await ada.fails("ALTER READ HOLD h RENEW")
    assert error.sqlstate in ("55000", "42704")  # told at once, or noticed already
    await forgotten(world, "orders", moment)
    assert not await client.rows("SELECT 1 FROM mz_internal.mz_read_holds WHERE holder = 'h'")


@quickly_forgetting
async def test_holds_go_with_their_role_and_their_relations(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE ROLE ada LOGIN")
    await client.run("GRANT SELECT ON orders TO ada; GRANT SELECT ON sales TO ada")
    ada = await world.connect("ada")
    await ada.run("CREATE READ HOLD theirs ON orders WITH (LEASE = '1 hour')")
    await client.run("CREATE READ HOLD pair ON orders, sales WITH (LEASE = '1 hour')")
    moment = await held_since(client, "pair")
    await client.run("DROP TABLE sales")
    await until(lambda: len(world.core.read_holds.shown()[-1].tokens) == 1)
    error = await client.fails("ALTER READ HOLD pair RENEW")
    assert error.sqlstate == "55000"
    assert error.detail == "A relation of it was dropped."
    assert await client.rows(f"SELECT a FROM orders AS OF {moment}") == [(1,)]
    await client.run("DROP READ HOLD pair")

    await ada.session.terminate()
    await client.run("REVOKE SELECT ON orders FROM ada")
    await client.run("DROP ROLE ada")
    await until(lambda: not world.core.read_holds.shown())
    await forgotten(world, "orders", moment)


@quickly_forgetting
async def test_what_can_not_be_held_is_refused(world: AdapterWorld) -> None:
    client = await made(world)
    error = await client.fails("CREATE READ HOLD h ON orders AS OF 1")
    assert error.sqlstate == "22023"
    assert "table orders can be read from" in (error.detail or "")
    assert (await client.fails("CREATE READ HOLD h ON missing")).sqlstate == "42P01"
    assert (await client.fails("CREATE READ HOLD h ON mz_objects")).sqlstate == "0A000"
    error = await client.fails("CREATE READ HOLD h ON orders WITH (LEASE = '1 ms')")
    assert (error.sqlstate, error.hint) == (
        "22023",
        "A lease lasts 1s to 7d. Renew it to hold for longer.",
    )
    await client.run("CREATE READ HOLD h ON orders")
    assert (await client.fails("CREATE READ HOLD h ON sales")).sqlstate == "42710"
    await client.run("CREATE READ HOLD IF NOT EXISTS h ON sales")
    assert client.notices[-1].message == 'read hold "h" already exists, skipping'
    await client.run("DROP READ HOLD IF EXISTS x; ALTER READ HOLD IF EXISTS x RENEW")
    assert client.notices[-1].message == 'read hold "x" does not exist, skipping'
    assert world.core.holds.taken == 1, "a refused statement leaves no hold in memory"


@quickly_forgetting
async def test_there_are_only_so_many(world: AdapterWorld) -> None:
    client = await made(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(read_holds, "MAX_HOLDS", 1)
        await client.run("CREATE READ HOLD a ON orders")
        error = await client.fails("CREATE READ HOLD b ON orders")
        assert error.sqlstate == "53400"
    assert isinstance(world.core.current.role("waterclock"), Role)
