"""The server: accepts connections, gives each a session, and sees it to its end.

One task serves one connection. It ends in one of four ways: the client says goodbye, the client is
gone, an error is told as FATAL, or the server stops, which is told as such. In each the session is
terminated and the number for cancel requests forgotten.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from waterclock.adapter.api import (
    Authenticator,
    Front,
    Notice,
    Session,
    Startup,
    TooManyConnections,
)
from waterclock.adapter.attempts import Attempts
from waterclock.adapter.doors import Door
from waterclock.errors import WaterclockError
from waterclock.pgwire import backend
from waterclock.pgwire.connection import Connection
from waterclock.pgwire.errors import (
    AuthenticationTimeout,
    Disconnected,
    InternalError,
    ShutDown,
    error_fields,
    notice_fields,
)
from waterclock.pgwire.limits import Limits
from waterclock.pgwire.messages import CancelRequest, StartupPacket
from waterclock.pgwire.shared import SharedEncodings
from waterclock.pgwire.startup import Guard, Identity, negotiate, read_startup
from waterclock.pgwire.tls import TlsIdentity
from waterclock.pgwire.wire import Wire
from waterclock.runtime import SYSTEM

_log = logging.getLogger(__name__)
_SECRET_BYTES = 4


class PgServer:
    """Serves PostgreSQL's protocol for one adapter. All methods belong to one event loop."""

    def __init__(
        self,
        front: Front,
        authenticator: Authenticator,
        *,
        tls: TlsIdentity | None = None,
        limits: Limits | None = None,
        attempts: Attempts | None = None,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._front = front
        self._tls = tls
        self._limits = limits = limits or Limits()
        self._entropy = entropy
        attempts = attempts or Attempts(SYSTEM.monotonic_s)
        self._guard = Guard(authenticator, entropy(32), entropy, attempts)
        self._shared = SharedEncodings()
        self._sessions: dict[int, tuple[bytes, Session]] = {}
        self._process_ids = count(1)
        self._tasks: dict[asyncio.Task[None], Wire] = {}
        self._door: Door[asyncio.Task[None]] = Door(limits.connecting, limits.connecting_of_address)
        self._admitted: Counter[str | None] = Counter()
        """Sessions by the addresses of their clients."""
        self._listeners: list[asyncio.Server] = []
        self._stopping = False

    async def listen(self, host: str, port: int) -> int:
        """Accept connections at an address; the port, which is chosen if 0 was asked for."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(lambda: Wire(self._accept), host, port, backlog=512)
        self._listeners.append(listener)
        bound = listener.sockets[0].getsockname()[1]
        assert isinstance(bound, int)
        return bound

    async def listen_on(self, listening: socket.socket) -> None:
        """Accept connections at a socket that is bound already."""
        loop = asyncio.get_running_loop()
        self._listeners.append(
            await loop.create_server(lambda: Wire(self._accept), sock=listening, backlog=512)
        )

    @property
    def open_sessions(self) -> int:
        return len(self._sessions)

    async def close(self) -> None:
        """Stop: accept nobody, tell everybody, wait a little, then close what is left."""
        self._stopping = True
        for listener in self._listeners:
            listener.close()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=self._limits.closing_s)
        for wire in self._tasks.values():
            wire.abort()
        for listener in self._listeners:
            with suppress(TimeoutError):
                await asyncio.wait_for(listener.wait_closed(), self._limits.closing_s)

    def _accept(self, wire: Wire) -> None:
        if self._stopping:
            wire.abort()
            return
        task = asyncio.get_running_loop().create_task(self._serve(wire))
        self._tasks[task] = wire
        task.add_done_callback(self._forget)
        pushed_out = self._door.enter(task, wire.client_address)
        if pushed_out is not None:
            self._turn_away(self._tasks[pushed_out])

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._door.leave(task)

    @staticmethod
    def _turn_away(wire: Wire) -> None:
        """End a connection that has not proven who it is, because another one needs its place."""
        _tell(
            wire,
            TooManyConnections(
                "too many connections that are not authenticated",
                hint="Authenticate sooner, or raise the server's setting"
                " max_unauthenticated_connections.",
            ),
        )
        wire.close()

    async def _serve(self, wire: Wire) -> None:
        """One connection from its first byte to its last. Raises nothing."""
        try:
            await self._converse(wire)
        except Disconnected:
            pass
        except WaterclockError as error:
            _tell(wire, error)
        except asyncio.CancelledError:
            _tell(wire, ShutDown("terminating connection due to administrator command"))
        except Exception:
            _log.exception("a connection failed")
            _tell(wire, InternalError("internal error"))
        finally:
            wire.close()

    async def _converse(self, wire: Wire) -> None:
        try:
            async with asyncio.timeout(self._limits.authentication_s):
                first = await negotiate(wire, self._tls)
                if isinstance(first, CancelRequest):
                    self._cancel(first)
                    return
                identity = await self._admit(wire, first)
        except TimeoutError:
            raise AuthenticationTimeout("canceling authentication due to timeout") from None
        address = wire.client_address
        self._admitted[address] += 1
        try:
            await self._serve_session(wire, identity)
        finally:
            self._admitted[address] -= 1
            if not self._admitted[address]:
                del self._admitted[address]

    async def _admit(self, wire: Wire, packet: StartupPacket) -> Identity:
        identity, answer = read_startup(packet)
        wire.send(answer)
        self._require_room(wire)
        await self._guard.admit(wire, identity.user, self._tls)
        self._require_room(wire)
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._door.leave(task)
        wire.send(backend.AUTHENTICATION_OK)
        wire.allow_large_frames(self._limits.frame_bytes)
        return identity

    def _require_room(self, wire: Wire) -> None:
        """Raise `TooManyConnections` if there is no room for one more session."""
        if self._admitted.total() >= self._limits.connections:
            raise TooManyConnections(
                "sorry, too many clients already",
                hint="Close connections, use a pool, or raise the server's setting"
                " max_connections.",
            )
        if self._admitted[wire.client_address] >= self._limits.connections_of_address:
            raise TooManyConnections(
                "sorry, too many clients from this address already",
                hint="Close connections, use a pool, or raise the server's setting"
                " max_connections_per_address.",
            )

    async def _serve_session(self, wire: Wire, identity: Identity) -> None:
        process_id = next(self._process_ids) & 0x7FFFFFFF
        startup = Startup(
            identity.user,
            identity.database,
            identity.settings,
            wire.client_address,
            process_id,
            _hang_up(),
        )
        session = await self._front.connect(startup, _notifier(wire))
        wire.on_lost = session.cancel
        secret = self._entropy(_SECRET_BYTES)
        self._sessions[process_id] = secret, session
        try:
            wire.send(backend.backend_key_data(process_id, secret))
            await Connection(wire, session, self._limits, self._shared).run()
        finally:
            wire.on_lost = None
            del self._sessions[process_id]
            await session.terminate()

    def _cancel(self, request: CancelRequest) -> None:
        """Cancel what the session runs, if the secret is right. The client is told nothing."""
        secret, session = self._sessions.get(request.process_id, (b"", None))
        if session is not None and hmac.compare_digest(secret, request.secret):
            session.cancel()


def _tell(wire: Wire, error: WaterclockError) -> None:
    wire.send(backend.error_response(error_fields(error, fatal=True)))


def _hang_up() -> Callable[[], None]:
    """What ends the connection that the current task serves, from whatever thread."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None, "a connection is served by a task"

    def hang_up() -> None:
        with suppress(RuntimeError):  # the loop is closed, and so is the connection
            loop.call_soon_threadsafe(task.cancel)

    return hang_up


def _notifier(wire: Wire) -> Callable[[Notice], None]:
    """What the session tells notices with, from whatever thread."""
    loop, owner = asyncio.get_running_loop(), threading.get_ident()

    def notify(notice: Notice) -> None:
        message = backend.notice_response(notice_fields(notice))
        if threading.get_ident() == owner:
            wire.send(message)
        else:
            with suppress(RuntimeError):  # the loop is closed, and so is the connection
                loop.call_soon_threadsafe(wire.send, message)

    return notify
