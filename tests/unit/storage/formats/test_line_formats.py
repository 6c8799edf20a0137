"""TEXT, BYTES and CSV."""

from __future__ import annotations

import datetime
import decimal
import pickle
import uuid

import pyarrow as pa
import pytest

from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    Column,
    Date,
    Decimal,
    Int,
    Json,
    Text,
    Timestamp,
    Uuid,
)
from waterclock.storage.formats.csv_format import CsvLine
from waterclock.storage.formats.plain_format import BytesValue, TextValue
from waterclock.storage.sources.errors import InvalidSource


def payloads(*given: bytes | None) -> pa.Array:
    return pa.array(given, pa.binary())


def test_text() -> None:
    fine = TextValue("text").decode(payloads(b"a", None, "é".encode()))
    assert fine.columns[0].to_pylist() == ["a", None, "é"]
    assert fine.errors.null_count == 3
    mixed = TextValue("text").decode(payloads(b"a", b"\xff", b"x\0", None))
    assert mixed.columns[0].to_pylist() == ["a", None, None, None]
    assert mixed.errors.to_pylist() == [
        None,
        "it is not text in UTF-8",
        "it has a zero byte, which text can not have",
        None,
    ]


def test_bytes() -> None:
    found = BytesValue("data").decode(payloads(b"\xff\0", None))
    assert found.columns[0].to_pylist() == [b"\xff\0", None]
    assert found.errors.null_count == 2


def csv(*columns: Column, delimiter: str = ",") -> CsvLine:
    found: CsvLine = pickle.loads(pickle.dumps(CsvLine(columns, delimiter)))
    return found


def test_fields_of_csv() -> None:
    two = csv(Column("a", Text()), Column("b", Text()))
    found = two.decode(payloads(b"x,y", b'"a,""b",', b"one", b"1,2,3\r\n", None, b"\xff,"))
    assert [c.to_pylist() for c in found.columns] == [
        ["x", 'a,"b', None, None, None, None],
        ["y", "", None, None, None, None],
    ]
    assert found.errors.to_pylist() == [
        None,
        None,
        "there are 2 columns, and the line has 1",
        "there are 2 columns, and the line has 3",
        None,
        "it is not text in UTF-8",
    ]
    semicolons = csv(Column("a", Text()), Column("b", Text()), delimiter=";")
    assert semicolons.decode(payloads(b"a,b;c")).columns[0].to_pylist() == ["a,b"]
    assert csv(Column("a", Text())).decode(payloads()).columns[0].to_pylist() == []


def test_typed_fields() -> None:
    line = csv(
        Column("i", Int(32)),
        Column("t", Text()),
        Column("d", Decimal(5, 2)),
        Column("day", Date()),
        Column("at", Timestamp(False)),
        Column("b", Bool()),
        Column("u", Uuid()),
        Column("j", Json()),
        Column("x", Bytes()),
    )
    identity = uuid.UUID(int=7)
    good = f"7,,1.5,2024-01-02,2024-01-02 03:04:05,true,{identity},[1],\\x6869".encode()
    found = line.decode(payloads(good, b",,,,,,,,"))
    assert found.errors.null_count == 2
    assert [c[0].as_py() for c in found.columns] == [
        7,
        "",
        decimal.Decimal("1.50"),
        datetime.date(2024, 1, 2),
        datetime.datetime(2024, 1, 2, 3, 4, 5),
        True,
        identity.bytes,
        "[1]",
        b"hi",
    ]
    assert [c[1].as_py() for c in found.columns] == [None, "", *[None] * 7]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (Column("c", Int(16)), "40000"),
        (Column("c", Int(64)), "x"),
        (Column("c", Date()), "2024-13-01"),
        (Column("c", Bool()), "maybe"),
        (Column("c", Uuid()), "12"),
        (Column("c", Json()), "{"),
        (Column("c", Bytes()), "hi"),
    ],
)
def test_fields_of_another_type(column: Column, text: str) -> None:
    found = csv(column).decode(payloads(text.encode(), b""))
    assert found.columns[0].to_pylist() == [None, None]
    assert found.errors.to_pylist() == [f'invalid value for column "c": "{text}"', None]


def test_types_that_text_is_not_read_as() -> None:
    with pytest.raises(InvalidSource, match='column "c"'):
        csv(Column("c", Array(Int(32)))).decode(payloads(b"x"))


def test_csv_that_is_none_is_an_error_and_long_fields_are_not() -> None:
    two = CsvLine((Column("a", Text()), Column("b", Text())), ",")
    long = "x" * 200_000
    decoded = two.decode(pa.array([b'\r"",1', f'"{long}",2'.encode(), b"a,b"]))
    assert decoded.errors.to_pylist() == ["the line is not CSV", None, None]
    assert [column.to_pylist() for column in decoded.columns] == [
        [None, long, "a"],
        [None, "2", "b"],
    ]
