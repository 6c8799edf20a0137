"""The sum of many updates that is kept in a file is the one that is made in memory."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from waterclock.compute.dataflow.summing import summed
from waterclock.compute.kernels.linear import negate, union
from waterclock.persist import spill
from waterclock.persist.rows import DIFF, TIME

SCHEMA = pa.schema(
    [
        ("c0", pa.int64()),
        ("c1", pa.string()),
        pa.field(TIME, pa.int64(), nullable=False),
        pa.field(DIFF, pa.int64(), nullable=False),
    ]
)


def changes(choose: random.Random, rows: int) -> pa.Table:
    found = [
        (choose.choice([None, 1, 2]), choose.choice(["a", None]), choose.randrange(3), sign)
        for sign in (choose.choice([1, -1]) for _ in range(rows))
    ]
    columns = zip(*found, strict=True) if found else ([] for _ in SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], SCHEMA)


@pytest.mark.parametrize("most", [2, 1000])
def test_it_is_the_same_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(spill, "IN_MEMORY_ROWS", most)
    choose = random.Random(most)
    for _ in range(20):
        one, other, nothing = (changes(choose, n) for n in (choose.randrange(30), 25, 0))
        one = pa.concat_tables([nothing, one, nothing])  # as it comes from several tasks
        found = summed([(one, True), (other, False)], tmp_path)
        assert found.schema == SCHEMA
        expected = union([one, negate(other)])
        assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
