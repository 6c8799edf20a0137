"""Parameters of common types are read one by one, to the same values as whole columns are."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from waterclock.adapter.api import Format
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import RECORD, PgType, type_named
from waterclock.pgwire.messages import Bind
from waterclock.pgwire.parameters import decode_parameters
from waterclock.pgwire.values.binary_in import decode_binary
from waterclock.pgwire.values.binary_out import encode_binary
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import zone_named

UTC = zone_named("UTC")
TEXT_FORMS = [
    *(("int2", text) for text in ("0", "7", "-7", "+7", " 7 ", "32767", "32768", "0x1f", "1_000")),
    *(("int4", text) for text in ("9999", "10000", "2147483647", "2147483648", "", "x", "٣", "²")),
    *(("int8", text) for text in ("9223372036854775807", "9223372036854775808", "0001")),
    *(("text", text) for text in ("", "ä", "a b", "1")),
    *(("varchar", text) for text in ("", "abc")),
]
BINARY_FORMS = [
    *(("int2", (n).to_bytes(2, "big", signed=True)) for n in (0, 5, -5, -(2**15))),
    *(("int4", (n).to_bytes(4, "big", signed=True)) for n in (0, 5, -5, 2**31 - 1)),
    *(("int8", (n).to_bytes(8, "big", signed=True)) for n in (0, 5, -5, -(2**63))),
    *(("int4", data) for data in (b"", b"123", b"12345")),
    *(("text", data) for data in (b"", "ä".encode(), b"\xff", b"a\0b")),
]


def read(value: bytes, declared: PgType, form: Format) -> pa.Scalar:
    bind = Bind("", "", (form,), (value,), ())
    [scalar] = decode_parameters(bind, [declared], UTC)
    return scalar


@pytest.mark.parametrize(("name", "text"), TEXT_FORMS)
def test_text(name: str, text: str) -> None:
    declared = PgType(type_named(name).oid)
    try:
        expected = decode_text(pa.array([text]), declared, UTC)[0]
    except WaterclockError as error:
        with pytest.raises(type(error), match=f"^{re.escape(str(error))}$"):
            read(text.encode(), declared, Format.TEXT)
        return
    found = read(text.encode(), declared, Format.TEXT)
    assert (found, found.type) == (expected, expected.type)


@pytest.mark.parametrize(("name", "data"), BINARY_FORMS)
def test_binary(name: str, data: bytes) -> None:
    declared = PgType(type_named(name).oid)
    try:
        expected = decode_binary([data], declared)[0]
    except WaterclockError as error:
        with pytest.raises(type(error)):
            read(data, declared, Format.BINARY)
        return
    found = read(data, declared, Format.BINARY)
    assert (found, found.type) == (expected, expected.type)


def test_a_length_that_is_declared_is_kept_to() -> None:
    declared = PgType(type_named("varchar").oid, 4 + 3)
    expected = decode_text(pa.array(["abc"]), declared, UTC)[0]
    assert read(b"abc", declared, Format.TEXT) == expected


@pytest.mark.parametrize("form", [Format.TEXT, Format.BINARY])
def test_rows_are_not_read_and_only_written_as_text(form: Format) -> None:
    with pytest.raises(WaterclockError) as caught:
        read(b"(1,2)", RECORD, form)
    assert caught.value.sqlstate == "0A000"
    column = pa.array(["(1,2)", None])
    assert encode_text(column, RECORD, UTC).to_pylist() == ["(1,2)", None]
    with pytest.raises(WaterclockError) as caught:
        encode_binary(column, RECORD)
    assert caught.value.sqlstate == "0A000"
