"""A client of a server, over the PostgreSQL protocol.

Values come as text and are read by the same code that the server reads text with, so a result has
the same Arrow types, and the same values, as inside the server.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self

import psycopg
import pyarrow as pa
from psycopg import RawCursor, pq

from waterclock.adapter.api import ColumnDescription, text_options
from waterclock.client.api import Changes, Result, Rows, require_spark
from waterclock.client.changes import PROGRESSED, Pending
from waterclock.client.embedded import WrongParameters, schema_of
from waterclock.client.frames import as_table
from waterclock.client.numbers import decimals, fitting
from waterclock.client.read_holds import HeldSubscription, ReadHold
from waterclock.client.statements import checked_name, copy_text, subscribe_text
from waterclock.errors import WaterclockError
from waterclock.model.manner import IntervalStyle
from waterclock.model.pg_types import RECORD, REGCLASS, TEXT, PgType, UnknownType, column_type
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import Zone, zone_named
from waterclock.sql.quoting import quote_ident

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class ServerError(WaterclockError):
    """What the server, or the way to it, said. `sqlstate` is the server's."""

    sqlstate: ClassVar[str] = "08006"

    @classmethod
    def of(cls, error: psycopg.Error) -> ServerError:
        told = error.diag
        message = told.message_primary or str(error).strip() or type(error).__name__
        found = cls(message, detail=told.message_detail, hint=told.message_hint)
        if error.sqlstate is not None:
            found.sqlstate = error.sqlstate  # type: ignore[misc]
        return found


class RemoteConnection:
    """Implements `client.api.Connection` over psycopg."""

    def __init__(self, dsn: str, spark: SparkSession | None = None) -> None:
        self._dsn = dsn
        self._spark = spark
        self._turn = threading.RLock()
        self._subscriptions: list[RemoteSubscription | HeldSubscription] = []
        self._holds: list[ReadHold] = []
        self._connection = connected(dsn)

    def sql(self, text: str, *parameters: object) -> Result:
        with self._turn, RawCursor(self._connection) as cursor:
            try:
                cursor.execute(text.encode(), parameters or None)
                while cursor.nextset():
                    pass
            except psycopg.Error as error:
                raise ServerError.of(error) from error
            result = cursor.pgresult
            assert result is not None, "a statement that went well has a result"
            zone = _zone(self._connection)
            tag = (result.command_status or b"").decode()
            return Result(decimals(table_of(result, zone)), tag, self._spark)

    def subscribe(
        self,
        relation: str,
        *,
        snapshot: bool = True,
        as_of: int | None = None,
        lease_s: float | None = None,
    ) -> RemoteSubscription | HeldSubscription:
        if lease_s is not None:
            held = HeldSubscription(
                self.hold(relation, as_of=as_of, lease_s=lease_s), relation, snapshot=snapshot
            )
            self._subscriptions.append(held)
            return held
        text = subscribe_text(relation, snapshot=snapshot, as_of=as_of)
        begun = RemoteSubscription(connected(self._dsn), text)
        self._subscriptions.append(begun)
        return begun

    def hold(
        self,
        *relations: str,
        name: str | None = None,
        as_of: int | None = None,
        lease_s: float = 60.0,
    ) -> ReadHold:
        def connect() -> RemoteConnection:
            return RemoteConnection(self._dsn)

        held = ReadHold(connect, self.subscribe, relations, name=name, as_of=as_of, lease_s=lease_s)
        self._holds.append(held)
        return held

    @property
    def spark(self) -> SparkSession:
        return require_spark(self._spark)

    def append(self, table: str, rows: Rows) -> int:
        given = as_table(rows)
        columns = self._columns(table, given.column_names)
        lines = CopyLines(columns)
        with self._turn, self._connection.cursor() as cursor:
            try:
                with cursor.copy(copy_text(table, given.column_names).encode()) as copy:
                    for data in lines.encoded(given):
                        copy.write(data)
            except psycopg.Error as error:
                raise ServerError.of(error) from error
        return int(given.num_rows)

    def _columns(self, table: str, names: Sequence[str]) -> tuple[ColumnDescription, ...]:
        """The types that the table has for the columns."""
        listed = ", ".join(quote_ident(name) for name in names)
        with self._turn:
            text = f"SELECT {listed} FROM {checked_name(table)}"
            return described(self._connection, text)

    def close(self) -> None:
        for hold in self._holds:
            hold.close()
        for each in self._subscriptions:
            each.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class RemoteSubscription:
    """Implements `client.api.Subscription` over a connection of its own, by COPY."""

    def __init__(self, connection: psycopg.Connection[Any], text: str) -> None:
        self._connection = connection
        self._is_closed = False
        try:
            self._columns = described(connection, text)
            self._schema = schema_of(self._columns)
            self._zone = _zone(connection)
            self._changes = self._received(f"COPY ({text}) TO STDOUT")
        except BaseException:
            connection.close()
            raise

    def _received(self, text: str) -> Iterator[Changes]:
        pending = Pending(self._schema)
        progressed = self._schema.get_field_index(PROGRESSED)
        rows: list[tuple[Any, ...]] = []
        with self._connection.cursor() as cursor, cursor.copy(text.encode()) as copy:
            for row in copy.rows():
                rows.append(row)
                if row[progressed] == "t":
                    yield from pending.add(self._table(rows))
                    rows.clear()

    def _table(self, rows: list[tuple[Any, ...]]) -> pa.Table:
        texts = zip(*rows, strict=True)
        arrays = [
            _decoded(pa.array(column, pa.string()), each.type, self._zone)
            for column, each in zip(texts, self._columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Changes:
        try:
            return next(self._changes)
        except psycopg.Error as error:
            if self._is_closed:
                raise StopIteration from error
            raise ServerError.of(error) from error

    def close(self) -> None:
        self._is_closed = True
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class CopyLines:
    """Rows in COPY's text format."""

    def __init__(self, columns: Sequence[ColumnDescription]) -> None:
        self._columns = tuple(columns)

    def encoded(self, rows: pa.Table) -> Iterator[bytes]:
        schema = schema_of(self._columns)
        try:
            held = fitting(rows.rename_columns(schema.names), schema)
        except (pa.ArrowException, ValueError) as error:
            raise WrongParameters(f"the rows do not fit the table: {error}") from error
        for batch in held.to_batches(max_chunksize=8192):
            texts = [
                _escaped(encode_text(column, each.type, zone_named("UTC")).to_pylist())
                for column, each in zip(batch.columns, self._columns, strict=True)
            ]
            lines = ("\t".join(line) + "\n" for line in zip(*texts, strict=True))
            yield "".join(lines).encode()


_NULL = text_options().null
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def _escaped(values: list[str | None]) -> list[str]:
    return [_NULL if value is None else value.translate(_ESCAPES) for value in values]


def connected(dsn: str) -> psycopg.Connection[Any]:
    """A connection that commits each statement. Raises `ServerError`."""
    try:
        return psycopg.connect(dsn, autocommit=True)
    except psycopg.Error as error:
        raise ServerError.of(error) from error


def described(connection: psycopg.Connection[Any], text: str) -> tuple[ColumnDescription, ...]:
    """The columns that a statement would return. Raises `ServerError`."""
    wire = connection.pgconn
    for result in (wire.prepare(b"", text.encode()), wire.describe_prepared(b"")):
        if result.status != pq.ExecStatus.COMMAND_OK:
            error = psycopg.errors.error_from_result(result, encoding="utf-8")
            raise ServerError.of(error) from error
    return columns_of(result)


def columns_of(result: pq.abc.PGresult) -> tuple[ColumnDescription, ...]:
    """The names and types of a result's columns; a type that is unknown here is text."""
    return tuple(
        ColumnDescription(
            (result.fname(place) or b"").decode(),
            _known(PgType(result.ftype(place), result.fmod(place))),
        )
        for place in range(result.nfields)
    )


def _known(declared: PgType) -> PgType:
    if declared in (RECORD, REGCLASS):
        return TEXT
    try:
        column_type(declared)
    except UnknownType:
        return TEXT
    return declared


def _zone(connection: psycopg.Connection[Any]) -> Zone:
    """The session's time zone, and with it the style of its intervals."""
    style = connection.info.parameter_status("IntervalStyle") or "postgres"
    return zone_named(connection.info.parameter_status("TimeZone") or "UTC", IntervalStyle(style))


def table_of(result: pq.abc.PGresult, zone: Zone) -> pa.Table:
    """The rows of a result whose values came as text."""
    columns = columns_of(result)
    arrays = []
    for place, column in enumerate(columns):
        texts = [result.get_value(row, place) for row in range(result.ntuples)]
        given = pa.array([None if t is None else t.decode() for t in texts], pa.string())
        arrays.append(_decoded(given, column.type, zone))
    return pa.Table.from_arrays(arrays, schema=schema_of(columns))


def _decoded(texts: pa.Array, declared: PgType, zone: Zone) -> pa.Array:
    found = decode_text(texts, declared, zone)
    kind = arrow_type(column_type(declared))
    return found if found.type == kind else found.cast(kind)
