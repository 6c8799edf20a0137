"""Small updates in the log: many share a block, and each of them is exactly its own rows."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

from waterclock.model.schema import Array, Column, Int, Schema, Text
from waterclock.persist import inline
from waterclock.persist.inline import Bundle, Bundled, is_small, read_inline
from waterclock.persist.records import Batch, Part
from waterclock.persist.rows import TIME, WrongColumns, update_schema, updates
from waterclock.testing.persist_world import (
    EVERY_TYPE,
    NUMBERS,
    SAMPLES,
    Triples,
    frozen_triples,
)

PAIR = Schema((Column("n", Int(64), nullable=False), Column("label", Text())))
COLUMNS = update_schema(PAIR)


def pairs(first: int, count: int, diff: int = 1) -> pa.RecordBatch:
    return updates(PAIR, [((n, f"label {n}"), n, diff) for n in range(first, first + count)])


def without_times(count: int = 1) -> pa.RecordBatch:
    loose = pa.schema([field.with_nullable(True) for field in COLUMNS])
    given = pairs(0, count).cast(loose)
    return given.set_column(2, TIME, pa.nulls(count, pa.int64()))


def rows_of(batch: Batch, columns: pa.Schema = COLUMNS) -> Triples:
    return frozen_triples(read_inline(list(batch.parts), columns))


def block_of(batch: Batch) -> int:
    [part] = batch.parts
    return id(part.inline)


def test_what_waits_together_shares_a_block() -> None:
    bundle = Bundle(COLUMNS)
    given = [pairs(0, 1), pairs(10, 3, -1), pairs(20, 2)]
    batches = [bundled.numbered(n) for n, bundled in enumerate([bundle.add(g) for g in given])]
    assert len({block_of(batch) for batch in batches}) == 1
    assert [rows_of(batch) for batch in batches] == [frozen_triples(g) for g in given]
    assert [(b.id, b.rows, b.min_time, b.max_time, b.signed) for b in batches] == [
        (0, 1, 0, 0, False),
        (1, 3, 10, 12, True),
        (2, 2, 20, 21, False),
    ]


def test_many_blocks_are_read_from_few_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards that share blocks find their rows in any order, however others have read before."""
    monkeypatch.setattr(inline, "PAGE_BLOCKS", 32)
    choose = random.Random(7)
    blocks = 3 * inline.PAGE_BLOCKS + 5
    given: dict[Part, Triples] = {}
    for block in range(blocks):
        bundle = Bundle(COLUMNS)
        updates_of = [pairs(100 * block + 10 * k, 1 + k % 3) for k in range(4)]
        for bundled, rows in [(bundle.add(rows), rows) for rows in updates_of]:
            [part] = bundled.numbered(1).parts
            given[part] = frozen_triples(rows)
    for count in (1, 3, 50, len(given), len(given), 70):
        parts = choose.sample(list(given), count)
        expected = [row for part in parts for row in given[part]]
        assert frozen_triples(read_inline(parts, COLUMNS)) == expected
    pages = {id(part.inline.page[0]) for part in given if part.inline and part.inline.page}
    assert len(pages) == 4


def test_parts_of_many_blocks_are_read_in_any_order() -> None:
    bundle = Bundle(COLUMNS)
    parts: list[Part] = []
    expected: Triples = []
    for first in (0, 100, 200):
        added = [bundle.add(pairs(first + 10 * k, k + 1)) for k in range(4)]
        chosen = [added[3], added[1]]
        parts += [part for bundled in chosen for part in bundled.numbered(1).parts]
        expected += [row for k in (3, 1) for row in frozen_triples(pairs(first + 10 * k, k + 1))]
    assert sorted(frozen_triples(read_inline(parts, COLUMNS))) == sorted(expected)
    assert frozen_triples(read_inline(parts[::-1][:2], COLUMNS)) == [
        *frozen_triples(pairs(210, 2)),
        *frozen_triples(pairs(230, 4)),
    ]


def test_rows_of_every_type_share_a_block() -> None:
    columns = update_schema(EVERY_TYPE)
    bundle = Bundle(columns)
    samples = [samples for _, samples in SAMPLES.values()]
    rows = [tuple(s[i % len(s)] for s in samples) for i in range(6)]
    given = [updates(EVERY_TYPE, [(row, n, 1)]) for n, row in enumerate(rows)]
    added = [bundle.add(one) for one in given]
    found = [rows_of(bundled.numbered(1), columns) for bundled in added]
    assert found == [frozen_triples(one) for one in given]


def test_a_block_does_not_become_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inline, "INLINE_BYTES", 1000)
    bundle = Bundle(COLUMNS)
    added = [bundle.add(pairs(10 * n, 5)) for n in range(20)]
    batches = [bundled.numbered(n) for n, bundled in enumerate(added)]
    assert 2 < len({block_of(batch) for batch in batches}) < 20
    assert all(part.inline and len(part.inline.data) < 2000 for b in batches for part in b.parts)
    assert [rows_of(batch) for batch in batches] == [
        frozen_triples(pairs(10 * n, 5)) for n in range(20)
    ]


def test_one_that_can_not_be_encoded_harms_no_other() -> None:
    bundle = Bundle(COLUMNS)
    first, bad, last = (
        bundle.add(pairs(0, 2)),
        bundle.add(without_times(2)),
        bundle.add(pairs(5, 1)),
    )
    assert rows_of(first.numbered(1)) == frozen_triples(pairs(0, 2))
    for _ in range(2):
        with pytest.raises(WrongColumns, match=f"an update has no {TIME}"):
            bad.numbered(2)
    assert rows_of(last.numbered(2)) == frozen_triples(pairs(5, 1))


def test_columns_that_are_declared_otherwise_share_a_block_too() -> None:
    schema = Schema((Column("a", Array(Int(32))),))
    columns = update_schema(schema)
    given = updates(schema, [(([1, None],), 0, 1)])
    loose = [field.with_nullable(True) for field in list(columns)[1:]]
    other = pa.schema([pa.field("a", pa.list_(pa.field("element", pa.int32()))), *loose])
    bundle = Bundle(columns)
    added = [
        bundle.add(given),
        bundle.add(given.cast(other)),
        bundle.add(given.replace_schema_metadata({"made": "elsewhere"})),
        bundle.add(pa.Table.from_batches([given, given])),
    ]
    batches = [bundled.numbered(1) for bundled in added]
    assert len({block_of(batch) for batch in batches}) == 1
    assert [rows_of(batch, columns) for batch in batches] == [
        n * frozen_triples(given) for n in (1, 1, 1, 2)
    ]


def test_what_is_added_later_comes_into_another_block() -> None:
    bundle = Bundle(COLUMNS)
    early = bundle.add(pairs(0, 1))
    assert early.numbered(1) == early.numbered(1)
    late = bundle.add(pairs(1, 1))
    assert block_of(late.numbered(2)) != block_of(early.numbered(1))


def test_a_piece_of_something_large_is_not_small() -> None:
    columns = update_schema(NUMBERS)
    few = pa.table([np.arange(inline.INLINE_ROWS + 1)] * 3, schema=columns)
    assert is_small(few.slice(1))
    assert not is_small(few)
    assert not is_small(pairs(0, 5000).slice(17, 1))
    assert not is_small(updates(PAIR, [((1, "x" * inline.INLINE_BYTES), 0, 1)]))


def test_many_threads_may_add() -> None:
    bundle = Bundle(COLUMNS)

    def add_and_ask(n: int) -> Bundled:
        bundled = bundle.add(pairs(n, 2))
        if n % 3 == 0:
            bundled.numbered(n)
        return bundled

    with ThreadPoolExecutor(8) as pool:
        added = list(pool.map(add_and_ask, range(500)))
    for n, bundled in enumerate(added):
        assert rows_of(bundled.numbered(n)) == frozen_triples(pairs(n, 2))
