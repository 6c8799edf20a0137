"""A client's session: its settings, its transaction, its prepared statements and its portals.

Statements come as text, or prepared and bound through the extended protocol; both end in the same
place, `sequencer.run`, which carries one statement out and gives its response. What is here is the
life around that: which transaction a statement belongs to, what an error does to it, and portals
that are read bit by bit. `watch` stops a statement from outside or by the clock.
"""

from __future__ import annotations

import datetime
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from waterclock.adapter import sequencer
from waterclock.adapter.activity import activity_of, stop
from waterclock.adapter.api import (
    AtHand,
    Batches,
    Done,
    EmptyQuery,
    Format,
    Notice,
    PortalDescription,
    Response,
    Rows,
    Startup,
    StatementDescription,
    TransactionStatus,
)
from waterclock.adapter.changes import Alongside, Step
from waterclock.adapter.errors import (
    DuplicateCursor,
    DuplicateStatement,
    TooManyStatements,
    UnknownCursor,
    UnknownStatement,
)
from waterclock.adapter.feeds import Feed
from waterclock.adapter.holders import holders
from waterclock.adapter.offload import SMALL_TEXT
from waterclock.adapter.portals import (
    Portal,
    PreparedStatement,
    cursors_shown,
    statements_shown,
)
from waterclock.adapter.quick.shortcut import Shortcut
from waterclock.adapter.reading import Cancellation
from waterclock.adapter.results import closed
from waterclock.adapter.session_locks import SessionLocks
from waterclock.adapter.settings import Settings, milliseconds
from waterclock.adapter.tables import WriteConflict
from waterclock.adapter.transaction import Transaction
from waterclock.adapter.watch import Watch
from waterclock.adapter.write_delays import WriteDelays
from waterclock.catalog.draft import Draft
from waterclock.catalog.durable import Creation
from waterclock.catalog.names import Scope
from waterclock.catalog.objects import Role
from waterclock.catalog.system.session import SessionFacts as CatalogFacts
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import PgType
from waterclock.sql.ast import Commit, Insert, Rollback, RollbackToSavepoint, Statement
from waterclock.sql.ast.common import QueryText
from waterclock.sql.ast.session import Direction
from waterclock.sql.binding import SessionFacts
from waterclock.sql.budget import TooMuchHere
from waterclock.sql.parser import Parsed, parse_statements
from waterclock.storage.riders import stored_bytes
from waterclock.storage.sources.turns import Quiet

if TYPE_CHECKING:
    from waterclock.adapter.front import SqlFront

T = TypeVar("T")


class SqlSession:
    """Implements `api.Session`."""

    def __init__(
        self,
        front: SqlFront,
        startup: Startup,
        role: Role,
        settings: Settings,
        notify: Callable[[Notice], None],
    ) -> None:
        self.front = front
        self.startup = startup
        self.role = role
        self.settings = settings
        self._notify = notify
        self.transaction = Transaction(self.now())
        self.statements: dict[str, PreparedStatement] = {}
        self.portals: dict[str, Portal] = {}
        self.running = ""
        """The text of the statement that runs, or has run last."""
        self.asked = ""
        """What the client asked for last, which may be several statements."""
        self.is_active = False
        """Whether it is still being done."""
        self.began_s: float | None = None
        self.ended_s: float | None = None
        self.watch = Watch(self.notify)
        self.locks = SessionLocks(self)
        self._contended: frozenset[GlobalId] = frozenset()
        """What a transaction had read of sources that was refused because of changes, until one is
        committed."""
        self._quiet: Quiet | None = None
        self.delays = WriteDelays(front.core.backpressure, self.watch, self.notify)
        self.started = self.now()

    # What statements ask for

    def now(self) -> datetime.datetime:
        """The wall clock's time."""
        return self.front.core.runtime.now()

    @property
    def status(self) -> TransactionStatus:
        return self.transaction.status

    def notify(self, notice: Notice) -> None:
        """Tell the client, unless it wants to hear of graver things only."""
        if self.settings.shows(notice.severity):
            self._notify(notice)

    def reported_settings(self) -> Mapping[str, str]:
        return self.settings.reported

    @property
    def scope(self) -> Scope:
        """Where names are looked up."""
        return Scope(self.startup.database, self.role.name, self.settings.search_path)

    def facts(self) -> SessionFacts:
        """What the session contributes to the meaning of a query."""
        manner, read = self.settings.manner, self.front.read_text
        in_block = self.transaction.in_block
        return SessionFacts(
            current_user=self.role.name,
            session_user=self.startup.user,
            current_database=self.startup.database,
            search_path=tuple(s.name for s in self.front.core.current.written(self.scope)),
            timezone=manner.zone,
            now=self.transaction.started,
            mz_now=None,
            parse_text=None if read is None else lambda text, kind: read(text, kind, manner),
            statement_now=self.now() if in_block else None,
            interval_style=manner.intervals,
            float_digits=manner.float_digits,
        )

    def meaning(self) -> tuple[object, ...]:
        """All of the session that decides what a query means, except the time."""
        return (self.role, self.startup.user, self.scope, self.settings.manner)

    def catalog_facts(self) -> CatalogFacts:
        """The same for queries over the system's relations."""
        return CatalogFacts(
            current_user=self.role.name,
            session_user=self.startup.user,
            database=self.startup.database,
            search_path=self.settings.search_path,
            backend_pid=self.startup.process_id,
            client_address=self.startup.client_address,
            application_name=self.settings.get("application_name"),
            settings=self.settings.changed(),
            checked_setting=self.settings.checked,
            now=self.transaction.started,
            started=self.front.started,
            statements=statements_shown(self.statements),
            cursors=cursors_shown(self.portals),
            sessions=lambda: [activity_of(each) for each in self.front.all_sessions()],
            stored_bytes=lambda id_: stored_bytes(self.front.core.store, GlobalId.parse(id_)),
            stop=lambda pid, ends: stop(self, pid, ends=ends),
            holds=lambda: holders(self.front.core),
            locks=self.locks,
        )

    # The simple protocol

    async def run_simple(self, text: str) -> AsyncIterator[Response]:
        self._begin(text)
        parsed = await self._read(text)
        if not parsed:
            yield EmptyQuery()
        for each in parsed:
            if each is not parsed[0]:
                self.watch.require_wanted()
            await self._let_see(each)
            response = await self._guarded(partial(self._run, each, ()))
            if each is parsed[-1] and isinstance(response, Done):
                await self.sync()  # it says that it is done: so it is durable
            yield self.watch.over(response)
        await self.sync()

    async def _read(self, text: str) -> tuple[Parsed, ...]:
        """The statements of what the client sent. May be stopped like a statement."""
        offload = self.front.offload
        offload.budget.check_text(text)
        if len(text) <= SMALL_TEXT:
            try:
                return offload.at_once(partial(parse_statements, text))
            except TooMuchHere:
                pass
        read = partial(offload.run, partial(parse_statements, text), len(text))
        return await self._preparing(read)

    async def _preparing(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do what comes before a statement runs, which may be stopped or take too long too."""
        try:
            return await self.watch.run(work, milliseconds(self.settings.get("statement_timeout")))
        finally:
            self.watch.stop_clock()

    # The extended protocol

    async def parse(self, name: str, text: str, parameter_oids: Sequence[int]) -> None:
        if name and name in self.statements:
            raise DuplicateStatement(f'prepared statement "{name}" already exists')
        parsed = await self._read(text)
        if len(parsed) > 1:
            raise TooManyStatements("cannot insert multiple commands into a prepared statement")
        only = parsed[0] if parsed else None
        self._require_sound(only)
        given = [PgType(oid) if oid else None for oid in parameter_oids]
        self.statements[name] = await self._preparing(partial(self.prepared, only, given))

    async def prepared(
        self, parsed: Parsed | None, types: Sequence[PgType | None]
    ) -> PreparedStatement:
        """A statement with the types of its parameters and columns."""
        if parsed is None:
            return PreparedStatement(None, StatementDescription((), None), made=self.now())
        description = await sequencer.describe(self, parsed, types)
        shortcut = Shortcut(parsed.statement, description)
        return PreparedStatement(parsed, description, shortcut, made=self.now())

    async def describe_statement(self, name: str) -> StatementDescription:
        return self._statement(name).description

    async def bind(
        self,
        portal: str,
        statement: str,
        parameters: Sequence[pa.Scalar],
        formats: tuple[Format, ...],
    ) -> None:
        prepared = self._statement(statement)
        self._require_sound(prepared.parsed)
        if portal and portal in self.portals:
            raise DuplicateCursor(f'cursor "{portal}" already exists')
        description = PortalDescription(prepared.description.columns, formats)
        self.portals[portal] = Portal(
            prepared.parsed,
            description,
            tuple(parameters),
            prepared.shortcut,
            made=self.now(),
        )

    async def describe_portal(self, name: str) -> PortalDescription:
        return self.portal(name).description

    async def execute(self, portal: str, max_rows: int) -> Response:
        found = self.portal(portal)
        if found.parsed is None:
            return EmptyQuery()
        if found.rows is not None:
            return self._page(found, max_rows)
        if found.is_done:
            return Done("SELECT 0")
        parsed, parameters = found.parsed, found.parameters
        self._begin(parsed.text)
        shortcut = found.shortcut
        response = shortcut.run(self, parameters) if shortcut is not None else None
        if response is None:
            await self._let_see(parsed)
            response = await self._guarded(lambda: self._run(parsed, parameters))
        found.is_done = True
        if not isinstance(response, Rows):
            return self.watch.over(response)
        found.rows = response
        return self._page(found, max_rows)

    async def _let_see(self, parsed: Parsed) -> None:
        """Outside a block, commit what was written if what comes next may have to see it."""
        transaction = self.transaction
        if transaction.in_block or transaction.has_failed or not transaction.has_written:
            return
        match parsed.statement:
            case Insert(source=source) if not isinstance(source, QueryText):
                pass  # it does not read, and what does may be done again, alone
            case _:
                portals, self.portals = self.portals, {}  # they stay until Sync
                await self.commit()
                self.portals = portals

    async def close_statement(self, name: str) -> None:
        self.statements.pop(name, None)

    async def close_portal(self, name: str) -> None:
        await self.drop_portal(name)

    async def sync(self) -> None:
        if not self.transaction.in_block:
            if self.transaction.has_failed:
                await self.rollback()
            else:
                await self.commit()
        self._rest()

    async def fail(self) -> None:
        self.watch.stop_clock()
        self.transaction.has_failed = True
        self.locks.end_transaction(kept=self.transaction.locks_before)
        if not self.transaction.in_block:
            await self.rollback()
        self._rest()

    # Stopping

    @property
    def cancellation(self) -> Cancellation:
        """Of the statement that runs."""
        return self.watch.cancellation

    def cancel(self) -> None:
        self.watch.cancel()

    async def terminate(self) -> None:
        self.watch.end()
        self.transaction.close()
        self._end_quiet()
        self.locks.close()
        self.front.ended(self)
        for name in list(self.portals):
            await self.drop_portal(name)

    # Portals

    def portal(self, name: str) -> Portal:
        found = self.portals.get(name)
        if found is None:
            what = f'portal "{name}"' if name == "" else f'cursor "{name}"'
            raise UnknownCursor(f"{what} does not exist")
        return found

    async def drop_portal(self, name: str) -> None:
        """Forget a portal and end what feeds it."""
        found = self.portals.pop(name, None)
        if found is None or found.rows is None or isinstance(found.rows.batches, AtHand):
            return
        batches = found.rows.batches
        ending = self.front.changes.begin(lambda _ending: closed(batches))
        await self.watch.finished_or_stopped(ending)

    def _statement(self, name: str) -> PreparedStatement:
        found = self.statements.get(name)
        if found is None:
            raise UnknownStatement(f'prepared statement "{name}" does not exist')
        return found

    def _page(self, portal: Portal, max_rows: int) -> Response:
        rows = portal.rows
        assert rows is not None
        batches: Batches
        if portal.scroll is not None:
            batches = AtHand(portal.scroll.fetch(Direction.FORWARD, max_rows or None))
        elif isinstance(rows.batches, AtHand) and not portal.left:
            self.watch.stop_clock()
            taken = rows.batches.taken(max_rows or None)
            portal.position += sum(batch.num_rows for batch in taken)
            batches = AtHand(taken)
        else:
            batches = self.watch.stoppable(self.taken(portal, max_rows or None))
        return Rows(rows.columns, batches, rows.tag, rows.counted, portal.description.formats)

    async def taken(self, portal: Portal, count: int | None) -> Batches:
        """At most so many further rows of a portal."""
        rows = portal.rows
        assert rows is not None
        while count is None or count > 0:
            if portal.left:
                if isinstance(rows.batches, Feed):
                    rows.batches.check_right()
                batch = portal.left.pop(0)
            else:
                try:
                    batch = await anext(rows.batches)
                except StopAsyncIteration:
                    return
            if count is not None and batch.num_rows > count:
                portal.left.insert(0, batch.slice(count))
                batch = batch.slice(0, count)
            if count is not None:
                count -= batch.num_rows
            portal.position += batch.num_rows
            if batch.num_rows:
                yield batch

    # Transactions

    async def commit(self) -> None:
        """End the transaction; what it wrote is durable on return."""
        transaction = self.transaction
        if transaction.has_failed:
            await self.rollback()
            return
        try:
            changes = transaction.changes() if transaction.has_written else {}
            if changes:
                await self.delays.before(changes, transaction)
            if changes or transaction.has_locked:
                tables = self.front.core.tables
                await self.watch.outcome_of(tables.begin(changes, transaction.dependence()))
        except BaseException as error:
            refused = transaction.read_of_sources if isinstance(error, WriteConflict) else ()
            await self.rollback()
            self._contended = frozenset(refused)
            raise
        await self._end(committed=True)

    def quieten(self, of_sources: frozenset[GlobalId]) -> None:
        """Let sources wait with what is new while the transaction goes on, if the one before was
        refused and has read them: else a source that never rests could refuse it for ever.
        """
        if self._quiet is None and not self._contended.isdisjoint(of_sources):
            self._quiet = self.front.core.sources.quieten(of_sources)

    def _end_quiet(self) -> None:
        if self._quiet is not None:
            self._quiet.close()
            self._quiet = None

    async def rollback(self) -> None:
        """End the transaction without a trace of it in any table."""
        lasting = list(dict.fromkeys(self.transaction.lasting))
        if lasting:
            told = f"{', '.join(lasting)} cannot be rolled back"
            detail = "Changes of the catalog take effect at once, also in a transaction block."
            self.notify(Notice(told, "WARNING", "01000", detail))
        await self._end(committed=False)

    async def _end(self, *, committed: bool) -> None:
        self.watch.stop_clock()
        if committed:
            self._contended = frozenset()
        self._end_quiet()
        self.transaction.close()
        self.transaction = Transaction(self.now())
        self.locks.end_transaction()
        self.settings.end(committed=committed)
        for name, portal in list(self.portals.items()):
            portal.is_kept = portal.is_kept or (portal.is_held and committed)
            if not portal.is_kept:
                await self.drop_portal(name)

    def _require_sound(self, parsed: Parsed | None) -> None:
        """Raise if the transaction has failed and this would not end it."""
        if parsed is not None and not _ends_transaction(parsed.statement):
            self.transaction.require_sound()

    # Changes of the catalog

    def changing(self) -> AbstractAsyncContextManager[Draft]:
        """A draft of the newest catalog, which nobody else changes meanwhile; see `changes`."""
        return self.front.changes.drafting()

    async def commit_draft(
        self,
        draft: Draft,
        creations: Sequence[Creation] = (),
        *,
        alongside: Alongside | None = None,
        follow_ups: Sequence[Step] = (),
        undo: Step | None = None,
    ) -> None:
        """Make the draft the catalog, whatever becomes of the session meanwhile."""
        change = self.front.changes.commit(
            draft, creations, alongside=alongside, follow_ups=follow_ups, undo=undo
        )
        await self.watch.outcome_of(change)

    # Running

    def _begin(self, text: str) -> None:
        """The client wants something: from now on the session is busy."""
        self.asked = text
        self.is_active = True
        self.began_s = self.front.core.runtime.wall_s()

    def _rest(self) -> None:
        """All that the client wanted has been done."""
        self.is_active = False
        self.ended_s = self.front.core.runtime.wall_s()

    async def _run(self, parsed: Parsed, parameters: Sequence[pa.Scalar]) -> Response:
        await self.watch.settled()
        self._require_sound(parsed)
        self.running = parsed.text
        return await sequencer.run(self, parsed, parameters)

    async def _guarded(self, work: Callable[[], Awaitable[Response]]) -> Response:
        """Do something that may be cancelled, or take too long."""
        return await self.watch.run(work, milliseconds(self.settings.get("statement_timeout")))


def _ends_transaction(statement: Statement) -> bool:
    return isinstance(statement, Commit | Rollback | RollbackToSavepoint)
