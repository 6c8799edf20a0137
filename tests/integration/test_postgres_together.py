"""Sources of two databases of one PostgreSQL server, which share the order of its log."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace

import psycopg
import pytest

from waterclock.model.ids import GlobalId
from waterclock.storage.reclock.shape import POSTGRES
from waterclock.storage.sources.api import ConnectionSettings, SourceDescription, Surroundings
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.postgres import connector
from waterclock.storage.sources.postgres.requirements import Wanted, define
from waterclock.testing.postgres_source import drop_slots, settings_for
from waterclock.testing.services import PostgresServer
from waterclock.testing.source_world import SourceWorld

pytestmark = pytest.mark.service

SETUP = """
CREATE TABLE steps (n int PRIMARY KEY);
ALTER TABLE steps REPLICA IDENTITY FULL;
CREATE PUBLICATION p FOR TABLE steps
"""


class Pair:
    """Two databases with a table each, and a source over each of them."""

    def __init__(self, server: PostgresServer) -> None:
        self.world = SourceWorld()
        self.conninfo = [server.create_database(f"d{uuid.uuid4().hex}") for _ in range(2)]
        self.upstream = [psycopg.connect(each, autocommit=True) for each in self.conninfo]
        self._settings: dict[GlobalId, ConnectionSettings] = {}
        self.loop = Ingestions(
            self.world.storage,
            self.world.store,
            {connector.NAME: connector.KIND},
            Surroundings(self.now_ms, connection=self._settings.__getitem__),
            self.world.holds.take,
            interval_ms=100,
        )
        self.sources = [self._source(number) for number in range(2)]

    @staticmethod
    def now_ms() -> int:
        return time.time_ns() // 1_000_000

    def _source(self, number: int) -> SourceDescription:
        for statement in SETUP.split(";"):
            self.upstream[number].execute(statement.encode())
        connection = GlobalId.user(number + 1)
        self._settings[connection] = settings_for(self.conninfo[number])
        found = define(str(connection), self._settings[connection], Wanted("p"))
        rows = {table.output: table.rows for table in found.chosen}
        encoded = found.definition.encoded()
        made = self.world.create(connector.NAME, encoded, POSTGRES.schema, rows)
        description = replace(made, name=f"s{number}")
        self.loop.add(description)
        self.loop.ask(description.id, self.now_ms(), wants_head=True).result(120)
        return description

    def count(self, number: int, at: int) -> int:
        return self.world.contents(self.sources[number].outputs["public.steps"], at).total()

    def close(self) -> None:
        self.loop.close()
        for upstream in self.upstream:
            drop_slots(upstream)
            upstream.close()


@pytest.fixture
def pair(logical_server: PostgresServer) -> Iterator[Pair]:
    made = Pair(logical_server)
    yield made
    made.close()


@pytest.mark.semantics(131, 132, 137, 138)
def test_a_later_commit_is_never_seen_without_an_earlier_one(pair: Pair) -> None:
    """Each number is committed to the one database first, and then to the other."""
    [group] = pair.loop.groups([each.id for each in pair.sources])
    is_over, committed = threading.Event(), [0, 0]

    def write() -> None:
        for n in range(1_000_000):
            for number, upstream in enumerate(pair.upstream):
                upstream.execute("INSERT INTO steps VALUES (%s)", [n])
                committed[number] = n + 1
            if is_over.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    seen = 0
    try:
        for _ in range(30):
            before = list(committed)
            found = pair.loop.ask_together(group, pair.now_ms()).result(120)
            assert found is not None
            assert len({each.bound for each in found}) == 1
            [end] = {each.complete_to for each in found}
            assert end is not None
            one, other = pair.count(0, end - 1), pair.count(1, end - 1)
            assert one >= before[0]
            assert other >= before[1]
            assert other <= one <= other + 1
            seen = one
    finally:
        is_over.set()
        writer.join()
    assert seen > 30, "there was something to see"
