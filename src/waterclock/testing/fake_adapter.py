"""An adapter for tests of the protocol layers: a small language over fixed Arrow tables.

    table NAME                          the rows of a table that was given
    select $1::int4, $2::text[]         the parameters, in their types
    select N                            one integer
    endless                             rows without end, until canceled
    sleep                               nothing, until canceled
    fail                                an error, 22012
    notice TEXT                         a notice
    set NAME = VALUE                    a setting that clients are told of
    copy NAME to stdout [FORMAT]        FORMAT is text, csv or binary; NAME may be endless
    copy NAME from stdin [FORMAT]       to `FakeFront.received`
    begin, commit, rollback, declare NAME cursor for ..., fetch N from NAME, close NAME,
    prepare NAME as ..., deallocate NAME | all

It is honest about what a session owes its clients: transaction status, one namespace for portals
and cursors and one for statements, refusals in a failed transaction, cancelation. It stores
nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa

from waterclock.adapter.api import (
    Batches,
    ColumnDescription,
    CopyIn,
    CopyOptions,
    CopyOut,
    Done,
    EmptyQuery,
    Format,
    Notice,
    PortalDescription,
    RefusedRole,
    Response,
    Rows,
    Startup,
    StatementDescription,
    TransactionStatus,
    UnknownDatabase,
    binary_options,
    csv_options,
    text_options,
)
from waterclock.adapter.credentials import ScramVerifier
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import (
    INT4,
    INT8,
    TEXT,
    PgType,
    array_of,
    element_of,
    type_info,
    type_named,
)

T = TypeVar("T")
_OPTIONS: dict[str, Callable[[], CopyOptions]] = {
    "text": text_options,
    "csv": csv_options,
    "binary": binary_options,
}
_REPORTED = {
    "application_name": "",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "integer_datetimes": "on",
    "IntervalStyle": "postgres",
    "is_superuser": "on",
    "server_encoding": "UTF8",
    "server_version": "15.0",
    "standard_conforming_strings": "on",
    "TimeZone": "UTC",
}


class FakeFailure(WaterclockError):
    """What a fake session refuses, with any SQLSTATE."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class FakeTable:
    """Columns and their rows."""

    columns: tuple[ColumnDescription, ...]
    batches: tuple[pa.RecordBatch, ...]


@dataclass(slots=True)
class FakeFront:
    """The whole adapter: which tables, databases and roles there are."""

    tables: dict[str, FakeTable] = field(default_factory=dict)
    roles: Sequence[str] = ("waterclock",)
    databases: Sequence[str] = ("waterclock",)
    received: dict[str, list[pa.RecordBatch]] = field(default_factory=dict)
    sessions: list[FakeSession] = field(default_factory=list)

    async def connect(self, startup: Startup, notify: Callable[[Notice], None]) -> FakeSession:
        if startup.user not in self.roles:
            raise RefusedRole(f'role "{startup.user}" does not exist')
        if startup.database not in self.databases:
            raise UnknownDatabase(f'database "{startup.database}" does not exist')
        session = FakeSession(self, startup, notify)
        self.sessions.append(session)
        return session


@dataclass(frozen=True, slots=True)
class FakeAuthenticator:
    """Passwords for some roles; none of them means that nobody needs one."""

    verifiers: Mapping[str, ScramVerifier] = field(default_factory=dict)

    def requires_password(self, client_address: str | None) -> bool:  # noqa: ARG002
        return bool(self.verifiers)

    def verifier(self, user: str) -> ScramVerifier | None:
        return self.verifiers.get(user)


@dataclass(slots=True)
class _Portal:
    text: str
    types: tuple[PgType, ...] = ()
    parameters: tuple[pa.Scalar, ...] = ()
    formats: tuple[Format, ...] = ()
    source: Batches | None = None
    rest: pa.RecordBatch | None = None


@dataclass(slots=True)
class _Sink:
    front: FakeFront
    name: str
    batches: list[pa.RecordBatch] = field(default_factory=list)

    async def append(self, batch: pa.RecordBatch) -> None:
        self.batches.append(batch)

    async def finish(self) -> str:
        self.front.received[self.name] = self.batches
        return f"COPY {sum(batch.num_rows for batch in self.batches)}"

    async def stoppable(self, work: Callable[[], Awaitable[T]]) -> T:
        return await work()

    async def abort(self) -> None:
        self.batches.clear()


class FakeSession:
    """One session of the language above."""

    def __init__(
        self, front: FakeFront, startup: Startup, notify: Callable[[Notice], None]
    ) -> None:
        self.startup = startup
        self.terminated = False
        self.slept = 0
        """How often it has begun to sleep."""
        self.pulled = 0
        """Batches of an endless result that were asked for."""
        self._front = front
        self._notify = notify
        given = {name: value for name, value in startup.settings.items() if name in _REPORTED}
        given.pop("client_encoding", None)
        self._settings = {**_REPORTED, **given}
        self._status = TransactionStatus.IDLE
        self._statements: dict[str, tuple[str, tuple[PgType, ...]]] = {}
        self._portals: dict[str, _Portal] = {}
        self._loop = asyncio.get_running_loop()
        self._canceled = asyncio.Event()

    @property
    def status(self) -> TransactionStatus:
        return self._status

    def reported_settings(self) -> Mapping[str, str]:
        return self._settings

    async def parse(self, name: str, text: str, parameter_oids: Sequence[int]) -> None:
        text = _plain(text)
        self._refuse_if_failed(text)
        if name and name in self._statements:
            raise FakeFailure("42P05", f'prepared statement "{name}" already exists')
        self._columns(text, ())
        self._statements[name] = text, _parameter_types(text, parameter_oids)

    async def describe_statement(self, name: str) -> StatementDescription:
        text, types = self._statement(name)
        return StatementDescription(types, self._columns(text, types))

    async def bind(
        self,
        portal: str,
        statement: str,
        parameters: Sequence[pa.Scalar],
        formats: tuple[Format, ...],
    ) -> None:
        text, types = self._statement(statement)
        self._refuse_if_failed(text)
        if portal and portal in self._portals:
            raise FakeFailure("42P03", f'cursor "{portal}" already exists')
        self._portals[portal] = _Portal(text, types, tuple(parameters), formats)

    async def describe_portal(self, name: str) -> PortalDescription:
        portal = self._portal(name)
        return PortalDescription(self._columns(portal.text, portal.types), portal.formats)

    async def execute(self, portal: str, max_rows: int) -> Response:
        opened = self._portal(portal)
        self._refuse_if_failed(opened.text)
        self._canceled.clear()
        columns = self._columns(opened.text, opened.types)
        if columns is None:
            return await self._command(opened.text)
        batches = self._limited(opened, max_rows)
        return Rows(columns, batches, formats=opened.formats)

    async def close_statement(self, name: str) -> None:
        self._statements.pop(name, None)

    async def close_portal(self, name: str) -> None:
        self._portals.pop(name, None)

    async def sync(self) -> None:
        if self._status is TransactionStatus.IDLE:
            self._portals.clear()

    async def run_simple(self, text: str) -> AsyncIterator[Response]:
        self._canceled.clear()
        statements = [_plain(part) for part in text.split(";")]
        if not any(statements):
            yield EmptyQuery()
        for statement in filter(None, statements):
            self._refuse_if_failed(statement)
            columns = self._columns(statement, ())
            if columns is None:
                yield await self._command(statement)
            else:
                portal = _Portal(statement)
                yield Rows(columns, self._limited(portal, _fetch_count(statement)))

    async def fail(self) -> None:
        if self._status is TransactionStatus.OPEN:
            self._status = TransactionStatus.FAILED

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._canceled.set)

    async def terminate(self) -> None:
        self.terminated = True
        self._canceled.set()

    def _statement(self, name: str) -> tuple[str, tuple[PgType, ...]]:
        if name not in self._statements:
            raise FakeFailure("26000", f'prepared statement "{name}" does not exist')
        return self._statements[name]

    def _portal(self, name: str) -> _Portal:
        if name not in self._portals:
            raise FakeFailure("34000", f'portal "{name}" does not exist')
        return self._portals[name]

    def _refuse_if_failed(self, text: str) -> None:
        ends = text.lower().split()[:1] in (["rollback"], ["commit"])
        if self._status is TransactionStatus.FAILED and not ends:
            raise FakeFailure(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block",
            )

    def _columns(
        self, text: str, types: tuple[PgType, ...]
    ) -> tuple[ColumnDescription, ...] | None:
        """The columns of a statement; None if it returns no rows. Unknown statements are 42601."""
        words = text.lower().split()
        match words:
            case ["table", name]:
                return self._table(name).columns
            case ["select", number] if number.isdigit():
                return (ColumnDescription("?column?", INT4),)
            case ["select", *_] if "$1" in text:
                types = types or _parameter_types(text, ())
                return tuple(ColumnDescription(f"p{i}", kind) for i, kind in enumerate(types, 1))
            case ["endless"]:
                return _NUMBERS
            case ["fetch", _, "from", name]:
                return self._columns(self._portal(name).text, ())
            case []:
                return None
            case [verb, *_] if verb in _COMMANDS:
                return None
            case _:
                raise FakeFailure("42601", f'syntax error at or near "{text[:20]}"')

    def _table(self, name: str) -> FakeTable:
        if name not in self._front.tables:
            raise FakeFailure("42P01", f'relation "{name}" does not exist')
        return self._front.tables[name]

    async def _command(self, text: str) -> Response:
        words = text.lower().split()
        match words:
            case []:
                return EmptyQuery()
            case ["fail"]:
                raise FakeFailure("22012", "division by zero")
            case ["sleep"]:
                self.slept += 1
                await self._canceled.wait()
                raise _canceled()
            case ["notice", *_]:
                self._notify(Notice(text.split(None, 1)[1]))
                return Done("NOTICE")
            case ["set", name, "=", _]:
                self._settings = {
                    **self._settings,
                    _setting_name(name): text.split()[-1].strip("'"),
                }
                return Done("SET")
            case ["copy", "endless", "to", "stdout", *form]:
                return CopyOut(_NUMBERS, _options(form), self._numbers())
            case ["copy", name, "to", "stdout", *form]:
                table = self._table(name)
                return CopyOut(table.columns, _options(form), self._stored(table))
            case ["copy", name, "from", "stdin", *form]:
                sink = _Sink(self._front, name)
                return CopyIn(self._table(name).columns, _options(form), sink, name)
            case ["begin" | "commit" | "rollback", *_]:
                return self._transaction(words[0])
            case ["declare", name, "cursor", "for", *rest]:
                self._portals[name] = _Portal(" ".join(rest))
                return Done("DECLARE CURSOR")
            case ["prepare", name, "as", *rest]:
                await self.parse(name, " ".join(rest), ())
                return Done("PREPARE")
            case _:
                return self._forget(words)

    def _forget(self, words: list[str]) -> Done:
        match words:
            case ["close", name]:
                self._portals.pop(name, None)
                return Done("CLOSE CURSOR")
            case ["deallocate", "all"]:
                self._statements.clear()
                return Done("DEALLOCATE ALL")
            case ["deallocate", name]:
                self._statements.pop(name, None)
                return Done("DEALLOCATE")
            case _:
                return Done(words[0].upper())

    def _transaction(self, verb: str) -> Done:
        failed = self._status is TransactionStatus.FAILED
        self._status = TransactionStatus.OPEN if verb == "begin" else TransactionStatus.IDLE
        if verb != "begin":
            self._portals.clear()
        return Done("ROLLBACK" if failed else verb.upper())

    async def _limited(self, portal: _Portal, max_rows: int) -> Batches:
        """The next rows of a portal; what is left of a batch stays with it."""
        match portal.text.lower().split():
            case ["fetch", count, "from", name]:
                portal, max_rows = self._portal(name), int(count)
        if portal.source is None:
            portal.source = self._rows(portal)
        wanted = max_rows or None
        while wanted is None or wanted:
            batch = portal.rest if portal.rest is not None else await anext(portal.source, None)
            portal.rest = None
            if batch is None:
                return
            taken = batch if wanted is None else batch.slice(0, wanted)
            if taken.num_rows < batch.num_rows:
                portal.rest = batch.slice(taken.num_rows)
            if wanted is not None:
                wanted -= taken.num_rows
            yield taken

    async def _rows(self, portal: _Portal) -> Batches:
        match portal.text.lower().split():
            case ["table", name]:
                async for batch in self._stored(self._table(name)):
                    yield batch
            case ["endless"]:
                async for batch in self._numbers():
                    yield batch
            case ["select", number] if number.isdigit():
                yield pa.record_batch([pa.array([int(number)], pa.int32())], names=["?column?"])
            case _:
                arrays = [pa.repeat(value, 1) for value in portal.parameters]
                names = [f"p{i}" for i in range(1, len(arrays) + 1)]
                yield pa.RecordBatch.from_arrays(arrays, names=names)

    async def _stored(self, table: FakeTable) -> Batches:
        for batch in table.batches:
            await asyncio.sleep(0)
            self._raise_if_canceled()
            yield batch

    async def _numbers(self) -> Batches:
        first = 0
        while True:
            await asyncio.sleep(0)
            self._raise_if_canceled()
            yield pa.record_batch([pa.array(range(first, first + 1_000), pa.int64())], names=["n"])
            first += 1_000
            self.pulled += 1

    def _raise_if_canceled(self) -> None:
        if self._canceled.is_set():
            raise _canceled()


_NUMBERS = (ColumnDescription("n", INT8),)
_COMMANDS = frozenset(
    "fail sleep notice set copy begin commit rollback declare close prepare deallocate".split()  # noqa: SIM905
)


def _canceled() -> FakeFailure:
    return FakeFailure("57014", "canceling statement due to user request")


def _plain(text: str) -> str:
    """A statement as the language has it, whatever a driver's own forms of it are."""
    text = (
        re.sub(r"--[^\n]*|/\*.*?\*/", "", text, flags=re.DOTALL)
        .strip()
        .removesuffix(";")
        .replace('"', "")
    )
    text = re.sub(r"(?i)^select \* from (\w+)( limit \d+)?$", r"table \1", text)
    text = re.sub(r"(?i)^copy (\w+) ?\([^)]*\) from", r"copy \1 from", text)
    return re.sub(r"(?i)^(fetch|move) forward ", r"\1 ", text)


def _setting_name(name: str) -> str:
    return next((known for known in _REPORTED if known.lower() == name), name)


def _options(form: list[str]) -> CopyOptions:
    named = " ".join(form).translate(str.maketrans("()'", "   ")).split()
    return _OPTIONS[named[-1] if named else "text"]()


def _fetch_count(text: str) -> int:
    words = text.lower().split()
    return int(words[1]) if words[0] == "fetch" else 0


def _parameter_types(text: str, oids: Sequence[int]) -> tuple[PgType, ...]:
    """Of each `$n::type`: what the client says, else what the cast says, else text."""
    found = re.findall(r"\$(\d+)(?:::([a-z0-9_ ]+?)(\[\])?(?=\s*(?:,|$)))?", text.lower())
    types: list[PgType] = []
    for i, (_, name, brackets) in enumerate(found):
        if i < len(oids) and oids[i]:
            types.append(PgType(oids[i]))
        elif name:
            plain = PgType(type_named(name).oid)
            types.append(array_of(plain) if brackets else plain)
        else:
            types.append(TEXT)
    for kind in types:
        if element_of(kind.oid) is None:
            type_info(kind.oid)  # raises if nobody knows it
    return tuple(types)
