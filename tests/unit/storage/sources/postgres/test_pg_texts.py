"""Values from PostgreSQL's text, exactly or not at all. What the server itself writes for many more
is tried in the integration tests.
"""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.pg_types import (
    BOOL,
    BYTEA,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    JSONB,
    NUMERIC,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    PgType,
    array_of,
    column_type,
    numeric,
)
from waterclock.persist.numerics import parts_of
from waterclock.persist.rows import arrow_type
from waterclock.storage.sources.postgres.array_texts import Unholdable, elements_of
from waterclock.storage.sources.postgres.moments import date_of, moment_of, time_of
from waterclock.storage.sources.postgres.texts import decode

WIDE = Decimal("12345678901234567890." + "0" * 17 + "1")
ID = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
EARLY = datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)


def span(months: int, days: int, micros: int) -> dict[str, int]:
    return {"months": months, "days": days, "micros": micros}


def held(texts: list[str | None], declared: PgType) -> list[Any]:
    values = decode(pa.array(texts, pa.string()), declared)
    assert values.column.type == arrow_type(column_type(declared))
    assert not values.wrong
    return list(values.column.to_pylist())


@pytest.mark.parametrize(
    ("declared", "text", "value"),
    [
        (BOOL, "t", True),
        (BOOL, "f", False),
        (INT2, "-32768", -32768),
        (INT4, "2147483647", 2147483647),
        (INT8, "-9223372036854775808", -(2**63)),
        (FLOAT4, "1.5e-05", pytest.approx(1.5e-5)),
        (FLOAT8, "-Infinity", float("-inf")),
        (NUMERIC, str(WIDE), parts_of(WIDE)),
        (NUMERIC, "-1.50", parts_of(Decimal("-1.50"))),
        (numeric(4, 2), "-12.30", Decimal("-12.30")),
        (TEXT, "a\u0301 \n", "a\u0301 \n"),
        (JSONB, '{"a": 1}', '{"a": 1}'),
        (BYTEA, "\\x00ff", b"\x00\xff"),
        (BYTEA, "\\x", b""),
        (UUID, str(ID), ID.bytes),
        (DATE, "2024-02-29", datetime.date(2024, 2, 29)),
        (TIME, "23:59:59.000001", datetime.time(23, 59, 59, 1)),
        (TIMESTAMP, "2024-02-29 23:59:59.5", datetime.datetime(2024, 2, 29, 23, 59, 59, 500000)),
        (TIMESTAMPTZ, "1969-12-31 23:59:59+00", EARLY),
        (INTERVAL, "-1 years +2 mons -3 days +00:00:06.7", span(-10, -3, 6700000)),
        (INTERVAL, "-00:00:00.000001", span(0, 0, -1)),
        (INTERVAL, "00:00:00", span(0, 0, 0)),
        (INTERVAL, "1 mon", span(1, 0, 0)),
        (array_of(INT4), "{1,NULL,3}", [1, None, 3]),
        (array_of(TEXT), '{a,"",NULL,"NULL","q\\"\\\\ ,{}"}', ["a", "", None, "NULL", 'q"\\ ,{}']),
        (array_of(TEXT), "{}", []),
    ],
)  # fmt: skip
def test_values(declared: PgType, text: str, value: Any) -> None:
    assert held([text], declared) == [value]
    assert held([None, text, None], declared) == [None, value, None]
    assert held([text] * 3, declared) == [value] * 3
    assert held([], declared) == []


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        (NUMERIC, "NaN"),
        (NUMERIC, "Infinity"),
        (NUMERIC, "0." + "0" * 36 + "1"),
        (NUMERIC, "1" + "0" * 38),
        (numeric(4, 2), "123.45"),
        (INTERVAL, "infinity"),
        (array_of(INT4), "{{1,2},{3,4}}"),
        (array_of(INT4), "[0:1]={1,2}"),
        (array_of(NUMERIC), "{1,NaN}"),
    ],
)
def test_what_can_not_be_held_is_told_and_not_rounded(declared: PgType, text: str) -> None:
    values = decode(pa.array([None, text, None], pa.string()), declared)
    assert list(values.wrong) == [1]
    assert values.column.null_count == 3
    assert text in values.wrong[1] or "NaN" in values.wrong[1]


def test_the_unusual_among_the_usual() -> None:
    texts = pa.array(
        ["2024-01-01", "infinity", "-infinity", "0044-03-15 BC", "5874897-12-31", None]
    )
    days = decode(texts, DATE).column.view(pa.int32()).to_pylist()
    assert days == [19723, 2**31 - 1, -(2**31), -735160, 2145042905, None]
    texts = pa.array(["2024-01-01 00:00:00+00", "infinity", "4714-11-24 00:00:00+00 BC"])
    micros = decode(texts, TIMESTAMPTZ).column.view(pa.int64()).to_pylist()
    assert micros == [1704067200000000, 2**63 - 1, -210866803200000000]
    assert time_of("24:00:00") == 86_400_000_000


@given(st.dates())
def test_days_are_those_of_the_calendar(day: datetime.date) -> None:
    assert date_of(day.isoformat()) == (day - datetime.date(1970, 1, 1)).days


@given(st.datetimes())
def test_moments_are_those_of_the_calendar(moment: datetime.datetime) -> None:
    since = moment - datetime.datetime(1970, 1, 1)
    micros = (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    text = moment.isoformat(" ").removesuffix(".000000")
    assert moment_of(text) == micros
    assert decode(pa.array([text]), TIMESTAMP).column.view(pa.int64()).to_pylist() == [micros]


@given(st.lists(st.none() | st.text(st.characters(codec="utf-8", exclude_characters="\0"))))
def test_elements_that_were_written_are_read(elements: list[str | None]) -> None:
    def written(element: str | None) -> str:
        if element is None:
            return "NULL"
        escaped = element.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'

    assert elements_of("{" + ",".join(map(written, elements)) + "}") == elements


def test_a_text_that_is_no_array() -> None:
    with pytest.raises(Unholdable):
        elements_of('{"a}')
