"""Uvicorn in an event loop that is somebody else's: no signals, no logging of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from starlette.applications import Starlette

_CLOSING_S = 5


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """What a browser is shown: a certificate with its key, both PEM."""

    certificate: Path
    key: Path


class _Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # signals are for whoever runs the process


class HttpServer:
    """Serves an application at a socket that is bound already."""

    def __init__(self, app: Starlette, tls: CertificateFiles | None = None) -> None:
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                app,
                loop="none",
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
