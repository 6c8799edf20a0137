"""Random histories with crashes: at every time the contents are those at the place in the log that
was bound, whatever happened to us on the way.
"""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from waterclock.storage.sources.status import Health
from waterclock.testing.postgres_source import Scene, drop_slots
from waterclock.testing.services import PostgresServer
from waterclock.testing.source_world import Crash

pytestmark = pytest.mark.service

TABLES = ("a", "b")
SETUP = "".join(
    f"CREATE TABLE {table} (id int, v text); ALTER TABLE {table} REPLICA IDENTITY FULL;"
    for table in TABLES
)
State = dict[str, Counter[tuple[Any, ...]]]


class History:
    """What was upstream after each transaction, and where the log was then."""

    def __init__(self, scene: Scene, pick: random.Random) -> None:
        self._scene = scene
        self._pick = pick
        self.states: list[tuple[int, State]] = []
        self.note()

    def note(self) -> None:
        state = {table: self._scene.upstream(f"SELECT * FROM {table}") for table in TABLES}
        [(lsn,)] = self._scene.upstream("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint")
        self.states.append((lsn, state))

    def transaction(self, *, may_truncate: bool) -> None:
        """A few statements, sometimes taken back."""
        taken_back = self._pick.random() < 0.1
        with self._scene.sql.transaction(force_rollback=taken_back):
            for _ in range(self._pick.randrange(1, 5)):
                self._scene.sql.execute(self._statement(may_truncate=may_truncate))
        self.note()

    def _statement(self, *, may_truncate: bool) -> str:
        table, number = self._pick.choice(TABLES), self._pick.randrange(8)
        choices = [
            f"INSERT INTO {table} SELECT i, 'x' || {number} FROM generate_series(1, {number}) i",
            f"INSERT INTO {table} VALUES ({number}, NULL), ({number}, NULL)",
            f"UPDATE {table} SET v = v || '{number}' WHERE id < {number}",
            f"UPDATE {table} SET id = id + 1 WHERE id > {number}",
            f"DELETE FROM {table} WHERE id = {number}",
        ]
        if may_truncate and self._pick.random() < 0.1:
            return f"TRUNCATE {table}"
        return self._pick.choice(choices)

    def could_be(self, lsn: int) -> list[State]:
        """What may have been upstream at a place: after the last transaction that ended before it
        for sure, and after the next, which may have ended there.
        """
        before = sum(1 for place, _ in self.states if place <= lsn)
        return [state for _, state in self.states[max(0, before - 1) : before + 1]]


def stepped(scene: Scene, pick: random.Random) -> None:
    """A step, in which the server may die, before a binding or after it."""
    if pick.random() < 0.3:
        scene.world.crash_at = crash_in(pick.choice((1, 2)))
    try:
        scene.step()
        assert scene.health is not Health.FAILED, scene.error
    except Crash:
        scene.crash()
    scene.world.crash_at = None


def crash_in(appends: int) -> Callable[[Any], bool]:
    left = [appends]

    def is_here(_: Any) -> bool:
        left[0] -= 1
        return left[0] == 0

    return is_here


@pytest.mark.semantics(108, 109, 113, 114, 151, 160, 161, 164)
@pytest.mark.parametrize("seed", range(6))
def test_contents_are_those_at_the_bound_place(logical_server: PostgresServer, seed: int) -> None:
    pick = random.Random(seed)
    scene = Scene(logical_server.create_database(f"d{uuid.uuid4().hex}"), SETUP)
    scene.run("CREATE PUBLICATION p FOR TABLE a, b")
    history = History(scene, pick)
    for _ in range(5):
        history.transaction(may_truncate=True)
    scene.create()
    for _ in range(40):
        is_begun = (scene.world.upper(scene.output("a")) or 0) > 1000
        for _ in range(pick.randrange(3)):
            history.transaction(may_truncate=is_begun)
        stepped(scene, pick)
    scene.caught_up()
    times = scene.times(*TABLES)
    assert len(times) > 10
    for time in times:
        found = {table: scene.rows(table, time) for table in TABLES}
        assert found in history.could_be(scene.lsn_at(time)), time
    assert {table: scene.rows(table) for table in TABLES} == history.states[-1][1]
    scene.close()
    with psycopg.connect(scene.conninfo, autocommit=True) as upstream:
        drop_slots(upstream)
