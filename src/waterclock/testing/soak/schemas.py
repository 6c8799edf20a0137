"""Sessions that create, read, rename and drop the same few names, all at once."""

from __future__ import annotations

from waterclock.testing.soak.actors import Actor

_NAMES = ("shared_a", "shared_b", "shared_c")
_STATEMENTS = (
    "CREATE TABLE {0} (a int, b text)",
    "CREATE TABLE {0} AS SELECT account AS a, region AS b FROM accounts",
    "CREATE MATERIALIZED VIEW {0} AS SELECT account AS a, count(*)::text AS b FROM ledger"
    " GROUP BY account",
    "CREATE MATERIALIZED VIEW {0} AS SELECT a, max(b) AS b FROM {1} GROUP BY a",
    "CREATE VIEW {0} AS SELECT a, b FROM {1} WHERE a > 3",
    "INSERT INTO {0} SELECT n, 'x' FROM generate_series(1, 10) n",
    "INSERT INTO {0} VALUES (1, 'one'), (2, 'two')",
    "DELETE FROM {0} WHERE a = 1",
    "SELECT count(*), max(b) FROM {0}",
    "SELECT * FROM {0} JOIN {1} USING (a)",
    "CREATE INDEX ON {0} (a)",
    "ALTER TABLE {0} RENAME TO {1}",
    "ALTER MATERIALIZED VIEW {0} RENAME TO {1}",
    "DROP TABLE {0}",
    "DROP TABLE {0} CASCADE",
    "DROP MATERIALIZED VIEW {0} CASCADE",
    "DROP VIEW {0}",
    "COMMENT ON TABLE {0} IS 'shared'",
)


class SchemaChanger(Actor):
    """Runs statements over names that others change at the same time."""

    expected = frozenset({"42P01", "42P07", "42809", "2BP01", "42703", "42704", "42710", "0A000"})
    """There is no such relation, there is one already, or it is of another kind or in use."""

    def pause_s(self) -> float:
        return self.random.expovariate(4)

    def act(self) -> None:
        if self.random.random() < 0.1:
            self.run(f"SET statement_timeout = {self.random.choice((0, 1, 10, 100))}")
        first, second = self.random.sample(_NAMES, 2)
        self.run(self.random.choice(_STATEMENTS).format(first, second))


HOSTILE = (
    ("SELECT " + "(" * 2000 + "1" + ")" * 2000, {"54000", "54001"}),
    ("SELECT count(*) FROM pg_class, generate_series(1, 100000000)", {"53200", "54000"}),
    ("SELECT repeat('a', 10000) LIKE '%a%a%a%a%a%a%a%a%a%a%ab'", {"54000"}),
    ("SELECT length(repeat('x', 2000000000))", {"54000", "53200"}),
    ("SELECT 1 WHERE 1 IN (" + ", ".join(map(str, range(50000))) + ")", {"54000", "54001"}),
    ("SELECT count(*) FROM generate_series(1, 30000000)", {"53200", "54000", "0A000"}),
    (
        "WITH c0 AS (SELECT account AS x FROM accounts), "
        + ", ".join(
            f"c{n} AS (SELECT x FROM c{n - 1} UNION SELECT x FROM c{n - 1})" for n in range(1, 40)
        )
        + " SELECT count(*) FROM c39",
        {"54000", "54001"},
    ),
)
"""Statements that cost far more than they look, and how they may be refused."""


class HostileClient(Actor):
    """Sends statements that try to take all of the server, and gives up after some seconds."""

    expected = frozenset().union(*(states for _, states in HOSTILE))

    def pause_s(self) -> float:
        return self.random.expovariate(0.1)

    def act(self) -> None:
        self.run("SET statement_timeout = '5s'")
        sql, _ = self.random.choice(HOSTILE)
        self.run(sql)
