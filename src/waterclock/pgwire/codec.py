"""Bytes to messages: frames first, then what is in them. No I/O.

A `FrameReader` is fed whatever arrives and gives out whole frames. It refuses a frame by its first
five bytes, so nobody makes the server hold more than the limit: what is no message, or longer than
such a message can be, is a `ProtocolViolation`, since nothing after it can be trusted. A frame
whose body is malformed is only a `BadMessage`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from waterclock.adapter.api import Format
from waterclock.pgwire.errors import BadMessage, ProtocolViolation
from waterclock.pgwire.messages import (
    Bind,
    CancelRequest,
    Close,
    CopyData,
    CopyDone,
    CopyFail,
    Describe,
    Execute,
    FirstPacket,
    Flush,
    FrontendMessage,
    FunctionCall,
    GssRequest,
    Parse,
    Password,
    Query,
    SslRequest,
    StartupPacket,
    Sync,
    Target,
    Terminate,
)
from waterclock.pgwire.values.errors import decode_utf8

STARTUP_LIMIT = 10_000
"""Bytes of any frame before the client is known, as in PostgreSQL."""
SMALL_LIMIT = 30_000
"""Bytes of a frame that holds no text or data of the user's."""
DEFAULT_LIMIT = 256 * 1024 * 1024

_CANCEL, _SSL, _GSS = 80_877_102, 80_877_103, 80_877_104
_LARGE = frozenset(b"QPBdF")
_KNOWN = frozenset(b"QPBDECHSXFpdcf")
_INT32 = struct.Struct(">i")


class Frame(NamedTuple):
    """One message: its letter, and what follows its length."""

    kind: int
    body: bytes


class FrameReader:
    """Cuts a stream of bytes into frames.

    `limit` is what a frame may hold at most; it is set again when the client is known.
    """

    def __init__(self, limit: int = STARTUP_LIMIT) -> None:
        self.limit = limit
        self._data = bytearray()
        self._start = 0

    def feed(self, data: bytes) -> None:
        if self._start:
            del self._data[: self._start]
            self._start = 0
        self._data += data

    def __len__(self) -> int:
        """Bytes held that no frame has taken."""
        return len(self._data) - self._start

    def first_byte(self) -> int | None:
        return self._data[self._start] if len(self) else None

    def take_all(self) -> bytes:
        """All bytes that no frame has taken."""
        rest = bytes(self._data[self._start :])
        self._data.clear()
        self._start = 0
        return rest

    def next_packet(self) -> bytes | None:
        """The body of a packet without a letter, as the first ones are; None if it is not whole."""
        if len(self) < 4:
            return None
        (length,) = _INT32.unpack_from(self._data, self._start)
        if not 8 <= length <= STARTUP_LIMIT:
            raise ProtocolViolation("invalid length of startup packet")
        if len(self) < length:
            return None
        return self._take(4, length - 4)

    def next_frame(self) -> Frame | None:
        """The next message; None if it has not come to its end."""
        if len(self) < 5:
            if len(self) and self._data[self._start] not in _KNOWN:
                raise _unknown(self._data[self._start])
            return None
        kind = self._data[self._start]
        (length,) = _INT32.unpack_from(self._data, self._start + 1)
        if kind not in _KNOWN:
            raise _unknown(kind)
        if not 4 <= length <= (self.limit if kind in _LARGE else min(self.limit, SMALL_LIMIT)):
            raise ProtocolViolation("invalid message length")
        if len(self) < length + 1:
            return None
        return Frame(kind, self._take(5, length - 4))

    def has_frame(self) -> bool:
        """Whether `next_frame` would give one, or raise."""
        if len(self) < 5:
            return False
        (length,) = _INT32.unpack_from(self._data, self._start + 1)
        return bool(length < 4 or length > self.limit or len(self) > length)

    def _take(self, skip: int, length: int) -> bytes:
        start = self._start + skip
        self._start = start + length
        with memoryview(self._data) as view:
            return bytes(view[start : start + length])


class _Body:
    """Reads the fields of one message."""

    __slots__ = ("_data", "_place")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def text(self) -> str:
        end = self._data.find(b"\0", self._place)
        if end < 0:
            raise BadMessage("invalid string in message")
        text = decode_utf8(self._data[self._place : end])
        self._place = end + 1
        return text

    def int16(self) -> int:
        return int.from_bytes(self.take(2), "big", signed=True)

    def count(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def int32(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def oid(self) -> int:
        return int.from_bytes(self.take(4), "big")

    def take(self, length: int) -> bytes:
        if length < 0 or self._place + length > len(self._data):
            raise BadMessage("insufficient data left in message")
        data = self._data[self._place : self._place + length]
        self._place += length
        return data

    def rest(self) -> bytes:
        data = self._data[self._place :]
        self._place = len(self._data)
        return data

    def end(self) -> None:
        if self._place != len(self._data):
            raise BadMessage("invalid message format")


def decode(frame: Frame) -> FrontendMessage:
    """The message in a frame; `BadMessage`, or `InvalidEncoding` for text that is not UTF-8."""
    body = _Body(frame.body)
    message = _DECODERS[frame.kind](body)
    body.end()
    return message


def _parse(body: _Body) -> Parse:
    name, text = body.text(), body.text()
    return Parse(name, text, tuple(body.oid() for _ in range(body.count())))


def _bind(body: _Body) -> Bind:
    portal, statement = body.text(), body.text()
    formats = _formats(body)
    values: list[bytes | None] = []
    for _ in range(body.count()):
        length = body.int32()
        values.append(None if length == -1 else body.take(length))
    return Bind(portal, statement, formats, tuple(values), _formats(body))


def _formats(body: _Body) -> tuple[Format, ...]:
    return tuple(_format(body.int16()) for _ in range(body.count()))


def _format(code: int) -> Format:
    if code not in (0, 1):
        raise BadMessage(f"unsupported format code: {code}")
    return Format(code)


def _target(body: _Body, message: str) -> Target:
    letter = body.take(1)
    if letter == b"S":
        return Target.STATEMENT
    if letter == b"P":
        return Target.PORTAL
    raise BadMessage(f"invalid {message} message subtype {letter[0]}")


def _function_call(body: _Body) -> FunctionCall:
    body.rest()
    return FunctionCall()


_DECODERS: dict[int, Callable[[_Body], FrontendMessage]] = {
    ord("Q"): lambda body: Query(body.text()),
    ord("P"): _parse,
    ord("B"): _bind,
    ord("D"): lambda body: Describe(_target(body, "DESCRIBE"), body.text()),
    ord("E"): lambda body: Execute(body.text(), body.int32()),
    ord("C"): lambda body: Close(_target(body, "CLOSE"), body.text()),
    ord("H"): lambda _: Flush(),
    ord("S"): lambda _: Sync(),
    ord("X"): lambda _: Terminate(),
    ord("F"): _function_call,
    ord("p"): lambda body: Password(body.rest()),
    ord("d"): lambda body: CopyData(body.rest()),
    ord("c"): lambda _: CopyDone(),
    ord("f"): lambda body: CopyFail(body.text()),
}


def decode_first(packet: bytes) -> FirstPacket:
    """One of the packets that a connection begins with; `ProtocolViolation`."""
    (code,) = _INT32.unpack_from(packet)
    if code == _SSL and len(packet) == 4:
        return SslRequest()
    if code == _GSS and len(packet) == 4:
        return GssRequest()
    if code == _CANCEL and 12 <= len(packet) <= 8 + 256:
        return CancelRequest(int.from_bytes(packet[4:8], "big", signed=True), packet[8:])
    if code >> 16 != 3:
        raise UnsupportedVersion(
            f"unsupported frontend protocol {code >> 16 & 0xFFFF}.{code & 0xFFFF}:"
            " server supports 3.0 to 3.0"
        )
    return StartupPacket(code & 0xFFFF, _parameters(packet[4:]))


class UnsupportedVersion(ProtocolViolation):
    """The client speaks another major version."""

    sqlstate = "0A000"


def _parameters(data: bytes) -> dict[str, str]:
    # Names and values, each with a zero behind it, and one more zero.
    if not data.endswith(b"\0"):
        raise ProtocolViolation("invalid startup packet layout: expected terminator as last byte")
    parts = data[:-1].split(b"\0")
    if parts.pop() != b"" or len(parts) % 2:
        raise ProtocolViolation("invalid startup packet layout: expected terminator as last byte")
    texts = [decode_utf8(part) for part in parts]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _unknown(kind: int) -> ProtocolViolation:
    return ProtocolViolation(f"invalid frontend message type {kind}")
