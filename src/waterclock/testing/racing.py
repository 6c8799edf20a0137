"""Statements of sessions that all work on the same few names, and how they may end.

Whoever loses a race is told that a name is unknown, taken or in use, or that he may try again. What
is anything else is a defect: an internal error, a missing right, a capability, a lost connection.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

NAMES = ("a", "b", "c", "d")
ALLOWED = frozenset(
    {
        "42P01",  # unknown
        "42704",  # the same of an index
        "42P07",  # taken
        "2BP01",  # in use by others
        "40001",  # try again
    }
)
_STATEMENTS = (
    "CREATE TABLE {x} (n int)",
    "CREATE TABLE {x} (n int)",
    "CREATE TABLE IF NOT EXISTS {x} (n int)",
    "CREATE TABLE {x} AS SELECT n FROM {y}",
    "INSERT INTO {x} VALUES ({n})",
    "INSERT INTO {x} VALUES ({n})",
    "INSERT INTO {x} SELECT n FROM {y} WHERE n = {n}",
    "DELETE FROM {x} WHERE n = {n}",
    "SELECT n FROM {x}",
    "SELECT n FROM {x} WHERE n = {n}",
    "SELECT n FROM {x}_v",
    "SELECT count(*) FROM {x}",
    "BEGIN; SELECT n FROM {x}; INSERT INTO {y} VALUES ({n}); SELECT n FROM {y}; COMMIT",
    "ALTER TABLE {x} RENAME TO {y}",
    "ALTER TABLE {x} SWAP WITH {y}",
    "CREATE INDEX {x}_i ON {y} (n)",
    "CREATE INDEX ON {x} (n)",
    "DROP INDEX {x}_i",
    "CREATE VIEW {x}_v AS SELECT n FROM {y}",
    "CREATE MATERIALIZED VIEW {x}_m AS SELECT n FROM {y}",
    "DROP MATERIALIZED VIEW {x}_m",
    "DROP VIEW {x}_v",
    "DROP TABLE {x}",
    "DROP TABLE IF EXISTS {x}",
    "DROP TABLE {x} CASCADE",
    "COMMENT ON TABLE {x} IS '{n}'",
    "GRANT SELECT ON {x} TO public",
    "SHOW TABLES",
    "SELECT count(*) FROM pg_class",
)


def statement(chance: Random, kinds: Sequence[str] = _STATEMENTS) -> str:
    """A statement about some of the names."""
    x, y = chance.choice(NAMES), chance.choice(NAMES)
    return chance.choice(kinds).format(x=x, y=y, n=chance.randrange(10))
