"""A peek gives what looking the key up among all rows gives, or says that it can not."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.compute.index import Index
from waterclock.compute.peek import hash_of
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.hashing import hash_rows
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.examples import examples

TEXTS = st.text(max_size=40)
PLAIN: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int16(), st.integers(-(2**15), 2**15 - 1)),
    (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.bool_(), st.booleans()),
    (pa.string(), TEXTS),
]


@given(st.data(), st.lists(st.sampled_from(PLAIN), min_size=1, max_size=3))
@examples(100)
def test_a_key_has_the_hash_that_its_row_has(
    data: st.DataObject, columns: list[tuple[pa.DataType, st.SearchStrategy[Any]]]
) -> None:
    key = tuple(data.draw(values) for _, values in columns)
    arrays = [pa.array([value], kind) for value, (kind, _) in zip(key, columns, strict=True)]
    assert hash_of(key) == int(hash_rows(arrays, 1)[0])


UPDATES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.sampled_from("xy"), st.just(1)),
    max_size=8,
)
STEPS = st.lists(UPDATES, min_size=1, max_size=5)


def made(folder: Path, steps: list[list[tuple[int, str, str, int]]], *, merge: bool) -> Index:
    """An index over (number, text) with one run for each step."""
    layout = Layout.of({"c1": pa.int32(), "c0": pa.string()}, {"c2": pa.string()})
    arrangement = Arrangement.open(folder, layout, 0)
    for time, rows in enumerate(steps):
        table = pa.table(
            {
                "c1": pa.array([row[0] for row in rows], pa.int32()),
                "c0": pa.array([row[1] for row in rows], pa.string()),
                "c2": pa.array([row[2] for row in rows], pa.string()),
                TIME: pa.array([time] * len(rows), pa.int64()),
                DIFF: pa.array([row[3] for row in rows], pa.int64()),
            }
        )
        cover = Cover(time, time + 1)
        run = write_run(folder, layout, cover, table)
        arrangement.advance(time + 1, [] if run is None else [cover])
    if merge:
        for _ in arrangement.merge(0):
            pass
    columns = pa.schema([("t", pa.string()), ("n", pa.int32()), ("v", pa.string())])
    return Index(columns, ("n", "t"), arrangement)


def with_retractions(
    data: st.DataObject, steps: list[list[tuple[int, str, str, int]]]
) -> list[list[tuple[int, str, str, int]]]:
    """The steps, with some of the rows that are there taken away again."""
    there: Counter[tuple[int, str, str]] = Counter()
    result = []
    for step in steps:
        gone = [row for row in there if there[row] > 0 and data.draw(st.integers(0, 4)) == 0]
        result.append([*step, *((*row, -1) for row in gone)])
        there.update(row[:3] for row in step)
        there.subtract(gone)
    return result


@given(st.data(), STEPS, st.booleans(), st.booleans())
@examples(60)
def test_a_peek_is_a_lookup(
    data: st.DataObject,
    steps: list[list[tuple[int, str, str, int]]],
    merge: bool,
    retract: bool,
) -> None:
    if retract:
        steps = with_retractions(data, steps)
    with tempfile.TemporaryDirectory() as folder:
        index = made(Path(folder), steps, merge=merge)
        names = data.draw(st.permutations(["v", "n", "t"]))
        shown = index.shown(names)
        assert shown is not None
        peek = index.peek()
        assert peek.upper == len(steps)
        for time in range(len(steps)):
            for key in [(n, t) for n in range(5) for t in "ab"]:
                wanted = pa.table({"n": pa.array([key[0]], pa.int32()), "t": [key[1]]})
                rows = index.at(time, wanted).select(names).to_pylist()
                found = peek.rows(time, key, shown)
                if found is None:
                    assert retract, "nothing cancels, so nothing is hard"
                    continue
                assert all(batch.schema.names == ["c0", "c1", "c2"] for batch in found)
                values = [tuple(row.values()) for batch in found for row in batch.to_pylist()]
                assert Counter(values) == Counter(tuple(row.values()) for row in rows)


def test_a_peek_outlives_a_merge(tmp_path: Path) -> None:
    steps = [[(1, "a", f"v{time}", 1)] for time in range(4)]
    index = made(tmp_path, steps, merge=False)
    shown = index.shown(["v"])
    assert shown is not None
    peek = index.peek()
    for _ in index.arrangement.merge(3):
        pass
    assert len(index.peek().runs) < len(peek.runs)
    for time in range(4):
        found = peek.rows(time, (1, "a"), shown)
        assert found is not None
        assert sum(batch.num_rows for batch in found) == time + 1


def test_many_rows_are_left_to_the_lookup(tmp_path: Path) -> None:
    steps = [[(1, "a", f"v{n}", 1) for n in range(100)], [(2, "b", "often", 100)]]
    index = made(tmp_path, steps, merge=False)
    shown = index.shown(["v"])
    assert shown is not None
    assert index.peek().rows(1, (1, "a"), shown) is None
    assert index.peek().rows(1, (2, "b"), shown) is None
    assert index.peek().rows(1, (3, "b"), shown) == []


@pytest.mark.parametrize("kind", [pa.float64(), pa.decimal128(10, 2), pa.date32(), pa.binary()])
def test_keys_of_other_types_are_left_to_the_lookup(tmp_path: Path, kind: pa.DataType) -> None:
    layout = Layout.of({"c0": kind}, {"c1": pa.string()})
    arrangement = Arrangement.open(tmp_path, layout, 0)
    columns = pa.schema([("k", kind), ("v", pa.string())])
    assert Index(columns, ("k",), arrangement).shown(["v"]) is None
