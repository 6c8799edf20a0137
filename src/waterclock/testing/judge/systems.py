"""The two systems, spoken to in the same way: libpq, text or binary results, no conversions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import pq

Row = tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: columns with their types and rows, or an error."""

    columns: tuple[tuple[str, int], ...] = ()
    rows: tuple[Row, ...] = ()
    sqlstate: str | None = None
    message: str = ""


class System:
    """A connection to one of the two."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection
        self.run("set timezone = 'UTC'")

    def run(self, sql: str) -> Answer:
        """Carry out a statement as plain text."""
        return self._answer(self._connection.pgconn.exec_(sql.encode()))

    def run_prepared(
        self, sql: str, parameters: Sequence[str | None], *, binary: bool = False
    ) -> Answer:
        """Carry out a statement with parameters."""
        values = [None if value is None else value.encode() for value in parameters]
        result_format = pq.Format.BINARY if binary else pq.Format.TEXT
        connection = self._connection.pgconn
        return self._answer(
            connection.exec_params(sql.encode(), values, result_format=result_format)
        )

    def _answer(self, result: Any) -> Answer:
        if result.status in (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK):
            width = result.nfields
            columns = tuple((result.fname(n).decode(), result.ftype(n)) for n in range(width))
            rows = tuple(
                tuple(result.get_value(row, n) for n in range(width))
                for row in range(result.ntuples)
            )
            return Answer(columns, rows)
        state = result.error_field(pq.DiagnosticField.SQLSTATE)
        message = result.error_message.decode(errors="replace")
        return Answer(sqlstate="lost" if state is None else state.decode(), message=message)

    @property
    def is_lost(self) -> bool:
        return self._connection.pgconn.status != pq.ConnStatus.OK

    def close(self) -> None:
        self._connection.close()
