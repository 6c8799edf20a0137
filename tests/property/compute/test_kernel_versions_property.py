"""At every time: the rows of the versions that are valid then are the rows of the groups."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
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
    rows_of,
    windows,
)

from waterclock.compute.kernels.trace import MemoryTrace, arranged_schema
from waterclock.compute.kernels.versions import BEGIN, END, FIRST, VERSION, versions
from waterclock.persist.rows import TIME
from waterclock.testing.examples import examples


def updates_of(found: pa.Table) -> list[tuple[tuple[object, ...], int, int]]:
    """What the versions stand for: each row from its begin to its end."""
    changes = []
    for row in found.to_pylist():
        values = plain_row(tuple(v for k, v in row.items() if not k.startswith("mz_")))
        if row[BEGIN] is not None:
            changes.append((values, row[BEGIN], 1))
        if row[END] is not None:
            changes.append((values, row[END], -1))
    return changes


@pytest.mark.semantics(44)
@examples(100)
@given(
    st.booleans().flatmap(lambda signed: histories([ANY, VALUES], signed=signed)),
    windows(),
    st.booleans(),
)
def test_the_versions_of_a_group_are_its_rows_at_every_time(
    history: pa.Table, cut: list[tuple[int, int]], few_hashes: bool
) -> None:
    trace = MemoryTrace(arranged_schema(history.schema))
    key = history.schema.names[0]
    changes: list[tuple[tuple[object, ...], int, int]] = []
    with pytest.MonkeyPatch.context() as patch:
        if few_hashes:
            collide(patch)
        for lower, upper in cut:
            inside = pc.and_(pc.greater_equal(history[TIME], lower), pc.less(history[TIME], upper))
            step = versions([key], history.filter(inside), trace)
            assert all(
                t is None or lower <= t < upper
                for name in (BEGIN, END)
                for t in step.output[name].to_pylist()
            )
            firsts = Counter(
                v
                for v, f in zip(
                    step.output[VERSION].to_pylist(), step.output[FIRST].to_pylist(), strict=True
                )
                if f
            )
            assert all(count == 1 for count in firsts.values())
            assert set(firsts) == set(step.output[VERSION].to_pylist())
            changes += updates_of(step.output)
            trace.insert(step.arranged)
    for time in range(TIMES):
        expected = {row: n for row, n in holds(rows_of(history), time).items() if n > 0}
        assert holds(changes, time) == expected
