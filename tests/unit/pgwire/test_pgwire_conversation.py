"""Whole conversations without sockets: the server over a transport that only remembers."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.adapter.api import ColumnDescription, Notice, Session, Startup
from waterclock.model.pg_types import INT4, TEXT
from waterclock.pgwire.limits import Limits
from waterclock.pgwire.server import PgServer
from waterclock.pgwire.startup import parse_options
from waterclock.pgwire.wire import Wire
from waterclock.testing.examples import examples
from waterclock.testing.fake_adapter import FakeAuthenticator, FakeFront, FakeTable


class MemoryTransport(asyncio.Transport):
    """Keeps what is written; a test reads it and plays the client."""

    def __init__(self, protocol: Wire) -> None:
        super().__init__()
        self.protocol = protocol
        self.written = bytearray()
        self.closed = False
        self.paused = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.written += data

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("192.0.2.1", 5) if name == "peername" else default

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Client:
    """The other end of a MemoryTransport."""

    def __init__(self, server: PgServer) -> None:
        self.wire = Wire(server._accept)
        self.transport = MemoryTransport(self.wire)
        self.wire.connection_made(self.transport)

    async def say(self, data: bytes) -> bytes:
        """Send, let the server run until it waits, and return what it said."""
        before = len(self.transport.written)
        if not self.transport.closed:
            self.wire.data_received(data)
        for _ in range(200):
            await asyncio.sleep(0)
        return bytes(self.transport.written[before:])

    async def start(self) -> bytes:
        body = struct.pack(">i", 3 << 16) + b"user\0waterclock\0\0"
        return await self.say(struct.pack(">i", len(body) + 4) + body)


def table() -> FakeTable:
    batch = pa.record_batch(
        [pa.array([1, 2, None], pa.int32()), pa.array(["a", None, "c"])], names=["a", "b"]
    )
    return FakeTable((ColumnDescription("a", INT4), ColumnDescription("b", TEXT)), (batch,))


def new_server(limits: Limits | None = None) -> PgServer:
    return PgServer(FakeFront({"few": table()}), FakeAuthenticator(), limits=limits)


def message(kind: str, body: bytes = b"") -> bytes:
    return kind.encode() + struct.pack(">i", len(body) + 4) + body


def query(text: str) -> bytes:
    return message("Q", text.encode() + b"\0")


def parse(name: str, text: str, *oids: int) -> bytes:
    types = struct.pack(f">h{len(oids)}I", len(oids), *oids)
    return message("P", f"{name}\0{text}\0".encode() + types)


def bind(portal: str, statement: str, *values: bytes | None, result: int = 0) -> bytes:
    body = f"{portal}\0{statement}\0".encode() + struct.pack(">hh", 0, len(values))
    for value in values:
        body += struct.pack(">i", -1) if value is None else struct.pack(">i", len(value)) + value
    return message("B", body + struct.pack(">hh", 1, result))


def execute(portal: str = "", max_rows: int = 0) -> bytes:
    return message("E", portal.encode() + b"\0" + struct.pack(">i", max_rows))


def describe(kind: str, name: str = "") -> bytes:
    return message("D", kind.encode() + name.encode() + b"\0")


SYNC, FLUSH, TERMINATE = message("S"), message("H"), message("X")


def kinds(data: bytes) -> str:
    """The letters of messages."""
    letters, place = "", 0
    while place < len(data):
        letters += chr(data[place])
        place += 1 + struct.unpack_from(">i", data, place + 1)[0]
    assert place == len(data)
    return letters


def conversation(play: Callable[[Client], Coroutine[Any, Any, None]], **options: Any) -> None:
    async def main() -> None:
        server = new_server(**options)
        client = Client(server)
        assert kinds(await client.start()).startswith("RK")
        await play(client)
        await server.close()

    asyncio.run(main())


SCRIPTS = [
    (query("select 1"), "TDCZ"),
    (query(""), "IZ"),
    (query(" ; "), "IZ"),
    (query("select 1; table few; set x = y"), "TDCTDDDCCSZ"),
    (query("select 1; fail; select 2"), "TDCEZ"),
    (query("what"), "EZ"),
    (
        parse("", "select $1::int4") + bind("", "", b"5") + describe("P") + execute() + SYNC,
        "12TDCZ",
    ),
    (
        parse("", "begin") + describe("S") + bind("", "") + describe("P") + execute() + SYNC,
        "1tn2nCZ",
    ),
    (parse("", "") + bind("", "") + execute() + SYNC, "12IZ"),
    (parse("", "table few") + bind("", "") + execute("", 2) + execute("", 2) + SYNC, "12DDsDCZ"),
    (parse("", "table few") + bind("", "") + execute("", 3) + execute("", 3) + SYNC, "12DDDsCZ"),
    (parse("", "set x = y") + bind("", "") + execute("", 1) + SYNC, "12CSZ"),
    (parse("s", "select 1") + parse("s", "select 1") + parse("t", "select 1") + SYNC, "1EZ"),
    (parse("s", "select 1") + message("C", b"Ss\0") + parse("s", "select 1") + SYNC, "131Z"),
    (message("C", b"Pnone\0") + message("C", b"Snone\0") + SYNC, "33Z"),
    (bind("", "none") + query("select 1") + execute() + SYNC + SYNC, "EZZ"),
    (execute("none") + SYNC, "EZ"),
    (describe("S", "none") + FLUSH + SYNC + query("select 1"), "EZTDCZ"),
    (parse("", "select $1::int4") + describe("S") + FLUSH + query("select 1"), "1tTTDCZ"),
    (parse("", "select $1::int4") + bind("", "", b"x") + execute() + SYNC, "1EZ"),
    (parse("", "select $1::int4") + bind("", "") + execute() + SYNC, "1EZ"),
    (parse("", "select 1") + bind("p", "") + SYNC + execute("p") + SYNC, "12ZEZ"),
    (
        query("begin") + parse("", "select 1") + bind("p", "") + SYNC + execute("p") + SYNC,
        "CZ12ZDCZ",
    ),
    (query("begin") + query("fail") + parse("", "select 1") + SYNC + query("rollback"), "CZEZEZCZ"),
    (message("F", b"xxxx") + query("select 1"), "EZTDCZ"),
    (message("d", b"x") + message("c") + message("f", b"\0") + SYNC, "Z"),
    (query("copy few from stdin") + message("d", b"1\tx\n") + message("c"), "GCZ"),
    (
        query("copy few from stdin") + message("d", b"x\tx\n") + message("d") + message("c") + SYNC,
        "GEZZ",
    ),
    (query("copy few from stdin") + message("f", b"no\0"), "GEZ"),
    (query("copy few from stdin") + FLUSH + SYNC + message("c"), "GCZ"),
    (query("copy few from stdin") + query("select 1") + message("c"), "GEZ"),
    (
        parse("", "copy few from stdin")
        + bind("", "")
        + execute()
        + message("d", b"x\n")
        + message("c")
        + SYNC,
        "12GEZ",
    ),
    (query("copy few to stdout"), "HdddcCZ"),
    (query("copy few to stdout binary"), "HddddcCZ"),
    (query("notice hello"), "NCZ"),
    (query("set application_name = x") + query("set application_name = x"), "CSZCZ"),
    (message("Q", b"\xff\0") + message("Q", b"no end"), "EZEZ"),
]


@pytest.mark.parametrize(("said", "answer"), SCRIPTS)
def test_conversations(said: bytes, answer: str) -> None:
    async def whole(client: Client) -> None:
        assert kinds(await client.say(said)) == answer

    async def byte_by_byte(client: Client) -> None:
        heard = b""
        for place in range(0, len(said), 3):
            heard += await client.say(said[place : place + 3])
        assert kinds(heard) == answer

    conversation(whole)
    conversation(byte_by_byte)


def fields_of(data: bytes) -> dict[str, str]:
    """The fields of the first ErrorResponse."""
    place = 0
    while data[place : place + 1] != b"E":
        place += 1 + struct.unpack_from(">i", data, place + 1)[0]
    (length,) = struct.unpack_from(">i", data, place + 1)
    parts = data[place + 5 : place + length].split(b"\0")
    return {part[:1].decode(): part[1:].decode() for part in parts if part}


def test_the_fields_of_errors() -> None:
    async def play(client: Client) -> None:
        fields = fields_of(await client.say(query("fail")))
        assert fields == {"S": "ERROR", "V": "ERROR", "C": "22012", "M": "division by zero"}
        data = query("copy few from stdin") + message("d", b"1\tx\n2\n") + message("c")
        fields = fields_of(await client.say(data))
        assert fields["C"] == "22P04"
        assert fields["M"] == 'missing data for column "b"'
        assert fields["W"] == 'COPY few, line 2: "2"'
        fields = fields_of(await client.say(message("Q", b"\xff\0")))
        assert fields["C"] == "22021"

    conversation(play)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"y\0\0\0\4", "08P01"),
        (message("p", b"secret"), "08P01"),
        (b"Q\x7f\xff\xff\xff", "08P01"),
    ],
)
def test_what_can_not_be_understood_ends_the_connection(data: bytes, code: str) -> None:
    async def play(client: Client) -> None:
        fields = fields_of(await client.say(data))
        assert (fields["S"], fields["C"]) == ("FATAL", code)
        assert client.transport.closed

    conversation(play)


def test_goodbye() -> None:
    async def play(client: Client) -> None:
        assert await client.say(TERMINATE) == b""
        assert client.transport.closed

    conversation(play)


def test_a_broken_invariant_is_told_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    class BrokenFront(FakeFront):
        async def connect(self, startup: Startup, notify: Callable[[Notice], None]) -> Session:  # type: ignore[override]
            session = await FakeFront.connect(self, startup, notify)

            async def broken(name: str) -> None:
                raise AssertionError(f"impossible: {name}")

            session.close_portal = broken  # type: ignore[method-assign]
            return session

    async def main() -> None:
        server = PgServer(BrokenFront(), FakeAuthenticator())
        client = Client(server)
        await client.start()
        fields = fields_of(await client.say(message("C", b"P\0")))
        assert (fields["S"], fields["C"]) == ("ERROR", "XX000")
        assert "impossible" not in fields["M"]
        assert not client.transport.closed, "only the statement has failed"
        assert "Z" in kinds(await client.say(SYNC))
        assert "D" in kinds(await client.say(query("select 1"))), "the session goes on"
        await server.close()

    asyncio.run(main())
    assert "impossible" in caplog.text


@pytest.mark.parametrize("said", [b"", query("sleep")])
def test_a_session_can_be_hung_up_from_another_thread(said: bytes) -> None:
    async def main() -> None:
        front = FakeFront()
        server = PgServer(front, FakeAuthenticator())
        client = Client(server)
        await client.start()
        await client.say(said)
        (session,) = front.sessions
        hang_up = session.startup.hang_up
        assert hang_up is not None
        before = len(client.transport.written)
        await asyncio.to_thread(hang_up)
        await client.say(b"")
        fields = fields_of(bytes(client.transport.written[before:]))
        assert (fields["S"], fields["C"]) == ("FATAL", "57P01")
        assert client.transport.closed
        await server.close()

    asyncio.run(main())


def test_reading_pauses_while_frames_lie_unread() -> None:
    async def play(client: Client) -> None:
        await client.say(query("sleep"))
        await client.say(query("x" * 300_000))
        assert client.transport.paused
        (session,) = client_front.sessions
        session.cancel()
        assert kinds(await client.say(b"")) == "EZEZ"
        assert not client.transport.paused

    async def main() -> None:
        client = Client(PgServer(client_front, FakeAuthenticator()))
        await client.start()
        await play(client)

    client_front = FakeFront()
    asyncio.run(main())


def test_options_of_the_startup_packet() -> None:
    assert parse_options("-c a=1 -cb=2 --c-d=x\\ y") == {"a": "1", "b": "2", "c_d": "x y"}
    assert parse_options("") == {}
    for bad in ("-x", "-c", "-c a", "word"):
        with pytest.raises(Exception, match=r"invalid command-line|requires a value"):
            parse_options(bad)


PIECES = [
    *(SYNC, FLUSH, query("select 1"), query("begin"), query("commit"), query("fail"), query("")),
    *(parse("", "select $1::int4"), parse("s", "table few"), parse("", "copy few from stdin")),
    *(
        bind("", ""),
        bind("p", "s"),
        bind("", "", b"1"),
        bind("", "", b"x"),
        bind("", "s", result=1),
    ),
    *(
        execute(),
        execute("p", 1),
        describe("S"),
        describe("P"),
        describe("S", "s"),
        describe("P", "p"),
    ),
    *(message("C", b"Ss\0"), message("C", b"Pp\0"), message("d", b"1\tx\n"), message("d", b"\xff")),
    *(
        message("c"),
        message("f", b"no\0"),
        query("copy few from stdin"),
        query("copy few to stdout"),
    ),
    *(query("declare p cursor for table few"), query("fetch 1 from p"), query("deallocate all")),
    *(message("F", b"x"), message("Q", b"\xff\0"), message("B", b"\0"), message("p", b"x")),
    *(TERMINATE, b"\0\0", b"y\0\0\0\4", b"Q\0\0\0\xff"),
]


@examples(300)
@given(
    st.lists(st.sampled_from(PIECES) | st.binary(max_size=12), max_size=25),
    st.lists(st.integers(1, 50), max_size=25),
)
def test_any_sequence_is_answered_or_ends_cleanly(pieces: list[bytes], cuts: list[int]) -> None:
    """No input makes the server fail: each Sync is answered, or the connection is closed."""

    async def main() -> None:
        server = new_server(Limits(frame_bytes=300))
        client = Client(server)
        heard = await client.start()
        stream = b"".join(pieces)
        for size in [*cuts, len(stream)]:
            heard += await client.say(stream[:size])
            stream = stream[size:]
        assert b"internal error" not in heard
        kinds(heard)
        if not client.transport.closed:
            # A frame or a COPY may be open: end both, then ask for a sign of life. No frame may be
            # larger than that.
            heard = await client.say(b"\0" * 300)
            heard += await client.say(message("c") + SYNC + SYNC)
            assert client.transport.closed or heard.endswith(
                (b"Z\0\0\0\5I", b"Z\0\0\0\5T", b"Z\0\0\0\5E")
            )
        await server.close()
        for _ in range(20):
            await asyncio.sleep(0)
        assert client.transport.closed
        assert server.open_sessions == 0

    asyncio.run(main())


@examples(200)
@given(st.lists(st.binary(max_size=30), max_size=6))
def test_any_beginning_is_answered_or_ends_cleanly(pieces: list[bytes]) -> None:
    async def main() -> None:
        server = new_server()
        client = Client(server)
        heard = b""
        for piece in pieces:
            heard += await client.say(piece)
        assert b"internal error" not in heard
        client.wire.eof_received()
        for _ in range(20):
            await asyncio.sleep(0)
        assert client.transport.closed
        assert server.open_sessions == 0

    asyncio.run(main())
