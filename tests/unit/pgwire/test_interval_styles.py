"""Intervals in the four styles of PostgreSQL 15, to which all of this was shown."""

from __future__ import annotations

import pyarrow as pa
import pytest

from waterclock.errors import WaterclockError
from waterclock.model.manner import IntervalStyle, Manner
from waterclock.model.pg_types import PgType
from waterclock.pgwire.values.intervals import parse_interval
from waterclock.pgwire.values.intervals_out import format_interval
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import zone_named, zone_of
from waterclock.server.wiring import read_text

INTERVAL, INTERVALS = PgType(1186), PgType(1187)

# Months, days and microseconds, and their text in the order of `IntervalStyle`.
SHOWN = """
0 0 0 | 00:00:00 | @ 0 | 0 | PT0S
12 0 0 | 1 year | @ 1 year | 1-0 | P1Y
-12 0 0 | -1 years | @ 1 year ago | -1-0 | P-1Y
1 0 0 | 1 mon | @ 1 mon | 0-1 | P1M
-1 0 0 | -1 mons | @ 1 mon ago | -0-1 | P-1M
14 0 0 | 1 year 2 mons | @ 1 year 2 mons | 1-2 | P1Y2M
-14 0 0 | -1 years -2 mons | @ 1 year 2 mons ago | -1-2 | P-1Y-2M
0 1 0 | 1 day | @ 1 day | 1 0:00:00 | P1D
0 -1 0 | -1 days | @ 1 day ago | -1 0:00:00 | P-1D
0 2 0 | 2 days | @ 2 days | 2 0:00:00 | P2D
0 -3 -43200000000 | -3 days -12:00:00 | @ 3 days 12 hours ago | -3 12:00:00 | P-3DT-12H
0 0 1000000 | 00:00:01 | @ 1 sec | 0:00:01 | PT1S
0 0 -1000000 | -00:00:01 | @ 1 sec ago | -0:00:01 | PT-1S
0 0 1500000 | 00:00:01.5 | @ 1.5 secs | 0:00:01.5 | PT1.5S
0 0 -1 | -00:00:00.000001 | @ 0.000001 secs ago | -0:00:00.000001 | PT-0.000001S
0 0 59999999 | 00:00:59.999999 | @ 59.999999 secs | 0:00:59.999999 | PT59.999999S
0 0 60000000 | 00:01:00 | @ 1 min | 0:01:00 | PT1M
0 0 3723040000 | 01:02:03.04 | @ 1 hour 2 mins 3.04 secs | 1:02:03.04 | PT1H2M3.04S
0 0 -3723040000 | -01:02:03.04 | @ 1 hour 2 mins 3.04 secs ago | -1:02:03.04 | PT-1H-2M-3.04S
0 0 360000000000 | 100:00:00 | @ 100 hours | 100:00:00 | PT100H
1 -1 0 | 1 mon -1 days | @ 1 mon -1 days | +0-1 -1 +0:00:00 | P1M-1D
-1 1 0 | -1 mons +1 day | @ 1 mon -1 days ago | -0-1 +1 +0:00:00 | P-1M1D
1 0 1000000 | 1 mon 00:00:01 | @ 1 mon 1 sec | +0-1 +0 +0:00:01 | P1MT1S
-1 -1 -1000000 | -1 mons -1 days -00:00:01 | @ 1 mon 1 day 1 sec ago | -0-1 -1 -0:00:01 | \
P-1M-1DT-1S
-1 1 -1000000 | -1 mons +1 day -00:00:01 | @ 1 mon -1 days 1 sec ago | -0-1 +1 -0:00:01 | P-1M1DT-1S
0 1 -1000000 | 1 day -00:00:01 | @ 1 day -1 sec | +0-0 +1 -0:00:01 | P1DT-1S
0 -1 3601000000 | -1 days +01:00:01 | @ 1 day -1 hours -1 sec ago | +0-0 -1 +1:00:01 | P-1DT1H1S
14 3 14706700000 | 1 year 2 mons 3 days 04:05:06.7 | \
@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs | +1-2 +3 +4:05:06.7 | P1Y2M3DT4H5M6.7S
-14 -3 -14706700000 | -1 years -2 mons -3 days -04:05:06.7 | \
@ 1 year 2 mons 3 days 4 hours 5 mins 6.7 secs ago | -1-2 -3 -4:05:06.7 | P-1Y-2M-3DT-4H-5M-6.7S
-14 3 14706700000 | -1 years -2 mons +3 days 04:05:06.7 | \
@ 1 year 2 mons -3 days -4 hours -5 mins -6.7 secs ago | -1-2 +3 +4:05:06.7 | P-1Y-2M3DT4H5M6.7S
14 -3 14706700000 | 1 year 2 mons -3 days +04:05:06.7 | \
@ 1 year 2 mons -3 days 4 hours 5 mins 6.7 secs | +1-2 -3 +4:05:06.7 | P1Y2M-3DT4H5M6.7S
2147483647 2147483647 9223372036854775807 | \
178956970 years 7 mons 2147483647 days 2562047788:00:54.775807 | \
@ 178956970 years 7 mons 2147483647 days 2562047788 hours 54.775807 secs | \
+178956970-7 +2147483647 +2562047788:00:54.775807 | \
P178956970Y7M2147483647DT2562047788H54.775807S
"""


@pytest.mark.parametrize("line", SHOWN.strip().splitlines())
def test_an_interval_is_shown_and_read_in_every_style(line: str) -> None:
    fields, *texts = line.split(" | ")
    expected = dict(zip(IntervalStyle, texts, strict=True))
    months, days, micros = (int(field) for field in fields.split())
    assert {style: format_interval(months, days, micros, style) for style in expected} == expected
    for style, text in expected.items():
        assert parse_interval(text, style) == (months, days, micros)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("-1 2:03:04", "P-1DT-2H-3M-4S"),
        ("-1-2 3 4:05:06", "P-1Y-2M-3DT-4H-5M-6S"),
        ("-1 day 2 hours", "P-1DT-2H"),
        ("-1 day +2 hours", "P-1DT2H"),
        ("-1 day 2 weeks", "P-15D"),
        ("-1 day 2 hours ago", "P1DT2H"),
        ("1 day -2 hours", "P1DT-2H"),
        ("-1.5 days 2:00", "P-1DT-14H"),
        ("- 1 mon 3", "P-1MT-3S"),
        ("P-1DT2H", "P-1DT2H"),
    ],
)
def test_in_the_style_of_the_standard_the_first_sign_is_that_of_all(text: str, read: str) -> None:
    found = parse_interval(text, IntervalStyle.SQL_STANDARD)
    assert format_interval(*found, IntervalStyle.ISO_8601) == read


def test_columns_and_arrays_are_written_in_the_style_of_the_session() -> None:
    zone = zone_named("UTC", IntervalStyle.ISO_8601)
    assert zone is zone_of(Manner("UTC", IntervalStyle.ISO_8601))
    texts = pa.array(["-1 mons +2 days", None, "00:00:00"], pa.string())
    column = decode_text(texts, INTERVAL, zone)
    assert encode_text(column, INTERVAL, zone).to_pylist() == ["P-1M2D", None, "PT0S"]
    assert encode_text(column, INTERVAL, zone_named("UTC")).to_pylist() == texts.to_pylist()
    lists = decode_text(pa.array(["{1 day 02:00:00,NULL}"], pa.string()), INTERVALS, zone)
    verbose = zone_named("UTC", IntervalStyle.POSTGRES_VERBOSE)
    assert encode_text(lists, INTERVALS, verbose).to_pylist() == ['{"@ 1 day 2 hours",NULL}']


def test_a_constant_that_the_style_would_change_is_refused() -> None:
    standard = Manner("UTC", IntervalStyle.SQL_STANDARD)
    plain = read_text("-1 day -02:00", INTERVAL, standard)
    assert plain.equals(read_text("-1 day -02:00", INTERVAL, Manner("UTC")))
    with pytest.raises(WaterclockError) as caught:
        read_text("-1 day 02:00", INTERVAL, standard)
    assert caught.value.sqlstate == "0A000"
    assert "IntervalStyle" in (caught.value.hint or "")
