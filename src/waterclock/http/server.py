"""Uvicorn in an event loop that is somebody else's: no signals, no logging of its own.

A connection that has not asked anything yet has a place at a `Door`, and a short time to ask.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.h11_impl import H11Protocol

from waterclock.adapter.doors import Door

_CLOSING_S = 5


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """How many connections may be there without a request, and for how long."""

    silent: int = 200
    silent_of_address: int = 100
    silent_s: float = 10.0


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """What a browser is shown: a certificate with its key, both PEM."""

    certificate: Path
    key: Path


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are for whoever runs the process


def _impatient(limits: HttpLimits) -> type[asyncio.Protocol]:
    """Uvicorn's protocol, of which a connection is closed if no request comes."""
    door: Door[asyncio.BaseTransport] = Door(limits.silent, limits.silent_of_address)

    class Impatient(H11Protocol):
        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            peer = transport.get_extra_info("peername")
            address = str(peer[0]) if isinstance(peer, tuple) else None
            pushed_out = door.enter(transport, address)
            if pushed_out is not None:
                pushed_out.close()
            self._late = self.loop.call_later(limits.silent_s, transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None:
                self._come_in()

        def connection_lost(self, exc: Exception | None) -> None:
            self._come_in()
            super().connection_lost(exc)

        def _come_in(self) -> None:
            if self._late is not None:
                self._late.cancel()
                self._late = None
                door.leave(self.transport)

    return Impatient


class HttpServer:
    """Serves an application at a socket that is bound already."""

    def __init__(
        self,
        app: Starlette,
        tls: CertificateFiles | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                loop="none",
                http=_impatient(limits or HttpLimits()),
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=_CLOSING_S,
                ssl_certfile=tls.certificate if tls else None,
                ssl_keyfile=str(tls.key) if tls else None,
            )
        )
        self._task: asyncio.Task[None] | None = None

    async def start(self, listening: socket.socket) -> None:
        """Answer requests from now on. Raises what the start raises."""
        task = self._task = asyncio.create_task(self._uvicorn.serve(sockets=[listening]))
        while not self._uvicorn.started and not task.done():
            await asyncio.sleep(0.005)
        if task.done():
            task.result()

    async def close(self) -> None:
        """Finish what is being answered, within some seconds, and stop. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            self._uvicorn.should_exit = True
            await task
