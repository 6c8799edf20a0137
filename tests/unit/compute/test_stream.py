"""Deltas of many operators in one stream."""

from __future__ import annotations

import pyarrow as pa

from waterclock.compute.dataflow.shape import Shape
from waterclock.compute.dataflow.stream import ERRORS, packed, unpacked
from waterclock.persist.rows import DIFF, TIME

STAMP = [(TIME, pa.int64()), (DIFF, pa.int64())]
SCHEMAS = {
    "numbers": pa.schema([("c0", pa.int64()), *STAMP]),
    "texts": pa.schema([("c0", pa.string()), ("c1", pa.list_(pa.int64())), *STAMP]),
    "nothing": pa.schema([("c0", pa.bool_()), *STAMP]),
    ERRORS: pa.schema([("source", pa.string()), *STAMP]),
}
TABLES = {
    "numbers": pa.table([[1, None, 3], [5, 6, 7], [1, -1, 2]], schema=SCHEMAS["numbers"]),
    "texts": pa.table([["a"], [[1, None]], [5], [1]], schema=SCHEMAS["texts"]),
    "nothing": SCHEMAS["nothing"].empty_table(),
}


def test_deltas_travel_side_by_side() -> None:
    batches = list(packed(TABLES, SCHEMAS))
    assert [batch.num_rows for batch in batches] == [3]
    assert batches[0].schema.names == list(SCHEMAS)
    shapes = {name: Shape(schema) for name, schema in SCHEMAS.items()}
    found = unpacked(batches, shapes)
    assert {name: table.to_pylist() for name, table in found.items()} == {
        **{name: table.to_pylist() for name, table in TABLES.items()},
        ERRORS: [],
    }


def test_a_table_in_several_pieces_takes_several_batches() -> None:
    texts = TABLES["texts"]
    tables = {**TABLES, "texts": pa.concat_tables([texts, texts.slice(0, 0), texts])}
    batches = list(packed(tables, SCHEMAS))
    assert [batch.num_rows for batch in batches] == [3, 1]
    found = unpacked(batches, {name: Shape(schema) for name, schema in SCHEMAS.items()})
    assert found["texts"].to_pylist() == 2 * texts.to_pylist()
    assert found["numbers"].equals(TABLES["numbers"])


def test_no_rows_are_no_batches() -> None:
    assert list(packed({"nothing": TABLES["nothing"]}, SCHEMAS)) == []
    assert list(packed({}, SCHEMAS)) == []
