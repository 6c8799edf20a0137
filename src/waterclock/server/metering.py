"""Sessions whose statements are counted and timed, in front of the adapter's own.

A statement is timed from the request for it to the last of its rows, or to its error. One that goes
on until the client has enough (SUBSCRIBE) is counted and not timed. The kind of a statement is the
word of its command tag; of one that fails before there is a tag, it is the first word of the text,
if that is a word of SQL, so that the number of kinds stays small.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from waterclock.adapter.api import (
    AtHand,
    Batches,
    CopyIn,
    CopyOut,
    Done,
    EmptyQuery,
    Format,
    Front,
    Notice,
    PortalDescription,
    Response,
    Rows,
    Session,
    Startup,
    StatementDescription,
    TransactionStatus,
)
from waterclock.errors import WaterclockError

OK, FAILED, CANCELLED = "ok", "error", "cancelled"
_CANCELLED_STATE = "57014"
_FIRST_WORD = re.compile(r"\s*([A-Za-z]{1,12})\b")
_KINDS = frozenset(
    (
        *("abort", "alter", "begin", "close", "comment", "commit", "copy", "create", "deallocate"),
        *("declare", "delete", "discard", "drop", "end", "execute", "explain", "fetch", "grant"),
        *("insert", "move", "prepare", "refresh", "release", "reset", "revoke", "rollback"),
        *("savepoint", "select", "set", "show", "start", "subscribe", "table", "tail"),
        *("truncate", "update", "values", "with"),
    )
)


class Meter(Protocol):
    """Where the measurements go."""

    def statement(self, kind: str, outcome: str, seconds: float | None) -> None: ...


class MeteredFront:
    """Implements `api.Front` over another."""

    def __init__(self, front: Front, meter: Meter) -> None:
        self._front = front
        self._meter = meter

    async def connect(self, startup: Startup, notify: Callable[[Notice], None]) -> Session:
        return MeteredSession(await self._front.connect(startup, notify), self._meter)


class MeteredSession:
    """Implements `api.Session` over another."""

    def __init__(self, session: Session, meter: Meter) -> None:
        self._session = session
        self._meter = meter
        self._texts: dict[str, str] = {}
        """The kinds that prepared statements seem to be, for those that fail."""
        self._portals: dict[str, str] = {}
        # What passes through unchanged.
        self.reported_settings: Callable[[], Mapping[str, str]] = session.reported_settings
        self.cancel: Callable[[], None] = session.cancel

    @property
    def status(self) -> TransactionStatus:
        return self._session.status

    async def parse(self, name: str, text: str, parameter_oids: Sequence[int]) -> None:
        kind = kind_of(text)
        began = time.perf_counter()
        try:
            await self._session.parse(name, text, parameter_oids)
        except WaterclockError as error:
            self._failed(kind, began, error)
            raise
        self._texts[name] = kind

    async def describe_statement(self, name: str) -> StatementDescription:
        return await self._session.describe_statement(name)

    async def bind(
        self,
        portal: str,
        statement: str,
        parameters: Sequence[pa.Scalar],
        formats: tuple[Format, ...],
    ) -> None:
        await self._session.bind(portal, statement, parameters, formats)
        self._portals[portal] = self._texts.get(statement, "other")

    async def describe_portal(self, name: str) -> PortalDescription:
        return await self._session.describe_portal(name)

    async def execute(self, portal: str, max_rows: int) -> Response:
        began = time.perf_counter()
        kind = self._portals.get(portal, "other")
        try:
            response = await self._session.execute(portal, max_rows)
        except WaterclockError as error:
            self._failed(kind, began, error)
            raise
        return self._metered(response, began)

    async def close_statement(self, name: str) -> None:
        self._texts.pop(name, None)
        await self._session.close_statement(name)

    async def close_portal(self, name: str) -> None:
        self._portals.pop(name, None)
        await self._session.close_portal(name)

    async def sync(self) -> None:
        await self._session.sync()

    async def run_simple(self, text: str) -> AsyncIterator[Response]:
        began = time.perf_counter()
        responses = self._session.run_simple(text)
        try:
            async for response in responses:
                yield self._metered(response, began)
                began = time.perf_counter()
        except WaterclockError as error:
            self._failed(kind_of(text), began, error)
            raise
        finally:
            await _close(responses)

    async def fail(self) -> None:
        await self._session.fail()

    async def terminate(self) -> None:
        await self._session.terminate()

    def _failed(self, kind: str, began: float, error: WaterclockError) -> None:
        outcome = CANCELLED if error.sqlstate == _CANCELLED_STATE else FAILED
        self._meter.statement(kind, outcome, time.perf_counter() - began)

    def _metered(self, response: Response, began: float) -> Response:
        match response:
            case Rows(batches=AtHand(), tag=tag):
                self._meter.statement(kind_of(tag), OK, time.perf_counter() - began)
            case Rows(columns, batches, tag, counted, formats):
                timed = self._timed(batches, kind_of(tag), began)
                return Rows(columns, timed, tag, counted, formats)
            case CopyOut(columns, options, batches):
                return CopyOut(columns, options, self._timed(batches, "copy", began))
            case Done(tag):
                self._meter.statement(kind_of(tag), OK, time.perf_counter() - began)
            case CopyIn():
                self._meter.statement("copy", OK, None)  # its time is the client's
            case EmptyQuery():
                pass
        return response

    async def _timed(self, batches: Batches, kind: str, began: float) -> Batches:
        try:
            async for batch in batches:
                yield batch
        except WaterclockError as error:
            self._failed(kind, began, error)
            raise
        finally:
            await _close(batches)
        timed = None if kind in ("subscribe", "tail") else time.perf_counter() - began
        self._meter.statement(kind, OK, timed)


def kind_of(text: str) -> str:
    """The first word of a statement or a command tag, if it is one that statements begin with."""
    found = _FIRST_WORD.match(text)
    word = found[1].lower() if found else ""
    return word if word in _KINDS else "other"


async def _close(iterator: object) -> None:
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()
