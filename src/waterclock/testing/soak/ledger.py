"""Writers whose every acknowledged change must stay, and must be seen at once.

Each writer has rows of its own, in pairs with opposite amounts, so that the sum over all is zero at
every time. It knows what must be there. A statement that ended without a clear answer has happened
as a whole or not at all; the next look tells which, and anything else is a finding. It looks in the
table, through the index, and in a view, each of which must show its last write.
"""

from __future__ import annotations

import os
import socket
import threading
from dataclasses import dataclass
from typing import Any

import psycopg

from waterclock.testing.soak.actors import Actor, Interrupted, World

ACCOUNTS = 40
Pair = tuple[int, int, int, str]
"""From which account, to which, how much, and a note."""
Pairs = dict[int, Pair]

SETUP = (
    "CREATE TABLE ledger (writer int NOT NULL, id bigint NOT NULL, account int NOT NULL,"
    " amount int NOT NULL, note text)",
    "CREATE TABLE accounts (account int NOT NULL, region text)",
    "INSERT INTO accounts SELECT n, 'region ' || (n % 5) FROM generate_series(0, 34) n",
    "CREATE INDEX ledger_by_writer ON ledger (writer)",
)


@dataclass(frozen=True, slots=True)
class Change:
    """Statements that go together, and what is there after them."""

    statements: tuple[tuple[str, tuple[Any, ...]], ...]
    after: Pairs
    is_block: bool = False
    is_rolled_back: bool = False


class Writer(Actor):
    """Changes its own pairs, and looks at them."""

    def __init__(self, world: World, number: int, seed: int) -> None:
        super().__init__(world, f"writer {number}", seed)
        self.number = number
        self.pairs: Pairs = {}
        self.doubt: Pairs | None = None
        """What is there if the last change has happened, which is not known."""
        self._next = 1

    def act(self) -> None:
        if self.doubt is not None or self.random.random() < 0.25:
            self.look()
            return
        change = self._draw()
        self.doubt = change.after
        self._carry_out(change)
        if not change.is_rolled_back:
            self.pairs = change.after
        self.doubt = None

    def _carry_out(self, change: Change) -> None:
        nuisance = self.random.random()
        if nuisance < 0.03:
            self.run(f"SET statement_timeout = {self.random.choice((1, 2, 5, 20))}")
        try:
            if nuisance > 0.97:
                self._cancelled_soon()
            if change.is_block:
                self.run("BEGIN")
            for sql, parameters in change.statements:
                self.run(sql, *parameters)
            if change.is_block:
                self.run("ROLLBACK" if change.is_rolled_back else "COMMIT")
        except Interrupted:
            if self.random.random() < 0.3:
                self.disconnect()
            raise
        finally:
            if nuisance < 0.03:
                self._reset_timeout()

    def _reset_timeout(self) -> None:
        """Also after an error in a block."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        try:
            connection.rollback()
            connection.execute("SET statement_timeout = 0")
        except psycopg.Error:
            self.disconnect()

    def _cancelled_soon(self) -> None:
        connection = self.connection
        if self.random.random() < 0.5:
            cancel = threading.Timer(self.random.expovariate(100), _cancel, [connection])
        else:
            self.may_lose_connection = True
            cancel = threading.Timer(self.random.expovariate(100), _hang_up, [connection])
        cancel.daemon = True
        cancel.start()

    # What to do

    def _draw(self) -> Change:
        kind = self.random.random()
        if not self.pairs or kind < 0.5:
            return self._insertion()
        chosen = self.random.choice(sorted(self.pairs))
        if kind < 0.75:
            source, target, amount, _ = self.pairs[chosen]
            note = f"note {self.random.randrange(1000)}"
            sql = "UPDATE ledger SET note = %s WHERE writer = %s AND id = %s"
            after = self.pairs | {chosen: (source, target, amount, note)}
            return Change(((sql, (note, self.number, chosen)),), after)
        after = {key: pair for key, pair in self.pairs.items() if key != chosen}
        sql = "DELETE FROM ledger WHERE writer = %s AND id = %s"
        return Change(((sql, (self.number, chosen)),), after)

    def _insertion(self) -> Change:
        count = self.random.choice((1, 1, 1, 5, 200))
        after, rows = dict(self.pairs), []
        for _ in range(count):
            source, target = self.random.randrange(ACCOUNTS), self.random.randrange(ACCOUNTS)
            pair = (source, target, self.random.randrange(1, 100), "new")
            after[self._next] = pair
            rows += rows_of(self.number, self._next, pair)
            self._next += 1
        if count == 1 and self.random.random() < 0.5:
            return Change((_insertion_of(rows),), after)
        size = 1 if count < 10 else 50
        parts = [rows[first : first + size] for first in range(0, len(rows), size)]
        statements = tuple(_insertion_of(part) for part in parts)
        return Change(statements, after, True, self.random.random() < 0.15)

    # Looking

    def look(self) -> None:
        where, read = self.random.choice(
            (
                ("the table", f"SELECT * FROM ledger WHERE writer = {self.number}"),
                ("the table and a view", _BOTH.format(self.number)),
            )
        )
        found = sorted(self.run(read))
        known = [self.pairs] if self.doubt is None else [self.pairs, self.doubt]
        for pairs in known:
            if found == _rows(self.number, pairs):
                self.pairs, self.doubt = pairs, None
                self._look_at_summary()
                return
        expected = _rows(self.number, self.pairs)
        lost = [row for row in expected if row not in found][:3]
        more = [row for row in found if row not in expected][:3]
        in_doubt = "" if self.doubt is None else " (the last change is in doubt)"
        self.finding(f"{where} lacks {lost} and has {more} too many{in_doubt}")
        self.pairs, self.doubt = _pairs_of(found), None

    def _look_at_summary(self) -> None:
        found = self.run("SELECT entries, ids FROM per_writer WHERE writer = %s", self.number)
        expected = [(2 * len(self.pairs), 2 * sum(self.pairs))] if self.pairs else []
        if found != expected:
            self.finding(f"per_writer shows {found}, not {expected}")


_BOTH = (
    "SELECT l.* FROM ledger l JOIN per_writer w ON w.writer = l.writer"
    " WHERE l.writer = {} AND w.entries > 0"
)


def _insertion_of(rows: list[tuple[Any, ...]]) -> tuple[str, tuple[Any, ...]]:
    places = ", ".join("(%s, %s, %s, %s, %s)" for _ in rows)
    return f"INSERT INTO ledger VALUES {places}", tuple(value for row in rows for value in row)


def rows_of(writer: int, key: int, pair: Pair) -> list[tuple[Any, ...]]:
    source, target, amount, note = pair
    return [(writer, key, source, -amount, note), (writer, key, target, amount, note)]


def _rows(writer: int, pairs: Pairs) -> list[tuple[Any, ...]]:
    return sorted(row for key, pair in pairs.items() for row in rows_of(writer, key, pair))


def _pairs_of(rows: list[tuple[Any, ...]]) -> Pairs:
    """What can be made of rows that should not be as they are, to go on from there."""
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row[1], []).append(row)
    return {
        key: (negative[2], positive[2], positive[3], positive[4])
        for key, both in found.items()
        if len(both) == 2
        for negative, positive in [sorted(both, key=lambda row: row[3])]
    }


def _cancel(connection: psycopg.Connection[Any]) -> None:
    try:
        connection.cancel_safe(timeout=10)
    except psycopg.Error:
        return


def _hang_up(connection: psycopg.Connection[Any]) -> None:
    """Close the socket under the connection, in the middle of whatever it does."""
    try:
        other = socket.socket(fileno=os.dup(connection.fileno()))
    except (psycopg.Error, OSError, ValueError):
        return
    try:
        other.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
    finally:
        other.close()
