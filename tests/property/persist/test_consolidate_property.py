"""Consolidation agrees with the model on rows of every type; hashes agree with equality and never
change.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from datetime import date, datetime, time
from decimal import Decimal as Exact
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.model.updates import advance_all
from waterclock.model.updates import consolidate as model_consolidate
from waterclock.persist import spill as spill_module
from waterclock.persist.consolidate import consolidate, last_of_equals, row_codes, same_rows
from waterclock.persist.hashing import hash_rows
from waterclock.persist.rows import DIFF, TIME, updates
from waterclock.persist.spill import Spill, consolidated
from waterclock.testing.examples import examples
from waterclock.testing.persist_world import (
    EVERY_TYPE,
    SAMPLES,
    Triples,
    frozen,
    frozen_triples,
    model_updates,
    rows_of,
    schema_of,
)

many = examples(60)
NAMES = st.lists(st.sampled_from(sorted(SAMPLES)), max_size=3, unique=True).map(tuple)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Updates of few rows at few times, so that many meet, in chunks of any size."""
    names = draw(NAMES)
    pool = draw(st.lists(rows_of(names), min_size=1, max_size=5))
    triple = st.tuples(st.sampled_from(pool), st.integers(0, 3), st.integers(-2, 2))
    triples: Triples = draw(st.lists(triple, max_size=14))
    whole = updates(schema_of(names), triples)
    cut = draw(st.integers(0, len(triples)))
    return pa.Table.from_batches([whole.slice(0, cut), whole.slice(cut)], whole.schema)


def as_model(table: pa.Table) -> frozenset[Any]:
    return model_consolidate(model_updates(frozen_triples(table)))


def exactly(table: pa.Table) -> frozenset[Any]:
    """The updates as they are, each once."""
    found = model_updates(frozen_triples(table))
    assert len(set(found)) == len(found), "an update occurs twice"
    return frozenset(found)


@pytest.mark.semantics(16, 32)
@many
@given(tables())
def test_consolidation_is_that_of_the_model(table: pa.Table) -> None:
    found = consolidate(table)
    assert exactly(found) == as_model(table)
    assert found.num_rows <= table.num_rows
    assert found.schema.equals(table.schema)


@pytest.mark.semantics(30, 32)
@many
@given(tables(), st.integers(0, 5))
def test_times_advance_to_since(table: pa.Table, since: int) -> None:
    found = consolidate(table, since=since)
    expected = advance_all(model_updates(frozen_triples(table)), EPOCH_MILLIS.frontier(since))
    assert exactly(found) == expected
    assert found.num_rows <= consolidate(table).num_rows


@many
@given(tables(), st.data())
def test_order_and_repetition_do_not_matter(table: pa.Table, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(table.num_rows)))
    once = consolidate(table)
    assert exactly(consolidate(table.take(pa.array(order, pa.int64())))) == exactly(once)
    assert consolidate(once).equals(once) or exactly(consolidate(once)) == exactly(once)


@many
@given(tables())
def test_codes_are_equal_exactly_for_equal_rows(table: pa.Table) -> None:
    columns = table.drop_columns([TIME, DIFF]).columns
    codes = row_codes(columns, table.num_rows).tolist()
    assert min(codes, default=0) >= 0
    rows = [row for row, _, _ in frozen_triples(table)]
    pairs = set(zip(codes, rows, strict=True))
    assert len(pairs) == len(set(codes)) == len(set(rows))


@many
@given(tables(), st.data())
def test_equal_rows_have_equal_hashes(table: pa.Table, data: st.DataObject) -> None:
    """Whatever the place of a row in its array, or that of the array in its buffers."""
    table = table.combine_chunks()
    columns = [column.combine_chunks() for column in table.drop_columns([TIME, DIFF]).columns]
    hashes = hash_rows(columns, table.num_rows)
    hash_of: dict[Any, int] = {}
    for (row, _, _), code in zip(frozen_triples(table), hashes.tolist(), strict=True):
        assert hash_of.setdefault(row, code) == code
    start = data.draw(st.integers(0, table.num_rows))
    length = data.draw(st.integers(0, table.num_rows - start))
    sliced = [column.slice(start, length) for column in columns]
    assert hash_rows(sliced, length).tolist() == hashes[start : start + length].tolist()


def test_all_samples_of_a_type_have_hashes_and_codes_of_their_own() -> None:
    for column, (_, samples) in zip(EVERY_TYPE.columns, SAMPLES.values(), strict=True):
        rows = [(sample,) for sample in [*samples, None]]
        array = updates(schema_of((column.name,)), [(row, 0, 1) for row in rows]).column(0)
        distinct = len({frozen(row[0]) for row in rows})
        assert distinct == len(rows)
        assert len(set(hash_rows([array], len(rows)).tolist())) == distinct, column.name
        assert len(set(row_codes([array], len(rows)).tolist())) == distinct, column.name


def test_every_nan_is_the_same() -> None:
    bits = np.array([0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1, (0x7FF << 52) + 1], np.uint64)
    small = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FC00001], np.uint32)
    for nans in (pa.array(bits.view(np.float64)), pa.array(small.view(np.float32))):
        lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), nans)
        structs = pa.StructArray.from_arrays([nans], names=["x"])
        for array in (nans, lists, structs):
            assert len(set(row_codes([array], 4).tolist())) == 1
            assert len(set(hash_rows([array], 4).tolist())) == 1


def test_wide_rows_with_structs_are_told_apart() -> None:
    """The codes of a struct's fields fill 62 bits; those of the columns before it need some too."""
    count = 4096
    places = np.arange(count)
    field = pa.array(places % 2048)
    wide = pa.StructArray.from_arrays([field] * 5, names=list("abcde"))
    codes = row_codes([pa.array(places), wide], count)
    assert len(set(codes.tolist())) == count
    assert codes.min() >= 0
    table = pa.table(
        {"id": places, "wide": wide, TIME: np.zeros(count, np.int64), DIFF: places * 0 + 1}
    )
    assert consolidate(table).num_rows == count
    for columns in ([wide, pa.array(places)], [wide, wide, pa.array(places)], [wide] * 8):
        expected = count if len(columns) < 8 else 2048
        assert len(set(row_codes(columns, count).tolist())) == expected


def test_what_lies_under_a_null_does_not_count() -> None:
    valid = pa.py_buffer(np.packbits([1, 0, 0, 1], bitorder="little"))
    words = pa.py_buffer(np.array([7, 8, 9, 7], np.int64))
    numbers = pa.Array.from_buffers(pa.int64(), 4, [valid, words])
    offsets = pa.py_buffer(np.array([0, 2, 4, 9, 11], np.int32))
    texts = pa.Array.from_buffers(pa.string(), 4, [valid, offsets, pa.py_buffer(b"abcdefghiab")])
    children = pa.array(range(11))
    lists = pa.Array.from_buffers(pa.list_(pa.int64()), 4, [valid, offsets], children=[children])
    structs = pa.Array.from_buffers(
        pa.struct([("a", pa.int64())]), 4, [valid], children=[pa.array([7, 8, 9, 7])]
    )
    for array in (numbers, texts, lists, structs):
        hashes = hash_rows([array], 4).tolist()
        codes = row_codes([array], 4).tolist()
        assert hashes[1] == hashes[2] != hashes[0]
        assert codes[1] == codes[2] != codes[0]
        clean = pa.array(array.to_pylist(), array.type)
        assert hash_rows([clean], 4).tolist() == hashes
    for array in (numbers, texts, structs):
        assert hash_rows([array], 4)[0] == hash_rows([array], 4)[3]


GOLDEN: dict[str, tuple[pa.DataType, list[Any], list[int]]] = {
    "bool": (
        pa.bool_(),
        [False, True, None],
        [0x5C4722AF355E9512, 0x93979BC461DFB277, 0x9E5D62FB10581216],
    ),
    "int16": (
        pa.int16(),
        [0, -1, 2**15 - 1],
        [0x5C4722AF355E9512, 0x3EC079D6652821, 0x566E5EB8B75783BB],
    ),
    "int32": (
        pa.int32(),
        [0, -1, 2**31 - 1],
        [0x5C4722AF355E9512, 0x3EC079D6652821, 0x234B6A302566866],
    ),
    "int64": (
        pa.int64(),
        [0, -1, 2**63 - 1],
        [0x5C4722AF355E9512, 0x3EC079D6652821, 0xC6E47DFF6DDE601D],
    ),
    "float32": (
        pa.float32(),
        [0.0, -0.0, 1.5, float("nan")],
        [0x5C4722AF355E9512, 0x46F0B413EE06F9B9, 0xFE9A37132A92E504, 0xB389105F55F4F6DE],
    ),
    "float64": (
        pa.float64(),
        [0.0, -0.0, 1.5, float("nan")],
        [0x5C4722AF355E9512, 0x580941721832EC5E, 0xA8FBFD447ECCA06C, 0xCEBB544554E24252],
    ),
    "decimal": (
        pa.decimal128(38, 2),
        [Exact("0.00"), Exact("-1.25")],
        [0x5C4722AF355E9512, 0xEB4B27751933159B],
    ),
    "text": (
        pa.string(),
        ["", "a", "exactly8", "nine byte"],
        [0x6D65C0322224C408, 0x1731496822199EEC, 0x175E51E840D42A19, 0x49492AD834595C67],
    ),
    "bytes": (
        pa.binary(),
        [b"", b"\0", b"a"],
        [0x6D65C0322224C408, 0x11AFACE9372AB04, 0x1731496822199EEC],
    ),
    "date": (
        pa.date32(),
        [date(1970, 1, 1), date(2026, 2, 3)],
        [0x5C4722AF355E9512, 0x15028B0C01F4F076],
    ),
    "time": (
        pa.time64("us"),
        [time(0), time(12, 30)],
        [0x5C4722AF355E9512, 0xDA7DB7958519A85F],
    ),
    "timestamp": (
        pa.timestamp("us"),
        [datetime(1970, 1, 1), datetime(2026, 2, 3, 4, 5, 6)],
        [0x5C4722AF355E9512, 0xD8FC0BD7CE099D3],
    ),
    "uuid": (
        pa.binary(16),
        [bytes(16), bytes(range(16))],
        [0x5C4722AF355E9512, 0x8361BAF6FB0DDC1B],
    ),
    "list": (
        pa.list_(pa.int64()),
        [[], [1], [1, 2], [None], None],
        [
            0x5C4722AF355E9512,
            0xC0803994A167C80,
            0xAAA3081CCF71278B,
            0xFD9313A5D4AC9BE,
            0x9E5D62FB10581216,
        ],
    ),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.string())]),
        [{"a": 1, "b": "x"}, {"a": None, "b": None}, None],
        [0x3B47D8126AFBACF2, 0xC95CF37A91C6F49, 0x9E5D62FB10581216],
    ),
}


@pytest.mark.parametrize("kind", GOLDEN)
def test_hashes_on_disk_never_change(kind: str) -> None:
    arrow_type, samples, expected = GOLDEN[kind]
    found = hash_rows([pa.array(samples, arrow_type)], len(samples))
    assert found.tolist() == expected


def test_the_hash_of_a_whole_row_never_changes() -> None:
    assert hash_rows([pa.array([1]), pa.array(["x"])], 1).tolist() == [0xA68511961C0F4549]
    assert hash_rows([], 2).tolist() == [0x9E3779B97F4A7C15] * 2


@pytest.mark.parametrize("kind", ["int", "text"])
def test_a_hundred_thousand_values_do_not_collide(kind: str) -> None:
    count = 100_000
    numbers = pa.array(range(count))
    array = numbers if kind == "int" else numbers.cast(pa.string())
    assert len(np.unique(hash_rows([array], count))) == count


def split(table: pa.Table, rows: int) -> list[pa.RecordBatch]:
    return table.to_batches(max_chunksize=rows)


@examples(25)
@given(tables(), st.integers(0, 40), st.none() | st.integers(0, 4), st.integers(1, 5))
def test_spilling_changes_nothing(
    table: pa.Table, estimate: int, since: int | None, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(spill_module, "IN_MEMORY_ROWS", 4)
        patch.setattr(tempfile, "tempdir", folder)
        with Spill(table.schema, estimate, since=since) as spilled:
            for batch in split(table, chunk):
                spilled.add(batch)
            pieces = list(spilled.tables())
        assert not list(Path(folder).iterdir()), "a file is left"
    found = pa.concat_tables([table.slice(0, 0), *pieces])
    assert exactly(found) == exactly(consolidate(table, since=since))


def many_numbers(count: int) -> pa.Table:
    n = np.arange(count)
    return pa.table(
        {
            "n": pa.array(n % 700),
            TIME: pa.array(n % 3),
            DIFF: pa.array(np.where(n % 5 == 0, -1, 1)),
        }
    )


def test_spilled_pieces_share_nothing_and_leave_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spill_module, "IN_MEMORY_ROWS", 500)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = many_numbers(5000)
    pieces = []
    for piece in consolidated(iter(split(table, 1000)), table.schema, table.num_rows):
        assert list(tmp_path.iterdir())
        pieces.append(piece)
    assert not list(tmp_path.iterdir())
    assert len(pieces) > 5
    counts = Counter(t[:2] for piece in pieces for t in frozen_triples(piece))
    assert max(counts.values()) == 1
    assert exactly(pa.concat_tables(pieces)) == as_model(table)


def test_giving_up_a_spill_removes_its_files(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spill_module, "IN_MEMORY_ROWS", 500)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    table = many_numbers(5000)
    half_read = consolidated(iter(split(table, 1000)), table.schema, table.num_rows)
    next(half_read)
    half_read.close()  # type: ignore[attr-defined]
    assert not list(tmp_path.iterdir())
    failing = consolidated(iter([split(table, 1000)[0], "no batch"]), table.schema, 5000)
    with pytest.raises(TypeError):
        next(failing)
    assert not list(tmp_path.iterdir())


@many
@given(tables(), st.booleans())
def test_the_last_of_equal_rows_is_found(table: pa.Table, is_bad_hash: bool) -> None:
    columns = [c.combine_chunks() for c in table.columns[:-1]]
    hashes = hash_rows(columns, table.num_rows)
    if is_bad_hash:
        hashes %= np.uint64(2)
    order = np.argsort(hashes, kind="stable")
    columns = [column.take(pa.array(order)) for column in columns]
    codes = row_codes(columns, table.num_rows).tolist()
    wanted = [code not in codes[place + 1 :] for place, code in enumerate(codes)]
    assert last_of_equals(columns, hashes[order]).tolist() == wanted


@many
@given(tables())
def test_rows_are_the_same_if_their_codes_are(table: pa.Table) -> None:
    columns = [c.combine_chunks() for c in table.columns]
    order = np.arange(table.num_rows)[::-1]
    others = [column.take(pa.array(order)) for column in columns]
    codes = row_codes(columns, table.num_rows)
    assert same_rows(columns, others).tolist() == (codes == codes[order]).tolist()
