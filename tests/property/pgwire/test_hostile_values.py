"""Whatever bytes come for a value, of whatever type, in either format: it is read, or refused with
an error of its class. Nothing else is ever raised.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.errors import WaterclockError
from waterclock.model.manner import IntervalStyle
from waterclock.model.pg_types import PgType
from waterclock.pgwire.values.binary_in import decode_binary
from waterclock.pgwire.values.errors import decode_utf8
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.zones import zone_named
from waterclock.testing.examples import examples

SCALARS = (
    *(16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 700, 701, 1042, 1043),
    *(1082, 1083, 1114, 1184, 1186, 1700, 2950, 3802),
)
ARRAYS = (1000, 1001, 1005, 1007, 1016, 1009, 1021, 1022, 1182, 1183, 1115, 1185, 1187, 1231, 2951)
TYPES = [
    *(PgType(oid) for oid in (*SCALARS, *ARRAYS)),
    PgType(1700, (10 << 16 | 2) + 4),
    PgType(1043, 4 + 3),
    PgType(1042, 4 + 3),
    PgType(1186, 0x7FFF << 16 | 3),
]
ALLOWED = ("22", "54", "0A000", "08P01")
ZONES = [zone_named("UTC", IntervalStyle.POSTGRES), zone_named("UTC", IntervalStyle.SQL_STANDARD)]

DIGITS = "9" * 131_073
LONG_TEXTS = [
    DIGITS,
    f"-{DIGITS}",
    f"{DIGITS} days",
    f"1 {DIGITS}",
    f"P{DIGITS}Y",
    f"PT{DIGITS}S",
    f"{DIGITS}:{DIGITS}:{DIGITS}",
    f"{DIGITS}-{DIGITS}",
    f"0.{DIGITS}",
    f"1e{DIGITS}",
    f"1e-{DIGITS}",
    f"{DIGITS}-01-01",
    f"2020-01-01 00:00:00.{DIGITS}",
    f"2020-01-01 00:00:00+{DIGITS}",
    f"0x{DIGITS}",
    f"\\x{DIGITS}",
    "{" * 100_000,
    "{" * 50_000 + "}" * 50_000,
    "{" + "1," * 100_000 + "1}",
    "[" * 100_000,
    "[" * 50_000 + "]" * 50_000,
    '{"a":' * 50_000 + "1" + "}" * 50_000,
    '"' * 100_000,
    " " * 200_000,
    " " * 200_000 + "x",
    "1 " * 100_000,
    "1 day " * 50_000,
    "a" * 200_000,
    "-" * 200_000,
    "1_" * 100_000,
    f"[1:{DIGITS}]={{1}}",
]


def reads_or_refuses(data: bytes, declared: PgType, *, binary: bool, style: int) -> None:
    refused = None
    try:
        if binary:
            decode_binary([data], declared)
        else:
            decode_text(pa.array([decode_utf8(data)], pa.string()), declared, ZONES[style])
    except WaterclockError as error:
        refused = error
    assert refused is None or refused.sqlstate.startswith(ALLOWED), refused


PIECES = st.sampled_from(
    [
        *("infinity", "-inf", "nan", "NaN", "1e400", "BC", "AD", "epoch", "allballs", "now", "P1Y"),
        *("2020-01-01", "24:00:00", "+99", "{", "}", '"', "\\", "NULL", ",", "[1:2]=", "null", "T"),
        *("days", "1", "-", ".", ":", " ", "e", "0x", "years ago", "µs", "٣", "\U0001f600", "1:"),
    ]
)


@examples(400)
@given(
    data=st.one_of(
        st.binary(max_size=64),
        st.lists(PIECES, max_size=12).map("".join).map(str.encode),
        st.text(max_size=40).map(lambda text: text.encode("utf-8", "surrogatepass")),
    ),
    declared=st.sampled_from(TYPES),
    binary=st.booleans(),
    style=st.sampled_from([0, 1]),
)
def test_any_bytes_are_read_or_refused(
    data: bytes, declared: PgType, binary: bool, style: int
) -> None:
    reads_or_refuses(data, declared, binary=binary, style=style)


@pytest.mark.parametrize("declared", TYPES, ids=str)
def test_huge_texts_are_read_or_refused(declared: PgType) -> None:
    for text in LONG_TEXTS:
        reads_or_refuses(text.encode(), declared, binary=False, style=0)


@examples(200)
@given(
    head=st.binary(max_size=24),
    repeated=st.binary(min_size=1, max_size=4),
    count=st.integers(1, 50_000),
    declared=st.sampled_from(TYPES),
)
def test_long_bytes_are_read_or_refused(
    head: bytes, repeated: bytes, count: int, declared: PgType
) -> None:
    reads_or_refuses(head + repeated * count, declared, binary=True, style=0)
