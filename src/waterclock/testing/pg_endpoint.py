"""A server of the PostgreSQL protocol for tests, in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

import uvloop

from waterclock.adapter.api import Authenticator, Front
from waterclock.pgwire.limits import Limits
from waterclock.pgwire.server import PgServer
from waterclock.pgwire.tls import TlsIdentity

_SECONDS = 120.0


class PgEndpoint:
    """Listens on a port of the loopback interface, one that was free if none is given; `with`
    starts and stops it.
    """

    def __init__(
        self,
        front: Front,
        authenticator: Authenticator,
        *,
        tls: TlsIdentity | None = None,
        limits: Limits | None = None,
        new_loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
        port: int = 0,
    ) -> None:
        self.front = front
        self._arguments = (front, authenticator, tls, limits)
        self._loop = new_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = port
        self.server: PgServer

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self.call(self._start())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.call(self.server.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_SECONDS)
        self._loop.close()

    def call(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine on the server's loop, and wait for it."""
        future: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return future.result(_SECONDS)

    async def _start(self) -> int:
        front, authenticator, tls, limits = self._arguments
        self.server = PgServer(front, authenticator, tls=tls, limits=limits)
        return await self.server.listen("127.0.0.1", self.port)
