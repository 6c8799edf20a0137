"""SQL tests run in sessions of this process: what comes back, as text, as psql would show it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pyarrow as pa

from waterclock.adapter.api import (
    Batches,
    ColumnDescription,
    CopyOut,
    Done,
    EmptyQuery,
    Response,
    Rows,
)
from waterclock.adapter.session import SqlSession
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType, element_of, type_info
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import Zone, zone_of
from waterclock.testing.adapter_world import Client
from waterclock.testing.slt import Outcome

Connect = Callable[[str], Awaitable[Client]]
"""A new session of that role."""


class Sessions:
    """Implements `slt.Runner`: sessions by name, opened when they are first used."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._open: dict[str, Client] = {}

    async def __call__(self, session: str, role: str | None, text: str) -> Outcome:
        if session not in self._open:
            self._open[session] = await self._connect(role or "waterclock")
        client = self._open[session].session
        try:
            found = [await _outcome(each, client) async for each in client.run_simple(text)]
        except WaterclockError as error:
            await client.fail()
            return Outcome(sqlstate=error.sqlstate, message=str(error))
        return found[-1]

    async def close(self) -> None:
        for client in self._open.values():
            await client.session.terminate()


async def _outcome(response: Response, session: SqlSession) -> Outcome:
    zone = zone_of(session.settings.manner)
    match response:
        case Done(tag):
            return Outcome(tag)
        case EmptyQuery():
            return Outcome()
        case Rows(columns, batches, tag):
            return await _with_rows(tag, columns, batches, zone)
        case CopyOut(columns, _, batches):
            return await _with_rows("COPY", columns, batches, zone)
        case _:
            raise AssertionError("COPY FROM STDIN has no place in a SQL test")


async def _with_rows(
    tag: str, columns: tuple[ColumnDescription, ...], batches: Batches, zone: Zone
) -> Outcome:
    rows = [row async for batch in batches for row in text_rows(batch, columns, zone)]
    return Outcome(
        tag,
        tuple(column.name for column in columns),
        "".join(kind_of(column.type) for column in columns),
        tuple(rows),
    )


def kind_of(declared: PgType) -> str:
    """The letter for the type of a column."""
    if element_of(declared.oid) is not None:
        return "O"
    try:
        info = type_info(declared.oid)
    except WaterclockError:
        return "O"
    if info.name in ("int2", "int4", "int8", "oid", "uint8", "mz_timestamp"):
        return "I"
    return {"N": "R", "S": "T", "B": "B"}.get(info.category, "O")


def text_rows(
    batch: pa.RecordBatch, columns: tuple[ColumnDescription, ...], zone: Zone
) -> list[tuple[str | None, ...]]:
    texts = [
        encode_text(column, described.type, zone).to_pylist()
        for column, described in zip(batch.columns, columns, strict=True)
    ]
    return list(zip(*texts, strict=True)) if texts else [()] * batch.num_rows
