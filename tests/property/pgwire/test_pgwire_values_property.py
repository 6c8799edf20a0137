"""Laws of values on the wire: what is written reads back, and every way to write or read agrees."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.adapter.api import (
    ColumnDescription,
    CopyIn,
    CopyOptions,
    Format,
    binary_options,
    csv_options,
    text_options,
)
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType, array_of, column_type, numeric, type_named
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.copy.encoding import CopyEncoder
from waterclock.pgwire.copy.formats import decoder_of
from waterclock.pgwire.values.binary_in import decode_binary
from waterclock.pgwire.values.binary_out import encode_binary
from waterclock.pgwire.values.building import build, build_lists
from waterclock.pgwire.values.few import FEW_ROWS
from waterclock.pgwire.values.rows import RowEncoder
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import zone_named
from waterclock.testing.examples import examples

ZONES = ["UTC", "Europe/Berlin", "Asia/Kolkata", "<-05>+05"]
MICROS = st.integers(-62_135_596_800_000_000 - 10**15, 253_402_300_800_000_000 + 10**15)
INFINITE = st.sampled_from([2**63 - 1, -(2**63)])
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


def whole(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "bool": st.booleans(),
    "int2": whole(16),
    "int4": whole(32),
    "int8": whole(64),
    "oid": st.integers(0, 2**32 - 1),
    "mz_timestamp": st.integers(0, 2**63 - 1),
    "uint8": st.integers(0, 2**64 - 1),
    "float4": st.floats(width=32),
    "float8": st.floats(),
    "numeric": st.decimals(-(10**19), 10**19, places=18, allow_nan=False),
    "text": TEXTS,
    "varchar": TEXTS,
    "bytea": st.binary(max_size=12),
    "uuid": st.binary(min_size=16, max_size=16),
    "date": st.integers(-2_440_588, 10**7) | st.sampled_from([2**31 - 1, -(2**31)]),
    "time": st.integers(0, 86_400_000_000),
    "timestamp": MICROS | INFINITE,
    "timestamptz": MICROS | INFINITE,
    "interval": st.tuples(whole(20), whole(20), whole(50)),
    "jsonb": st.sampled_from(["{}", "[1, 2]", '"x"', "null", '{"a": [true, 1.50]}']),
}


def column_of(declared: PgType, values: list[Any]) -> pa.Array:
    target = arrow_type(column_type(declared))
    if pa.types.is_floating(target):
        return pa.array(values, target)
    return build(values, declared)


def named(name: str) -> PgType:
    return PgType(type_named(name).oid)


@st.composite
def columns(draw: st.DrawFn, *, arrays: bool = True) -> tuple[PgType, pa.Array]:
    name = draw(st.sampled_from(sorted(SCALARS)))
    values = draw(st.lists(st.none() | SCALARS[name], max_size=12))
    column = column_of(named(name), values)
    if not arrays or not draw(st.booleans()):
        return named(name), column
    sizes: list[int | None] = [len(values), None, 0]
    return array_of(named(name)), build_lists(sizes, column)


def same(left: pa.Array, right: pa.Array) -> bool:
    if pa.types.is_list(right.type):
        return left.offsets.equals(right.offsets) and same(left.values, right.values)
    if not pa.types.is_floating(right.type):
        return left.equals(right)
    a, b = (x.fill_null(0).to_numpy(zero_copy_only=False) for x in (left, right))
    equal = (a == b) & (np.signbit(a) == np.signbit(b)) | (np.isnan(a) & np.isnan(b))
    return left.is_null().equals(right.is_null()) and bool(np.all(equal))


@given(columns(), st.sampled_from(ZONES))
@examples(300)
def test_text_reads_back(typed: tuple[PgType, pa.Array], zone_name: str) -> None:
    declared, column = typed
    zone = zone_named(zone_name)
    texts = encode_text(column, declared, zone)
    assert same(decode_text(texts, declared, zone), column)
    # Many values go another way than few.
    if column.type.num_fields == 0:
        many = pa.concat_arrays([column] * 20)
        assert same(decode_text(pa.concat_arrays([texts] * 20), declared, zone), many)


@given(columns())
@examples(300)
def test_binary_reads_back(typed: tuple[PgType, pa.Array]) -> None:
    declared, column = typed
    data = encode_binary(column, declared)
    assert same(decode_binary(data.to_pylist(), declared), column)


@given(st.lists(st.integers(-(10**9), 10**9), max_size=8), st.integers(0, 12))
def test_a_declared_scale_is_shown(unscaled: list[int], scale: int) -> None:
    declared = numeric(20, scale)
    values = [Decimal(number).scaleb(-scale) for number in unscaled]
    texts = encode_text(column_of(declared, values), declared, zone_named("UTC")).to_pylist()
    assert texts == [format(value if value else abs(value), f".{scale}f") for value in values]


@st.composite
def batches(draw: st.DrawFn) -> tuple[tuple[ColumnDescription, ...], pa.RecordBatch]:
    typed = [draw(columns()) for _ in range(draw(st.integers(1, 4)))]
    rows = draw(st.integers(0, min(len(column) for _, column in typed)))
    skipped = draw(st.integers(0, rows))
    described = tuple(ColumnDescription(f"c{i}", kind) for i, (kind, _) in enumerate(typed))
    arrays = [column.slice(skipped, rows - skipped) for _, column in typed]
    return described, pa.RecordBatch.from_arrays(arrays, names=[c.name for c in described])


@given(batches(), st.sampled_from(list(Format)), st.sampled_from(ZONES))
@examples(300)
def test_few_rows_are_written_as_many_are(
    given_batch: tuple[tuple[ColumnDescription, ...], pa.RecordBatch], form: Format, zone: str
) -> None:
    described, batch = given_batch
    assert batch.num_rows <= FEW_ROWS
    encoder = RowEncoder(described, (form,) * len(described), zone_named(zone))
    assert encoder._few_messages(batch) == bytes(encoder._messages(batch))


COPIES = [
    text_options(),
    text_options(delimiter=",", null="x"),
    csv_options(),
    csv_options(delimiter="\t", quote="'", escape="\\", null="NULL"),
    binary_options(),
]


@given(batches(), st.sampled_from(COPIES), st.integers(1, 30))
@examples(300)
def test_copy_reads_back_however_it_is_cut(
    given_batch: tuple[tuple[ColumnDescription, ...], pa.RecordBatch],
    options: CopyOptions,
    chunk: int,
) -> None:
    described, batch = given_batch
    zone = zone_named("UTC")
    encoder = CopyEncoder(described, options, zone)
    messages = b"".join(part for _, part in encoder.encode(batch))
    rows = b"".join(bytes(row) for row in encoder._messages(batch).to_pylist())
    assert messages == rows
    data = payload(encoder.start() + encoder.first(memoryview(messages + encoder.end())))
    decoder = decoder_of(CopyIn(described, options, None, "t"), zone, chunk)  # type: ignore[arg-type]
    decoded = [b for i in range(0, len(data), chunk) for b in decoder.feed(data[i : i + chunk])]
    decoded += decoder.finish()
    for i in range(len(described)):
        parts = [part.column(i) for part in decoded]
        column = pa.concat_arrays(parts) if parts else batch.column(i).slice(0, 0)
        assert same(_compact(column), _compact(batch.column(i)))


def expect_a_users(error: WaterclockError) -> None:
    assert error.sqlstate != "XX000"


def _compact(column: pa.Array) -> pa.Array:
    """The same values, without an offset."""
    return pa.concat_arrays([column.take(pa.array(range(len(column)), pa.int64()))])


def payload(messages: bytes) -> bytes:
    parts, place = [], 0
    while place < len(messages):
        length = int.from_bytes(messages[place + 1 : place + 5], "big")
        parts.append(messages[place + 5 : place + 1 + length])
        place += 1 + length
    return b"".join(parts)


@pytest.mark.parametrize("name", sorted(SCALARS))
@given(
    text=st.text(max_size=20) | st.text('0123456789:-+./ TZeEBCPYMWDHSinfanJx{},"\\[]', max_size=30)
)
@examples(60)
def test_any_text_is_a_value_or_a_bad_one(name: str, text: str) -> None:
    """Nothing but the user's errors comes out of reading what a user wrote."""
    for declared in (named(name), array_of(named(name))):
        try:
            decode_text(
                pa.array([text.encode("utf-8", "replace").decode()]), declared, zone_named("UTC")
            )
        except WaterclockError as error:
            expect_a_users(error)


@pytest.mark.parametrize("name", sorted(SCALARS))
@given(data=st.binary(max_size=40))
@examples(60)
def test_any_bytes_are_a_value_or_a_bad_one(name: str, data: bytes) -> None:
    for declared in (named(name), array_of(named(name))):
        try:
            decode_binary([data], declared)
        except WaterclockError as error:
            expect_a_users(error)
