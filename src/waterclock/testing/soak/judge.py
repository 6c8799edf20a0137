"""PostgreSQL's opinion: every maintained view, computed by it from the same contents.

All relations are read in one transaction, so at one time. The contents of tables and sources are
copied into a PostgreSQL that belongs to the judge, the views' own SQL is run there, and the rows
are compared, each as often as it is there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import psycopg

from waterclock.testing.services import PostgresServer
from waterclock.testing.soak import readers, upstream
from waterclock.testing.soak.actors import Actor, Row, World

BASES = {
    "ledger": "writer int, id bigint, account int, amount int, note text",
    "accounts": "account int, region text",
    "events": "k int, v int",
    "moves": "id bigint, pair bigint, holder int, amount int",
    "holders": "holder int, name text",
}
VIEWS = {**readers.VIEWS, **upstream.VIEWS}


class Judge(Actor):
    """Compares everything now and then; `compare` does it once."""

    def __init__(self, world: World, server: PostgresServer, seed: int) -> None:
        super().__init__(world, "judge", seed)
        self._dsn = server.create_database("judge")
        self.compared = 0
        with psycopg.connect(self._dsn, autocommit=True) as own:
            for name, columns in BASES.items():
                own.execute(f"CREATE TABLE {name} ({columns})".encode())
            for name, sql in VIEWS.items():
                own.execute(f"CREATE VIEW {name} AS {sql}".encode())

    def pause_s(self) -> float:
        return self.random.uniform(5, 15)

    def act(self) -> None:
        self.compare()

    def compare(self) -> dict[str, list[Row]]:
        """Compare all views; the contents of what they are made of."""
        self.run("BEGIN")
        found = {name: self.run(f"SELECT * FROM {name}") for name in [*BASES, *VIEWS]}
        self.run("COMMIT")
        bases = {name: found[name] for name in BASES}
        for name, rows in self._computed(bases).items():
            if Counter(rows) != Counter(found[name]):
                lacks = list((Counter(rows) - Counter(found[name])).elements())[:3]
                more = list((Counter(found[name]) - Counter(rows)).elements())[:3]
                self.finding(f"view {name} lacks {lacks} and has {more} that PostgreSQL has not")
            self.compared += 1
        return bases

    def _computed(self, bases: dict[str, list[Row]]) -> dict[str, list[Row]]:
        """What PostgreSQL makes of these contents."""
        with psycopg.connect(self._dsn) as own:
            for name, rows in bases.items():
                _fill(own, name, rows)
            computed = {name: own.execute(f"SELECT * FROM {name}".encode()) for name in VIEWS}
            answers = {name: cursor.fetchall() for name, cursor in computed.items()}
            own.rollback()
        return answers


def _fill(own: psycopg.Connection[Row], name: str, rows: Sequence[Row]) -> None:
    with own.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)
