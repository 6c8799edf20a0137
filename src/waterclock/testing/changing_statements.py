"""Statements that change the catalog, one of each kind, and what must be whole after each of them.

For tests that stop them in the middle, by a crash or by a cancellation: afterwards the catalog is
the one before or the one after, and everybody who follows it knows of just what it has.
"""

from __future__ import annotations

from typing import Any

import msgspec

from waterclock.catalog.objects import Index, MaterializedView, Secret, Table
from waterclock.testing.adapter_world import AdapterWorld, NotedEngine

SET_UP = """
    CREATE TABLE base (a int NOT NULL, b text);
    INSERT INTO base VALUES (1, 'x'), (2, 'y');
    CREATE TABLE doomed (a int);
    CREATE VIEW seen AS SELECT a FROM base;
    CREATE MATERIALIZED VIEW kept AS SELECT b, count(*) AS n FROM base GROUP BY b;
    CREATE INDEX base_by_a ON base (a);
    CREATE SCHEMA other;
    CREATE TABLE other.inner_table (a int);
    CREATE DATABASE elsewhere;
    CREATE ROLE alice LOGIN;
    CREATE ROLE staff;
    CREATE SECRET hidden AS 'one'
"""
SOURCE = "CREATE SOURCE counter FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1h')"
STATEMENTS = (
    "CREATE DATABASE fresh",
    "CREATE SCHEMA fresh",
    "CREATE TABLE fresh (a int NOT NULL, b text DEFAULT 'z')",
    "CREATE TABLE fresh AS SELECT a, b FROM base",
    "CREATE VIEW fresh AS SELECT a, b FROM base",
    "CREATE OR REPLACE VIEW seen AS SELECT a, b FROM base",
    "CREATE MATERIALIZED VIEW fresh AS SELECT a, count(*) AS n FROM base GROUP BY a",
    "CREATE INDEX fresh ON base (b)",
    "CREATE SOURCE fresh FROM LOAD GENERATOR COUNTER (TICK INTERVAL '1h')",
    "CREATE SECRET fresh AS 'two'",
    "CREATE CONNECTION fresh TO POSTGRES (HOST 'localhost', DATABASE 'd', USER 'u')"
    " WITH (VALIDATE = false)",
    "CREATE ROLE fresh LOGIN PASSWORD 'three'",
    "ALTER TABLE base RENAME TO renamed",
    "ALTER TABLE base ALTER COLUMN b SET DEFAULT 'w'",
    "ALTER TABLE base OWNER TO alice",
    "ALTER TABLE base SWAP WITH doomed",
    "ALTER VIEW seen RENAME TO renamed",
    "ALTER SCHEMA other RENAME TO renamed",
    "ALTER ROLE alice PASSWORD 'four'",
    "ALTER ROLE alice SET search_path = other",
    "ALTER SECRET hidden AS 'five'",
    "COMMENT ON TABLE base IS 'what it is for'",
    "COMMENT ON COLUMN base.a IS 'a number'",
    "GRANT SELECT, INSERT ON base TO alice",
    "GRANT staff TO alice",
    "REVOKE USAGE ON SCHEMA public FROM public",
    "DROP TABLE doomed",
    "DROP TABLE base CASCADE",
    "DROP VIEW seen",
    "DROP MATERIALIZED VIEW kept",
    "DROP INDEX base_by_a",
    "DROP SOURCE counter",
    "DROP SECRET hidden",
    "DROP SCHEMA other CASCADE",
    "DROP DATABASE elsewhere",
    "DROP ROLE alice",
)
RANDOM = {"verifier", "ciphertext", "definition"}
"""What is made with random numbers or the time, and so is different each time."""


def contents(world: AdapterWorld) -> Any:
    """All that the catalog holds, secrets open, and without what chance had a part in."""
    catalog = world.core.current
    secrets = [each for each in catalog.items() if isinstance(each, Secret)]
    kept = [
        sorted(catalog.objects.items()),
        sorted(catalog.memberships.items()),
        sorted(catalog.comments.items()),
        sorted(catalog.settings.items()),
        [world.secrets.unseal(each.id, each.ciphertext) for each in secrets],
    ]
    return _without_chance(msgspec.to_builtins(kept, enc_hook=repr))


def _without_chance(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: bool(v) if k in RANDOM else _without_chance(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        items = [_without_chance(each) for each in value]
        is_set = all(isinstance(each, str) for each in items)  # privileges: in no order
        return sorted(items) if is_set else items
    return value


def check_whole(world: AdapterWorld) -> None:
    """Raise unless engine, storage, holds and writers have just what the catalog has."""
    catalog, engine = world.core.current, world.engine
    assert isinstance(engine, NotedEngine)
    maintained = {str(i.id) for i in catalog.items() if isinstance(i, MaterializedView | Index)}
    assert set(engine.notes.all()) == maintained, "the engine knows of just what there is"
    tables = {item.id for item in catalog.items() if isinstance(item, Table)}
    assert world.core.tables.written == tables, "the tables there are can be written"
    held = {c for c in catalog.collections() if world.core.catalog.capabilities(c)[0] is not None}
    assert set(world.core.holds.held) == held, "what there is can be read"
    assert world.core.catalog.release_unreferenced() == (), "a collection without a name"
