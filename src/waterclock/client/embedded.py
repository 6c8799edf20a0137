"""The database inside a program, over a directory, in the program's own Spark session.

The program is the server then: nobody else can open the directory meanwhile. Statements run as the
default role, in sessions like those of any client; a subscription has one of its own.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa

from waterclock.adapter.api import (
    Batches,
    ColumnDescription,
    CopyIn,
    CopyOut,
    Done,
    EmptyQuery,
    Front,
    Response,
    Rows,
    Session,
    Startup,
)
from waterclock.client.api import Changes, Result, require_spark
from waterclock.client.api import Rows as Insertable
from waterclock.client.changes import Pending
from waterclock.client.frames import as_table
from waterclock.client.numbers import decimals, fitting, scalar
from waterclock.client.read_holds import HeldSubscription, ReadHold
from waterclock.client.statements import copy_text, subscribe_text
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType, column_type
from waterclock.persist.rows import arrow_type
from waterclock.server.loop import LoopThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_ROLE = _DATABASE = "waterclock"
_COPY_ROWS = 65_536


class NeedsAppend(WaterclockError):
    """COPY has no client to talk to here."""

    sqlstate: ClassVar[str] = "0A000"


class WrongParameters(WaterclockError):
    """The parameters do not fit the statement."""

    sqlstate: ClassVar[str] = "22023"


class EmbeddedConnection:
    """Implements `client.api.Connection` over an adapter in this process."""

    def __init__(
        self,
        front: Front,
        loop: LoopThread,
        spark: SparkSession | None,
        closed: Callable[[], None],
    ) -> None:
        """`closed` is called when the connection is."""
        self._front = front
        self._loop = loop
        self._spark = spark
        self._closed: Callable[[], None] | None = closed
        self._turn = threading.RLock()
        self._numbers = itertools.count(1)
        self._subscriptions: list[EmbeddedSubscription | HeldSubscription] = []
        self._holds: list[ReadHold] = []
        self._session = loop.run(self._connect())

    async def _connect(self) -> Session:
        startup = Startup(_ROLE, _DATABASE, {}, None, next(self._numbers))
        return await self._front.connect(startup, lambda _notice: None)

    def sql(self, text: str, *parameters: object) -> Result:
        with self._turn:
            table, tag = self._loop.run(_run(self._session, text, parameters))
        return Result(decimals(table), tag, self._spark)

    def subscribe(
        self,
        relation: str,
        *,
        snapshot: bool = True,
        as_of: int | None = None,
        lease_s: float | None = None,
    ) -> EmbeddedSubscription | HeldSubscription:
        if lease_s is not None:
            held = HeldSubscription(
                self.hold(relation, as_of=as_of, lease_s=lease_s), relation, snapshot=snapshot
            )
            self._subscriptions.append(held)
            return held
        text = subscribe_text(relation, snapshot=snapshot, as_of=as_of)
        session = self._loop.run(self._connect())
        begun = EmbeddedSubscription(session, text, self._loop)
        self._subscriptions.append(begun)
        return begun

    def hold(
        self,
        *relations: str,
        name: str | None = None,
        as_of: int | None = None,
        lease_s: float = 60.0,
    ) -> ReadHold:
        def connect() -> EmbeddedStatements:
            return EmbeddedStatements(self._loop.run(self._connect()), self._loop)

        held = ReadHold(connect, self.subscribe, relations, name=name, as_of=as_of, lease_s=lease_s)
        self._holds.append(held)
        return held

    @property
    def spark(self) -> SparkSession:
        return require_spark(self._spark)

    def append(self, table: str, rows: Insertable) -> int:
        given = as_table(rows)
        with self._turn:
            self._loop.run(_append(self._session, copy_text(table, given.column_names), given))
        return int(given.num_rows)

    def close(self) -> None:
        closed, self._closed = self._closed, None
        if closed is not None:
            for hold in self._holds:
                hold.close()
            for each in self._subscriptions:
                each.close()
            self._loop.run(self._session.terminate())
            self._loop.close()
            closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class EmbeddedStatements:
    """A further session, for what must not wait for the statements of the connection."""

    def __init__(self, session: Session, loop: LoopThread) -> None:
        self._session = session
        self._loop = loop

    def sql(self, text: str, *parameters: object) -> Result:
        table, tag = self._loop.run(_run(self._session, text, parameters))
        return Result(decimals(table), tag)

    def close(self) -> None:
        self._loop.run(self._session.terminate())


class EmbeddedSubscription:
    """Implements `client.api.Subscription` in a session of its own."""

    def __init__(self, session: Session, text: str, loop: LoopThread) -> None:
        self._session = session
        self._loop = loop
        self._ready: list[Changes] = []
        self._is_open = True
        try:
            self._responses = session.run_simple(text)
            self._rows = loop.run(_first(self._responses))
        except BaseException:
            self.close()
            raise
        self._schema = schema_of(self._rows.columns)
        self._pending = Pending(self._schema)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Changes:
        while not self._ready:
            if not self._is_open:
                raise StopIteration
            batch = self._loop.run(_next(self._rows.batches))
            if batch is None:
                self.close()
                raise StopIteration
            self._ready += self._pending.add(named([batch], self._schema))
        return self._ready.pop(0)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.run(self._session.terminate())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def schema_of(columns: Sequence[ColumnDescription]) -> pa.Schema:
    """The Arrow columns of a result."""
    return pa.schema([(c.name, arrow_type(column_type(c.type))) for c in columns])


def named(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The batches as one table with the names of the result's columns."""
    if not batches:
        return schema.empty_table()
    table = pa.Table.from_batches(batches)
    return table.rename_columns(schema.names)


async def _run(session: Session, text: str, parameters: Sequence[object]) -> tuple[pa.Table, str]:
    responses = _bound(session, text, parameters) if parameters else session.run_simple(text)
    answer = pa.table({}), ""
    try:
        async for response in responses:
            answer = await _taken(response)
    except BaseException:
        await session.fail()
        raise
    return answer


async def _bound(
    session: Session, text: str, parameters: Sequence[object]
) -> AsyncIterator[Response]:
    await session.parse("", text, ())
    described = await session.describe_statement("")
    wanted = described.parameters
    if len(wanted) != len(parameters):
        raise WrongParameters(
            f"the statement has {len(wanted)} parameters, and {len(parameters)} were given"
        )
    scalars = [_scalar(value, declared) for value, declared in zip(parameters, wanted, strict=True)]
    await session.bind("", "", scalars, ())
    yield await session.execute("", 0)
    await session.sync()


def _scalar(value: object, declared: PgType) -> pa.Scalar:
    kind = arrow_type(column_type(declared))
    try:
        return scalar(value, kind)
    except (pa.ArrowException, TypeError, ValueError, ArithmeticError) as error:
        raise WrongParameters(f"a parameter does not fit its type: {error}") from error


async def _taken(response: Response) -> tuple[pa.Table, str]:
    """All of a response."""
    match response:
        case Rows(columns, batches, tag, counted):
            found = [batch async for batch in batches]
            table = named(found, schema_of(columns))
            return table, f"{tag} {table.num_rows}" if counted else tag
        case Done(tag):
            return pa.table({}), tag
        case EmptyQuery():
            return pa.table({}), ""
        case CopyIn(sink=sink):
            await sink.abort()
            raise NeedsAppend("COPY is not possible here", hint="Use append().")
        case CopyOut():
            raise NeedsAppend("COPY is not possible here", hint="Use sql() and arrow().")


async def _append(session: Session, text: str, rows: pa.Table) -> None:
    try:
        async for response in session.run_simple(text):
            assert isinstance(response, CopyIn), "COPY FROM STDIN wants rows"
            await _fill(response, rows)
    except BaseException:
        await session.fail()
        raise


async def _fill(target: CopyIn, rows: pa.Table) -> None:
    try:
        schema = schema_of(target.columns)
        try:
            held = fitting(rows.select(schema.names), schema)
        except (pa.ArrowException, KeyError, ValueError) as error:
            raise WrongParameters(f"the rows do not fit the table: {error}") from error
        for batch in held.combine_chunks().to_batches(max_chunksize=_COPY_ROWS):
            await target.sink.append(batch)
    except BaseException:
        await target.sink.abort()
        raise
    await target.sink.finish()


async def _first(responses: AsyncIterator[Response]) -> Rows:
    response = await anext(responses)
    assert isinstance(response, Rows), "SUBSCRIBE returns rows"
    return response


async def _next(batches: Batches) -> pa.RecordBatch | None:
    return await anext(batches, None)
