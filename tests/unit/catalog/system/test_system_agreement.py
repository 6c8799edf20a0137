"""Which constants, conversions and operators DuckDB is trusted with."""

from __future__ import annotations

import pytest

from waterclock.catalog.system import text_calls
from waterclock.catalog.system import types as t
from waterclock.catalog.system.binding.agreement import may_compute, may_convert, plain
from waterclock.catalog.system.errors import (
    CatalogQueryError,
    FeatureNotSupported,
    InvalidText,
    InvalidValue,
    NumberOutOfRange,
    ProgramLimitExceeded,
)


@pytest.mark.parametrize(
    ("text", "oid", "read"),
    [
        ("2024-01-01 10:00:00+02", t.TIMESTAMPTZ, "2024-01-01 08:00:00"),
        ("2024-01-01T00:30:00.5-05:30", t.TIMESTAMPTZ, "2024-01-01 06:00:00.500000"),
        ("2024-01-01 10:00", t.TIMESTAMPTZ, None),
        ("0001-01-01 00:00+02", t.TIMESTAMPTZ, None),
        (" 2024-01-01 ", t.TIMESTAMP, "2024-01-01"),
        ("2024-01-01 10:00+02", t.TIMESTAMP, None),
        ("infinity", t.DATE, None),
        ("24:00", t.TIME, None),
        ("3 days", t.INTERVAL, "3 days"),
        ("1 mon", t.INTERVAL, None),
        ("1.1234567", t.NUMERIC, None),
        ("NaN", t.NUMERIC, None),
        ('{"b": 1}', t.JSONB, None),
        ("anything", t.TEXT, "anything"),
        ('{"b": 1}', t.JSON, '{"b": 1}'),
        ("anything", t.JSON, None),
    ],
)
def test_constants(text: str, oid: int, read: str | None) -> None:
    assert plain(text, oid) == read


def test_conversions() -> None:
    assert may_convert(t.INT4, t.TEXT, is_text=True)
    assert may_convert(t.FLOAT4, t.INT8, is_text=False)
    assert may_convert(t.DATE, t.TIMESTAMP, is_text=False)
    assert not may_convert(t.FLOAT4, t.TEXT, is_text=True)
    assert not may_convert(t.TIMESTAMPTZ, t.TEXT, is_text=True)
    assert not may_convert(t.TIMESTAMPTZ, t.DATE, is_text=False)
    assert not may_convert(t.TEXT, t.TIMESTAMP, is_text=False)
    assert not may_convert(t.UUID, t.JSON, is_text=True)
    assert not may_convert(t.BOOL, t.NAME, is_text=True)


def test_operators() -> None:
    assert may_compute("+", t.INT4, t.INT8)
    assert may_compute("-", t.TIMESTAMPTZ, t.TIMESTAMPTZ)
    assert may_compute("-", t.TIMESTAMPTZ, t.INTERVAL)
    assert not may_compute("/", t.NUMERIC, t.INT4)
    assert not may_compute("+", t.INTERVAL, t.INTERVAL)
    assert not may_compute("+", t.DATE, t.INTERVAL)


@pytest.mark.parametrize(
    ("value", "operator", "count", "bits", "expected"),
    [
        (1, "<<", 4, 32, 16),
        (1, "<<", 31, 32, -(2**31)),
        (1, "<<", 33, 32, 2),
        (-8, ">>", 1, 32, -4),
        (-1, ">>", -1, 64, -1),
    ],
)
def test_shifts_go_around(value: int, operator: str, count: int, bits: int, expected: int) -> None:
    assert text_calls.shifted(value, operator, count, bits) == expected


def test_texts_are_read_as_postgres_reads_them() -> None:
    assert text_calls.integer_in(" +42 ") == 42
    assert text_calls.boolean_in("ye") is True
    assert text_calls.upper_case("straße") == "STRAßE"
    assert text_calls.padded("abc", 2, "x", True) == "ab"
    assert text_calls.padded("abc", 6, "xy", True) == "xyxabc"
    assert text_calls.padded("abc", 5, "", False) == "abc"
    assert text_calls.split_part("a,b,c", ",", -1) == "c"
    assert text_calls.regexp_replace("ab", "(a)(b)", r"\2\1\&\x", "") == r"baab\x"


@pytest.mark.parametrize(
    ("call", "arguments", "error"),
    [
        (text_calls.integer_in, ("1.5",), InvalidText),
        (text_calls.integer_in, (str(2**63),), NumberOutOfRange),
        (text_calls.boolean_in, ("maybe",), InvalidText),
        (text_calls.character, (0,), ProgramLimitExceeded),
        (text_calls.split_part, ("a", ",", 0), InvalidValue),
        (text_calls.repeated, ("a", 2**31 - 1), ProgramLimitExceeded),
        (text_calls.padded, ("a", 2**31 - 1, "b", False), ProgramLimitExceeded),
        (text_calls.regexp_replace, ("a", "a", "b", "x"), InvalidValue),
        (text_calls.regexp_split, ("abc", ""), FeatureNotSupported),
        (text_calls.parse_ident, ("1a", True), InvalidValue),
        (text_calls.parse_ident, ("a b", True), InvalidValue),
        (text_calls.parse_ident, ('a."', False), InvalidValue),
        (text_calls.parse_ident, ('a.""', False), InvalidValue),
        (text_calls.parse_ident, ("a.", False), InvalidValue),
    ],
)
def test_what_can_not_be_read_is_an_error(
    call: object, arguments: tuple[object, ...], error: type[CatalogQueryError]
) -> None:
    assert callable(call)
    with pytest.raises(error):
        call(*arguments)
