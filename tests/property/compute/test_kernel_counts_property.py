"""At every time: distinct and threshold are what they are of the multiset at that time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_histories_property import (
    ANY,
    TIMES,
    VALUES,
    collide,
    histories,
    holds,
    plain_row,
    played,
    rows_of,
    windows,
)

from waterclock.compute.kernels.distinct import distinct
from waterclock.compute.kernels.threshold import threshold
from waterclock.compute.kernels.trace import MemoryTrace, arranged_schema
from waterclock.testing.examples import examples


def normal(history: pa.Table) -> list[tuple[tuple[object, ...], int, int]]:
    """The history with zero for minus zero."""
    values = zip(*(c.to_pylist() for c in history.columns), strict=True)
    return [(plain_row(v[:-2], normal=True), v[-2], v[-1]) for v in values]


@pytest.mark.semantics(44)
@examples(100)
@given(st.booleans().flatmap(lambda s: histories([ANY, VALUES], signed=s)), windows())
def test_distinct_at_every_time(history: pa.Table, cut: list[tuple[int, int]]) -> None:
    trace = MemoryTrace(arranged_schema(history.schema))
    output, errors = played(distinct, history, cut, trace)
    for time in range(TIMES):
        counts = holds(normal(history), time)
        assert holds(output, time) == {row: 1 for row, n in counts.items() if n > 0}
        assert sum(holds(errors, time).values()) == sum(n < 0 for n in counts.values())


@pytest.mark.semantics(44)
@examples(100)
@given(histories([ANY, VALUES], signed=True), windows(), st.booleans())
def test_threshold_at_every_time(
    history: pa.Table, cut: list[tuple[int, int]], few_hashes: bool
) -> None:
    trace = MemoryTrace(arranged_schema(history.schema))
    with pytest.MonkeyPatch.context() as patch:
        if few_hashes:
            collide(patch)
        output, errors = played(threshold, history, cut, trace)
    for time in range(TIMES):
        counts = holds(normal(history), time)
        assert holds(output, time) == {row: n for row, n in counts.items() if n > 0}
    assert not errors
    assert rows_of(history.slice(0, 0)) == []
