"""Looking keys up in an index gives what a look at all of its rows gives."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from waterclock.compute.index import Index
from waterclock.model.errors import NegativeMultiplicity
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.rows import DIFF, TIME

KINDS = {
    "int": (pa.int32(), [1, 2, 3, None]),
    "text": (pa.string(), ["a", "", "ä", None]),
    "numeric": (pa.decimal128(10, 2), [Decimal("1.00"), Decimal("-2.50"), Decimal(0), None]),
    "float": (pa.float64(), [0.0, 1.5, float("nan"), None]),
}
NEVER = {"int": 99, "text": "zz", "numeric": Decimal("7.00"), "float": 7.5}


def made(folder: Path, kind: pa.DataType, keys: list[Any]) -> Index:
    """Three runs: rows, of which some are there twice, some go, and some come back."""
    layout = Layout.of({"c0": kind}, {"c1": pa.string()})
    arrangement = Arrangement.open(folder, layout, 0)
    steps = [
        [(key, f"v{place}", 1) for place, key in enumerate(keys)] + [(keys[0], "v0", 2)],
        [(keys[0], "v0", -1), (keys[1], "v1", -1)],
        [(keys[1], "v1", 1), (keys[2], "more", 1)],
    ]
    for time, rows in enumerate(steps):
        table = pa.table(
            {
                "c0": pa.array([row[0] for row in rows], kind),
                "c1": pa.array([row[1] for row in rows]),
                TIME: pa.array([time] * len(rows), pa.int64()),
                DIFF: pa.array([row[2] for row in rows], pa.int64()),
            }
        )
        cover = Cover(time, time + 1)
        write_run(folder, layout, cover, table)
        arrangement.advance(time + 1, [cover])
    return Index(pa.schema([("k", kind), ("v", pa.string())]), ("k",), arrangement)


def counted(rows: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in rows.to_pylist())


@pytest.mark.parametrize("name", KINDS)
def test_one_key_at_every_time(tmp_path: Path, name: str) -> None:
    kind, keys = KINDS[name]
    index = made(tmp_path, kind, keys)
    for time in range(3):
        everything = index.at(time)
        assert everything.schema == index.columns
        found: Counter[str] = Counter()
        for key in keys:
            wanted = pa.table({"k": pa.array([key], kind)})
            rows = index.at(time, wanted)
            assert rows.schema == index.columns
            found += counted(rows)
        assert found == counted(everything)
        missing = pa.table({"k": pa.array([NEVER[name]], kind)})
        assert index.at(time, missing).num_rows == 0
        several = pa.table({"k": pa.array([*keys, NEVER[name]], kind)})
        assert counted(index.at(time, several)) == counted(everything)


@pytest.mark.semantics(12)
def test_a_row_that_is_owed_is_an_error_until_it_comes(tmp_path: Path) -> None:
    """What looks at each row alone has nothing to notice it by; whoever reads it must."""
    layout = Layout.of({"c0": pa.int64()}, {"c1": pa.string()})
    arrangement = Arrangement.open(tmp_path, layout, 0)
    for time, (value, diff) in enumerate([("a", 1), ("b", -1), ("b", 1)]):
        rows = pa.table({"c0": [1], "c1": [value], TIME: [time], DIFF: [diff]})
        write_run(tmp_path, layout, Cover(time, time + 1), rows)
        arrangement.advance(time + 1, [Cover(time, time + 1)])
    index = Index(pa.schema([("k", pa.int64()), ("v", pa.string())]), ("k",), arrangement)
    for wanted in (None, pa.table({"k": [1]})):
        assert index.at(0, wanted).to_pylist() == [{"k": 1, "v": "a"}]
        with pytest.raises(NegativeMultiplicity, match="a negative number of times") as failed:
            index.at(1, wanted)
        assert failed.value.detail == "At time 1 it holds the row (1, b) -1 times."
        assert index.at(2, wanted).to_pylist() == [{"k": 1, "v": "a"}]
    assert index.at(1, pa.table({"k": [2]})).num_rows == 0


def test_how_often_a_row_is_there(tmp_path: Path) -> None:
    kind, keys = KINDS["int"]
    index = made(tmp_path, kind, keys)
    one = pa.table({"k": pa.array([1], kind)})
    assert [index.at(time, one).num_rows for time in range(3)] == [3, 2, 2]
    two = pa.table({"k": pa.array([2], kind)})
    assert [index.at(time, two).num_rows for time in range(3)] == [1, 0, 1]
