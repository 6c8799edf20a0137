"""COPY, both ways.

Rows that come in are checked batch by batch and written together when the last one has come: they
become part of the transaction then, or are one of their own. Until then they lie in memory, or in a
file once they are many, so a large COPY takes the disk's room and not the memory's. Whatever goes
wrong before the end leaves nothing.

Rows that go out are those of a query or of a SUBSCRIBE. They go to the client; those of a query may
go to files instead (`exporting`).
"""

from __future__ import annotations

import asyncio
import mmap
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from waterclock.adapter.api import ColumnDescription, CopyIn, CopyOut, Response, Rows
from waterclock.adapter.copy_options import copy_options
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.results import closed
from waterclock.adapter.sequencer import exporting, inserts, queries, subscriptions, writing
from waterclock.catalog.objects import Privilege, Relation
from waterclock.persist.rows import row_schema
from waterclock.sql import ast
from waterclock.sql.ast.changes import CopyDirection
from waterclock.sql.ast.common import Identifier, ObjectName, QueryText
from waterclock.sql.quoting import quote_ident, quote_name

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
T = TypeVar("T")
_IN_MEMORY_BYTES = 64 << 20
"""Bytes of a COPY held in memory before it spills to a file."""


async def copy(session: SqlSession, statement: ast.Copy, parameters: Parameters) -> Response:
    if statement.direction is CopyDirection.FROM_STDIN:
        return await _copy_in(session, statement)
    return await _copy_out(session, statement, parameters)


async def _copy_in(session: SqlSession, statement: ast.Copy) -> Response:
    assert isinstance(statement.subject, ObjectName), "only tables take rows"
    writing.require_writable(session, "COPY FROM")
    if statement.where is not None:
        raise Unsupported(
            "COPY FROM ... WHERE is not supported",
            hint="Copy into another table, and use INSERT ... SELECT ... WHERE from there.",
        )
    table = writing.writable(session, statement.subject, Privilege.INSERT)
    places = writing.places_of(table, statement.columns)
    copied = [table.columns[place] for place in places]
    names = [column.name for column in copied]
    options = copy_options(statement.options, statement.direction, names, table)
    missing = [c for place, c in enumerate(table.columns) if place not in places]
    defaults = await inserts.default_values(session, missing)
    columns = tuple(ColumnDescription(column.name, column.type) for column in copied)
    return CopyIn(columns, options, _TableSink(session, table, places, defaults), table.name)


class _TableSink:
    """Implements `api.CopySink` for a table."""

    def __init__(
        self,
        session: SqlSession,
        table: Relation,
        places: Sequence[int],
        defaults: dict[str, object],
    ) -> None:
        self._session = session
        self._table = table
        self._places = list(places)
        self._defaults = defaults
        self._kept = _Kept(writing.loose_schema(table))

    async def stoppable(self, work: Callable[[], Awaitable[T]]) -> T:
        return await self._session.watch.stoppably(work)

    async def append(self, batch: pa.RecordBatch) -> None:
        rows = writing.in_table(self._table, self._full(batch))
        writing.check_nulls(self._session, self._table, rows)
        if self._kept.add(rows):
            await asyncio.to_thread(self._kept.spill)

    async def finish(self) -> str:
        session = self._session
        rows = await asyncio.to_thread(self._kept.all)
        if rows.num_rows:
            writing.keep(session, self._table, rows, 1, "COPY FROM")
        if not session.transaction.in_block:
            await session.sync()  # it says that it is done: so it is durable
        return f"COPY {rows.num_rows}"

    async def abort(self) -> None:
        self._kept.forget()

    def _full(self, batch: pa.RecordBatch) -> list[Any]:
        """The table's columns: those that came, and the defaults of the others."""
        given = dict(zip(self._places, batch.columns, strict=True))
        kinds = row_schema(self._table.schema)
        columns = []
        for place, column in enumerate(self._table.columns):
            if place not in given:
                usual = pa.scalar(self._defaults[column.name], kinds.field(place).type)
                given[place] = pa.repeat(usual, batch.num_rows)
            columns.append(given[place])
        return columns


class _Kept:
    """Rows that wait for the last one, in memory or in a file without a name.

    The file is gone when nobody has it open any more, whatever becomes of the COPY.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._tables: list[pa.Table] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._writer: pa.ipc.RecordBatchFileWriter | None = None

    def add(self, rows: pa.Table) -> bool:
        """Take rows; true if it is time to put them into the file."""
        self._tables.append(rows)
        self._bytes += rows.nbytes
        return self._bytes > _IN_MEMORY_BYTES

    def spill(self) -> None:
        if self._writer is None:
            self._file = tempfile.TemporaryFile(prefix="waterclock-copy-")  # noqa: SIM115
            self._writer = pa.ipc.new_file(pa.PythonFile(self._file, "w"), self._schema)
        for table in self._tables:
            self._writer.write_table(table)
        self._tables, self._bytes = [], 0

    def all(self) -> pa.Table:
        """Everything. What is in the file is mapped, not read."""
        found = [self._schema.empty_table()]
        if self._writer is not None and self._file is not None:
            self._writer.close()
            self._file.flush()
            mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            found.append(pa.ipc.open_file(pa.BufferReader(pa.py_buffer(mapped))).read_all())
        tables, self._tables = self._tables, []
        self.forget()
        return pa.concat_tables([*found, *tables])

    def forget(self) -> None:
        self._tables = []
        self._writer = None
        if self._file is not None:
            self._file.close()
            self._file = None


async def _copy_out(session: SqlSession, statement: ast.Copy, parameters: Parameters) -> Response:
    target = None
    if statement.location is not None:
        if isinstance(statement.subject, ast.Subscribe):
            raise Unsupported(
                "COPY of SUBSCRIBE to a location is not supported",
                detail="It has no end, so the files would never be whole.",
            )
        target = exporting.Target(session, statement.location, statement.options)
    match statement.subject:
        case ObjectName() as name:
            subject = ast.Query(QueryText(_select(name, statement.columns), name.position))
            response = await queries.run_query(session, subject, ())
        case ast.Query() as query:
            response = await queries.run_query(session, query, parameters)
        case ast.Subscribe() as subscribe:
            response = await subscriptions.subscribe(session, subscribe, parameters)
    assert isinstance(response, Rows)
    if target is not None:
        return await exporting.export(session, target, response)
    names = [column.name for column in response.columns]
    try:
        options = copy_options(statement.options, statement.direction, names)
    except BaseException:
        await closed(response.batches)
        raise
    return CopyOut(response.columns, options, response.batches)


def _select(name: ObjectName, columns: Sequence[Identifier] | None) -> str:
    shown = "*" if columns is None else ", ".join(quote_ident(c.name) for c in columns)
    return f"SELECT {shown} FROM {quote_name(name.parts)}"


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Copy: copy}
