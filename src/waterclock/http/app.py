"""The paths that the server answers, and with what.

    GET  /health     200 as long as the process lives
    GET  /ready      200 when queries are answered, else 503 with what is missing
    GET  /metrics    for Prometheus
    POST /api/sql    {"query": "...", "parameters": [...], "database": "..."}  ->  results or error
    POST /api/webhook/database/schema/source    a body for a webhook source  ->  how many rows

A query runs in a session of its own, as the role that the request is from; so everything that holds
for sessions holds here, privileges first. If the client goes away, its statement is cancelled.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from functools import partial
from typing import ClassVar

import msgspec
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from waterclock.adapter.api import Authenticator, Front, Startup
from waterclock.adapter.attempts import Attempts
from waterclock.adapter.webhooks.receiving import (
    Address,
    TooManyRequests,
    UnknownWebhook,
    Webhooks,
)
from waterclock.adapter.webhooks.receiving import Request as Posted
from waterclock.errors import WaterclockError
from waterclock.http.access import Access, ForeignHost, Unauthorized, is_json
from waterclock.http.metrics import Metrics
from waterclock.http.statements import Answer, Result, fault_of, fault_of_notice, run
from waterclock.http.values import Texts
from waterclock.runtime import SYSTEM

DEFAULT_DATABASE = "waterclock"
MAX_BODY_BYTES = 16 * 1024 * 1024
_BODY_S = 60.0
"""Time limit for receiving the body of a request."""
_ADDRESS = ("database", "schema", "source")
"""The parts of a path that name a webhook source."""
_FIRST_PROCESS_ID = 1 << 30
"""Sessions of HTTP requests are numbered apart from those of connections."""

_log = logging.getLogger(__name__)


class NotReady(WaterclockError):
    """The server is starting or stopping."""

    sqlstate: ClassVar[str] = "57P03"


class BadRequest(WaterclockError):
    """The request is not what the path takes."""

    sqlstate: ClassVar[str] = "08P01"


class BodyTooLarge(BadRequest):
    """The request is longer than any may be."""


class NotJson(BadRequest):
    """The request does not say that it is JSON."""


_PATHS = {
    "POST /api/sql": "run SQL",
    "POST /api/webhook/{database}/{schema}/{source}": "insert into a webhook source",
    "GET /health": "whether the process lives",
    "GET /ready": "whether it serves",
    "GET /metrics": "measurements, for Prometheus",
}


class _Query(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    query: str
    parameters: list[msgspec.Raw] = msgspec.field(default_factory=list)
    database: str = DEFAULT_DATABASE


class Api:
    """The answers. `missing` tells what keeps statements from being taken, None if nothing does;
    `unready` what keeps queries from being answered, if that is more.
    """

    def __init__(
        self,
        front: Callable[[], Front],
        authenticator: Authenticator,
        missing: Callable[[], str | None],
        metrics: Metrics,
        texts: Texts,
        attempts: Attempts | None = None,
        unready: Callable[[], str | None] | None = None,
        webhooks: Callable[[], Webhooks] | None = None,
    ) -> None:
        self._front = front
        self._access = Access.of(authenticator, attempts or Attempts(SYSTEM.monotonic_s))
        self._missing = missing
        self._unready = unready or missing
        self._webhooks = webhooks
        self._metrics = metrics
        self._texts = texts
        self._numbers = itertools.count(_FIRST_PROCESS_ID)
        self._decoder = msgspec.json.Decoder(_Query)

    def app(self) -> Starlette:
        """The application, for any server that speaks ASGI."""
        return Starlette(
            routes=[
                Route("/", self.about),
                Route("/health", self.health),
                Route("/ready", self.ready),
                Route("/metrics", self.metrics),
                Route("/api/sql", self.sql, methods=["POST"]),
                Route("/api/webhook/{database}/{schema}/{source}", self.webhook, methods=["POST"]),
            ],
            exception_handlers={404: _elsewhere, 405: _elsewhere},
        )

    async def about(self, request: Request) -> Response:
        del request
        return _json({"name": "Waterclock", "paths": _PATHS})

    async def health(self, request: Request) -> Response:
        del request
        return _json({"status": "alive"})

    async def ready(self, request: Request) -> Response:
        del request
        missing = self._unready()
        if missing is not None:
            return _json({"status": "not ready", "reason": missing}, 503)
        return _json({"status": "ready"})

    async def metrics(self, request: Request) -> Response:
        try:
            self._require_ready()
            await self._access.role(request.headers, _client(request))
        except NotReady:
            pass  # there are no roles to ask for yet, and no views to tell of
        except WaterclockError as error:
            return _refused(error)
        text, kind = self._metrics.exposition()
        return Response(text, media_type=kind)

    async def sql(self, request: Request) -> Response:
        try:
            self._require_ready()
            role = await self._access.role(request.headers, _client(request))
            query = await self._query(request)
        except WaterclockError as error:
            return _refused(error)
        return await self._answer(request, role, query)

    async def webhook(self, request: Request) -> Response:
        """Answered when the rows are durable. What was wrong is in the body of the answer."""
        try:
            self._require_ready()
            assert self._webhooks is not None, "a server that is ready has them"
            webhooks = self._webhooks()
            address = Address(*(request.path_params[part] for part in _ADDRESS))
            posted = Posted(
                _joined_headers(request.headers),
                _client(request),
                partial(_body, request, webhooks.largest_body),
                partial(self._poster, request),
            )
            rows = await webhooks.receive(address, posted)
        except WaterclockError as error:
            return _refused(error)
        except ClientDisconnect:
            raise
        except Exception:
            _log.exception("a request to a webhook source failed")
            return _refused(WaterclockError("internal error"))
        return _json({"rows": rows})

    async def _poster(self, request: Request) -> str:
        """The role of a request to a source without a check.

        A page in a browser of this machine may send plain texts elsewhere unasked, and says so.
        """
        client = _client(request)
        if "origin" in request.headers and not self._access.authenticator.requires_password(client):
            raise ForeignHost(
                "a web page can not post to a webhook source without a check",
                hint="Give the source a CHECK.",
            )
        return await self._access.role(request.headers, client)

    def _require_ready(self) -> None:
        missing = self._missing()
        if missing is not None:
            raise NotReady("the database system is starting up", detail=missing)

    async def _query(self, request: Request) -> _Query:
        if not is_json(request.headers.get("content-type")):
            raise NotJson(
                "the body must be JSON", hint="Send the header Content-Type: application/json."
            )
        body = await _body(request)
        try:
            return self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise BadRequest(
                f"the body is not a query: {error}",
                hint='Send {"query": "SELECT $1 + 1", "parameters": [41]}, for instance.',
            ) from error

    async def _answer(self, request: Request, role: str, query: _Query) -> Response:
        answer = Answer([])
        work = asyncio.ensure_future(self._run(role, query, _client(request), answer))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                work.cancel()
                await asyncio.wait({work})
                raise ClientDisconnect
            status = work.result()
        finally:
            gone.cancel()
            work.cancel()
        return _json(answer, status)

    async def _run(self, role: str, query: _Query, client: str | None, answer: Answer) -> int:
        """Fill the answer, and return the status. Cancelling it cancels the statement."""
        results: list[Result] = answer.results
        startup = Startup(role, query.database, {}, client, next(self._numbers))
        try:
            session = await self._front().connect(
                startup, lambda notice: answer.notices.append(fault_of_notice(notice))
            )
            try:
                await run(session, query.query, query.parameters, self._texts, results)
            finally:
                await session.terminate()
        except WaterclockError as error:
            answer.error = fault_of(error)
            return status_of(error)
        except Exception:
            _log.exception("a request failed")
            answer.error = fault_of(WaterclockError("internal error"))
            return 500
        return 200


def status_of(error: WaterclockError) -> int:
    """The status of a response that tells the error."""
    match error:
        case Unauthorized():
            return 401
        case ForeignHost():
            return 403
        case BodyTooLarge():
            return 413
        case UnknownWebhook():
            return 404
        case TooManyRequests():
            return 429
        case NotJson():
            return 415
        case _:
            return _STATUS.get(error.sqlstate) or _STATUS.get(error.sqlstate[:2], 400)


_STATUS = {
    "42501": 403,  # no privilege
    "28": 403,
    "40": 409,  # try again
    "53": 503,
    "57P01": 503,
    "57P03": 503,
    "58": 500,
    "XX": 500,
}


async def _elsewhere(request: Request, error: Exception) -> Response:
    """Tell what there is to somebody who asked for something else."""
    assert isinstance(error, HTTPException), "only these have a status"
    fault = BadRequest(
        f"there is no {request.method} {request.url.path}",
        hint=" ".join(f"{path}: {what}." for path, what in _PATHS.items()),
    )
    return Response(
        msgspec.json.encode(Answer([], fault_of(fault))) + b"\n",
        error.status_code,
        error.headers,
        media_type="application/json",
    )


def _refused(error: WaterclockError) -> Response:
    response = _json(Answer([], fault_of(error)), status_of(error))
    if isinstance(error, TooManyRequests):
        response.headers["retry-after"] = "1"
    if isinstance(error, Unauthorized):
        response.headers["www-authenticate"] = 'Basic realm="waterclock", charset="UTF-8"'
    return response


def _json(body: object, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body) + b"\n", status, media_type="application/json")


def _joined_headers(headers: Headers) -> dict[str, str]:
    """Headers by their names in lower case; several of one name as a list."""
    return {name: ", ".join(headers.getlist(name)) for name in headers}


async def _body(request: Request, largest: int = MAX_BODY_BYTES) -> bytes:
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > largest:
        raise _too_large(largest)
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_S):
            async for part in request.stream():
                body += part
                if len(body) > largest:
                    raise _too_large(largest)
    except TimeoutError:
        raise BadRequest("the body of the request did not come in time") from None
    return bytes(body)


def _too_large(largest: int) -> BodyTooLarge:
    shown = f"{largest >> 20} MiB" if largest >= 1 << 20 else f"{largest} bytes"
    return BodyTooLarge(f"the body of the request is larger than {shown}")


def _client(request: Request) -> str | None:
    return request.client.host if request.client is not None else None


async def _disconnected(request: Request) -> None:
    """Return when the client is gone. The body has been read, so nothing else can come."""
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            return
