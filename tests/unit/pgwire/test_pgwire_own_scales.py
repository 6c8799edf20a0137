"""Numbers with scales of their own on the wire: text and bytes in both directions."""

from __future__ import annotations

import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.adapter.api import Format
from waterclock.model.pg_types import NUMERIC, array_of
from waterclock.persist.numerics import numeric_array
from waterclock.pgwire.values.binary_in import decode_binary
from waterclock.pgwire.values.binary_out import encode_binary
from waterclock.pgwire.values.errors import BadValue
from waterclock.pgwire.values.few import encode_few
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import UTC_ZONE

NUMBERS = st.builds(
    lambda digits, scale: Decimal(f"{digits}e-{scale}"),
    st.integers(-(10**37), 10**37),
    st.integers(0, 36),
)


@given(st.lists(NUMBERS | st.none(), min_size=1, max_size=20))
def test_numbers_come_back_in_both_formats(numbers: list[Decimal | None]) -> None:
    column = numeric_array(numbers)
    texts = encode_text(column, NUMERIC, UTC_ZONE)
    assert decode_text(texts, NUMERIC, UTC_ZONE).equals(column)
    binary = encode_binary(column, NUMERIC)
    assert decode_binary(binary.to_pylist(), NUMERIC).equals(column)
    assert encode_few(column, NUMERIC, Format.BINARY, UTC_ZONE) == binary.to_pylist()
    few = encode_few(column, NUMERIC, Format.TEXT, UTC_ZONE)
    assert few == [None if text is None else text.encode() for text in texts.to_pylist()]


@given(st.lists(NUMBERS | st.none(), min_size=3, max_size=20))
def test_a_slice_is_written_as_the_rows_it_has(numbers: list[Decimal | None]) -> None:
    column = numeric_array(numbers)
    whole = encode_text(column, NUMERIC, UTC_ZONE).to_pylist()
    assert encode_text(column.slice(1, 2), NUMERIC, UTC_ZONE).to_pylist() == whole[1:3]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("1.50", "1.50"),
        ("1e3", "1000"),
        ("1.50e1", "15.0"),
        ("1e-3", "0.001"),
        (".5", "0.5"),
        ("5.", "5"),
        ("-0", "0"),
        ("-0.00", "0.00"),
        (" 007.10 ", "7.10"),
        ("0e5", "0"),
    ],
)
def test_texts_keep_the_digits_that_were_written(text: str, shown: str) -> None:
    column = decode_text(pa.array([text]), NUMERIC, UTC_ZONE)
    assert encode_text(column, NUMERIC, UTC_ZONE).to_pylist() == [shown]


def test_the_scale_is_sent_and_received() -> None:
    [sent] = encode_binary(numeric_array([Decimal("1.500")]), NUMERIC).to_pylist()
    assert sent == struct.pack(">hhHhhh", 2, 0, 0, 3, 1, 5000)
    received = decode_binary([struct.pack(">hhHhhh", 2, 0, 0, 1, 1, 5600)], NUMERIC)
    assert encode_text(received, NUMERIC, UTC_ZONE).to_pylist() == ["1.5"], "digits not shown go"
    zero = decode_binary([struct.pack(">hhHh", 0, 0, 0, 5)], NUMERIC)
    assert encode_text(zero, NUMERIC, UTC_ZONE).to_pylist() == ["0.00000"]


def test_arrays_keep_the_scale_of_each_element() -> None:
    kind = array_of(NUMERIC)
    column = decode_text(pa.array(["{1.0,2.50,NULL}", None, "{}"]), kind, UTC_ZONE)
    assert encode_text(column, kind, UTC_ZONE).to_pylist() == ["{1.0,2.50,NULL}", None, "{}"]
    assert decode_binary(encode_binary(column, kind).to_pylist(), kind).equals(column)


@pytest.mark.parametrize("text", ["1e38", "0." + "0" * 36 + "1", "NaN", "x", ""])
@pytest.mark.parametrize("count", [1, 20])
def test_what_can_not_be_held_is_refused(text: str, count: int) -> None:
    with pytest.raises(BadValue) as caught:
        decode_text(pa.array(["1.5"] * count + [text]), NUMERIC, UTC_ZONE)
    assert caught.value.row == count
