"""pg_stat_activity, stopping what another session runs, and the sizes of relations."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from waterclock.testing.adapter_world import AdapterWorld, Client, in_world

_OWN = "SELECT state, query FROM pg_stat_activity WHERE pid = pg_backend_pid()"


async def state_of(asking: Client, pid: int) -> str | None:
    [(state,)] = await asking.rows(f"SELECT state FROM pg_stat_activity WHERE pid = {pid}")
    assert state is None or isinstance(state, str)
    return state


async def until(asking: Client, pid: int, wanted: str) -> None:
    while await state_of(asking, pid) != wanted:
        await asyncio.sleep(0.001)


@in_world
async def test_each_session_is_shown_with_what_it_does(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    await other.run("SET application_name = 'the other'")
    assert await one.rows(_OWN) == [("active", _OWN)]
    assert await one.rows("SELECT inet_client_addr()") == [(None,)]
    one.session.startup = replace(one.session.startup, client_address="10.0.0.7")
    address = "SELECT client_addr = inet_client_addr(), client_addr FROM pg_stat_activity"
    assert await one.rows(f"{address} WHERE pid = pg_backend_pid()") == [(True, "10.0.0.7")]
    [(pid,)] = await other.rows("SELECT pg_backend_pid()")
    await until(one, pid, "idle")
    shown = (
        "SELECT datname, usename, application_name, query, backend_type, xact_start,"
        f" backend_start <= query_start FROM pg_stat_activity WHERE pid = {pid}"
    )
    found = ("waterclock", "waterclock", "the other", "SELECT pg_backend_pid()", "client backend")
    assert await one.rows(shown) == [(*found, None, True)]
    await other.run("BEGIN")
    assert await state_of(one, pid) == "idle in transaction"
    await other.fails("SELECT 1/0")
    assert await state_of(one, pid) == "idle in transaction (aborted)"
    await other.run("ROLLBACK")
    backends = "SELECT numbackends, xact_commit FROM pg_stat_database WHERE datname = 'waterclock'"
    assert await one.rows(backends) == [(2, None)]
    await other.session.terminate()
    assert await one.rows(backends) == [(1, None)]


@in_world
async def test_what_a_session_runs_can_be_canceled_by_another(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    pid = other.session.startup.process_id
    sleeping = asyncio.create_task(other.fails("SELECT pg_sleep(600)"))
    await until(one, pid, "active")
    while not sleeping.done():  # a request that comes before the statement stops nothing
        assert await one.rows(f"SELECT pg_cancel_backend({pid})") == [(True,)]
        await asyncio.sleep(0.001)
    assert (await sleeping).sqlstate == "57014"


@in_world
async def test_there_are_more_sleepers_than_threads(world: AdapterWorld) -> None:
    sleepers = [await world.connect() for _ in range(40)]
    tasks = [asyncio.create_task(each.fails("SELECT pg_sleep(600)")) for each in sleepers]
    other = await world.connect()
    for each in sleepers:
        await until(other, each.session.startup.process_id, "active")
    while not all(task.done() for task in tasks):
        for each in sleepers:
            each.session.cancel()
        await asyncio.sleep(0.001)


@in_world
async def test_a_session_can_be_ended_by_another(world: AdapterWorld) -> None:
    one, other = await world.connect(), await world.connect()
    told: list[str] = []
    pid = other.session.startup.process_id
    assert await one.rows(f"SELECT pg_terminate_backend({pid})") == [(False,)]
    hang_up = lambda: told.append("hung up")  # noqa: E731
    other.session.startup = replace(other.session.startup, hang_up=hang_up)
    assert await one.rows(f"SELECT pg_terminate_backend({pid}, 100)") == [(True,)]
    assert told == ["hung up"]
    assert await one.rows("SELECT pg_cancel_backend(12345), pg_terminate_backend(NULL)") == [
        (False, None)
    ]
    notice = one.notices[-1]
    assert (notice.severity, notice.message) == (
        "WARNING",
        "PID 12345 is not a PostgreSQL server process",
    )


@in_world
async def test_others_see_and_stop_only_what_they_may(world: AdapterWorld) -> None:
    admin = await world.connect()
    await admin.run("CREATE ROLE ann LOGIN")
    await admin.run("CREATE ROLE bob LOGIN")
    ann, bob = await world.connect("ann"), await world.connect("bob")
    others = "SELECT usename, query, state, backend_start FROM pg_stat_activity WHERE pid <> "
    found = await ann.rows(f"{others} pg_backend_pid() ORDER BY usename")
    hidden = "<insufficient privilege>"
    assert found == [("bob", hidden, None, None), ("waterclock", hidden, None, None)]
    for whom, wanted in ((bob, "member of the role whose query"), (admin, "superuser query")):
        pid = whom.session.startup.process_id
        fault = await ann.fails(f"SELECT pg_cancel_backend({pid})")
        assert fault.sqlstate == "42501"
        assert wanted in str(fault)
    await admin.run("GRANT bob TO ann")
    pid = bob.session.startup.process_id
    assert await ann.rows(f"SELECT pg_cancel_backend({pid})") == [(True,)]


@in_world
async def test_a_table_has_the_size_of_what_is_stored_of_it(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int)")
    await client.run("CREATE VIEW v AS SELECT a FROM t")
    sizes = "SELECT pg_table_size('t'), pg_relation_size('t', 'main'), pg_total_relation_size('v')"
    assert await client.rows(sizes) == [(0, 0, 0)]
    await client.run("INSERT INTO t VALUES (1), (2)")
    [(table, relation, view)] = await client.rows(sizes)
    assert 0 < table == relation
    assert view == 0
    assert await client.rows("SELECT pg_table_size('pg_class'), pg_indexes_size('t')") == [
        (None, None)
    ]
    await client.run("CREATE TABLE u (a int)")
    await client.run("INSERT INTO u VALUES (1)")
    both = "SELECT pg_table_size('t') + pg_table_size('u'), pg_database_size(current_database())"
    [(summed, whole)] = await client.rows(both)
    assert summed == whole > table
    await client.run("CREATE DATABASE other")
    shown = "SELECT pg_database_size('other'), pg_database_size(oid) > 0, pg_database_size(1)"
    where = "FROM pg_database WHERE datname = current_database()"
    assert await client.rows(f"{shown} {where}") == [(0, True, None)]
    assert (await client.fails("SELECT pg_database_size('none')")).sqlstate == "3D000"


@in_world
async def test_settings_are_set_from_left_to_right(world: AdapterWorld) -> None:
    client = await world.connect()
    name = "current_setting('application_name')"
    sql = f"SELECT {name}, set_config('application_name', 'a', false), {name}"
    local = f"set_config('application_name', 'b', true), {name}"
    assert await client.rows(f"{sql}, {local}") == [("", "a", "a", "b", "b")]
    assert await client.rows(f"SELECT {name}") == [("a",)]
    timeout = "SELECT set_config('lock_timeout', '10000', false), current_setting('lock_timeout')"
    assert await client.rows(timeout) == [("10s", "10s")]
    fault = await client.fails("SELECT set_config('TimeZone', 'nowhere', false)")
    assert fault.sqlstate == "22023"
