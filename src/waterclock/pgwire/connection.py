"""The conversation with one client: messages in, calls of its session, answers.

Two protocols share it. A Query is answered to its end, with ReadyForQuery. Parse, Bind, Describe,
Execute and Close are answered one by one as they come, however many the client sends at once, and
ReadyForQuery answers Sync only; after an error all is discarded until that Sync.

Nothing of SQL is known here, and nothing of statements or portals is kept: the session has them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import assert_never

from waterclock.adapter.api import (
    CopyIn,
    CopyOut,
    Done,
    EmptyQuery,
    Response,
    Rows,
    Session,
    SessionEnded,
    TransactionStatus,
)
from waterclock.errors import WaterclockError
from waterclock.model.manner import IntervalStyle
from waterclock.pgwire import backend
from waterclock.pgwire.codec import Frame, decode
from waterclock.pgwire.errors import (
    Disconnected,
    IdleInTransaction,
    IdleTooLong,
    ProtocolViolation,
    Unforeseen,
    UnsupportedMessage,
    error_fields,
)
from waterclock.pgwire.limits import Limits
from waterclock.pgwire.messages import (
    Bind,
    Close,
    CopyData,
    CopyDone,
    CopyFail,
    Describe,
    Execute,
    Flush,
    FrontendMessage,
    FunctionCall,
    Parse,
    Password,
    Query,
    Sync,
    Target,
    Terminate,
)
from waterclock.pgwire.parameters import check_bind, decode_parameters
from waterclock.pgwire.results import Encoders, closing, receive_copy, send_copy, send_rows
from waterclock.pgwire.shared import SharedEncodings
from waterclock.pgwire.values.rows import formats_for
from waterclock.pgwire.values.zones import Zone, zone_named
from waterclock.pgwire.wire import Wire

_log = logging.getLogger(__name__)
_EXTENDED = frozenset(b"PBDEC")
_SYNC, _TERMINATE = ord("S"), ord("X")


class Connection:
    """Serves one session. `run` returns when the client says goodbye."""

    def __init__(
        self, wire: Wire, session: Session, limits: Limits, shared: SharedEncodings
    ) -> None:
        self._wire = wire
        self._shared = shared
        self._session = session
        self._limits = limits
        self._told: Mapping[str, str] = {}
        self._discarding = False
        self._encoders = Encoders()

    async def run(self) -> None:
        """Serve until Terminate; `Disconnected`, or a `SessionEnded` to tell the client of."""
        self.ready()
        while True:
            frame = await self._next_frame()
            if frame.kind == _TERMINATE:
                return
            if self._discarding and frame.kind != _SYNC:
                continue
            await self._handle(frame)

    def ready(self) -> None:
        """Tell which settings changed, and that the next statement may come."""
        settings = self._session.reported_settings()
        if settings is not self._told:
            for name, value in settings.items():
                if self._told.get(name) != value:
                    self._wire.send(backend.parameter_status(name, value))
            self._told = settings
        self._wire.send(backend.ready_for_query(self._session.status))

    async def _next_frame(self) -> Frame:
        idle = self._session.status is TransactionStatus.IDLE
        seconds = self._limits.idle_s if idle else self._limits.idle_in_transaction_s
        if seconds is None:
            return await self._wire.receive()
        try:
            async with asyncio.timeout(seconds):
                return await self._wire.receive()
        except TimeoutError:
            if idle:
                error = IdleTooLong("terminating connection due to idle-session timeout")
            else:
                error = IdleInTransaction(
                    "terminating connection due to idle-in-transaction timeout"
                )
            raise error from None

    async def _handle(self, frame: Frame) -> None:
        try:
            await self._answer(decode(frame))
        except SessionEnded:
            raise
        except WaterclockError as error:
            await self._fail(frame, error)
        except Disconnected:
            raise
        except (
            Exception
        ):  # an invariant of ours broke: the statement fails, and the session goes on
            _log.exception("a statement failed by an internal error")
            await self._fail(
                frame, Unforeseen("internal error", detail="The server's log says which.")
            )

    async def _fail(self, frame: Frame, error: WaterclockError) -> None:
        """Tell of an error, and go on as the protocol has it."""
        self._wire.send(backend.error_response(error_fields(error)))
        await self._session.fail()
        if frame.kind in _EXTENDED:
            self._discarding = True
        else:
            self.ready()

    async def _answer(self, message: FrontendMessage) -> None:
        match message:
            case Query(text):
                await self._query(text)
            case Parse(name, text, oids):
                await self._session.parse(name, text, oids)
                self._wire.send(backend.PARSE_COMPLETE)
            case Bind():
                await self._bind(message)
            case Describe(target, name):
                await self._describe(target, name)
            case Execute(portal, max_rows):
                await self._execute(portal, max(max_rows, 0))
            case Close(target, name):
                await self._close(target, name)
            case Sync():
                self._discarding = False
                await self._session.sync()
                self.ready()
            case Flush() | CopyData() | CopyDone() | CopyFail():
                # All is sent without being asked for. COPY data may still come after an error.
                pass
            case FunctionCall():
                raise UnsupportedMessage("function call messages are not supported")
            case Password():
                raise ProtocolViolation("invalid frontend message type 112")
            case Terminate():
                raise AssertionError("handled before")
            case _:
                assert_never(message)

    async def _query(self, text: str) -> None:
        async with closing(self._session.run_simple(text)) as responses:
            async for response in responses:
                await self._respond(response, describe=True, limit=0)
        self.ready()

    async def _bind(self, bind: Bind) -> None:
        statement = await self._session.describe_statement(bind.statement)
        check_bind(bind, statement)
        parameters = decode_parameters(bind, statement.parameters, self._zone())
        await self._session.bind(bind.portal, bind.statement, parameters, bind.result_formats)
        self._wire.send(backend.BIND_COMPLETE)

    async def _describe(self, target: Target, name: str) -> None:
        if target is Target.STATEMENT:
            statement = await self._session.describe_statement(name)
            self._wire.send(backend.parameter_description(statement.parameters))
            columns, formats = statement.columns, formats_for(statement.columns or (), ())
        else:
            portal = await self._session.describe_portal(name)
            columns, formats = portal.columns, formats_for(portal.columns or (), portal.formats)
        if columns is None:
            self._wire.send(backend.NO_DATA)
        else:
            self._wire.send(backend.row_description(columns, formats))

    async def _execute(self, portal: str, max_rows: int) -> None:
        response = await self._session.execute(portal, max_rows)
        await self._respond(response, describe=False, limit=max_rows)

    async def _close(self, target: Target, name: str) -> None:
        if target is Target.STATEMENT:
            await self._session.close_statement(name)
        else:
            await self._session.close_portal(name)
        self._wire.send(backend.CLOSE_COMPLETE)

    async def _respond(self, response: Response, *, describe: bool, limit: int) -> None:
        match response:
            case Rows():
                encoder = self._encoders.encoder(response, self._zone())
                await send_rows(self._wire, response, encoder, describe=describe, limit=limit)
            case Done(tag):
                self._wire.send(backend.command_complete(tag))
            case EmptyQuery():
                self._wire.send(backend.EMPTY_QUERY)
            case CopyOut():
                await send_copy(self._wire, response, self._zone(), self._shared)
            case CopyIn():
                await receive_copy(self._wire, response, self._zone())
            case _:
                assert_never(response)

    def _zone(self) -> Zone:
        reported = self._session.reported_settings()
        style = IntervalStyle(reported.get("IntervalStyle", "postgres"))
        digits = int(reported.get("extra_float_digits", "1"))
        return zone_named(reported.get("TimeZone", "UTC"), style, digits)
