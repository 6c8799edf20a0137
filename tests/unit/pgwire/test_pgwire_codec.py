"""Frames and messages: examples of each, and what hostile bytes do."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.adapter.api import ColumnDescription, Format, TransactionStatus
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import INT4, TEXT, PgType
from waterclock.pgwire import backend
from waterclock.pgwire.codec import Frame, FrameReader, decode, decode_first
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

MESSAGES: list[tuple[bytes, FrontendMessage]] = [
    (b"Q\0\0\0\x0dselect 1\0", Query("select 1")),
    (b"P\0\0\0\x0fs\0$1\0\0\1\0\0\0\x17", Parse("s", "$1", (23,))),
    (
        b"B\0\0\0\x1ep\0s\0\0\1\0\1\0\2\0\0\0\2ab\xff\xff\xff\xff\0\2\0\0\0\1",
        Bind("p", "s", (Format.BINARY,), (b"ab", None), (Format.TEXT, Format.BINARY)),
    ),
    (b"D\0\0\0\7Ss\0", Describe(Target.STATEMENT, "s")),
    (b"D\0\0\0\6P\0", Describe(Target.PORTAL, "")),
    (b"E\0\0\0\x0ap\0\0\0\0\7", Execute("p", 7)),
    (b"C\0\0\0\7Pp\0", Close(Target.PORTAL, "p")),
    (b"H\0\0\0\4", Flush()),
    (b"S\0\0\0\4", Sync()),
    (b"X\0\0\0\4", Terminate()),
    (b"F\0\0\0\6xx", FunctionCall()),
    (b"p\0\0\0\7abc", Password(b"abc")),
    (b"d\0\0\0\7a\0b", CopyData(b"a\0b")),
    (b"c\0\0\0\4", CopyDone()),
    (b"f\0\0\0\7no\0", CopyFail("no")),
]


def expect(error: WaterclockError, codes: tuple[str, ...]) -> None:
    assert error.sqlstate in codes


def reader(limit: int = 1 << 20) -> FrameReader:
    return FrameReader(limit)


@pytest.mark.parametrize(("data", "message"), MESSAGES)
def test_each_message(data: bytes, message: FrontendMessage) -> None:
    frames = reader()
    frames.feed(data)
    frame = frames.next_frame()
    assert frame is not None
    assert decode(frame) == message
    assert len(frames) == 0


@given(st.lists(st.sampled_from(MESSAGES)), st.lists(st.integers(1, 40)))
def test_messages_arrive_whole_however_they_are_cut(
    chosen: list[tuple[bytes, FrontendMessage]], cuts: list[int]
) -> None:
    stream = b"".join(data for data, _ in chosen)
    frames, seen = reader(), []
    for size in [*cuts, len(stream)]:
        frames.feed(stream[:size])
        stream = stream[size:]
        while (frame := frames.next_frame()) is not None:
            seen.append(decode(frame))
    assert seen == [message for _, message in chosen]


@given(st.binary(max_size=200))
def test_random_bytes_are_refused_or_waited_for(data: bytes) -> None:
    frames = reader()
    frames.feed(data)
    try:
        while (frame := frames.next_frame()) is not None:
            decode(frame)
    except WaterclockError as error:
        expect(error, ("08P01", "22021"))


@given(st.sampled_from(b"QPBDECHSXFpdcf"), st.binary(max_size=60))
def test_random_bodies_are_decoded_or_refused(kind: int, body: bytes) -> None:
    try:
        decode(Frame(kind, body))
    except WaterclockError as error:
        expect(error, ("08P01", "22021"))


@given(st.binary(min_size=4, max_size=60))
def test_random_first_packets_are_decoded_or_refused(packet: bytes) -> None:
    try:
        decode_first(packet)
    except WaterclockError as error:
        expect(error, ("08P01", "0A000", "22021"))


@given(st.sampled_from(MESSAGES), st.integers(0, 60))
def test_a_body_that_is_cut_short_is_a_bad_message(
    chosen: tuple[bytes, FrontendMessage], size: int
) -> None:
    data, message = chosen
    if size >= len(data) - 5 or isinstance(message, CopyData | Password | FunctionCall):
        return
    with pytest.raises(BadMessage):
        decode(Frame(data[0], data[5 : 5 + size]))


@pytest.mark.parametrize(
    "data",
    [
        b"y\0\0\0\4",
        b"\xff",
        b"Q\0\0\0\3",
        b"Q\xff\xff\xff\xff",
        b"Q\x7f\xff\xff\xff",
        b"S\0\1\0\0",
    ],
)
def test_a_frame_is_refused_by_its_first_bytes(data: bytes) -> None:
    frames = reader()
    frames.feed(data)
    with pytest.raises(ProtocolViolation):
        frames.next_frame()


def test_the_limit_before_authentication() -> None:
    frames = FrameReader()
    frames.feed(b"p" + struct.pack(">i", 10_001))
    with pytest.raises(ProtocolViolation):
        frames.next_frame()


@pytest.mark.parametrize("length", [-1, 0, 7, 10_001, 2**31 - 1])
def test_the_length_of_a_first_packet(length: int) -> None:
    frames = FrameReader()
    frames.feed(struct.pack(">i", length))
    with pytest.raises(ProtocolViolation):
        frames.next_packet()


def test_first_packets() -> None:
    assert decode_first(struct.pack(">i", 80877103)) == SslRequest()
    assert decode_first(struct.pack(">i", 80877104)) == GssRequest()
    assert decode_first(struct.pack(">ii", 80877102, 7) + b"abcd") == CancelRequest(7, b"abcd")
    startup = struct.pack(">i", 3 << 16 | 2) + b"user\0me\0options\0\0\0"
    assert decode_first(startup) == StartupPacket(2, {"user": "me", "options": ""})
    for bad in (b"user\0me\0", b"user\0\0", b"user", b"\xff\0x\0\0"):
        with pytest.raises(WaterclockError):
            decode_first(struct.pack(">i", 3 << 16) + bad)
    with pytest.raises(ProtocolViolation, match=r"unsupported frontend protocol 2\.0"):
        decode_first(struct.pack(">i", 2 << 16))


def test_backend_messages() -> None:
    assert backend.ready_for_query(TransactionStatus.FAILED) == b"Z\0\0\0\5E"
    assert backend.command_complete("SELECT 1") == b"C\0\0\0\x0dSELECT 1\0"
    assert backend.parameter_description([INT4, PgType(4294967295)]) == (
        b"t\0\0\0\x0e\0\2\0\0\0\x17\xff\xff\xff\xff"
    )
    assert backend.error_response({"S": "ERROR", "M": "a\0b"}) == b"E\0\0\0\x10SERROR\0Mab\0\0"
    columns = [ColumnDescription("a", INT4, 5, 2), ColumnDescription("b", TEXT)]
    assert backend.row_description(columns, [Format.TEXT, Format.BINARY]) == (
        b"T\0\0\0\x2e\0\2"
        b"a\0\0\0\0\5\0\2\0\0\0\x17\0\4\xff\xff\xff\xff\0\0"
        b"b\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\1"
    )
    assert backend.copy_out_response(Format.BINARY, 2) == b"H\0\0\0\x0b\1\0\2\0\1\0\1"
    assert backend.authentication_sasl(["A", "B"]) == b"R\0\0\0\x0d\0\0\0\x0aA\0B\0\0"
    assert backend.negotiate_version(0, ["_pq_.x"]).startswith(b"v\0\0\0\x13\0\3\0\0\0\0\0\1_pq_.x")
    assert backend.backend_key_data(1, b"abcd") == b"K\0\0\0\x0c\0\0\0\1abcd"


@pytest.mark.parametrize(
    ("oid", "length"),
    [
        (23, 4),
        (25, -1),
        (1007, -1),
        (2205, 4),
        (2206, 4),
        (24, 4),
        (2278, 4),
        (27, 6),
        (999_999, -1),
    ],
)
def test_lengths_of_types(oid: int, length: int) -> None:
    assert backend.type_length(oid) == length
