"""Roles, grants, and the settings that sessions begin with."""

from __future__ import annotations

import pytest

from waterclock.adapter.api import RefusedRole
from waterclock.adapter.credentials import make_verifier, parse_verifier
from waterclock.sql.ast import holds_secret
from waterclock.sql.parser import parse_statements
from waterclock.testing.adapter_world import AdapterWorld, in_world


@in_world
async def test_a_password_is_kept_as_a_verifier(world: AdapterWorld) -> None:
    client = await world.connect()
    assert await client.tag("CREATE ROLE ada LOGIN PASSWORD 'lovelace'") == "CREATE ROLE"
    verifier = world.front.verifier("ada")
    assert verifier is not None
    assert verifier.matches("lovelace")
    assert not verifier.matches("Lovelace")
    kept = world.core.current.role("ada").verifier
    assert kept is not None
    assert "lovelace" not in kept
    await client.run("ALTER ROLE ada PASSWORD NULL")
    assert world.front.verifier("ada") is None
    given = str(make_verifier("other", b"0123456789abcdef"))
    await client.run(f"ALTER ROLE ada PASSWORD '{given}'")
    assert world.front.verifier("ada") == parse_verifier(given)
    await client.run("ALTER ROLE ada PASSWORD ''")
    assert world.front.verifier("ada") is None
    assert "clearing password" in client.notices[-1].message
    [parsed] = parse_statements("CREATE ROLE x PASSWORD 'p'")
    assert holds_secret(parsed.statement)


@in_world
async def test_logging_in_needs_the_attribute(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE ROLE group1; CREATE USER user1")
    with pytest.raises(RefusedRole):
        await world.connect("group1")
    await world.connect("user1")
    await client.run("ALTER ROLE group1 LOGIN")
    await world.connect("group1")


@in_world
async def test_only_those_who_may_make_roles_do(world: AdapterWorld) -> None:
    root = await world.connect()
    await root.run("CREATE ROLE plain LOGIN; CREATE ROLE maker LOGIN CREATEROLE")
    plain, maker = await world.connect("plain"), await world.connect("maker")
    assert (await plain.fails("CREATE ROLE x")).sqlstate == "42501"
    assert (await plain.fails("ALTER ROLE maker CREATEDB")).sqlstate == "42501"
    assert (await plain.fails("DROP ROLE maker")).sqlstate == "42501"
    assert await plain.tag("ALTER ROLE plain PASSWORD 'mine'") == "ALTER ROLE"
    assert (await plain.fails("ALTER ROLE plain SUPERUSER")).sqlstate == "42501"
    assert await maker.tag("CREATE ROLE x") == "CREATE ROLE"
    assert (await maker.fails("CREATE ROLE y SUPERUSER")).sqlstate == "42501"
    assert (await maker.fails("ALTER ROLE waterclock NOLOGIN")).sqlstate == "42501"
    assert (await maker.fails("ALTER ROLE x SUPERUSER")).sqlstate == "42501"
    assert (await maker.fails("GRANT waterclock TO maker")).sqlstate == "42501"


@in_world
async def test_dropping(world: AdapterWorld) -> None:
    root = await world.connect()
    await root.run("CREATE ROLE a LOGIN; CREATE ROLE b; CREATE TABLE t (x int)")
    guest = await world.connect("a")
    assert (await root.fails("DROP ROLE a")).sqlstate == "55006"
    assert (await guest.fails("DROP ROLE a")).sqlstate in ("42501", "55006")
    await guest.session.terminate()
    await root.run("GRANT SELECT ON t TO a")
    error = await root.fails("DROP ROLE b, a")
    assert error.sqlstate == "2BP01"
    assert "privileges for table t" in (error.detail or "")
    assert world.core.current.try_role("b") is not None  # all or none
    await root.run("REVOKE ALL ON t FROM a")
    assert await root.tag("DROP ROLE a, b") == "DROP ROLE"
    assert (await root.fails("DROP ROLE a")).sqlstate == "42704"
    assert await root.tag("DROP ROLE IF EXISTS a") == "DROP ROLE"
    assert (await root.fails("DROP ROLE waterclock")).sqlstate == "55006"


@in_world
async def test_attributes_without_effect_are_refused(world: AdapterWorld) -> None:
    client = await world.connect()
    for words in ("REPLICATION", "BYPASSRLS", "CONNECTION LIMIT 3", "VALID UNTIL '2030-01-01'"):
        assert (await client.fails(f"CREATE ROLE x {words}")).sqlstate == "0A000"
    await client.run("CREATE ROLE x NOREPLICATION CONNECTION LIMIT -1 VALID UNTIL 'infinity'")


@in_world
async def test_privileges_are_enforced(world: AdapterWorld) -> None:
    root = await world.connect()
    await root.run("CREATE TABLE t (a int); INSERT INTO t VALUES (1); CREATE ROLE bob LOGIN")
    bob = await world.connect("bob")
    for text in ("SELECT * FROM t", "INSERT INTO t VALUES (2)", "COPY t TO STDOUT", "SUBSCRIBE t"):
        assert (await bob.fails(text)).sqlstate == "42501", text
    assert (await bob.fails("DROP TABLE t")).message == "must be owner of table t"
    assert (await bob.fails("COMMENT ON TABLE t IS 'x'")).sqlstate == "42501"
    assert (await bob.fails("ALTER TABLE t RENAME TO u")).sqlstate == "42501"
    assert (await bob.fails("GRANT SELECT ON t TO bob")).sqlstate == "42501"
    assert await root.tag("GRANT SELECT, INSERT ON TABLE t TO bob") == "GRANT"
    assert await bob.rows("SELECT * FROM t") == [(1,)]
    assert await bob.tag("INSERT INTO t VALUES (2)") == "INSERT 0 1"
    assert (await bob.fails("DELETE FROM t WHERE a = 1")).sqlstate == "42501"
    await root.run("REVOKE SELECT ON t FROM bob")
    assert (await bob.fails("SELECT * FROM t")).sqlstate == "42501"
    await root.run("GRANT ALL ON ALL TABLES IN SCHEMA public TO PUBLIC")
    assert await bob.rows("SELECT * FROM t WHERE a = 2") == [(2,)]


@in_world
async def test_giving_on(world: AdapterWorld) -> None:
    root = await world.connect()
    await root.run("CREATE TABLE t (a int); CREATE ROLE bob LOGIN; CREATE ROLE eve LOGIN")
    await root.run("GRANT SELECT ON t TO bob WITH GRANT OPTION")
    bob, eve = await world.connect("bob"), await world.connect("eve")
    await bob.run("GRANT SELECT ON t TO eve")
    assert await eve.rows("SELECT * FROM t") == []
    assert (await root.fails("REVOKE SELECT ON t FROM bob")).sqlstate == "2BP01"
    await root.run("REVOKE SELECT ON t FROM bob CASCADE")
    assert (await eve.fails("SELECT * FROM t")).sqlstate == "42501"


@in_world
async def test_membership(world: AdapterWorld) -> None:
    root = await world.connect()
    await root.run("CREATE TABLE t (a int); CREATE ROLE readers; CREATE ROLE bob LOGIN")
    await root.run("GRANT SELECT ON t TO readers")
    assert await root.tag("GRANT readers TO bob") == "GRANT ROLE"
    bob = await world.connect("bob")
    assert await bob.rows("SELECT * FROM t") == []
    await bob.run("SET ROLE readers")
    assert (await bob.fails("SET ROLE waterclock")).sqlstate == "42501"
    assert (await root.fails("GRANT bob TO readers")).sqlstate == "0LP01"
    await root.run("GRANT readers TO bob")
    assert "already a member" in root.notices[-1].message
    assert await root.tag("REVOKE readers FROM bob") == "REVOKE ROLE"
    await root.run("REVOKE readers FROM bob")
    assert "not a member" in root.notices[-1].message
    assert (await bob.fails("GRANT readers TO bob")).sqlstate == "42501"


@in_world
async def test_mistakes_in_grants(world: AdapterWorld) -> None:
    root = await world.connect()
    await root.run("CREATE TABLE t (a int); CREATE ROLE bob")
    expected = {
        "GRANT SELECT ON nowhere TO bob": "42P01",
        "GRANT SELECT ON t TO nobody": "42704",
        "GRANT USAGE ON t TO bob": "0LP01",
        "GRANT nonsense ON t TO bob": "42601",
        "GRANT TRUNCATE ON t TO bob": "0A000",
        "GRANT SELECT (a) ON t TO bob": "0A000",
        "GRANT SELECT ON t TO PUBLIC WITH GRANT OPTION": "0LP01",
        "GRANT CREATE ON SYSTEM TO bob": "0A000",
    }
    for text, sqlstate in expected.items():
        assert (await root.fails(text)).sqlstate == sqlstate, text


@in_world
async def test_sessions_begin_with_the_settings_of_their_role(world: AdapterWorld) -> None:
    root = await world.connect()
    await root.run("CREATE ROLE bob LOGIN; CREATE DATABASE other")
    assert await root.tag("ALTER SYSTEM SET extra_float_digits TO 2") == "ALTER SYSTEM"
    assert await root.tag("ALTER DATABASE other SET extra_float_digits TO 3") == "ALTER DATABASE"
    assert await root.tag("ALTER ROLE bob SET TimeZone TO 'europe/berlin'") == "ALTER ROLE"
    bob = await world.connect("bob", "other")
    assert await bob.rows("SHOW timezone") == [("Europe/Berlin",)]
    assert await bob.rows("SHOW extra_float_digits") == [("3",)]
    await bob.run("SET timezone TO 'UTC'; RESET timezone")
    assert await bob.rows("SHOW timezone") == [("Europe/Berlin",)]
    assert await (await world.connect("bob")).rows("SHOW extra_float_digits") == [("2",)]
    await root.run("ALTER ROLE bob RESET ALL")
    assert await (await world.connect("bob")).rows("SHOW timezone") == [("UTC",)]
    assert (await root.fails("ALTER ROLE bob SET nonsense TO 1")).sqlstate == "42704"
    assert (await root.fails("ALTER ROLE bob SET timezone TO 'Mars'")).sqlstate == "22023"
    assert (await bob.fails("ALTER SYSTEM SET timezone TO 'UTC'")).sqlstate == "42501"
    assert (await bob.fails("ALTER DATABASE other SET timezone TO 'UTC'")).sqlstate == "42501"
    assert await bob.tag("ALTER ROLE bob SET timezone TO 'UTC'") == "ALTER ROLE"


@in_world
async def test_characteristics_of_the_session(world: AdapterWorld) -> None:
    client = await world.connect()
    words = "SET SESSION CHARACTERISTICS AS TRANSACTION"
    await client.run(f"{words} ISOLATION LEVEL SERIALIZABLE")
    assert await client.rows("SHOW transaction_isolation") == [("serializable",)]
    await client.run("BEGIN ISOLATION LEVEL STRICT SERIALIZABLE")
    assert await client.rows("SHOW transaction_isolation") == [("strict serializable",)]
    await client.run("COMMIT")
    assert await client.rows("SHOW transaction_isolation") == [("serializable",)]
    await client.run("CREATE TABLE t (a int)")
    await client.run(f"{words} READ ONLY")
    assert (await client.fails("INSERT INTO t VALUES (1)")).sqlstate == "25006"
    await client.run("BEGIN READ WRITE; INSERT INTO t VALUES (1); COMMIT")
    assert await client.rows("SELECT * FROM t") == [(1,)]
