"""Values as text and bytes, compared with what a real PostgreSQL writes and reads.

Generated values go to the server in our binary format and come back in all of its own: text and
binary must be ours to the byte, and decode to the values we began with.
"""

from __future__ import annotations

import operator
import random
import struct
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from waterclock.adapter.api import (
    ColumnDescription,
    CopyHeader,
    CopyIn,
    CopyOptions,
    Format,
    binary_options,
    csv_options,
    text_options,
)
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import (
    PgType,
    array_of,
    column_type,
    format_type,
    numeric,
    type_named,
)
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.copy.encoding import CopyEncoder
from waterclock.pgwire.copy.formats import decoder_of
from waterclock.pgwire.values.binary_out import encode_binary
from waterclock.pgwire.values.building import build, build_lists
from waterclock.pgwire.values.few import encode_few
from waterclock.pgwire.values.jsons import normal_json
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import UTC_ZONE, zone_named
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.service]

ROWS = 3_000
_ORDERED = "(SELECT v FROM v ORDER BY n)"  # a table gives its rows in any order
DAY = 86_400_000_000


@pytest.fixture(scope="module")
def oracle(postgres_server: PostgresServer) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_server.conninfo(), autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        yield connection


def named(name: str) -> PgType:
    return PgType(type_named(name).oid)


def some(rng: random.Random, edges: list[Any], make: Callable[[], Any]) -> list[Any]:
    values = edges + [make() for _ in range(ROWS - len(edges))]
    rng.shuffle(values)
    return [None if rng.random() < 0.05 else value for value in values]


def a_text(rng: random.Random) -> str:
    alphabet = "ab \t\n\r\v\f\b\\\"',{}();.NULL\x7f\x1béßж中🎉"
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(0, 8)))


def an_int(rng: random.Random, bits: int) -> int:
    return rng.randint(0, 2 ** rng.randint(0, bits - 1) - 1) * rng.choice((1, -1))


def a_double(rng: random.Random) -> float:
    match rng.randint(0, 3):
        case 0:
            return struct.unpack("d", rng.randbytes(8))[0]
        case 1:
            return rng.randint(-(10**6), 10**6) / 10 ** rng.randint(0, 6)
        case 2:
            return float(rng.randint(1, 99999)) * 10.0 ** rng.randint(-25, 25)
        case _:
            return 2.0 ** rng.randint(-1074, 1023)


def a_json(rng: random.Random, depth: int = 3) -> str:
    match rng.randint(0, 6 if depth else 3):
        case 0:
            return rng.choice(["null", "true", "false"])
        case 1:
            return rng.choice(
                ["0", "-1.50", "1e3", "12345678901234567890.123", "2E-3", "-0", "-0.0"]
            )
        case 2 | 3:
            return rng.choice(
                ['"a"', '"\\u00e9\\n\\t\\"\\\\"', '"\\ud83c\\udf89"', '"/\\/ \x7f"', '""']
            )
        case 4:
            inner = [f'"{rng.choice("abcd") * rng.randint(0, 3)}" : {a_json(rng, depth - 1)}']
            return "{" + " ,".join(inner * rng.randint(0, 3)) + "}"
        case _:
            return "[ " + ",".join(a_json(rng, depth - 1) for _ in range(rng.randint(0, 3))) + "]"


MICRO_EDGES = [
    *(0, 1, -1, 10, 100_000, -62_135_596_800_000_000, -62_135_596_800_000_001),
    *(253_402_300_800_000_000, 253_402_300_799_999_999, -210_866_803_200_000_000),
    *(2**63 - 1, -(2**63), 9_223_371_331_199_999_999, 951_782_400_000_000, 1_700_000_000_500_000),
]


def scalars(name: str, rng: random.Random) -> list[Any]:
    """Values of a type, as a column is built from them."""
    match name:
        case "bool":
            return some(rng, [True, False], lambda: rng.random() < 0.5)
        case "int2" | "int4" | "int8":
            bits = int(name[3]) * 8
            edges = [-(2 ** (bits - 1)), 2 ** (bits - 1) - 1, 0, -1]
            return some(rng, edges, lambda: an_int(rng, bits))
        case "oid":
            return some(rng, [0, 2**32 - 1], lambda: rng.randint(0, 2**32 - 1))
        case "float8":
            edges = [0.0, -0.0, float("nan"), float("inf"), -float("inf"), 5e-324, 1e15, 1e14, 1e-4]
            edges += [1e-5, 123456789012345.0, 1234567890123456.0, 9007199254740993.0, 1e22, 1e23]
            return some(rng, edges, lambda: a_double(rng))
        case "float4":
            edges = [
                0.0,
                -0.0,
                float("nan"),
                float("inf"),
                -float("inf"),
                1e-45,
                1e5,
                1e6,
                999999.0,
            ]
            return some(rng, edges, lambda: struct.unpack("f", rng.randbytes(4))[0])
        case "numeric":
            edges = [Decimal(0), Decimal("0.000000000000000001"), Decimal("1E19"), Decimal(-10000)]
            return some(
                rng,
                edges,
                lambda: (
                    Decimal(an_int(rng, 90)).scaleb(-rng.randint(8, 18))
                    if rng.random() < 0.7
                    else Decimal(an_int(rng, 50))
                ),
            )
        case "text" | "varchar" | "bpchar" | "name":
            return some(rng, ["", "NULL", "null", "\\N", "\\."], lambda: a_text(rng))
        case "char":
            return some(rng, ["a"], lambda: rng.choice("abcxyz{,"))
        case "bytea":
            return some(
                rng, [b"", b"\0", bytes(range(256))], lambda: rng.randbytes(rng.randint(0, 9))
            )
        case "uuid":
            return some(rng, [bytes(16), b"\xff" * 16], lambda: rng.randbytes(16))
        case "date":
            edges = [2**31 - 1, -(2**31), -2_440_588, 2_145_031_948 + 10_957, -719_162, -719_163, 0]
            return some(rng, edges, lambda: an_int(rng, 22))
        case "time":
            return some(rng, [0, DAY, DAY - 1], lambda: rng.randint(0, DAY))
        case "timestamp" | "timestamptz":
            return some(
                rng, MICRO_EDGES, lambda: rng.choice((an_int(rng, 57), an_int(rng, 40) * 1000))
            )
        case "interval":
            edges = [
                (0, 0, 0),
                (-1, 0, 0),
                (1, -1, 1),
                (-13, 1, -1),
                (0, 0, -(2**60)),
                (2**31 - 1, 0, 0),
            ]
            return some(
                rng,
                edges,
                lambda: (
                    an_int(rng, rng.choice((1, 12))),
                    an_int(rng, rng.choice((1, 12))),
                    an_int(rng, 45) * rng.choice((0, 1)),
                ),
            )
        case "json":
            return some(rng, [], lambda: a_json(rng))
        case "jsonb":
            return some(rng, [], lambda: normal_json(a_json(rng)))
        case _:
            raise AssertionError(name)


def column_of(declared: PgType, values: list[Any]) -> pa.Array:
    target = arrow_type(column_type(declared))
    if pa.types.is_floating(target):
        return pa.array(values, target)
    return build(values, declared)


def arrays_of(declared: PgType, values: list[Any], rng: random.Random) -> pa.Array:
    sizes: list[int | None] = []
    while sum(size or 0 for size in sizes) < len(values):
        left = len(values) - sum(size or 0 for size in sizes)
        sizes.append(None if rng.random() < 0.1 else min(left, rng.randint(0, 4)))
    return build_lists(sizes, column_of(declared, values))


SCALAR_NAMES = [
    *("bool", "int2", "int4", "int8", "oid", "float4", "float8", "numeric", "text", "varchar"),
    *("bpchar", "bytea", "uuid", "date", "time", "timestamp", "timestamptz", "interval", "json"),
    *("jsonb", "char"),
]


def payload(encoder: CopyEncoder, batch: pa.RecordBatch) -> bytes:
    """The data of COPY, without its messages."""
    rows = b"".join(part for _, part in encoder.encode(batch)) + encoder.end()
    messages = encoder.start() + encoder.first(memoryview(rows))
    parts, place = [], 0
    while place < len(messages):
        assert messages[place : place + 1] == b"d"
        (length,) = struct.unpack_from(">i", messages, place + 1)
        parts.append(messages[place + 5 : place + 1 + length])
        place += 1 + length
    return b"".join(parts)


def described(batch: pa.RecordBatch, types: list[PgType]) -> tuple[ColumnDescription, ...]:
    return tuple(
        ColumnDescription(name, kind) for name, kind in zip(batch.schema.names, types, strict=True)
    )


def copied_out(oracle: psycopg.Connection, statement: str) -> bytes:
    with oracle.cursor() as cursor, cursor.copy(statement) as copy:
        return b"".join(bytes(part) for part in copy)


def decoded(
    columns: tuple[ColumnDescription, ...], options: CopyOptions, data: bytes, zone: str = "UTC"
) -> pa.Table:
    decoder = decoder_of(CopyIn(columns, options, None, "t"), zone_named(zone))  # type: ignore[arg-type]
    batches = [
        batch for i in range(0, len(data), 9_999) for batch in decoder.feed(data[i : i + 9_999])
    ]
    return pa.Table.from_batches(batches + decoder.finish())


def same(left: pa.Array | pa.ChunkedArray, right: pa.Array) -> bool:
    """Equal, where NaN equals NaN and the sign of zero counts."""
    left = pa.concat_arrays(left.chunks) if isinstance(left, pa.ChunkedArray) else left
    if pa.types.is_list(right.type):
        shapes = (pc.list_value_length(x) for x in (left, right))
        return operator.eq(*shapes) and same(left.flatten(), right.flatten())
    if pa.types.is_floating(right.type):
        width = np.int32 if right.type == pa.float32() else np.int64
        a, b = (x.fill_null(0).to_numpy(zero_copy_only=False) for x in (left, right))
        both_nan = np.isnan(a) & np.isnan(b)
        return left.is_null().equals(right.is_null()) and bool(
            np.all(both_nan | (a.view(width) == b.view(width)))
        )
    return left.equals(right)


def first_difference(ours: bytes, theirs: bytes) -> str:
    pairs = zip(ours.split(b"\n"), theirs.split(b"\n"), strict=False)
    return next((f"ours {a!r}, theirs {b!r}" for a, b in pairs if a != b), "lengths differ")


def exchange(
    oracle: psycopg.Connection, declared: PgType, column: pa.Array, zone: str = "UTC"
) -> None:
    batch = pa.record_batch([column], names=["v"])
    columns = described(batch, [declared])
    oracle.execute(f"SET timezone = '{zone}'")  # type: ignore[arg-type]
    written = format_type(declared).replace("character[", "bpchar[")
    written = "bpchar" if written == "character" else written
    oracle.execute(f"CREATE TEMPORARY TABLE v (n serial, v {written})")  # type: ignore[arg-type]
    try:
        binary = payload(CopyEncoder(columns, binary_options(), UTC_ZONE), batch)
        with (
            oracle.cursor() as cursor,
            cursor.copy("COPY v (v) FROM STDIN (FORMAT binary)") as copy,
        ):
            copy.write(binary)
        theirs = copied_out(oracle, f"COPY {_ORDERED} TO STDOUT (FORMAT binary)")
        assert theirs == binary
        text = payload(CopyEncoder(columns, text_options(), zone_named(zone)), batch)
        their_text = copied_out(oracle, f"COPY {_ORDERED} TO STDOUT")
        assert text == their_text, first_difference(text, their_text)
        csv = payload(CopyEncoder(columns, csv_options(), zone_named(zone)), batch)
        their_csv = copied_out(oracle, f"COPY {_ORDERED} TO STDOUT (FORMAT csv)")
        assert csv == their_csv, first_difference(csv, their_csv)
    finally:
        oracle.execute("DROP TABLE v")
    assert same(decoded(columns, binary_options(), theirs)["v"], column)
    assert same(decoded(columns, text_options(), their_text, zone)["v"], column)
    assert same(decoded(columns, csv_options(), their_csv, zone)["v"], column)


@pytest.mark.parametrize("name", SCALAR_NAMES)
def test_scalars_are_written_and_read_as_the_server_does(
    oracle: psycopg.Connection, name: str
) -> None:
    values = scalars(name, random.Random(name))
    exchange(oracle, named(name), column_of(named(name), values))


@pytest.mark.parametrize("name", SCALAR_NAMES)
def test_arrays_are_written_and_read_as_the_server_does(
    oracle: psycopg.Connection, name: str
) -> None:
    rng = random.Random(f"array of {name}")
    column = arrays_of(named(name), scalars(name, rng), rng)
    exchange(oracle, array_of(named(name)), column)


@pytest.mark.parametrize(
    "zone",
    [
        *(
            "Europe/Berlin",
            "America/New_York",
            "Asia/Kolkata",
            "America/St_Johns",
            "Africa/Monrovia",
        ),
        *("Australia/Lord_Howe", "Pacific/Apia", "<+02>-02", "<-0330>+03:30", "Europe/Amsterdam"),
    ],
)
def test_zones(oracle: psycopg.Connection, zone: str) -> None:
    rng = random.Random(zone)
    declared = named("timestamptz")
    ours = [
        value
        for value in scalars("timestamptz", rng)
        if value is None or value not in MICRO_EDGES[-3:-2]
    ]
    exchange(oracle, declared, column_of(declared, ours), zone)


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (38, 10), (5, 5), (12, 0)])
def test_declared_scale(oracle: psycopg.Connection, precision: int, scale: int) -> None:
    rng = random.Random(precision)
    declared = numeric(precision, scale)
    limit = 10**precision - 1
    values = [
        Decimal(rng.randint(-limit, limit) // 10 ** rng.randint(0, precision)) for _ in range(500)
    ]
    scaled = [value.scaleb(-scale) for value in values]
    exchange(oracle, declared, column_of(declared, scaled))


INPUTS = {
    "bool": "t f true FALSE yes No on off of o 1 0 2 tr y n x '' ' t '",
    "int2": "1 -1 +1 32767 32768 -32768 -32769 1.0 x '' ' 5 ' 0x1 1_0 --1 99999999999999999999",
    "int4": "1 2147483647 2147483648 -2147483648 007 1e3 '1 2' ٣",
    "int8": "9223372036854775807 9223372036854775808 -9223372036854775808 abc",
    "float8": "1 -0 1e400 1e-400 1e308 NaN nan inf -Infinity +inf 1e 1e5 .5 5. . x '' 1_0 0x1p",
    "float4": "1 3.4e38 3.5e38 1e-46 1e-45 16777217 0.1 x",
    "numeric": "1 -0 .5 5. 1e5 1E-5 x '' 1e 12345678901234567890.5 --1 +1.5",
    "uuid": "00000000-0000-0000-0000-000000000000 {A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11}"
    " a0eebc999c0b4ef8bb6d6bb9bd380a11 a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11 x a0eebc99-9c0b",
    "bytea": r"\x \xDEad '\xde ad' \xabc \xzz abc a\\b a\001b a\9 \\",
    "date": "2024-02-29 2023-02-29 2024-13-01 2024-00-01 20240229 02/29/2024 '2024-01-01 BC'"
    " infinity"
    " -infinity epoch 0001-01-01 0000-01-01 5874897-12-31 5874898-01-01 x '' 2024-1-2 1999-Jan-08"
    " '8 Jan 1999' 'January 8, 1999' 99-01-08 '2024-01-01 10:00:00' 2024-01-32 1/2/3 4714-11-24BC"
    " 1999.008 1999.366 1999.367 99008 J2451187 J0x 990108 Jan-08-1999 'January 8, 99 BC' allballs"
    " 1-2-2024 13-2-2024 01-02-24 1999-008 1999-367 +infinity",
    "time": "10:00 10:00:00.5 24:00:00 24:00:01 25:00 10:60 10:00:60 10:00:61 x '' 1:2:3"
    " 040506 T040506"
    " '04:05 PM' '12:00 AM' '13:00 PM' 10:00:00.9999999 23:59:59.9999999 '04:05:06 UTC'"
    " 04:05:06-08 0405 2560 allballs '04:05 PST'",
    "timestamp": "'2024-02-29 10:00' 2024-02-29T10:00:00 '2024-02-29 10:00:00.123456789' 2024-02-30"
    " '2024-01-01 25:00' x '' '2024-01-01 10:00:00+02' '20240101 101112' 20240101T101112 '1"
    " BC' epoch"
    " '2024-01-01 10:00:00 BC' 'Jan 8 04:05:06 1999' 'Mon Jan 8 1999' infinity '2024-01-01"
    " 24:00:00'"
    " '2024-01-01 10:00:00 Europe/Berlin' '2024-01-01 10:00:00 Nowhere/Land' '4714-01-01 BC'"
    " 20240131T0405 '20240131 0405' '1999.008 04:05' 'J2451187 10:00' '2024-01-01 allballs'",
    "timestamptz": "'2024-02-29 10:00' '2024-02-29 10:00+02' '2024-02-29 10:00:00-0330'"
    " 2024-02-29T10:00:00Z"
    " '2024-07-01 10:00:00 Europe/Berlin' '2024-01-01 10:00:00+16' '2024-01-01 10:00 UTC' x"
    " -infinity"
    " '2024-03-31 02:30:00 Europe/Berlin' '2024-10-27 02:30:00 Europe/Berlin' '2024-01-01"
    " 10:00:00+05:30:15' '1999-07-08 04:05:06 CET' '1999-01-08 04:05:06 PST' '1999-01-08 PDT'"
    " 'Mon Jan 08 04:05:06 1999 PST' '2024-01-01 10:00 NOST'",
    "interval": "'1 day' '1 year 2 mons 3 days 04:05:06.789' P1Y2M3DT4H5M6.5S '@ 1 minute"
    " ago' 1-2 '3 4:05:06'"
    " '1.5 days' '1.5 months' '1.5 years' 1.1y -1 5 '5 seconds' '1:2' '-1:2:3' '1 day -1"
    " hour' '' x '1 x' P PT"
    " '1 week' '2 decades' '1 h 2 m 3 s' '100000000 years' '10 us' '1.0000005 s' P1W"
    " '04:05.5' '1 day 25:00:00'"
    " '-1-2' '+1 day' '1 day 2' 'ago' '1:60:00' '0.5 hours' '2 days ago' P1.5D PT36H P1DT"
    " '1:2:61' '1-13' '99999999999 days' '1e5 days' '1 day 1 day' '1 hour 2:00' '1.5 weeks'"
    " '0.1 decades' P0001-02-03T04:05:06 P1-2-3 P1-2-3T4:5:6.7 P1-2"
    " '1 day, 2 hours' '- 1 day' '- 1-2' '+ 1:02' 1day2hours 1day-2:00 '1.5 us' '-2.5 us 1.5 ms'"
    " '0.0025 ms' 1:02:03.0000005 PT04:05 PT04 PT040506 P00010203 P20010203T040506 P1-2-3T P1-2T4",
    "json": """{} [1,2] '{"a": 1, "a": 2}' nul '' '{"a"}' 1 "x" '[1,]' '{"b":1,"aa":2}'""",
    "jsonb": """{} [1,2] '{"a": 1, "a": 2}' nul '{"b":1,"aa":2}' 1.50 1e2 '"\\u0000"' '  [ 1"
    " ]  ' -0""",
    "int4[]": """{} {1,2} '{ 1 , NULL , 3 }' {1,x} {1,,2} {1 '' 1 {1,2}x '[1:2]={1,2}'"
    " {99999999999}""",
    "text[]": r"""{} {a,"b c",NULL,"NULL"} {"a\"b"} '{a b}' {"a"b} {a"b"} {"\\"} {""} {,} '{"x'""",
    "varchar(3)": "abc abcd 'abc ' ''",
    "char(3)": "abc abcd a 'abc  '",
    "numeric(4,2)": "99.99 99.994 99.995 100 -99.999 0.005 -0.005 1e1",
    "timestamp(2)": "'2024-01-01 10:00:00.125' '2024-01-01 10:00:00.995' '1969-01-01 10:00:00.125'",
}


def corpus() -> Iterator[tuple[str, str]]:
    import shlex

    for name, words in INPUTS.items():
        lexer = shlex.shlex(words, posix=False)
        lexer.whitespace_split, lexer.quotes, lexer.commenters = True, "'", ""
        for word in lexer:
            yield name, word[1:-1] if word.startswith("'") else word


def declared_type(name: str) -> PgType:
    base, _, rest = name.removesuffix("[]").partition("(")
    digits = [int(part) for part in rest.rstrip(")").split(",")] if rest else []
    kind = named(base)
    if base == "numeric" and digits:
        kind = numeric(*digits)
    elif base == "timestamp" and digits:
        kind = PgType(kind.oid, digits[0])
    elif digits:
        kind = PgType(kind.oid, digits[0] + 4)
    return array_of(kind) if name.endswith("[]") else kind


@pytest.mark.parametrize(("name", "text"), list(corpus()))
def test_text_is_read_as_the_server_reads_it(
    oracle: psycopg.Connection, name: str, text: str
) -> None:
    """The same value, or the same error in the same words."""
    oracle.execute("SET timezone = 'UTC'")
    oracle.execute(f"CREATE TEMPORARY TABLE i (v {name})")  # type: ignore[arg-type]
    expected: tuple[Any, ...]
    actual: tuple[Any, ...]
    try:
        with oracle.cursor() as cursor, cursor.copy("COPY i FROM STDIN") as copy:
            copy.write_row([text])
        expected = ("value", copied_out(oracle, "COPY i TO STDOUT (FORMAT binary)")[19:-2])
    except psycopg.Error as error:
        expected = ("error", error.sqlstate, error.diag.message_primary)
    finally:
        oracle.execute("DROP TABLE i")
    declared = declared_type(name)
    try:
        column = decode_text(pa.array([text]), declared, UTC_ZONE)
        field = encode_binary(column, declared)[0].as_py()
        actual = ("value", struct.pack(">hi", 1, len(field)) + field)
    except WaterclockError as error:
        actual = ("error", error.sqlstate, error.message)
    assert actual == expected


@pytest.mark.parametrize(
    ("name", "text", "shown"),
    [
        ("int4[]", "[0:1]={1,2}", "{1,2}"),  # an array does not keep a lower bound
    ],
)
def test_what_is_held_differently(name: str, text: str, shown: str) -> None:
    declared = declared_type(name)
    column = decode_text(pa.array([text]), declared, UTC_ZONE)
    assert encode_text(column, declared, UTC_ZONE).to_pylist() == [shown]


def wide_batch(rng: random.Random) -> tuple[pa.RecordBatch, list[PgType]]:
    """Rows of several types, with texts that need every kind of care."""
    names = ["int4", "text", "float8", "timestamptz", "bool", "bytea", "numeric", "interval"]
    types = [named(name) for name in names]
    arrays = [column_of(kind, scalars(name, rng)) for kind, name in zip(types, names, strict=True)]
    texts = arrays_of(named("text"), scalars("text", rng) * 4, rng).slice(0, ROWS)
    batch = pa.RecordBatch.from_arrays(
        [*arrays, texts], names=[f"c{i}" for i in range(len(names) + 1)]
    )
    return batch, [*types, array_of(named("text"))]


@pytest.mark.parametrize(
    ("options", "sql"),
    [
        (text_options(), ""),
        (
            text_options(delimiter="|", null="NIL", header=CopyHeader.PRESENT),
            "DELIMITER '|', NULL 'NIL', HEADER",
        ),
        (csv_options(), "FORMAT csv"),
        (csv_options(header=CopyHeader.MATCH), "FORMAT csv, HEADER match"),
        (
            csv_options(delimiter=";", null="NULL", quote="'", escape="\\"),
            r"FORMAT csv, DELIMITER ';', NULL 'NULL', QUOTE '''', ESCAPE '\'",
        ),
        (csv_options(force_quote=frozenset({"c1", "c2"})), "FORMAT csv, FORCE_QUOTE (c1, c2)"),
        (binary_options(), "FORMAT binary"),
    ],
)
def test_copy_of_a_table_is_the_servers(
    oracle: psycopg.Connection, options: CopyOptions, sql: str
) -> None:
    """The server reads our data; its own is ours to the byte, and reads back as the rows."""
    oracle.execute("SET timezone = 'UTC'")
    batch, types = wide_batch(random.Random(sql))
    columns = described(batch, types)
    data = payload(CopyEncoder(columns, options, UTC_ZONE), batch)
    body = ", ".join(f"{column.name} {format_type(column.type)}" for column in columns)
    wanted = ", ".join(column.name for column in columns)
    oracle.execute(f"CREATE TEMPORARY TABLE w ({body}, n serial)")  # type: ignore[arg-type]
    try:
        reading = sql.replace(", FORCE_QUOTE (c1, c2)", "")
        with (
            oracle.cursor() as cursor,
            cursor.copy(
                f"COPY w ({wanted}) FROM STDIN ({reading})"
                if reading
                else f"COPY w ({wanted}) FROM STDIN"
            ) as copy,
        ):
            copy.write(data)
        sending = sql.replace("HEADER match", "HEADER")
        query = f"(SELECT {wanted} FROM w ORDER BY n)"
        theirs = copied_out(
            oracle, f"COPY {query} TO STDOUT" + (f" ({sending})" if sending else "")
        )
    finally:
        oracle.execute("DROP TABLE w")
    assert data == theirs, first_difference(data, theirs)
    table = decoded(columns, options, data)
    assert all(same(table[name], batch.column(name)) for name in batch.schema.names)


@pytest.mark.parametrize("digits", [-15, -12, -5, -1, 0, 1, 3])
@pytest.mark.parametrize("kind", ["float4", "float8"])
def test_floats_have_the_digits_that_are_asked_for(
    oracle: psycopg.Connection, kind: str, digits: int
) -> None:
    rng = random.Random(digits)
    edges = ["0", "-0", "NaN", "Infinity", "-Infinity", "1e-5", "0.0001", "123456.5", "1e15", "1e6"]
    made = [f"{rng.uniform(-10, 10)}e{rng.randint(-30, 30)}" for _ in range(300)]
    texts = [*edges, *made, *(str(rng.randint(-(10**9), 10**9)) for _ in range(50))]
    oracle.execute(f"SET extra_float_digits = {digits}".encode())
    cursor = oracle.execute(f"SELECT v::{kind} FROM unnest(%s::text[]) AS v".encode(), [texts])
    result = cursor.pgresult
    assert result is not None
    theirs = [(result.get_value(row, 0) or b"").decode() for row in range(result.ntuples)]
    oracle.execute("RESET extra_float_digits")
    column = decode_text(pa.array(texts), named(kind), UTC_ZONE)
    zone = zone_named("UTC", float_digits=digits)
    assert encode_text(column, named(kind), zone).to_pylist() == theirs
    for text, right in zip(texts, theirs, strict=True):
        value = decode_text(pa.array([text]), named(kind), zone)
        few = encode_few(value, named(kind), Format.TEXT, zone)
        assert few in (None, [right.encode()])
