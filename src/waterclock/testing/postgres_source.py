"""A PostgreSQL source that a test steps: a real server upstream, storage in memory, and crashes.

The database upstream is the test's own. `Scene.create` makes the publication's tables a source as
CREATE SOURCE would, without an adapter.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict

from waterclock.model.ids import GlobalId
from waterclock.persist.consolidate import consolidate
from waterclock.persist.rows import DIFF, TIME
from waterclock.storage.api import ERROR_ROWS, Progress, Updates
from waterclock.storage.reclock.shape import POSTGRES
from waterclock.storage.sources.api import (
    ConnectionSettings,
    Executors,
    SourceDescription,
    Surroundings,
)
from waterclock.storage.sources.ingestion import Ingestion, Outcome
from waterclock.storage.sources.ledger import Ledger
from waterclock.storage.sources.postgres import connector
from waterclock.storage.sources.postgres.definition import PostgresDefinition, definition_of
from waterclock.storage.sources.postgres.requirements import Wanted, define
from waterclock.storage.sources.status import Health
from waterclock.testing.source_world import SourceWorld

CONNECTION = "u1"
Row = tuple[Any, ...]


def settings_for(conninfo: str) -> ConnectionSettings:
    """The options of a connection that leads there."""
    given = conninfo_to_dict(conninfo)
    names = {"host": "host", "port": "port", "user": "user", "dbname": "database"}
    options = {option: str(given[name]) for name, option in names.items()}
    return ConnectionSettings("pg", "postgres", options)


def drop_slots(upstream: psycopg.Connection[Any]) -> None:
    """Drop the database's slots. The server lets go of one some time after its reader has left."""
    await_free_slots(upstream)
    upstream.execute(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
        " WHERE database = current_database()"
    )


def await_free_slots(upstream: psycopg.Connection[Any]) -> None:
    """Wait until the server has seen that nobody reads the database's slots any more."""
    query = "SELECT 1 FROM pg_replication_slots WHERE database = current_database() AND active"
    until = time.monotonic() + 240
    while upstream.execute(query).fetchone():
        assert time.monotonic() < until, "somebody reads a slot"
        time.sleep(0.01)


class Scene:
    """A database upstream and a source over it."""

    def __init__(self, conninfo: str, setup: str) -> None:
        self.conninfo = conninfo
        self.settings = settings_for(conninfo)
        self.world = SourceWorld()
        self.sql = psycopg.connect(conninfo, autocommit=True)
        self.run(setup)
        self.description: SourceDescription | None = None
        self.executors: Executors | None = None
        """What reads first contents, however small."""

    def run(self, statements: str) -> None:
        """Statements upstream, each by itself."""
        for statement in statements.split(";"):
            if statement.strip():
                self.sql.execute(statement)

    def create(self, wanted: Wanted | None = None) -> None:
        """The source over what is published."""
        found = define(CONNECTION, self.settings, wanted or Wanted("p"))
        rows = {table.output: table.rows for table in found.chosen}
        encoded = found.definition.encoded()
        made = self.world.create(connector.NAME, encoded, POSTGRES.schema, rows)
        errors = {name: self.world.collection(ERROR_ROWS) for name in rows}
        self.description = SourceDescription(
            made.id, "s", made.kind, encoded, made.remap, made.outputs, errors=errors
        )
        self.start()

    def start(self) -> None:
        """The source, as a server that has just started finds it."""
        assert self.description is not None
        description = self.description
        hold = self.world.holds.take(description.collections)
        self.ingestion = Ingestion(
            description,
            connector.KIND,
            Surroundings(self.world.clock, self.executors, lambda _: self.settings, large_bytes=0),
            lambda: Ledger(self.world.storage, self.world.store, description, POSTGRES, hold),
        )

    def crash(self) -> None:
        """Kill the server, and start another; what is open upstream breaks off."""
        self.ingestion.close()
        await_free_slots(self.sql)
        self.world.open()
        self.start()

    def step(self) -> Outcome:
        return self.world.step(self.ingestion)

    def caught_up(self) -> None:
        """Step until everything that is upstream now is here."""
        [flushed] = self.sql.execute("SELECT pg_current_wal_insert_lsn() - '0/0'").fetchone() or ()
        self.sql.execute("SELECT pg_logical_emit_message(true, 'test', 'flush')")
        for _ in range(100):
            self.step()
            assert self.health in (Health.RUNNING, Health.STARTING), self.error
            if self.ingestion.statistics.offsets_committed >= flushed:
                return
        raise AssertionError("the source does not catch up")

    @property
    def health(self) -> Health:
        return self.ingestion.status.health

    @property
    def error(self) -> Exception | None:
        return self.ingestion.status.error

    @property
    def definition(self) -> PostgresDefinition:
        assert self.description is not None
        return definition_of(self.description.definition)

    @property
    def slot(self) -> str:
        return self.definition.slot

    def output(self, table: str) -> GlobalId:
        assert self.description is not None
        return self.description.outputs[f"public.{table}"]

    def errors_of(self, table: str) -> GlobalId:
        assert self.description is not None
        return self.description.errors[f"public.{table}"]

    def rows(self, table: str, time: int | None = None) -> Counter[Row]:
        """The contents of an output, where its data ends or at a time."""
        output = self.output(table)
        upper = self.world.upper(output)
        assert upper is not None
        return self.world.contents(output, upper - 1 if time is None else time)

    def table(self, name: str) -> pa.Table:
        """The contents of an output where its data ends, as Arrow."""
        output = self.output(name)
        found = []
        subscription = self.world.storage.subscribe_at(self.world.holds.capability(output))
        for message in subscription:
            match message:
                case Updates(batch):
                    found.append(batch)
                case Progress():
                    break
        subscription.close()
        held = consolidate(pa.Table.from_batches(found), since=2**62)
        assert set(held[DIFF].to_pylist()) <= {1}, "each row is there once"
        return held.drop_columns([TIME, DIFF]).combine_chunks()

    def errors(self, table: str) -> list[str]:
        """The messages of what is wrong with an output."""
        collection = self.errors_of(table)
        upper = self.world.upper(collection)
        assert upper is not None
        return sorted(row[1] for row in self.world.contents(collection, upper - 1).elements())

    def times(self, *tables: str) -> Sequence[int]:
        """All times at which one of the outputs has changed."""
        found = {t for table in tables for _, t in self.world.updates(self.output(table))}
        return sorted(found)

    def lsn_at(self, time: int) -> int:
        """How far the source was bound at a time."""
        assert self.description is not None
        [(lsn,)] = self.world.contents(self.description.remap, time)
        return int(lsn)

    def upstream(self, query: str) -> Counter[Row]:
        """What the server itself answers."""
        return Counter(self.sql.execute(query).fetchall())

    def close(self) -> None:
        if self.description is not None:
            self.ingestion.close()
        self.sql.close()
