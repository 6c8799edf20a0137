"""Changes of a subscription, put together from its rows; and the statements that calls are."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.client.changes import Pending
from waterclock.client.statements import NotAName, copy_text, subscribe_text

SCHEMA = pa.schema(
    [
        ("mz_timestamp", pa.int64()),
        ("mz_progressed", pa.bool_()),
        ("mz_diff", pa.int64()),
        ("n", pa.int64()),
    ]
)
Row = tuple[int, bool, int | None, int | None]


def rows(*given: Row) -> pa.Table:
    columns = zip(*given, strict=True) if given else [[] for _ in SCHEMA]
    return pa.Table.from_arrays(
        [pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )


def shown(pending: Pending, *given: Row) -> list[tuple[int, list[dict[str, Any]]]]:
    return [(c.upper, c.updates.to_pylist()) for c in pending.add(rows(*given))]


def test_changes_come_when_their_time_is_complete() -> None:
    pending = Pending(SCHEMA)
    assert shown(pending, (5, False, 1, 10), (5, False, 1, 11)) == []
    first, second = {"mz_timestamp": 5, "mz_diff": 1, "n": 10}, {"n": 11}
    assert shown(pending, (6, True, None, None)) == [(6, [first, first | second])]
    assert shown(pending, (7, True, None, None), (9, True, None, None)) == [(7, []), (9, [])]


def test_rows_that_are_ahead_wait() -> None:
    pending = Pending(SCHEMA)
    given: list[Row] = [(5, False, 1, 1), (8, False, -1, 2), (6, True, None, None)]
    [(upper, told)] = shown(pending, *given)
    assert (upper, [row["n"] for row in told]) == (6, [1])
    [(upper, told)] = shown(pending, (9, True, None, None))
    assert (upper, [row["n"] for row in told]) == (9, [2])


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=30), st.data())
def test_nothing_is_lost_or_told_twice(told: list[tuple[int, bool]], data: st.DataObject) -> None:
    """However the rows are cut into batches; each change lies before its upper."""
    given: list[Row] = [(t, p, None if p else 1, None if p else n) for n, (t, p) in enumerate(told)]
    given.append((10, True, None, None))
    cut = data.draw(st.integers(0, len(given)))
    pending = Pending(SCHEMA)
    found = [c for part in (given[:cut], given[cut:]) for c in pending.add(rows(*part))]
    assert all(row["mz_timestamp"] < c.upper for c in found for row in c.updates.to_pylist())
    numbers = [row["n"] for c in found for row in c.updates.to_pylist()]
    assert sorted(numbers) == [row[3] for row in given if row[3] is not None]


@pytest.mark.parametrize(
    ("relation", "expected"),
    [
        ("sales", "SUBSCRIBE TO sales WITH (PROGRESS)"),
        ('public."My View"', 'SUBSCRIBE TO public."My View" WITH (PROGRESS)'),
        ("SELECT 1;", "SUBSCRIBE TO (SELECT 1) WITH (PROGRESS)"),
        ("with a as (select 1) table a", "SUBSCRIBE TO (with a as (select 1) table a) WITH"),
    ],
)
def test_what_is_subscribed_to(relation: str, expected: str) -> None:
    assert subscribe_text(relation, snapshot=True, as_of=None).startswith(expected)


def test_options_of_a_subscription() -> None:
    text = subscribe_text("v", snapshot=False, as_of=7)
    assert text == "SUBSCRIBE TO v WITH (PROGRESS, SNAPSHOT = false) AS OF 7"


@pytest.mark.parametrize("name", ["", "a b", "a.", ".a", "a; drop table b", "a'", "1", "f()"])
def test_other_things_are_no_names(name: str) -> None:
    with pytest.raises(NotAName):
        subscribe_text(name, snapshot=True, as_of=None)
    with pytest.raises(NotAName):
        copy_text(name, ["a"])


def test_columns_are_quoted() -> None:
    assert copy_text("t", ["a", 'B"']) == 'COPY t (a, "B""") FROM STDIN'
