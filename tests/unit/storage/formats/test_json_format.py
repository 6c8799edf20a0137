"""JSON as one value and as columns."""

from __future__ import annotations

import datetime
import decimal
import json
import pickle
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    Column,
    ColumnType,
    Date,
    Decimal,
    Field,
    Float,
    Int,
    Interval,
    Json,
    Struct,
    Text,
    TimeOfDay,
    Timestamp,
    Uuid,
)
from waterclock.pgwire.values.errors import InvalidCharacter, InvalidText
from waterclock.pgwire.values.jsons import normal_json
from waterclock.storage.formats.json_format import JsonFields, JsonValue
from waterclock.storage.formats.jsonb import normal_form
from waterclock.storage.sources.errors import InvalidSource

UUID = uuid.UUID("0123456789abcdef0123456789abcdef")


def decoded(kind: ColumnType, value: str, *, nullable: bool = True) -> Any:
    """The value of a field of that type, or what is wrong with it."""
    columns = (Column("other", Text()), Column("a b", kind, nullable))
    fields = pickle.loads(pickle.dumps(JsonFields(columns)))
    found = fields.decode(pa.array([f'{{"a b": {value}, "unknown": [1]}}'.encode()], pa.binary()))
    error = found.errors[0].as_py()
    value = found.columns[1][0].as_py()
    assert (error is None) or value is None
    return ValueError(error) if error is not None else value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (Bool(), "true", True),
        (Int(16), "-32768", -32768),
        (Int(64), "9223372036854775807", 2**63 - 1),
        (Float(64), "1.5e3", 1500.0),
        (Float(64), "3", 3.0),
        (Decimal(20, 2), "123456789012345678.125", decimal.Decimal("123456789012345678.13")),
        (Decimal(5, 2), '"1.5"', decimal.Decimal("1.50")),
        (Text(), '"caf\\u00e9"', "café"),
        (Text(), "null", None),
        (Bytes(), '"aGk="', b"hi"),
        (Date(), '"2024-02-29"', datetime.date(2024, 2, 29)),
        (TimeOfDay(), '"12:30:00.5"', datetime.time(12, 30, 0, 500000)),
        (Timestamp(False), '"2024-01-01T00:00:00"', datetime.datetime(2024, 1, 1)),
        (
            Timestamp(True),
            '"2024-01-01T02:00:00+02:00"',
            datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
        ),
        (Uuid(), f'"{UUID}"', UUID.bytes),
        (Json(), '{"b": 1.0, "a": [1e2]}', '{"a": [100], "b": 1.0}'),
        (Json(), "null", None),
        (Array(Int(32)), "[1, null, 3]", [1, None, 3]),
        (Array(Uuid()), f'["{UUID}", null]', [UUID.bytes, None]),
        (Array(Json()), '[{"b":1}, 2]', ['{"b": 1}', "2"]),
        (
            Struct((Field("x", Int(32)), Field("y", Json()))),
            '{"y": [1,2]}',
            {"x": None, "y": "[1, 2]"},
        ),
    ],
)
def test_values(kind: ColumnType, text: str, value: Any) -> None:
    assert decoded(kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text", "wrong"),
    [
        (Int(16), "32768", "Expected `int` <= 32767 - at `$.a b`"),
        (Float(32), "1e39", "Expected `float` <="),
        (Int(64), "1.0", "Expected `int | null`, got `float` - at `$.a b`"),
        (Int(64), '"1"', "Expected `int | null`, got `str` - at `$.a b`"),
        (Text(), "1", "Expected `str | null`, got `int` - at `$.a b`"),
        (Text(), '"a\\u0000"', "\\u0000 can not be converted to text"),
        (Decimal(3, 2), "10", 'the value of "a b" is out of range'),
        (Decimal(3, 2), '"NaN"', "NaN is not a number"),
        (Timestamp(True), '"2024-01-01T00:00:00"', "Expected `datetime` with a timezone component"),
        (Date(), '"2024-02-30"', "Invalid RFC3339 encoded date"),
        (Json(), '{"a": 1e999999}', "a number is too large"),
    ],
)
def test_values_of_another_type(kind: ColumnType, text: str, wrong: str) -> None:
    found = decoded(kind, text)
    assert isinstance(found, ValueError)
    assert wrong in str(found)


def test_a_field_that_must_be_there() -> None:
    assert "null" in str(decoded(Int(32), "null", nullable=False))
    fields = JsonFields((Column("a", Int(32), False), Column("b", Text())))
    found = fields.decode(pa.array([b"{}", b"[]", b"{", None, b'{"a": 1}'], pa.binary()))
    assert found.columns[0].to_pylist() == [None, None, None, None, 1]
    assert found.errors.to_pylist() == [
        "Object missing required field `a`",
        "Expected `object`, got `array`",
        "Input data was truncated",
        None,
        None,
    ]


def test_an_interval_is_no_json() -> None:
    with pytest.raises(InvalidSource, match="interval"):
        JsonFields((Column("a", Interval()),))


def test_one_value() -> None:
    payloads = pa.array([b'{"b":1,"aa":2}', None, b"{", b'"\xff"', b"[" * 100_000], pa.binary())
    found = JsonValue("data").decode(payloads)
    assert found.columns[0].to_pylist() == ['{"b": 1, "aa": 2}', None, None, None, None]
    assert found.errors.to_pylist()[:4] == [
        None,
        None,
        "Input data was truncated",
        "it is not text in UTF-8",
    ]
    assert found.errors[4].as_py() in ("it is nested too deeply", "Input data was truncated")


NUMBERS = st.one_of(
    st.integers().map(str),
    st.decimals(allow_nan=False, allow_infinity=False).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
).map(lambda text: text.replace("E", "e"))
STRINGS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def _quoted(value: str) -> str:
    return json.dumps(value)


def _written(value: Any) -> str:
    match value:
        case dict():
            return "{" + ",".join(f"{_quoted(k)}: {_written(v)}" for k, v in value.items()) + "}"
        case list():
            return "[ " + ",".join(map(_written, value)) + "]"
        case _:
            return str(value)


SCALARS = st.one_of(NUMBERS, STRINGS.map(_quoted), st.sampled_from(["true", "false", "null"]))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(STRINGS, inner, max_size=4)
    ),
    max_leaves=8,
)


@given(VALUES)
def test_the_normal_form_is_that_of_jsonb(value: Any) -> None:
    text = _written(value)
    try:
        expected = normal_json(text)
    except (InvalidText, InvalidCharacter):
        with pytest.raises(ValueError, match=r"large|u0000"):
            normal_form(text.encode())
    else:
        assert normal_form(text.encode()) == expected
