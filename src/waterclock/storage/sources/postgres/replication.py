"""The replication protocol: slots, and a stream of what is written to the server's log.

psycopg has libpq but not this protocol, which is a few commands and, once the stream has begun,
three messages: data, the server's "alive, and I am here", and our "I have this durably". Only the
last releases what the server keeps for us.

Commands are waited for with a limit: to make a slot, the server waits for all transactions that are
under way, and we rather say so than wait silently.
"""

from __future__ import annotations

import select
import struct
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psycopg
from psycopg import pq

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.postgres.connecting import connect_raw, fault, unreachable
from waterclock.storage.sources.postgres.definition import (
    always_quoted,
    parsed_lsn,
    shown_lsn,
)

HEADER = 25
"""The length of what stands before the data in a message: `w` and three numbers."""
DATA, ALIVE = b"w"[0], b"k"[0]
_ALIVE = struct.Struct(">cQqB")
_STATUS = struct.Struct(">cQQQqB")
_COMMAND_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class NewSlot:
    """A slot that was made just now: from where on it gives changes, and the snapshot of before."""

    lsn: int
    snapshot: str


class Replication:
    """A connection in replication mode. One thread at a time."""

    def __init__(self, settings: ConnectionSettings) -> None:
        """Raises `TransientFault`."""
        self._settings = settings
        self._raw = connect_raw(settings)

    def close(self) -> None:
        """Idempotent."""
        self._raw.finish()

    # Commands

    def system(self) -> str:
        """The identifier of the server."""
        return self._row("IDENTIFY_SYSTEM")[0]

    def create_slot(self, slot: str, *, temporary: bool = False) -> NewSlot:
        """A new slot. Its snapshot is there until the next command, or until this is closed."""
        kind = " TEMPORARY" if temporary else ""
        command = f"CREATE_REPLICATION_SLOT {always_quoted(slot)}{kind} LOGICAL pgoutput"
        _, lsn, snapshot, _ = self._row(f"{command} EXPORT_SNAPSHOT")
        return NewSlot(parsed_lsn(lsn), snapshot)

    def drop_slot(self, slot: str) -> None:
        self._command(f"DROP_REPLICATION_SLOT {always_quoted(slot)}", pq.ExecStatus.COMMAND_OK)

    def start(self, slot: str, publication: str, lsn: int) -> None:
        """Begin the stream behind a place in the log."""
        names = always_quoted(publication).replace("'", "''")
        options = f"proto_version '1', publication_names '{names}'"
        command = f"START_REPLICATION SLOT {always_quoted(slot)} LOGICAL {shown_lsn(lsn)}"
        self._command(f"{command} ({options})", pq.ExecStatus.COPY_BOTH)
        self._raw.nonblocking = 1

    def _row(self, command: str) -> Sequence[str]:
        result = self._command(command, pq.ExecStatus.TUPLES_OK)
        values = (result.get_value(0, i) for i in range(result.nfields))
        return [(value or b"").decode() for value in values]

    def _command(self, command: str, expected: pq.ExecStatus) -> pq.abc.PGresult:
        self._raw.send_query(command.encode())
        deadline = time.monotonic() + _COMMAND_SECONDS
        while self._raw.is_busy():
            self._await(deadline, f"{command.split()[0]} takes long upstream")
        result = self._raw.get_result()
        if result is None:
            raise self._lost()
        if result.status != expected:
            raise self._refused(result)
        while expected != pq.ExecStatus.COPY_BOTH and (more := self._raw.get_result()):
            if more.status == pq.ExecStatus.FATAL_ERROR:
                raise self._refused(more)
        return result

    def _await(self, deadline: float, what: str) -> None:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TransientFault(
                what,
                detail="A new slot waits for all transactions that are under way.",
                hint="See what runs upstream: SELECT * FROM pg_stat_activity.",
            )
        self.wait(left)

    # The stream

    def receive(self, take: Callable[[bytes], bool]) -> bool:
        """Give `take` every message that is here until it says to stop; whether there was any.

        The end of the stream is a `TransientFault` or what the server says.
        """
        get, found = self._raw.get_copy_data, False
        while True:
            count, data = get(1)
            if count > 0:
                found = True
                if not take(bytes(data)):
                    return True
            elif count == 0:
                return found
            else:
                raise self._ended()

    def wait(self, seconds: float) -> None:
        """Until something has come, or so long."""
        try:
            select.select([self._raw.socket], [], [], max(0.0, seconds))
            self._raw.consume_input()
        except (psycopg.OperationalError, OSError) as error:
            raise unreachable(self._settings, str(error)) from error

    def tell(self, durable: int, *, ask: bool) -> None:
        """Everything up to there is durable here; with `ask`, the server is to say where it is."""
        micros = time.time_ns() // 1000 - 946_684_800_000_000
        try:
            self._raw.put_copy_data(_STATUS.pack(b"r", durable, durable, durable, micros, ask))
            while self._raw.flush():
                select.select([], [self._raw.socket], [], 1.0)
        except (psycopg.OperationalError, OSError) as error:
            raise unreachable(self._settings, str(error)) from error

    def _ended(self) -> Exception:
        result = self._raw.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return self._refused(result)
        return self._lost()

    def _lost(self) -> TransientFault:
        return unreachable(self._settings, self._raw.get_error_message())

    def _refused(self, result: pq.abc.PGresult) -> Exception:
        sqlstate = result.error_field(pq.DiagnosticField.SQLSTATE)
        message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
        if sqlstate is None or message is None:
            return unreachable(self._settings, result.get_error_message())
        return fault(self._settings, sqlstate.decode(), message.decode())


def alive_at(message: bytes) -> tuple[int, bool]:
    """Where the server is, and whether it wants to hear from us."""
    _, lsn, _, wants_reply = _ALIVE.unpack(message)
    return lsn, bool(wants_reply)
