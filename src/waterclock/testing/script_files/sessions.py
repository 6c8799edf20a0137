"""A session with either server: libpq, text results, no conversions, and an end to waiting."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import pq

from waterclock.testing.judge.systems import Answer, Row

LOST = "lost"
"""What stands for the SQLSTATE of a statement that ended the connection."""
_MORE_SECONDS = 30.0
"""How long the server may take to obey its own statement_timeout."""


class Session:
    """Runs one statement after the other, each for no longer than a limit."""

    def __init__(self, connection: psycopg.Connection[Any], limit_seconds: float) -> None:
        """Zone and limit are set for the session; the connection commits each statement."""
        self._connection = connection
        self._limit_seconds = limit_seconds
        self.run("SET timezone = 'UTC'")
        self.run(f"SET statement_timeout = '{round(limit_seconds * 1000)}ms'")

    def run(self, sql: str, data: Callable[[], bytes] | None = None) -> Answer:
        """Carry out a statement; `data` is called if the server asks for data of COPY.

        Rows of COPY TO have one column, which is the line.
        """
        pgconn = self._connection.pgconn
        until = time.monotonic() + self._limit_seconds + _MORE_SECONDS
        answer = Answer()
        try:
            pgconn.send_query(sql.encode())
            while (result := self._result(until)) is not None:
                match result.status:
                    case pq.ExecStatus.COPY_IN:
                        pgconn.put_copy_data(b"" if data is None else data())
                        pgconn.put_copy_end()
                    case pq.ExecStatus.COPY_OUT:
                        answer = Answer((("copy", 25),), tuple(self._copied(until)))
                    case pq.ExecStatus.COMMAND_OK if answer.columns or answer.sqlstate:
                        pass  # the end of COPY TO
                    case _:
                        answer = _answer(result)
        except (psycopg.OperationalError, TimeoutError) as error:
            self._connection.close()
            return Answer(sqlstate=LOST, message=str(error))
        return answer

    @property
    def is_lost(self) -> bool:
        return self._connection.closed or self._connection.pgconn.status != pq.ConnStatus.OK

    @property
    def block(self) -> pq.TransactionStatus:
        """Whether it is in a transaction block, and whether that has failed."""
        return pq.TransactionStatus(self._connection.pgconn.transaction_status)

    def close(self) -> None:
        self._connection.close()

    def _result(self, until: float) -> Any:
        pgconn = self._connection.pgconn
        while pgconn.is_busy():
            self._wait(until)
        return pgconn.get_result()

    def _copied(self, until: float) -> list[Row]:
        lines: list[Row] = []
        pgconn = self._connection.pgconn
        while True:
            size, line = pgconn.get_copy_data(1)
            if size < 0:
                return lines
            if size == 0:
                self._wait(until)
            else:
                lines.append((bytes(line),))

    def _wait(self, until: float) -> None:
        pgconn = self._connection.pgconn
        left = until - time.monotonic()
        if left <= 0 or not select.select([pgconn.socket], [], [], left)[0]:
            raise TimeoutError(f"no answer within {self._limit_seconds + _MORE_SECONDS:.0f} s")
        pgconn.consume_input()


def _answer(result: Any) -> Answer:
    if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
        width = result.nfields
        columns = tuple((result.fname(n).decode(), result.ftype(n)) for n in range(width))
        rows = tuple(
            tuple(result.get_value(row, n) for n in range(width)) for row in range(result.ntuples)
        )
        return Answer(columns, rows)
    if result.status == pq.ExecStatus.EMPTY_QUERY:
        return Answer()
    state = result.error_field(pq.DiagnosticField.SQLSTATE)
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message
    return Answer(
        sqlstate=LOST if state is None else state.decode(),
        message=message.decode(errors="replace").strip(),
    )
