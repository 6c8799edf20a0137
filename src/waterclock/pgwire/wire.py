"""The two directions of one connection: frames in, bytes out, over any asyncio transport.

Out: what is sent collects until the event loop turns, so all that happens without waiting leaves in
one write, and nothing waits for a flush that was forgotten. `drain` is where a sender of much waits
for the client to read.

In: reading pauses while whole frames lie unread, so a client can not make the server hold more than
one frame of any size. While a statement runs, nobody reads frames; the end of the connection is
noticed all the same, and told to `on_lost`.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from waterclock.pgwire.codec import DEFAULT_LIMIT, Frame, FrameReader
from waterclock.pgwire.errors import Disconnected, ProtocolViolation
from waterclock.pgwire.tls import TlsChannel

_FLUSH_BYTES = 64 * 1024
_UNREAD_BYTES = 256 * 1024
_WRITE_HIGH = 256 * 1024
_TLS_HANDSHAKE = 0x16


class Wire(asyncio.Protocol):
    """One connection; `on_made` is called when it is there."""

    def __init__(self, on_made: Callable[[Wire], None]) -> None:
        self._on_made = on_made
        self._reader = FrameReader()
        self._tls: TlsChannel | None = None
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._reading = True
        self._lost = False
        self.on_lost: Callable[[], None] | None = None

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._transport.set_write_buffer_limits(high=_WRITE_HIGH)
        self._keep_alive()
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        if self._tls is not None:
            try:
                data = self._tls.receive(data)
            except Disconnected:
                self._write(self._tls.outgoing())  # the alert that says why
                self._lose()
                self._transport.close()
                return
            self._write(self._tls.outgoing())
        self._reader.feed(data)
        if self._reading and len(self._reader) > _UNREAD_BYTES and self._reader.has_frame():
            self._reading = False
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        self._lose()
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._lose()

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    # What the connection asks for.

    @property
    def client_address(self) -> str | None:
        """The client's host; None if it came through a file."""
        peer = self._transport.get_extra_info("peername")
        return str(peer[0]) if isinstance(peer, tuple) else None

    @property
    def encrypted(self) -> bool:
        return self._tls is not None

    @property
    def lost(self) -> bool:
        return self._lost

    async def first_packet(self) -> bytes | None:
        """A packet of those that begin a connection; None if TLS begins right away."""
        while True:
            if self._tls is None and self._reader.first_byte() == _TLS_HANDSHAKE:
                return None
            packet = self._reader.next_packet()
            if packet is not None:
                return packet
            await self._more()

    async def receive(self) -> Frame:
        """The next frame; `ProtocolViolation`, or `Disconnected`."""
        while not self._lost:
            frame = self._reader.next_frame()
            if frame is not None:
                return frame
            if not self._reading:
                self._reading = True
                self._transport.resume_reading()
            await self._more()
        raise Disconnected

    def allow_large_frames(self, limit: int = DEFAULT_LIMIT) -> None:
        """The client is known: let it send frames of that size."""
        self._reader.limit = limit

    def send(self, data: bytes | memoryview) -> None:
        """Send whole messages, soon. Nothing happens if the client is gone."""
        if self._lost:
            return
        if not self._out:
            self._loop.call_soon(self.flush)
        self._out.append(data)
        self._out_bytes += len(data)

    async def drain(self) -> None:
        """Let the client read, if much was sent; and let others run."""
        if self._out_bytes >= _FLUSH_BYTES:
            self.flush()
            await asyncio.sleep(0)
        await self._room.wait()
        if self._lost:
            raise Disconnected

    def flush(self) -> None:
        """Send now what `send` has collected."""
        if not self._out:
            return
        data = b"".join(self._out)
        self._out.clear()
        self._out_bytes = 0
        if self._tls is None:
            self._write(data)
        elif self._tls.established:
            self._tls.encrypt(data)
            self._write(self._tls.outgoing())

    async def start_tls(self, context: ssl.SSLContext, *, direct: bool) -> None:
        """Speak TLS from now on; what was received belongs to it only if it is `direct`."""
        if not direct and len(self._reader):
            raise ProtocolViolation(
                "received unencrypted data after SSL request",
                detail="This could be either a client-software bug"
                " or evidence of an attempted man-in-the-middle attack.",
            )
        early = self._reader.take_all()
        self.flush()
        self._tls = TlsChannel(context)
        if early:
            self.data_received(early)
        while not self._tls.established:
            await self._more()

    @property
    def tls_protocol(self) -> str | None:
        return self._tls.protocol if self._tls is not None else None

    def close(self) -> None:
        """Send what is left, then close."""
        self.flush()
        if self._tls is not None:
            self._tls.close()
            self._write(self._tls.outgoing())
        self._transport.close()

    def abort(self) -> None:
        """Close without sending what is left."""
        self._transport.abort()

    def _write(self, data: bytes) -> None:
        if data and not self._lost and not self._transport.is_closing():
            self._transport.write(data)

    async def _more(self) -> None:
        if self._lost:
            raise Disconnected
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._lost:
            raise Disconnected

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _lose(self) -> None:
        if self._lost:
            return
        self._lost = True
        self._room.set()
        self._wake()
        if self.on_lost is not None:
            self.on_lost()

    def _keep_alive(self) -> None:
        """Have the kernel find out about clients that went without a word."""
        connection = self._transport.get_extra_info("socket")
        if connection is not None and connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
