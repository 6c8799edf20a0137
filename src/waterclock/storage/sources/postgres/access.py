"""The server that a source was created over, as it can be reached now: connections and the slot.

Settings are asked for once, when something is first needed; whoever has had a fault opens another
`Access`, and with it counts what was changed meanwhile.

A server with another identifier is not the one we know, whatever its address.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import psycopg

from waterclock.storage.sources.api import ConnectionSettings, Surroundings
from waterclock.storage.sources.errors import SourceFault, TransientFault
from waterclock.storage.sources.postgres import publications
from waterclock.storage.sources.postgres.connecting import connect, telling
from waterclock.storage.sources.postgres.definition import PostgresDefinition, shown_lsn
from waterclock.storage.sources.postgres.replication import Replication
from waterclock.storage.sources.postgres.upstream import FoundTable, Slot, Upstream

HINT = "Drop the source and create it again to read what is upstream now."
_DISCARD_SECONDS = 10.0


class Access:
    """One thread at a time."""

    def __init__(self, definition: PostgresDefinition, surroundings: Surroundings) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._control: psycopg.Connection[Any] | None = None

    @cached_property
    def settings(self) -> ConnectionSettings:
        """How to connect."""
        return settings_of(self._definition, self._surroundings)

    def close(self) -> None:
        """End the connection for questions. Others belong to those who asked for them."""
        control, self._control = self._control, None
        if control is not None:
            control.close()

    def replication(self) -> Replication:
        """A new connection for replication."""
        connection = Replication(self.settings)
        try:
            self._require_same(connection.system())
        except BaseException:
            connection.close()
            raise
        return connection

    def _require_same(self, system: str) -> None:
        if system != self._definition.system:
            raise SourceFault(
                "the connection leads to another PostgreSQL server than it did",
                detail=f"Its identifier is {system} and was {self._definition.system}.",
                hint=HINT,
            )

    def flushed(self) -> int:
        """How far the server has its log durably."""
        with self._asking() as upstream:
            found = upstream.flushed()
        if found is None:
            raise TransientFault(
                "the PostgreSQL server is a standby at present",
                hint="Let the connection lead to the primary server.",
            )
        return found

    def tables(self) -> dict[int, FoundTable]:
        """Our tables as they are published now, by number.

        Raises `SourceFault` if the publication is not what it was.
        """
        known = self._definition
        with self._asking() as upstream:
            publication = upstream.publication(known.publication)
            if publication is None or publication.version != known.version:
                told = "dropped" if publication is None else "altered"
                raise SourceFault(
                    f'publication "{known.publication}" was {told} upstream',
                    detail="Changes may not have been published meanwhile.",
                    hint=HINT,
                )
            oids = [table.oid for table in known.tables]
            return {table.oid: table for table in upstream.tables(known.publication, oids)}

    def slot(self) -> Slot | None:
        """Our slot, if it is there."""
        with self._asking() as upstream:
            return upstream.slot(self._definition.slot)

    def require_slot(self, needed: int) -> None:
        """Raise `SourceFault` unless the slot gives everything behind a place."""
        name, slot = self._definition.slot, self.slot()
        if slot is None or slot.is_lost:
            told = "does not exist any more" if slot is None else "has lost the log it needs"
            raise SourceFault(
                f'replication slot "{name}" {told} upstream',
                detail=f"What was changed after {shown_lsn(needed)} is lost.",
                hint=HINT,
            )
        if slot.confirmed > needed:
            raise SourceFault(
                f'replication slot "{name}" was advanced upstream by somebody else',
                detail=f"It is at {shown_lsn(slot.confirmed)}, and what was changed after"
                f" {shown_lsn(needed)} has not been read.",
                hint=HINT,
            )

    @contextmanager
    def _asking(self) -> Iterator[Upstream]:
        """Questions to the server, whose errors are those of a source."""
        if self._control is None:
            self._control = connect(self.settings)
        with telling(self.settings):
            yield Upstream(self._control)


def settings_of(definition: PostgresDefinition, surroundings: Surroundings) -> ConnectionSettings:
    """How to connect, as it is now."""
    assert surroundings.connection is not None, "there are connections where there are sources"
    return surroundings.connection(definition.connection_id)


def discard(definition: PostgresDefinition, settings: ConnectionSettings) -> None:
    """Remove the slot; one that is not there is no error. Raises `TransientFault`."""
    deadline = time.monotonic() + _DISCARD_SECONDS
    while True:
        connection = Replication(settings)
        try:
            connection.drop_slot(definition.slot)
            return
        except SourceFault:
            return  # there is none
        except TransientFault:
            if time.monotonic() > deadline:
                raise
        finally:
            connection.close()
        time.sleep(0.1)  # the stream has not quite ended


def leave(definition: PostgresDefinition, settings: ConnectionSettings) -> None:
    """Remove the slot of a source that is gone, and its publication if that is its own. If that
    fails, say what is left, and the remedy.
    """
    try:
        discard(definition, settings)
    except TransientFault as fault:
        slot = definition.slot
        raise TransientFault(
            f'replication slot "{slot}" was left upstream: {fault.message}',
            detail="The server keeps its log for it.",
            hint=f"Drop it there: SELECT pg_drop_replication_slot('{slot}').",
        ) from fault
    if definition.owns_publication:
        try:
            publications.drop(settings, definition.publication)
        except TransientFault as fault:
            name = definition.publication
            raise TransientFault(
                f'publication "{name}" was left upstream: {fault.message}',
                hint=f"Drop it there: DROP PUBLICATION {name}.",
            ) from fault
