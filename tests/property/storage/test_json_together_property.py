"""Messages of JSON that are decoded together are what they are when each is decoded alone."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import (
    Array,
    Column,
    Decimal,
    Field,
    Float,
    Int,
    Json,
    Struct,
    Text,
    Timestamp,
    Uuid,
)
from waterclock.storage.formats.json_format import JsonFields
from waterclock.storage.formats.rowwise import decode_rows
from waterclock.testing.examples import examples

INNER = Struct((Field("a", Int(32)), Field("b", Array(Text()))))
COLUMNS = (
    Column("i", Int(64), nullable=False),
    Column("t", Text()),
    Column("f", Float(64)),
    Column("d", Decimal(10, 2)),
    Column("at", Timestamp(True)),
    Column("u", Uuid()),
    Column("j", Json()),
    Column("s", INNER),
    Column("n", Struct((Field("deep", INNER), Field("x", Int(16), nullable=False)))),
)


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), values)


TEXTS = st.text(max_size=6)
INNERS = st.fixed_dictionaries(
    {}, optional={"a": maybe(st.integers(-5, 5)), "b": maybe(st.lists(maybe(TEXTS), max_size=3))}
)
ROWS = st.fixed_dictionaries(
    {"i": st.integers(-(2**63), 2**63 - 1)},
    optional={
        "t": maybe(TEXTS),
        "f": maybe(st.floats(allow_nan=False, allow_infinity=False)),
        "d": maybe(st.sampled_from([1, 2.5, 0.125, 99999999])),
        "at": maybe(st.just("2026-01-02T03:04:05Z")),
        "u": maybe(st.just("00000000-0000-0000-0000-00000000000a")),
        "j": maybe(st.recursive(st.integers(0, 9), lambda c: st.lists(c, max_size=2))),
        "s": maybe(INNERS),
        "n": maybe(st.fixed_dictionaries({"x": st.integers(0, 9)}, optional={"deep": INNERS})),
        "other": st.integers(0, 9),
    },
)
ODD = st.sampled_from(
    [
        b"",
        b"null",
        b"[]",
        b'{"i": "1"}',
        b'{"i": 1}\n{"i": 2}',
        b'{"i": 1}\n',
        b'\n{"i": 1}',
        b'{\n"i": 1}',
        b'{"i": 1, "t": "\\u0000"}',
        b'{"i": 1, "t": "\\\\u0000"}',
        b'{"i": 1, "d": 1e40}',
        b'{"i": 99999999999999999999}',
        b'{"i": 1, "t": "\xff"}',
    ]
)
PAYLOADS = st.one_of(
    st.none(),
    ROWS.map(lambda row: json.dumps(row).encode()),
    ROWS.map(lambda row: json.dumps(row).encode()),
    ODD,
)


@examples(300)
@given(st.lists(PAYLOADS, max_size=6))
def test_together_as_alone(payloads: list[bytes | None]) -> None:
    wanted = JsonFields(COLUMNS)
    given = pa.array(payloads, pa.binary())
    together, alone = wanted.decode(given), decode_rows(given, COLUMNS, wanted.row)
    assert together.errors.to_pylist() == alone.errors.to_pylist()
    for one, other in zip(together.columns, alone.columns, strict=True):
        assert one.to_pylist() == other.to_pylist()


@examples(100)
@given(st.lists(ROWS, min_size=1, max_size=6), st.lists(st.integers(0, 6), max_size=3))
def test_what_is_missing_is_null_in_its_place(rows: list[dict[str, Any]], holes: list[int]) -> None:
    payloads: list[bytes | None] = [json.dumps(row).encode() for row in rows]
    for hole in holes:
        payloads.insert(hole, None)
    found = JsonFields(COLUMNS).decode(pa.array(payloads, pa.binary()))
    if found.errors.null_count == len(payloads):
        expected = [None if each is None else json.loads(each)["i"] for each in payloads]
        assert found.columns[0].to_pylist() == expected
        for array in found.columns:
            array.validate(full=True)
