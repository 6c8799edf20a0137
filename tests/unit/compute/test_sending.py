"""What a stage sends straight to the tasks of a later one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from waterclock.compute.dataflow.exchange import NOTES, PARTITION, delivered
from waterclock.compute.dataflow.plain import Call, Column, Computed, Value
from waterclock.compute.dataflow.program import Direct
from waterclock.compute.dataflow.sending import Send, Sending, task_numbers
from waterclock.persist.rows import DIFF, TIME

BASE = pa.schema([("c0", pa.int64()), ("c1", pa.string()), (TIME, pa.int64()), (DIFF, pa.int64())])
INPUT = pa.schema([("c0", pa.string()), ("c1", pa.int64()), (TIME, pa.int64()), (DIFF, pa.int64())])
ROWS = pa.table([[1, None, 3, 4], ["a", "b", None, "a"], [5, 6, 7, 8], [1, 1, -1, 2]], schema=BASE)


def test_columns_are_picked_and_nulls_left_out() -> None:
    send = Send("base", Direct((1, 0), (0, 1)), True, "in", ("c0",))
    found = send.rows(ROWS, INPUT)
    assert found is not None
    assert found.to_pylist() == [
        {"c0": "a", "c1": 1, TIME: 5, DIFF: 1},
        {"c0": "a", "c1": 4, TIME: 8, DIFF: 2},
    ]
    negative = Send("base", Direct((1, 0), (1,)), False, "in", ("c0",))
    found = negative.rows(ROWS, INPUT)
    assert found is not None
    assert found.column("c1").to_pylist() == [1, None, 4]
    assert found.column(DIFF).to_pylist() == [-1, -1, -2]


def test_rows_with_one_key_are_sent_to_one_task(tmp_path: Path) -> None:
    sends = (
        Send("base", Direct((1, 0), ()), True, "by_key", ("c0",)),
        Send("base", Direct((1, 0), ()), True, "together", None),
        Send("other", Direct((1, 0), ()), True, "together", None),
    )
    sending = Sending(sends, {"by_key": INPUT, "together": INPUT}, 4)
    sent = sending.begin(tmp_path)
    sending.add({"base": ROWS}, sent)
    sending.add({"base": ROWS.slice(0, 0)}, sent)
    notes = pa.Table.from_batches([sent.close()], NOTES)
    places: dict[str | None, set[int]] = {}
    total = 0
    for part in range(4):
        mine = notes.filter(pa.compute.equal(notes[PARTITION], part))
        tables = delivered(mine.to_batches(), tmp_path, {"by_key": INPUT, "together": INPUT})
        for key in tables["by_key"]["c0"].to_pylist():
            places.setdefault(key, set()).add(part)
        total += tables["by_key"].num_rows
        assert tables["together"].num_rows == (ROWS.num_rows if part == 0 else 0)
    assert total == ROWS.num_rows
    assert all(len(parts) == 1 for parts in places.values())
    assert set(places) == {"a", "b", None}


TWICE = Call("multiply_checked", (Column(0), Value(2, pa.int64())))
DOUBLED = Computed((Call("equal", (Column(1), Value("a", pa.string()))),), (Column(1), TWICE))


def test_rows_are_computed_after_they_were_chosen() -> None:
    huge = pa.table([[2**62, 2**61], ["b", "a"], [5, 6], [1, 1]], schema=BASE)
    send = Send("base", DOUBLED, False, "in", ("c0",), "rest")
    found = send.rows(pa.concat_tables([ROWS, huge]), INPUT)
    assert found is not None
    assert found.to_pylist() == [
        {"c0": "a", "c1": 2, TIME: 5, DIFF: -1},
        {"c0": "a", "c1": 8, TIME: 8, DIFF: -2},
        {"c0": "a", "c1": 2**62, TIME: 6, DIFF: -1},
    ]


def test_what_does_not_fit_is_left_for_catalyst(tmp_path: Path) -> None:
    sending = Sending((Send("base", DOUBLED, True, "in", ("c0",), "rest"),), {"in": INPUT}, 4)
    sent = sending.begin(tmp_path)
    huge = pa.table([[2**62, 1], ["a", "a"], [5, 5], [1, 1]], schema=BASE)
    assert sending.add({"other": ROWS}, sent) == {}
    assert sending.add({"base": ROWS}, sent) == {"rest": ROWS.slice(0, 0)}
    assert sending.add({"base": huge}, sent) == {"rest": huge}
    notes = pa.Table.from_batches([sent.close()], NOTES)
    [found] = delivered(notes.to_batches(), tmp_path, {"in": INPUT}).values()
    assert found["c1"].to_pylist() == [2, 8]


def test_a_constant_is_there_for_every_row() -> None:
    made = Computed((), (Value("x", pa.string()), Column(0))).of(ROWS, INPUT)
    assert made is not None
    assert made["c0"].to_pylist() == ["x"] * 4


def test_tasks_of_rows_without_keys() -> None:
    assert np.array_equal(task_numbers(ROWS, None, 4), np.zeros(4))
