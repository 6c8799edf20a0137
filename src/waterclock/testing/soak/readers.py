"""Readers that know what must hold at every time, and subscribers that add up the changes."""

from __future__ import annotations

import time
from collections import Counter

from waterclock.testing.soak.actors import Actor, Interrupted, World

VIEWS = {
    "per_writer": "SELECT writer, count(*) AS entries, sum(id)::bigint AS ids"
    " FROM ledger GROUP BY writer",
    "balances": "SELECT account, sum(amount) AS balance, count(*) AS entries"
    " FROM ledger GROUP BY account",
    "total": "SELECT coalesce(sum(balance), 0)::bigint AS total, count(*) AS accounts"
    " FROM balances",
    "regions": "SELECT a.region, count(*) AS entries, sum(l.amount) AS amount, max(l.id) AS newest,"
    " count(DISTINCT l.writer) AS writers"
    " FROM ledger l JOIN accounts a ON a.account = l.account GROUP BY a.region",
    "strangers": "SELECT l.account, count(*) AS entries FROM ledger l"
    " LEFT JOIN accounts a ON a.account = l.account WHERE a.account IS NULL GROUP BY l.account",
    "newest": "SELECT writer, id, account, amount FROM (SELECT *, row_number() OVER"
    " (PARTITION BY writer ORDER BY id DESC, amount) AS place FROM ledger) ranked WHERE place <= 3",
}
"""Views over the tables, each after those it reads."""

INVARIANTS = (
    ("SELECT sum(amount) FROM ledger", lambda v: v in (None, 0)),
    ("SELECT total FROM total", lambda v: v == 0),
    (
        "SELECT (SELECT count(*) FROM ledger) - (SELECT coalesce(sum(entries), 0) FROM balances)",
        lambda v: v == 0,
    ),
    (
        "SELECT (SELECT coalesce(sum(entries), 0) FROM balances)"
        " - (SELECT coalesce(sum(entries), 0) FROM regions)"
        " - (SELECT coalesce(sum(entries), 0) FROM strangers)",
        lambda v: v == 0,
    ),
    ("SELECT coalesce(sum(balance), 0) FROM pg_balances", lambda v: v == 0),
    (
        "SELECT (SELECT count(*) FROM moves) - (SELECT coalesce(sum(entries), 0) FROM pg_balances)",
        lambda v: v == 0,
    ),
    (
        "SELECT (SELECT count(*) FROM events) - (SELECT coalesce(sum(n), 0) FROM event_counts)",
        lambda v: v == 0,
    ),
)
"""Queries with a single value, and what is true of it at every time."""


class Reader(Actor):
    """Asks for what must always be the same."""

    def act(self) -> None:
        sql, holds = self.random.choice(INVARIANTS)
        [[value]] = self.run(sql)
        if not holds(value):
            self.finding(f"{sql} is {value}")


class MonotoneReader(Actor):
    """Sees no less than it has seen of what only grows."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self._seen = 0

    def act(self) -> None:
        [[count]] = self.run("SELECT count(*) FROM events")
        if count < self._seen:
            self.finding(f"events has {count} rows, and had {self._seen}")
        self._seen = max(self._seen, count)


class Subscriber(Actor):
    """Adds up the changes of a view, whose sum must be right at every time that is complete.

    It resumes where it left off while the past is there, and else begins anew.
    """

    expected = frozenset({"22000", "22023", "55000"})
    """The past that it would resume from may be gone."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        super().__init__(world, name, seed)
        self._contents: Counter[tuple[str, ...]] = Counter()
        self._complete: int | None = None

    def act(self) -> None:
        until = time.monotonic() + self.random.uniform(2, 15)
        resume = self._complete is not None and self.random.random() < 0.7
        tail = f"WITH (PROGRESS, SNAPSHOT = false) AS OF {(self._complete or 1) - 1}"
        if not resume:
            self._contents.clear()
            tail = "WITH (PROGRESS)"
        self._complete = None if not resume else self._complete
        sql = f"COPY (SUBSCRIBE balances {tail}) TO STDOUT"
        try:
            with self.judged(sql):
                self._follow(sql, until)
        except Interrupted:
            self.disconnect()
            raise

    def _follow(self, sql: str, until: float) -> None:
        connection = self.connection
        with connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
            pending: list[tuple[int, tuple[str, ...]]] = []
            has_begun = self._complete is not None
            for row in copy.rows():
                moment, progressed, diff, *values = (str(value) for value in row)
                if progressed == "t" and not has_begun:
                    has_begun = True  # the contents come behind it
                elif progressed == "t":
                    for count, contents in pending:
                        self._contents[contents] += count
                    pending = []
                    self._complete = int(moment)
                    self._check()
                    if time.monotonic() > until:
                        break
                else:
                    pending.append((int(diff), tuple(values)))
            self.may_lose_connection = True
            self.disconnect()

    def _check(self) -> None:
        counts = {count for count in self._contents.values() if count}
        if counts - {1}:
            self.finding(f"a row of balances is there {counts} times")
        accounts = Counter(row[0] for row, count in self._contents.items() if count)
        if any(count > 1 for count in accounts.values()):
            self.finding("an account has two balances")
        total = sum(int(row[1]) * count for row, count in self._contents.items())
        if total:
            self.finding(f"the balances add up to {total} at {self._complete}")
        for row in [row for row, count in self._contents.items() if not count]:
            del self._contents[row]


def view_statements() -> list[str]:
    return [f"CREATE MATERIALIZED VIEW {name} AS {sql}" for name, sql in VIEWS.items()]
