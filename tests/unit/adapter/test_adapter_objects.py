"""ALTER, COMMENT, SHOW, secrets, connections, clusters."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.objects import Connection, Secret
from waterclock.model.ids import GlobalId
from waterclock.storage.errors import CapabilityUnknown
from waterclock.testing.adapter_world import AdapterWorld, Client, NotedEngine, in_world


async def made(world: AdapterWorld) -> Client:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int NOT NULL, b numeric(10,2) DEFAULT 1.5)")
    await client.run("CREATE VIEW v AS SELECT a /* not b */, b FROM t")
    return client


async def created(client: Client, what: str) -> str:
    [(_, text)] = await client.rows(f"SHOW CREATE {what}")
    assert isinstance(text, str)
    return text


@pytest.mark.semantics(77, 78)
@in_world
async def test_names_follow_what_they_mean(world: AdapterWorld) -> None:
    client = await made(world)
    assert await client.tag("ALTER TABLE t RENAME TO u") == "ALTER TABLE"
    shown = await created(client, "VIEW v")
    assert shown == (
        "CREATE VIEW waterclock.public.v (a, b) AS"
        " SELECT a /* not b */, b FROM waterclock.public.u AS t"
    )
    await client.run("CREATE TABLE t (z text)")  # another thing under the old name
    assert await created(client, "VIEW v") == shown


@in_world
async def test_other_schemas_owners_and_names(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE SCHEMA s; CREATE ROLE bob LOGIN")
    await client.run("ALTER TABLE t SET SCHEMA s")
    assert (await client.fails("SELECT * FROM t")).sqlstate == "42P01"
    assert await client.rows("SELECT * FROM s.t") == []
    assert (await client.fails("ALTER TABLE s.t SET SCHEMA nowhere")).sqlstate == "3F000"
    await client.run("ALTER TABLE s.t OWNER TO bob; ALTER SCHEMA s OWNER TO bob")
    bob = await world.connect("bob")
    assert await bob.tag("ALTER TABLE s.t RENAME TO mine") == "ALTER TABLE"
    assert (await bob.fails("ALTER TABLE s.mine OWNER TO waterclock")).sqlstate == "42501"
    assert (await bob.fails("ALTER VIEW v RENAME TO w")).sqlstate == "42501"


@in_world
async def test_swapping(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SCHEMA blue; CREATE SCHEMA green; CREATE TABLE blue.t (a int)")
    assert await client.tag("ALTER SCHEMA blue SWAP WITH green") == "ALTER SCHEMA"
    assert await client.rows("SELECT * FROM green.t") == []
    assert await client.rows("SHOW TABLES FROM blue") == []
    await client.run("CREATE TABLE x (a int); CREATE TABLE y (b int)")
    await client.run("ALTER TABLE x SWAP WITH y")
    assert (await client.rows("SHOW COLUMNS FROM x"))[0][0] == "b"


@in_world
async def test_actions_happen_together_or_not(world: AdapterWorld) -> None:
    client = await made(world)
    text = "ALTER TABLE t ALTER COLUMN b SET DEFAULT 7, ADD COLUMN c int"
    error = await client.fails(text)
    assert (error.sqlstate, error.message) == (
        "0A000",
        "ALTER TABLE ADD COLUMN is not supported",
    )
    assert "DEFAULT 1.5" in await created(client, "TABLE t")
    await client.run("ALTER TABLE t ALTER COLUMN b SET DEFAULT 7")
    assert await created(client, "TABLE t") == (
        "CREATE TABLE waterclock.public.t (a integer NOT NULL, b numeric(10,2) DEFAULT 7)"
    )
    await client.run("ALTER TABLE t ALTER COLUMN b DROP DEFAULT")
    assert "DEFAULT" not in await created(client, "TABLE t")


@in_world
async def test_what_alter_refuses(world: AdapterWorld) -> None:
    client = await made(world)
    refused = {
        "ALTER TABLE t DROP COLUMN a": "ALTER TABLE DROP COLUMN is not supported",
        "ALTER TABLE t ALTER COLUMN a TYPE text": "ALTER TABLE ALTER COLUMN TYPE is not supported",
        "ALTER TABLE t ALTER COLUMN a DROP NOT NULL": (
            "ALTER TABLE ALTER COLUMN DROP NOT NULL is not supported"
        ),
        "ALTER TABLE t RENAME COLUMN a TO c": "ALTER TABLE RENAME COLUMN is not supported",
        "ALTER TABLE t ADD PRIMARY KEY (a)": "ALTER TABLE ADD CONSTRAINT is not supported",
        "ALTER VIEW v SET (nope = 3)": "ALTER VIEW SET (...) is not supported",
        "ALTER DATABASE waterclock RENAME TO x": "current database cannot be renamed",
        "ALTER ROLE waterclock RENAME TO x": "session user cannot be renamed",
    }
    for text, message in refused.items():
        error = await client.fails(text)
        assert (error.sqlstate, error.message) == ("0A000", message)
    wrong = {
        "ALTER TABLE t SET (nope = 3)": "22023",
        "ALTER TABLE v RENAME TO w": "42809",
        "ALTER TABLE nowhere RENAME TO w": "42P01",
        "ALTER TABLE t RENAME TO v": "42P07",
        "ALTER TABLE t ALTER COLUMN z SET DEFAULT 1": "42703",
        "DROP DATABASE waterclock": "55006",
        "REFRESH MATERIALIZED VIEW t": "42809",
    }
    for text, sqlstate in wrong.items():
        assert (await client.fails(text)).sqlstate == sqlstate, text
    assert await client.tag("ALTER VIEW IF EXISTS nowhere RENAME TO w") == "ALTER VIEW"


@in_world
async def test_columns_of_views_are_renamed_while_nothing_uses_them(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("ALTER VIEW v RENAME COLUMN b TO price")
    assert [row[0] for row in await client.rows("SHOW COLUMNS FROM v")] == ["a", "price"]
    await client.run("CREATE VIEW w AS SELECT price FROM v")
    assert (await client.fails("ALTER VIEW v RENAME COLUMN price TO b")).sqlstate == "2BP01"


@in_world
async def test_comments(world: AdapterWorld) -> None:
    client = await made(world)
    assert await client.tag("COMMENT ON TABLE t IS 'things'") == "COMMENT"
    await client.run("COMMENT ON COLUMN t.b IS 'what it costs'; COMMENT ON ROLE waterclock IS 'me'")
    assert await client.rows("SHOW TABLES") == [("t", "things")]
    assert [row[3] for row in await client.rows("SHOW COLUMNS FROM t")] == ["", "what it costs"]
    assert await client.rows("SHOW ROLES") == [("waterclock", "me")]
    await client.run("COMMENT ON TABLE t IS NULL")
    assert await client.rows("SHOW TABLES") == [("t", "")]
    assert (await client.fails("COMMENT ON COLUMN t.z IS 'x'")).sqlstate == "42703"
    assert (await client.fails("COMMENT ON VIEW t IS 'x'")).sqlstate == "42809"


@in_world
async def test_lists(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE SCHEMA s; CREATE TABLE s.only (x text[]); CREATE TABLE t_2 (a int)")
    assert [row[0] for row in await client.rows("SHOW TABLES")] == ["t", "t_2"]
    assert await client.rows("SHOW TABLES FROM s") == [("only", "")]
    assert await client.rows("SHOW TABLES FROM waterclock.s") == [("only", "")]
    assert await client.rows("SHOW TABLES LIKE 't\\__'") == [("t_2", "")]
    assert await client.rows("SHOW VIEWS WHERE name = 'v'") == [("v", "")]
    assert await client.rows("SHOW VIEWS WHERE name = 'w'") == []
    assert (await client.fails("SHOW VIEWS WHERE nonsense = 'w'")).sqlstate == "42703"
    assert ("v", "view", "") in await client.rows("SHOW OBJECTS")
    assert await client.rows("SHOW COLUMNS FROM s.only") == [("x", True, "text[]", "")]
    nullable = await client.rows("SHOW COLUMNS FROM t WHERE NOT nullable")
    assert nullable == [("a", False, "integer", "")]
    assert "s" in [row[0] for row in await client.rows("SHOW SCHEMAS")]
    assert await client.rows("SHOW DATABASES") == [("waterclock", "")]
    assert await client.rows("SHOW CLUSTERS") == [("quickstart", "")]
    for empty in ("MATERIALIZED VIEWS", "INDEXES", "SOURCES", "SINKS", "CONNECTIONS", "SECRETS"):
        assert await client.rows(f"SHOW {empty}") == []
    assert (await client.fails("SHOW TABLES FROM nowhere")).sqlstate == "3F000"
    assert (await client.fails("SHOW COLUMNS FROM nowhere")).sqlstate == "42P01"


@in_world
async def test_secrets_are_sealed_and_never_shown(world: AdapterWorld) -> None:
    client = await world.connect()
    assert await client.tag("CREATE SECRET k AS 'open sesame'") == "CREATE SECRET"
    secret = next(item for item in world.core.current.items() if isinstance(item, Secret))
    assert b"sesame" not in secret.ciphertext
    assert world.secrets.unseal(secret.id, secret.ciphertext) == b"open sesame"
    assert "sesame" not in await created(client, "SECRET k")
    assert (await client.fails("CREATE SECRET k AS 'x'")).sqlstate == "42710"
    await client.run("CREATE SECRET IF NOT EXISTS k AS 'x'")
    assert await client.tag("ALTER SECRET k AS 'other'") == "ALTER SECRET"
    secret = next(item for item in world.core.current.items() if isinstance(item, Secret))
    assert world.secrets.unseal(secret.id, secret.ciphertext) == b"other"
    assert (await client.fails("CREATE SECRET n AS NULL")).sqlstate == "22023"
    assert (await client.fails("SELECT * FROM k")).sqlstate == "42809"
    world.core.secrets = None
    assert (await client.fails("CREATE SECRET z AS 'x'")).sqlstate == "55000"


@in_world
async def test_connections(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE SECRET k AS 'x'")
    text = "CREATE CONNECTION c TO POSTGRES (HOST 'h', PORT 5433, DATABASE d, PASSWORD SECRET k)"
    text += " WITH (VALIDATE = false)"
    assert await client.tag(text) == "CREATE CONNECTION"
    found = next(item for item in world.core.current.items() if isinstance(item, Connection))
    assert found.secrets == (world.core.current.item(found.secrets[0]).id,)
    assert await created(client, "CONNECTION c") == (
        "CREATE CONNECTION waterclock.public.c TO POSTGRES (HOST = 'h', PORT = 5433,"
        " DATABASE = d, PASSWORD = SECRET waterclock.public.k)"
    )
    assert (await client.fails("DROP SECRET k")).sqlstate == "2BP01"
    wrong = {
        "POSTGRES (HOST 'h')": "42601",
        "POSTGRES (HOST 'h', DATABASE 'd', COLOUR 'red')": "42601",
        "POSTGRES (HOST 'h', DATABASE 'd', PASSWORD 'plain')": "42601",
        "POSTGRES (HOST 'h', DATABASE 'd', PASSWORD SECRET nowhere)": "42704",
        "KAFKA (SASL USERNAME 'u')": "42601",
        "MYSQL (HOST 'h')": "0A000",
    }
    for rest, sqlstate in wrong.items():
        assert (await client.fails(f"CREATE CONNECTION d TO {rest}")).sqlstate == sqlstate, rest
    assert await client.rows("SHOW CONNECTIONS") == [("c", "postgres", "")]
    await client.run(
        "CREATE CONNECTION k2 TO KAFKA (BROKERS ('a:1', 'b:2')) WITH (VALIDATE = false)"
    )


@in_world
async def test_clusters_are_names(world: AdapterWorld) -> None:
    client = await world.connect()
    assert await client.tag("CREATE CLUSTER c SIZE = 'small', REPLICATION FACTOR = 2")
    assert (await client.fails("CREATE CLUSTER c")).sqlstate == "42710"
    assert await client.tag("CREATE CLUSTER IF NOT EXISTS c") == "CREATE CLUSTER"
    assert await created(client, "CLUSTER c") == "CREATE CLUSTER c"
    assert (await client.fails("CREATE CLUSTER d (COLOUR = 'red')")).sqlstate == "42601"
    assert await client.tag("DROP CLUSTER c") == "DROP CLUSTER"


@pytest.mark.semantics(80)
@in_world
async def test_everything_is_there_after_a_restart(world: AdapterWorld) -> None:
    client = await made(world)
    await client.run("CREATE SECRET k AS 'x'; CREATE ROLE bob PASSWORD 'p'; CREATE CLUSTER c")
    await client.run("COMMENT ON TABLE t IS 'kept'; ALTER ROLE bob SET timezone TO 'UTC'")
    before = await created(client, "TABLE t")
    world.close()
    world.open()
    again = await world.connect()
    assert await created(again, "TABLE t") == before
    assert await again.rows("SHOW TABLES") == [("t", "kept")]
    assert await again.rows("SHOW SECRETS") == [("k", "")]
    assert world.front.verifier("bob") is not None


@in_world
async def test_explain(world: AdapterWorld) -> None:
    client = await made(world)
    plan = await client.rows("EXPLAIN SELECT a FROM t WHERE a = 1 ORDER BY a LIMIT 3")
    assert plan[-1] == ("  Read relation=waterclock.public.t",)
    assert plan[0][0].startswith("Pick columns=[a] filter=[a = 1]")
    explained = await client.one("EXPLAIN TIMESTAMP FOR SELECT * FROM t")
    assert explained.names == ["Timestamp"]
    labels = [row[0].split(":")[0].strip() for row in explained.rows]
    assert labels[0] == "query timestamp"
    assert "waterclock.public.t upper" in labels
    assert (await client.one("EXPLAIN (FORMAT json) SELECT a FROM t")).columns[0].type.oid == 114
    assert (await client.fails("EXPLAIN ANALYZE SELECT a FROM t")).sqlstate == "0A000"
    assert (await client.fails("EXPLAIN (NONSENSE) SELECT a FROM t")).sqlstate == "42601"


class SlowToBegin(NotedEngine):
    """Takes a view up only when it is told to, and not if it was removed meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.may_begin = threading.Event()
        self.has_tried = threading.Event()
        self.known: set[GlobalId] = set()

    def begin(self, output: GlobalId) -> None:
        assert self.may_begin.wait(60)
        self.has_tried.set()
        if str(output) not in self.notes.all():
            raise CapabilityUnknown(f"the capability for collection {output} does not exist")
        self.known.add(output)

    def end(self, output: GlobalId) -> None:
        self.known.discard(output)


@pytest.mark.parametrize("is_published", [True, False])
def test_a_view_may_be_dropped_while_it_begins(tmp_path: Path, is_published: bool) -> None:
    """Whether others see already that it was dropped, or not yet."""

    async def inside() -> None:
        engine = SlowToBegin()
        world = await asyncio.to_thread(partial(AdapterWorld, tmp_path, engine=engine))
        one, other = await world.connect(), await world.connect()
        await one.run("CREATE TABLE t (a int)")
        creating = asyncio.create_task(one.tag("CREATE MATERIALIZED VIEW v AS SELECT a FROM t"))
        while not any(item.name == "v" for item in world.core.current.items()):
            await asyncio.sleep(0)
        publish, drafting = world.core.catalog._publish, world.front.changes.drafting
        wants_turn = threading.Event()

        def noticed() -> AbstractAsyncContextManager[Draft]:
            if engine.has_tried.is_set():
                wants_turn.set()
            return drafting()

        def slowly(catalog: Catalog) -> None:
            engine.may_begin.set()
            assert wants_turn.wait(60), "it is to be dropped, since it could not begin"
            publish(catalog)

        if not is_published:
            world.core.catalog._publish = slowly  # type: ignore[method-assign]
            world.front.changes.drafting = noticed  # type: ignore[method-assign]
        await other.run("DROP MATERIALIZED VIEW v")
        engine.may_begin.set()
        assert await creating == "CREATE MATERIALIZED VIEW", "it was there, for a moment"
        await world.front.settle()
        assert not engine.known
        await asyncio.to_thread(world.close)

    asyncio.run(inside())
