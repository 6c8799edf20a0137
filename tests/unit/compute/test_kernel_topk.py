"""Top-k, distinct, threshold and the operators without state: places, ties and negative counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from waterclock.compute.kernels import keys
from waterclock.compute.kernels.distinct import distinct
from waterclock.compute.kernels.errors import NEGATIVE
from waterclock.compute.kernels.linear import negate, union
from waterclock.compute.kernels.step import Step
from waterclock.compute.kernels.threshold import threshold
from waterclock.compute.kernels.topk import OrderBy, TopKSpec, topk
from waterclock.compute.kernels.trace import MemoryTrace, arranged_schema

COLUMNS = pa.schema(
    [(n, k) for n, k in (("g", pa.string()), ("v", pa.int64()), ("w", pa.string()))]
    + [("mz_timestamp", pa.int64()), ("mz_diff", pa.int64())]
)


def updates(*rows: tuple[Any, ...]) -> pa.Table:
    return pa.Table.from_pylist(
        [dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS
    )


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    rows = zip(*(c.to_pylist() for c in table.columns), strict=True)
    return sorted(rows, key=lambda r: (r[-2], r[-1], repr(r)))


def run(spec: TopKSpec, *deltas: pa.Table) -> list[Step]:
    trace = MemoryTrace(arranged_schema(COLUMNS))
    steps = []
    for delta in deltas:
        steps.append(topk(spec, delta, trace))
        trace.insert(steps[-1].arranged)
    return steps


def test_ties_go_by_the_whole_row_whatever_the_order_of_arrival() -> None:
    rows = [("g", 1, "c", 0, 1), ("g", 1, "a", 0, 1), ("g", 1, None, 0, 1), ("g", 1, "b", 0, 1)]
    spec = TopKSpec(("g",), (OrderBy("v"),), 2)
    for given in (rows, rows[::-1]):
        assert [r[2] for r in listed(run(spec, updates(*given))[0].output)] == ["a", None]


def test_offset_cuts_copies_of_a_row() -> None:
    delta = updates(("g", 1, "a", 0, 3), ("g", 2, "b", 0, 2))
    (step,) = run(TopKSpec(("g",), (OrderBy("v"),), 2, 2), delta)
    assert listed(step.output) == [("g", 1, "a", 0, 1), ("g", 2, "b", 0, 1)]


def test_a_row_moves_up_when_one_before_it_goes() -> None:
    spec = TopKSpec(("g",), (OrderBy("v", descending=True),), 1)
    first, second = run(
        spec,
        updates(("g", 1, "a", 0, 1), ("g", 9, "b", 0, 1), ("h", 5, "c", 0, 1)),
        updates(("g", 9, "b", 4, -1), ("g", 7, "d", 6, 1)),
    )
    assert first.output.num_rows == 2
    assert listed(second.output) == [
        ("g", 9, "b", 4, -1),
        ("g", 1, "a", 4, 1),
        ("g", 1, "a", 6, -1),
        ("g", 7, "d", 6, 1),
    ]


def test_a_group_vanishes_and_returns_within_one_step() -> None:
    (step,) = run(
        TopKSpec(("g",), (), 5),
        updates(("g", 1, "a", 0, 1), ("g", 1, "a", 2, -1), ("g", 1, "a", 3, 1)),
    )
    assert [r[-2:] for r in listed(step.output)] == [(0, 1), (2, -1), (3, 1)]


@pytest.mark.parametrize(
    ("nulls_first", "descending", "shown"),
    [(True, False, None), (False, False, 1), (True, True, None), (False, True, 2)],
)
def test_places_of_nulls(nulls_first: bool, descending: bool, shown: int | None) -> None:
    delta = updates(("g", 2, "a", 0, 1), ("g", None, "b", 0, 1), ("g", 1, "c", 0, 1))
    (step,) = run(TopKSpec((), (OrderBy("v", descending, nulls_first),), 1), delta)
    assert step.output["v"].to_pylist() == [shown]


def test_zero_and_minus_zero_tie() -> None:
    delta = pa.table({"w": ["a", "b"], "v": [0.0, -0.0], "mz_timestamp": [0, 0], "mz_diff": [1, 1]})
    trace = MemoryTrace(arranged_schema(delta.schema))
    step = topk(TopKSpec((), (OrderBy("v"),), 1), delta, trace)
    assert step.output["w"].to_pylist() == ["a"]


def test_the_last_row_shown_gives_way_though_the_step_does_not_touch_it() -> None:
    _, second = run(
        TopKSpec((), (OrderBy("v"),), 2),
        updates(("g", 3, "a", 0, 1), ("g", 5, "b", 0, 1), ("g", 7, "c", 0, 1)),
        updates(("g", 1, "d", 1, 1)),
    )
    assert listed(second.output) == [("g", 5, "b", 1, -1), ("g", 1, "d", 1, 1)]


def test_groups_whose_keys_share_a_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "hash_rows", lambda _, length: np.zeros(length, np.uint64))
    _, second = run(
        TopKSpec(("g",), (OrderBy("v"),), 1),
        updates(("g", 3, "a", 0, 1), ("h", 1, "b", 0, 1)),
        updates(("g", 2, "c", 1, 1), ("i", 9, "d", 1, 1)),
    )
    assert listed(second.output) == [
        ("g", 3, "a", 1, -1),
        ("g", 2, "c", 1, 1),
        ("i", 9, "d", 1, 1),
    ]


def test_no_places_and_no_limit() -> None:
    delta = updates(("g", 2, "a", 0, 1), ("g", 1, "b", 0, 1))
    assert run(TopKSpec((), (OrderBy("v"),), 0), delta)[0].output.num_rows == 0
    assert run(TopKSpec((), (OrderBy("v"),), None, 1), delta)[0].output["w"].to_pylist() == ["a"]


def test_a_negative_count_is_an_error_until_it_heals() -> None:
    first, second = run(
        TopKSpec(("g",), (OrderBy("v"),), 1),
        updates(("g", 1, "a", 0, -1), ("g", 2, "b", 1, 1)),
        updates(("g", 1, "a", 5, 1)),
    )
    assert listed(first.errors) == [("(g)", NEGATIVE, 0, 1)]
    assert listed(first.output) == [("g", 2, "b", 1, 1)]
    assert listed(second.errors) == [("(g)", NEGATIVE, 5, -1)]
    assert second.output.num_rows == 0


def test_distinct_reports_what_was_never_there() -> None:
    trace = MemoryTrace(arranged_schema(COLUMNS))
    step = distinct(updates(("g", None, "a", 0, -1), ("g", 1, "b", 0, 5)), trace)
    assert listed(step.errors) == [("(g, null, a)", NEGATIVE, 0, 1)]
    assert listed(step.output) == [("g", 1, "b", 0, 1)]


def test_except_all_is_the_threshold_of_a_difference() -> None:
    left = updates(("g", 1, "a", 0, 3), ("g", 1, "b", 0, 1))
    right = updates(("g", 1, "a", 1, 1), ("g", 1, "b", 1, 2), ("g", 1, "c", 1, 1))
    trace = MemoryTrace(arranged_schema(COLUMNS))
    step = threshold(union([left, negate(right)]), trace)
    assert listed(step.output) == [
        ("g", 1, "b", 0, 1),
        ("g", 1, "a", 0, 3),
        ("g", 1, "a", 1, -1),
        ("g", 1, "b", 1, -1),
    ]
    assert step.errors.num_rows == 0
    strict = threshold(negate(right), MemoryTrace(arranged_schema(COLUMNS)), expect_negative=False)
    assert strict.errors.num_rows == 3


def test_nothing_in_nothing_out() -> None:
    trace = MemoryTrace(arranged_schema(COLUMNS))
    for step in (distinct(updates(), trace), topk(TopKSpec((), (), 1), updates(), trace)):
        assert step.output.schema == COLUMNS
        assert step.arranged.schema == arranged_schema(COLUMNS)
        assert step.output.num_rows == step.arranged.num_rows == step.errors.num_rows == 0
