"""Rows of every SQL type survive the log and Parquet, and rows of another shape are refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from waterclock.model.schema import (
    Array,
    Column,
    Decimal,
    Field,
    Float,
    Int,
    Schema,
    Struct,
    Text,
    Timestamp,
)
from waterclock.persist import inline as inline_form
from waterclock.persist import parts
from waterclock.persist.errors import Damaged
from waterclock.persist.inline import try_inline
from waterclock.persist.parts import EVERYTHING, Selection, read_batches, write_batch
from waterclock.persist.records import Batch
from waterclock.persist.rows import (
    DIFF,
    TIME,
    WrongColumns,
    check_columns,
    required_columns,
    row_schema,
    update_schema,
    updates,
)
from waterclock.persist.schema_codec import decode_schema, encode_schema
from waterclock.persist.store import Store
from waterclock.testing.persist_world import EVERY_TYPE, SAMPLES, frozen_triples, open_store


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store() as store:
        yield store


def rows_of_every_type() -> list[tuple[Any, ...]]:
    """Every sample once, in a row with other samples or with nulls."""
    longest = max(len(samples) for _, samples in SAMPLES.values())
    rows = [
        tuple(samples[i % len(samples)] for _, samples in SAMPLES.values()) for i in range(longest)
    ]
    alone = [
        tuple(samples[0] if name == other else None for other in SAMPLES)
        for name, (_, samples) in SAMPLES.items()
    ]
    return [*rows, *alone, (None,) * len(SAMPLES)]


def stored(store: Store, table: pa.Table | pa.RecordBatch) -> Batch:
    with ExitStack() as stack:
        batch = write_batch(store, "s", table, stack)
    assert batch is not None
    return batch


def read_back(
    store: Store, batch: Batch, columns: pa.Schema, selection: Selection = EVERYTHING
) -> pa.Table:
    found = read_batches(store, [batch], columns, selection)
    return pa.Table.from_batches(found, selection.schema(columns))


@pytest.mark.semantics(23)
@pytest.mark.parametrize("inline", [True, False], ids=["inline", "parquet"])
def test_every_type_round_trips(
    store: Store, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inline:
        monkeypatch.setattr(inline_form, "INLINE_ROWS", 0)
    given = updates(EVERY_TYPE, [(row, i, i - 3) for i, row in enumerate(rows_of_every_type())])
    batch = stored(store, given)
    assert [part.inline is not None for part in batch.parts] == [inline]
    assert (batch.rows, batch.min_time, batch.max_time) == (len(given), 0, len(given) - 1)
    assert batch.signed
    found = read_back(store, batch, given.schema)
    assert found.schema.equals(given.schema)
    assert frozen_triples(found) == frozen_triples(given)


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "parquet"])
@pytest.mark.parametrize("zoned", [True, False])
def test_timestamps_beyond_pythons_are_kept(
    store: Store, inline: bool, zoned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inline:
        monkeypatch.setattr(inline_form, "INLINE_ROWS", 0)
    schema = Schema((Column("at", Timestamp(zoned)),))
    extremes = pa.array([-(2**63), 2**63 - 1, 0, None])
    shape = update_schema(schema)
    ones = pa.array([1] * 4)
    given = pa.RecordBatch.from_arrays(
        [extremes.cast(shape.field("at").type), ones, ones], schema=shape
    )
    # parts of few rows are described and stored like those of many
    found = read_back(store, stored(store, given), shape)
    assert found["at"].cast(pa.int64()).to_pylist() == extremes.to_pylist()


@pytest.mark.parametrize("inline", [True, False], ids=["inline", "parquet"])
def test_a_selection_applies_to_both_forms(
    store: Store, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not inline:
        monkeypatch.setattr(inline_form, "INLINE_ROWS", 0)
    schema = Schema((Column("n", Int(64)), Column("label", Text())))
    given = updates(schema, [((i, str(i)), i, 1) for i in range(10)])
    chosen = Selection(("label",), (pc.field("n") >= 3) & (pc.field("n") < 5))
    found = read_back(store, stored(store, given), given.schema, chosen)
    assert found.schema.names == ["label", TIME, DIFF]
    assert frozen_triples(found) == [(("3",), 3, 1), (("4",), 4, 1)]
    none = Selection((), pc.field("n") == 4)
    assert frozen_triples(read_back(store, stored(store, given), given.schema, none)) == [
        ((), 4, 1)
    ]


NAN_CONDITIONS = {
    "not at most": ~(pc.field("x") <= 100.0),
    "unequal": pc.field("x") != 5.0,
    "is nan": pc.is_nan(pc.field("x")),
    "not equal": ~(pc.field("x") == 5.0),
}


@pytest.mark.parametrize("name", NAN_CONDITIONS)
def test_statistics_do_not_hide_nans(
    store: Store, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The statistics of a Parquet column say nothing of its NaNs; a condition may want them."""
    monkeypatch.setattr(inline_form, "INLINE_ROWS", 0)
    schema = Schema((Column("x", Float(64)),))
    given = updates(schema, [((5.0,), 0, 1), ((float("nan"),), 0, 1)])
    chosen = Selection(None, NAN_CONDITIONS[name])
    found = read_back(store, stored(store, given), given.schema, chosen)
    assert frozen_triples(found) == [(("NaN",), 0, 1)]


def test_statistics_do_not_hide_nans_in_structs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline_form, "INLINE_ROWS", 0)
    schema = Schema((Column("p", Struct((Field("x", Float(32)),))),))
    given = updates(schema, [(({"x": 5.0},), 0, 1), (({"x": float("nan")},), 0, 1)])
    chosen = Selection(None, pc.field("p", "x") != 5.0)
    assert read_back(store, stored(store, given), given.schema, chosen).num_rows == 1


def test_a_batch_of_many_rows_has_several_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 800)
    shape = update_schema(Schema((Column("n", Int(64)),)))
    n = np.arange(2000)
    given = pa.table([n, n // 100, np.where(n == 1999, -1, 1)], schema=shape)
    batch = stored(store, given)
    assert [part.rows for part in batch.parts] == [800, 800, 400]
    assert (batch.min_time, batch.max_time, batch.signed) == (0, 19, True)
    assert sum(part.size for part in batch.parts) == batch.size > 0
    assert len(set(batch.keys)) == 3
    assert read_back(store, batch, shape).equals(given)


@pytest.mark.parametrize("seed", range(10))
def test_a_changed_byte_is_found_and_not_answered(store: Store, seed: int) -> None:
    random = Random(seed)
    schema = Schema((Column("n", Int(64)),))
    given = updates(schema, [((random.getrandbits(60),), 0, 1) for _ in range(2000)])
    batch = stored(store, given)
    [key] = batch.keys
    with store.blob.open(key) as file:
        data = bytearray(file.read())
    data[random.randrange(100, 4000)] ^= random.randrange(1, 256)
    store.blob.put(key, bytes(data))
    with pytest.raises(Damaged, match=f'object "{key}" can not be read'):
        read_back(store, batch, given.schema)


def test_few_but_long_rows_do_not_travel_in_the_log() -> None:
    schema = Schema((Column("label", Text()),))
    assert try_inline(updates(schema, [(("x" * 100,), 0, 1)])) is not None
    assert try_inline(updates(schema, [(("x" * 100_000,), 0, 1)])) is None


def test_a_slice_of_a_large_batch_travels_alone() -> None:
    schema = Schema((Column("label", Text()),))
    large = updates(schema, [((f"{i:0100}",), 0, 1) for i in range(5000)])
    batch = try_inline(large.slice(17, 3))
    assert batch is not None
    assert batch.size < 2000


def test_nothing_makes_no_batch(store: Store) -> None:
    with ExitStack() as stack:
        assert write_batch(store, "s", updates(EVERY_TYPE, []), stack) is None


def test_every_schema_round_trips_as_plain_lists() -> None:
    schema = Schema(
        (
            *EVERY_TYPE.columns,
            Column("required", Int(16), nullable=False),
            Column("nested", Array(Struct((Field("a", Decimal(38, 7), nullable=False),)))),
        )
    )
    assert decode_schema(encode_schema(schema)) == schema
    assert decode_schema(encode_schema(Schema(()))) == Schema(())


@pytest.mark.parametrize("kind", [["money"], [], ["int"], ["array"], ["text", 1]])
def test_an_unknown_type_is_damage(kind: list[Any]) -> None:
    with pytest.raises(Damaged, match="column type"):
        decode_schema([["a", kind, True]])


def checked(given: pa.RecordBatch, schema: Schema) -> None:
    shape = update_schema(schema)
    check_columns(given, shape, required_columns(shape))


PAIR = Schema((Column("a", Int(64), nullable=False), Column("b", Text())))


def test_the_right_columns_pass_however_they_are_declared() -> None:
    given = updates(PAIR, [((1, None), 0, 1)])
    checked(given, PAIR)
    nullable = pa.schema([pa.field(f.name, f.type, nullable=True) for f in given.schema])
    checked(given.cast(nullable), PAIR)
    checked(given.replace_schema_metadata({"made": "elsewhere"}), PAIR)


def test_the_name_of_a_lists_elements_does_not_matter() -> None:
    schema = Schema((Column("a", Array(Int(32))),))
    given = updates(schema, [(([1, None],), 0, 1)])
    other = pa.schema(
        [pa.field("a", pa.list_(pa.field("element", pa.int32()))), *list(given.schema)[1:]]
    )
    renamed = given.cast(other)
    checked(renamed, schema)
    batch = try_inline(renamed)
    assert batch is not None
    with open_store() as store:
        assert read_back(store, batch, given.schema).to_pylist() == given.to_pylist()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (Schema((Column("a", Int(64)),)), "wrong columns"),
        (Schema((Column("b", Text()), Column("a", Int(64)))), "wrong columns"),
        (Schema((Column("a", Int(32)), Column("b", Text()))), 'column "a" is of type int64'),
    ],
)
def test_other_columns_are_refused(wrong: Schema, message: str) -> None:
    row = tuple(1 if isinstance(c.type, Int) else "x" for c in wrong.columns)
    with pytest.raises(WrongColumns, match=message):
        checked(updates(wrong, [(row, 0, 1)]), PAIR)


def test_rows_without_time_and_diff_are_refused() -> None:
    rows = pa.RecordBatch.from_pylist([{"a": 1, "b": "x"}], schema=row_schema(PAIR))
    with pytest.raises(WrongColumns, match="wrong columns") as refusal:
        checked(rows, PAIR)
    assert refusal.value.detail == "Expected a, b, mz_timestamp, mz_diff; got a, b."


def with_null(column: str) -> pa.RecordBatch:
    good = updates(PAIR, [((1, "x"), 0, 1)])
    nullable = good.cast(pa.schema([pa.field(f.name, f.type) for f in good.schema]))
    at = good.schema.get_field_index(column)
    return nullable.set_column(at, column, pa.array([None], pa.int64()))


def test_null_is_refused_in_a_required_column() -> None:
    with pytest.raises(WrongColumns, match='null value in column "a"'):
        checked(with_null("a"), PAIR)


@pytest.mark.parametrize("rows", [0, 256], ids=["parquet", "inline"])
@pytest.mark.parametrize("column", [TIME, DIFF])
def test_every_update_has_a_time_and_a_diff(
    store: Store, column: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inline_form, "INLINE_ROWS", rows)
    with pytest.raises(WrongColumns, match=f"an update has no {column}"):
        stored(store, with_null(column))
