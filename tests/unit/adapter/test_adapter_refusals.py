"""What there is not is refused by its name, where it stands, and with what to do instead."""

from __future__ import annotations

from waterclock.sql.errors import SqlFault
from waterclock.testing.adapter_world import AdapterWorld, in_world

REFUSED = """\
CREATE TEMPORARY TABLE x (a int)
CREATE TEMP VIEW x AS SELECT 1
CREATE UNLOGGED TABLE x (a int)
CREATE TABLE x (a int PRIMARY KEY)
CREATE TABLE x (a int, UNIQUE (a))
CREATE TABLE x (LIKE t)
CREATE TABLE x (a int GENERATED ALWAYS AS IDENTITY)
CREATE UNIQUE INDEX ON t (a)
CREATE INDEX ON t (lower(b))
CREATE SEQUENCE x
CREATE TYPE x AS ENUM ('a')
CREATE FUNCTION x() RETURNS int LANGUAGE sql AS 'SELECT 1'
CREATE TRIGGER x AFTER INSERT ON t EXECUTE FUNCTION y()
CREATE EXTENSION x
CREATE OR REPLACE MATERIALIZED VIEW x AS SELECT 1
ALTER TABLE t ADD COLUMN c int
ALTER TABLE t DROP COLUMN b
ALTER TABLE t RENAME COLUMN a TO c
ALTER TABLE t ALTER COLUMN a TYPE bigint
ALTER TABLE t ALTER COLUMN a SET NOT NULL
ALTER TABLE t ADD CONSTRAINT x CHECK (a > 0)
MERGE INTO t USING t AS u ON true WHEN MATCHED THEN DELETE
WITH x AS (INSERT INTO t VALUES (1, 'x') RETURNING a) SELECT * FROM x
UPDATE t SET (a, b) = (SELECT * FROM t)
COPY t FROM '/tmp/x'
EXPLAIN ANALYZE SELECT * FROM t
VACUUM t
ANALYZE t
REINDEX TABLE t
LOCK TABLE t
LISTEN x
NOTIFY x
DO 'BEGIN END'
DROP OWNED BY waterclock
"""


@in_world
async def test_a_refusal_says_what_to_do(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int, b text)")
    for text in REFUSED.splitlines():
        fault = await client.fails(text)
        assert fault.sqlstate == "0A000", (text, fault)
        assert fault.hint, text
        assert fault.hint.endswith("."), fault.hint


@in_world
async def test_a_refusal_stands_where_it_was_written(world: AdapterWorld) -> None:
    client = await world.connect()
    fault = await client.fails("SELECT 1; VACUUM t")
    assert isinstance(fault, SqlFault)
    assert fault.position == 11


@in_world
async def test_a_rollback_warns_of_what_stays(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("BEGIN; CREATE TABLE t (a int); CREATE SCHEMA s; CREATE TABLE u (a int)")
    await client.run("ROLLBACK")
    [warning] = client.notices
    assert (warning.severity, warning.message) == (
        "WARNING",
        "CREATE TABLE, CREATE SCHEMA cannot be rolled back",
    )
    assert await client.rows("SELECT * FROM t") == []
    await client.run("BEGIN; DROP TABLE t; COMMIT; BEGIN; ROLLBACK")
    assert len(client.notices) == 1, "what was committed is no surprise"


MISTAKEN = {
    "INSERT INTO ^nowhere VALUES (1)": "42P01",
    "UPDATE ^nowhere SET a = 1": "42P01",
    "DELETE FROM ^nowhere": "42P01",
    "INSERT INTO t VALUES (1, 'x', ^3, 4)": "42601",
    "INSERT INTO t (a, ^b) VALUES (1)": "42601",
    "INSERT INTO t (a, ^c) VALUES (1, 2)": "42703",
    "UPDATE t SET ^c = 1": "42703",
}


@in_world
async def test_a_mistake_in_a_change_is_shown_where_it_stands(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("CREATE TABLE t (a int, b text)")
    for text, sqlstate in MISTAKEN.items():
        fault = await client.fails(text.replace("^", ""))
        assert fault.sqlstate == sqlstate, (text, fault)
        assert isinstance(fault, SqlFault), text
        assert fault.position == text.index("^") + 1, (text, fault.position)
