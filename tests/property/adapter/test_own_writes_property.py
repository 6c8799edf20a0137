"""Rows with changes on top are the multiset that the changes make of them."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from waterclock.adapter.own_writes import net, with_changes
from waterclock.persist.rows import DIFF

ROWS = st.tuples(st.one_of(st.none(), st.integers(0, 2)), st.sampled_from(["a", "b", None]))
SCHEMA = pa.schema([("x", pa.int32()), ("y", pa.string())])


def table(rows: list[tuple[int | None, str | None]]) -> pa.Table:
    columns = [pa.array([row[place] for row in rows], SCHEMA.types[place]) for place in (0, 1)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


def with_diffs(changes: list[tuple[tuple[int | None, str | None], int]]) -> pa.Table:
    diffs = pa.array([diff for _, diff in changes], pa.int64())
    field = pa.field(DIFF, pa.int64(), nullable=False)
    return table([row for row, _ in changes]).append_column(field, diffs)


def counted(rows: pa.Table) -> Counter[tuple[object, ...]]:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


@given(st.lists(ROWS), st.data())
def test_rows_with_changes_are_a_sum(
    rows: list[tuple[int | None, str | None]], data: st.DataObject
) -> None:
    left = Counter(rows)
    changes: list[tuple[tuple[int | None, str | None], int]] = []
    for _ in range(data.draw(st.integers(0, 8))):
        row = data.draw(ROWS)
        diff = data.draw(st.sampled_from([1, -1])) if left[row] else 1  # only what is there goes
        left[row] += diff
        changes.append((row, diff))
    assert counted(with_changes(table(rows), with_diffs(changes))) == left


@given(st.lists(st.tuples(ROWS, st.sampled_from([1, -1]))))
def test_net_changes_are_the_sum_of_each_row(
    changes: list[tuple[tuple[int | None, str | None], int]],
) -> None:
    found = net(with_diffs(changes))
    sums: Counter[tuple[object, ...]] = Counter()
    for row, diff in changes:
        sums[row] += diff
    kept = zip(*(column.to_pylist() for column in found.columns), strict=True)
    assert {row[:-1]: row[-1] for row in kept} == {row: n for row, n in sums.items() if n}
