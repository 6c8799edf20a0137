"""What there is not is refused by its name, where it stands, and with what to do instead."""

from __future__ import annotations

from typing import NoReturn

from waterclock.compute.faults import OVERFLOW, EngineFault
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
WITH x AS (MERGE INTO t USING t AS u ON true WHEN MATCHED THEN DELETE) SELECT 1
UPDATE t SET (a, b) = (SELECT * FROM t)
INSERT INTO t VALUES (1, 'x') AS OF 5
INSERT INTO t TABLE t AS OF AT LEAST 5
UPDATE t SET a = 1 AS OF 5
UPDATE t SET a = 1 WHERE b = 'x' AS OF now()
UPDATE t SET a = u.a FROM t AS u AS OF 5 RETURNING a
DELETE FROM t AS OF 5
DELETE FROM t AS u WHERE a = 1 AS OF '2020-01-01'
DELETE FROM t USING t AS u AS OF AT LEAST 5
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


@in_world
async def test_a_client_hears_of_what_is_grave_enough_for_it(world: AdapterWorld) -> None:
    client = await world.connect()
    await client.run("SET client_min_messages = warning; DROP TABLE IF EXISTS none; ROLLBACK")
    assert [notice.severity for notice in client.notices] == ["WARNING"]


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


@in_world
async def test_a_number_that_is_too_large_is_told_with_its_type(world: AdapterWorld) -> None:
    def overflow(*_: object) -> NoReturn:
        raise EngineFault.of(OVERFLOW)

    client = await world.connect()
    await client.run("CREATE TABLE n (s smallint, i int, b bigint)")
    world.engine.evaluate = overflow  # type: ignore[assignment, method-assign]
    for text, message in (
        ("SELECT s * s FROM n", "smallint out of range"),
        ("SELECT i + 1, abs(i) FROM n", "integer out of range"),
        ("SELECT -b FROM n", "bigint out of range"),
        ("SELECT s + b FROM n", "bigint out of range"),
        ("SELECT i + 1, b + 1 FROM n", "value out of range"),
    ):
        fault = await client.fails(text)
        assert (fault.sqlstate, str(fault)) == ("22003", message), text


@in_world
async def test_what_needs_a_sequence_is_refused_with_a_remedy(world: AdapterWorld) -> None:
    client = await world.connect()
    for text in (
        "CREATE SEQUENCE s",
        "DROP SEQUENCE s",
        "CREATE TABLE t (id serial)",
        "CREATE TABLE t (id int GENERATED ALWAYS AS IDENTITY)",
        "CREATE TABLE t (id int GENERATED BY DEFAULT AS IDENTITY)",
        "CREATE TABLE t (id int DEFAULT nextval('s'))",
        "SELECT nextval('s')",
        "SELECT currval('s'), lastval(), setval('s', 1)",
    ):
        fault = await client.fails(text)
        assert fault.sqlstate == "0A000", text
        assert fault.hint is not None, text
        assert fault.hint.startswith("There are no sequences."), text
