"""The replication stream cut into transactions, and how far it is known to be complete.

The server sends a transaction when it has been committed, whole and in the order of commits, and
says now and then where it is. So everything up to the last of both has come. Such a place is always
at the end of a record that the server has durably, hence it is there again after a crash upstream;
the end of its log as the server itself would tell it need not be.

What has come and was not taken yet is kept, so that it is read once: by the probe that finds how
far one can go, and then taken by the read of what was bound. Of a backlog, more is received by a
thread of its own while what was taken is decoded: else the server would wait for us and we for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.postgres import pgoutput
from waterclock.storage.sources.postgres.decoding import Transaction
from waterclock.storage.sources.postgres.replication import (
    ALIVE,
    DATA,
    HEADER,
    Replication,
    alive_at,
)

_SILENCE_SECONDS = 30.0
_ASK_SECONDS = 0.1


class TransactionStream:
    """A stream that has begun behind a place in the log. One thread at a time."""

    def __init__(self, connection: Replication, begin: int) -> None:
        self._connection = connection
        self._receiver: ThreadPoolExecutor | None = None
        self._ahead: Future[None] | None = None
        self._closing = threading.Event()
        self._durable = begin
        self._whole: deque[Transaction] = deque()
        self._open: list[bytes] | None = None
        """The messages of a transaction whose end has not come yet."""
        self.taken = begin
        """Every transaction up to there has been taken."""
        self.complete_to = begin
        """Every transaction that ends there or before has come."""
        self.size = 0
        """Bytes that have come and were not taken."""

    def pull(self, target: int, *, at_most_bytes: int | None, seconds: float) -> None:
        """Receive until everything up to the target is there, or so many bytes, or so long.

        Raises `TransientFault` if the server is silent.
        """
        self._settle()
        self._pull(target, at_most_bytes, seconds)

    def pull_ahead(self, target: int, *, at_most_bytes: int, seconds: float) -> None:
        """Begin to do the same, while the caller does something else. Whatever is asked of the
        stream next waits for it, and raises what it raised.
        """
        self._settle()
        if self.complete_to < target:
            if self._receiver is None:
                self._receiver = ThreadPoolExecutor(1, thread_name_prefix="waterclock-stream")
            self._ahead = self._receiver.submit(self._pull, target, at_most_bytes, seconds)

    def _settle(self) -> None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None:
            ahead.result()

    def _pull(self, target: int, at_most_bytes: int | None, seconds: float) -> None:
        heard = time.monotonic()
        deadline, asked = heard + seconds, 0.0

        def has_room() -> bool:
            return at_most_bytes is None or self.size < at_most_bytes or self._open is not None

        def wants_more() -> bool:
            return self.complete_to < target and has_room()

        def take(message: bytes) -> bool:
            inside = self._open
            if inside is not None and message[0] == DATA and message[HEADER] in pgoutput.CHANGES:
                inside.append(message)  # as nearly all are; there is room for all of a transaction
                self.size += len(message)
                return True
            self._receive(message)
            return has_room()

        self._connection.wait(0.0)  # the server may want to hear from us although nothing is new
        while not self._closing.is_set():
            received = self._connection.receive(take)
            if not wants_more():
                return
            now = time.monotonic()
            if received:
                heard = now
            elif now >= heard + _SILENCE_SECONDS:
                raise TransientFault("the replication stream from PostgreSQL is silent")
            if now >= deadline:
                return
            if now >= asked + _ASK_SECONDS:
                self._connection.tell(self._durable, ask=True)
                asked = now
            self._connection.wait(min(deadline - now, _ASK_SECONDS))

    def take(self, end: int) -> list[Transaction]:
        """The transactions that end there or before, all of which have come."""
        self._settle()
        assert self.complete_to >= end, "what is taken has come"
        found = []
        while self._whole and self._whole[0].end <= end:
            found.append(self._whole.popleft())
            self.size -= sum(map(len, found[-1].messages))
        self.taken = end
        return found

    def confirm(self, lsn: int) -> None:
        """Everything up to there is durable here, and may be forgotten upstream."""
        self._settle()
        self._durable = max(self._durable, lsn)
        self._connection.tell(self._durable, ask=False)

    def close(self) -> None:
        self._closing.set()
        if self._receiver is not None:
            self._receiver.shutdown()  # it soon notices
        self._connection.close()

    def _receive(self, message: bytes) -> None:
        kind = message[0]
        if kind == DATA:
            self._receive_data(message)
        elif kind == ALIVE:
            lsn, wants_reply = alive_at(message)
            self.complete_to = max(self.complete_to, lsn)
            if wants_reply:
                self._connection.tell(self._durable, ask=False)

    def _receive_data(self, message: bytes) -> None:
        kind = message[HEADER]
        if kind == pgoutput.COMMIT:
            end = pgoutput.commit_end(message, HEADER)
            if self._open is None:
                raise pgoutput.malformed()
            self._whole.append(Transaction(end, self._open))
            self._open = None
            self.complete_to = max(self.complete_to, end)
            return
        if kind == pgoutput.BEGIN:
            self._open = []
            return
        if self._open is None:
            raise pgoutput.malformed()
        self._open.append(message)
        self.size += len(message)
