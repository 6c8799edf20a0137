"""Rows on their way from the tasks of one stage to those of the next."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa

from waterclock.compute.dataflow.exchange import COLUMN, FILE, NOTES, PARTITION, Outgoing, delivered

SCHEMAS = {
    "a": pa.schema([("k", pa.int64()), ("v", pa.list_(pa.string()))]),
    "b": pa.schema([("k", pa.int64())]),
}
PARTS = 3


def rows(first: int, count: int) -> pa.Table:
    keys = range(first, first + count)
    values = [None if k % 5 == 0 else [f"v{k}"] * (k % 3) for k in keys]
    return pa.table([pa.array(keys, pa.int64()), pa.array(values)], schema=SCHEMAS["a"])


def test_every_row_comes_to_its_task_once(tmp_path: Path) -> None:
    notes = []
    for task in range(2):
        sent = Outgoing(tmp_path, SCHEMAS)
        for batch in range(3):
            table = rows(100 * task + 20 * batch, 20)
            sent.add("a", table, np.asarray(table["k"]) % PARTS)
        sent.add("b", pa.table([[task]], schema=SCHEMAS["b"]), np.array([task]))
        sent.add("b", SCHEMAS["b"].empty_table(), np.array([], dtype=np.int64))
        notes.append(sent.close())
    told = pa.Table.from_batches(notes, NOTES)
    for part in range(PARTS):
        mine = told.filter(pa.compute.equal(told[PARTITION], part))
        tables = delivered(mine.to_batches(), tmp_path, SCHEMAS)
        expected = [
            row
            for task in range(2)
            for row in rows(100 * task, 60).to_pylist()
            if row["k"] % PARTS == part
        ]
        assert Counter(map(str, tables["a"].to_pylist())) == Counter(map(str, expected))
        assert tables["b"].to_pylist() == ([{"k": part}] if part < 2 else [])
        assert {name: table.schema for name, table in tables.items()} == SCHEMAS


def test_what_a_task_wrote_that_was_run_again_is_not_read(tmp_path: Path) -> None:
    def run() -> pa.RecordBatch:
        sent = Outgoing(tmp_path, SCHEMAS)
        sent.add("b", pa.table([[1, 2]], schema=SCHEMAS["b"]), np.array([0, 0]))
        return sent.close()

    first, second = run(), run()
    assert first.column(COLUMN).to_pylist() == ["b"]
    assert first.column(FILE) != second.column(FILE)
    assert delivered([second], tmp_path, SCHEMAS)["b"].to_pylist() == [{"k": 1}, {"k": 2}]


def test_nothing_to_send(tmp_path: Path) -> None:
    note = Outgoing(tmp_path, SCHEMAS).close()
    assert note.schema == NOTES
    assert note.num_rows == 0
    assert not list(tmp_path.iterdir())
