"""The words in which whoever serves clients speaks to the adapter.

A protocol layer authenticates a client, asks the `Front` for a `Session`, and from then on turns
the client's messages into calls of that session and its responses into messages. The session owns
whatever SQL can see: settings, the transaction, prepared statements, portals. A portal of the
protocol and a cursor that was declared in SQL are one thing under one name, and so are statements
of Parse and of PREPARE; the protocol layer therefore remembers none of them.

Values cross this border as Arrow data, in the type `arrow_type(column_type(declared))` of the
declared type. Neither side sees the other's text or bytes. A date or timestamp that is infinite is
the greatest or least number that its Arrow type holds.

Invariant: a session serves one request at a time. The caller takes a response to its end, or closes
it, before it asks for anything else; only `cancel` may come at any moment and from any thread.

Whatever a response claims is true when the caller gets it: `Done("INSERT 0 1")` is yielded after
the row is durable if the statement is a transaction of its own, and rows are followed by the end of
their `batches` only when nothing can fail any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import ClassVar, Protocol, TypeAlias, TypeVar

import pyarrow as pa

from waterclock.adapter.credentials import ScramVerifier
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType


class SessionEnded(WaterclockError):
    """An error after which the session is over: told as FATAL, and the connection is closed."""

    sqlstate: ClassVar[str] = "57P01"


class UnknownDatabase(SessionEnded):
    """The client asked for a database that does not exist."""

    sqlstate: ClassVar[str] = "3D000"


class RefusedRole(SessionEnded):
    """The role does not exist or may not log in."""

    sqlstate: ClassVar[str] = "28000"


class TooManyConnections(SessionEnded):
    """No further session can be served."""

    sqlstate: ClassVar[str] = "53300"


class ConstraintViolated(WaterclockError):
    """A row was refused; what refused it goes to the client in fields of their own."""

    sqlstate: ClassVar[str] = "23000"

    def __init__(
        self,
        message: str,
        *,
        schema: str,
        table: str,
        column: str | None = None,
        constraint: str | None = None,
        detail: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail)
        self.schema = schema
        self.table = table
        self.column = column
        self.constraint = constraint


class Format(IntEnum):
    """How a value is written for the client. To the adapter it is a number to give back."""

    TEXT = 0
    BINARY = 1


class TransactionStatus(Enum):
    """The state that ReadyForQuery tells."""

    IDLE = "I"
    OPEN = "T"
    FAILED = "E"


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """One column of a result; the table and the column's number in it if it comes from one."""

    name: str
    type: PgType
    table_oid: int = 0
    column_number: int = 0


@dataclass(frozen=True, slots=True)
class StatementDescription:
    """A prepared statement: the types of its parameters, and its columns if it returns rows."""

    parameters: tuple[PgType, ...]
    columns: tuple[ColumnDescription, ...] | None


@dataclass(frozen=True, slots=True)
class PortalDescription:
    """A portal: its columns if it returns rows, and the formats that `bind` was given.

    No formats means text for every column, one format is that of all columns.
    """

    columns: tuple[ColumnDescription, ...] | None
    formats: tuple[Format, ...] = ()


@dataclass(frozen=True, slots=True)
class Startup:
    """What a client said when it connected. The role has proven its identity where it must.

    `settings` are the session's first values, to which RESET returns: those of the startup packet
    and of its `options`. Names are as the client wrote them. One that is unknown earns a notice,
    not a refusal.
    """

    user: str
    database: str
    settings: Mapping[str, str]
    client_address: str | None
    """None for a client of the same process."""
    process_id: int
    """The number that stands for the session in `pg_backend_pid()` and in cancel requests."""
    hang_up: Callable[[], None] | None = field(default=None, compare=False)
    """Ends the connection from outside, from any thread; None where there is none to end."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the client should know that is not an error."""

    message: str
    severity: str = "NOTICE"
    sqlstate: str = "00000"
    detail: str | None = None
    hint: str | None = None


class CopyFormat(Enum):
    """The three forms of COPY data."""

    TEXT = "text"
    CSV = "csv"
    BINARY = "binary"


class CopyHeader(Enum):
    """Whether the data begins with a line of column names, and whether that is compared."""

    ABSENT = "absent"
    PRESENT = "present"
    MATCH = "match"


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The options of COPY, validated. `text_options` and its like have the defaults."""

    format: CopyFormat
    delimiter: str = "\t"
    null: str = "\\N"
    header: CopyHeader = CopyHeader.ABSENT
    quote: str = '"'
    escape: str = '"'
    force_quote: frozenset[str] = frozenset()
    force_not_null: frozenset[str] = frozenset()
    force_null: frozenset[str] = frozenset()


def text_options(**changes: object) -> CopyOptions:
    """The defaults of COPY's text format, with changes."""
    return CopyOptions(CopyFormat.TEXT, **changes)  # type: ignore[arg-type]


def csv_options(**changes: object) -> CopyOptions:
    """The defaults of COPY's csv format, with changes."""
    return CopyOptions(CopyFormat.CSV, **{"delimiter": ",", "null": "", **changes})  # type: ignore[arg-type]


def binary_options() -> CopyOptions:
    """COPY's binary format, which has no options."""
    return CopyOptions(CopyFormat.BINARY)


Batches: TypeAlias = AsyncIterator[pa.RecordBatch]
"""Rows as they come. The caller pulls the next batch when it has room for it, and closes the
iterator (`aclose`, if it has one) when it wants no more. An endless result simply does not end; it
yields what it has as soon as it has it, because each batch is sent on at once."""


class AtHand:
    """Batches that are there already. Whoever likes takes them at once, instead of one by one."""

    __slots__ = ("_left",)

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._left = list(batches)

    def taken(self, count: int | None = None) -> list[pa.RecordBatch]:
        """At most so many further rows; all that are left, without a count."""
        if count is None or count >= sum(batch.num_rows for batch in self._left):
            taken, self._left = self._left, []
            return taken
        taken = []
        while count:
            batch = self._left.pop(0)
            if batch.num_rows > count:
                self._left.insert(0, batch.slice(count))
                batch = batch.slice(0, count)
            taken.append(batch)
            count -= batch.num_rows
        return taken

    def __aiter__(self) -> AtHand:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)

    async def aclose(self) -> None:
        self._left.clear()


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows, and the words of the command tag; the number of rows is added if they are `counted`.

    After `execute` with a limit there are no more rows than that. The caller takes exactly that
    many to mean that the portal may have more.
    """

    columns: tuple[ColumnDescription, ...]
    batches: Batches
    tag: str = "SELECT"
    counted: bool = True
    formats: tuple[Format, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A statement without rows has been done; the whole command tag, such as `INSERT 0 3`."""

    tag: str


@dataclass(frozen=True, slots=True)
class EmptyQuery:
    """There was no statement in the text."""


@dataclass(frozen=True, slots=True)
class CopyOut:
    """Rows to be sent as COPY data. The tag is `COPY` with the number of rows."""

    columns: tuple[ColumnDescription, ...]
    options: CopyOptions
    batches: Batches


T = TypeVar("T")


class CopySink(Protocol):
    """Where the rows of COPY FROM STDIN go. The caller ends with exactly one of the last two."""

    async def stoppable(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something that waits for the client; raises as soon as somebody stops the COPY."""
        ...

    async def append(self, batch: pa.RecordBatch) -> None:
        """Take rows, in the columns and types of the `CopyIn`. May raise; `abort` still follows."""

    async def finish(self) -> str:
        """All rows have come: do it, and return the command tag, `COPY n`."""

    async def abort(self) -> None:
        """The data was bad, the client gave up or is gone: nothing shall remain of it."""


@dataclass(frozen=True, slots=True)
class CopyIn:
    """The statement wants rows from the client. `relation` is the name for error contexts."""

    columns: tuple[ColumnDescription, ...]
    options: CopyOptions
    sink: CopySink
    relation: str


Response: TypeAlias = Rows | Done | EmptyQuery | CopyOut | CopyIn


class Session(Protocol):
    """One client's session. Every method may raise a `WaterclockError`; `SessionEnded` ends it."""

    @property
    def status(self) -> TransactionStatus:
        """Where the transaction stands, after the last call."""

    def reported_settings(self) -> Mapping[str, str]:
        """The settings that clients are told whenever they change, in a mapping that never does.

        The same object as before means that nothing changed. `TimeZone` is among them.
        """

    async def parse(self, name: str, text: str, parameter_oids: Sequence[int]) -> None:
        """Prepare one statement. The empty name is replaced; another one in use is 42P05.

        A number of 0, or one that is missing, leaves the type to be inferred.
        """

    async def describe_statement(self, name: str) -> StatementDescription:
        """The prepared statement of that name; 26000."""

    async def bind(
        self,
        portal: str,
        statement: str,
        parameters: Sequence[pa.Scalar],
        formats: tuple[Format, ...],
    ) -> None:
        """Open a portal. The parameters have the types described, a null is a null scalar.

        The empty name is replaced; another one in use is 42P03, an unknown statement 26000.
        """

    async def describe_portal(self, name: str) -> PortalDescription:
        """The portal or cursor of that name; 34000."""

    async def execute(self, portal: str, max_rows: int) -> Response:
        """Run a portal, or go on with it; at most `max_rows` rows unless that is 0."""

    async def close_statement(self, name: str) -> None:
        """Forget a prepared statement, if there is one."""

    async def close_portal(self, name: str) -> None:
        """Forget a portal, if there is one."""

    async def sync(self) -> None:
        """The end of a series of the above: outside a transaction block, commit and close portals.

        After `fail`, roll back instead.
        """

    def run_simple(self, text: str) -> AsyncIterator[Response]:
        """Run all statements of the text, as one transaction outside a block.

        It yields one response for each, an `EmptyQuery` if there is none. The caller takes each to
        its end before the next, and closes the iterator when it gives up.
        """

    async def fail(self) -> None:
        """The client has been told of an error: the transaction, if there is one, has failed.

        Called for every error, whether the session raised it or the protocol layer found it, such
        as a parameter that is not a number. Idempotent.
        """

    def cancel(self) -> None:
        """End what runs now with 57014, soon. Nothing happens if nothing runs. Any thread."""

    async def terminate(self) -> None:
        """The client is gone: cancel, roll back, let go of everything. Idempotent, never raises."""


class Authenticator(Protocol):
    """Who must prove who they are, and what the proof is compared with."""

    def requires_password(self, client_address: str | None) -> bool:
        """Whether a client from there has to authenticate."""

    def verifier(self, user: str) -> ScramVerifier | None:
        """What is stored of the role's password. None if there is no such role or it has none."""


class Front(Protocol):
    """The adapter, seen from outside."""

    async def connect(self, startup: Startup, notify: Callable[[Notice], None]) -> Session:
        """Open a session; a `SessionEnded` if that can not be.

        `notify` tells the client something between or during statements. It may be called from any
        thread.
        """
