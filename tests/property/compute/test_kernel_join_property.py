"""At every time: the join's output is the join of what both sides hold at that time."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_histories_property import (
    ANY,
    TIMES,
    VALUES,
    Change,
    Multiset,
    Row,
    assert_settled,
    collide,
    histories,
    holds,
    rows_of,
    windows,
    within,
)

from waterclock.compute.kernels.join import JoinSpec, join
from waterclock.compute.kernels.trace import MemoryTrace, arranged_schema
from waterclock.testing.examples import examples


def normal(value: Row) -> Row:
    """A plain value with zero for minus zero, however deep."""
    if len(value) == 3 and isinstance(value[1], float):
        return (value[0], value[1] + 0.0, 1.0 if value[1] == 0 else value[2])
    return tuple(normal(v) if isinstance(v, tuple) else v for v in value)


def joined(spec: JoinSpec, left: Multiset, right: Multiset) -> Multiset:
    """Nested loops. Key columns are found by the number in their name."""
    places = [
        (int(a[1:]), int(b[1:])) for a, b in zip(spec.left_keys, spec.right_keys, strict=True)
    ]
    result: Multiset = {}
    for a, m in left.items():
        for b, n in right.items():
            keys = [(normal(a[i]), normal(b[j])) for i, j in places]
            if all(
                x == y and (x != () or safe) for (x, y), safe in zip(keys, spec.safe, strict=True)
            ):
                result[a + b] = m * n
    return result


def play(
    spec: JoinSpec, left: pa.Table, right: pa.Table, cut: list[tuple[int, int]], chunk: int
) -> list[Change]:
    traces = [MemoryTrace(arranged_schema(side.schema)) for side in (left, right)]
    output: list[Change] = []
    for window in cut:
        step = join(spec, within(left, window), within(right, window), *traces, chunk_rows=chunk)
        changes = rows_of(step.table())
        assert_settled(changes, window)
        for trace, rows in zip(traces, (step.left, step.right), strict=True):
            assert_settled(rows_of(rows.drop_columns(["hash"])), window)
            trace.insert(rows)
        output += changes
    return output


@st.composite
def sides(draw: st.DrawFn, keys: int) -> tuple[pa.Table, pa.Table, JoinSpec]:
    """Two histories whose key columns have the same types and mostly the same values."""
    signed = draw(st.booleans())
    pools: list[dict[Any, Any]] = []
    for _ in range(keys):
        kind = draw(st.sampled_from(list(ANY)))
        pool = draw(st.lists(ANY[kind] | st.none(), min_size=1, max_size=3))
        pools.append({kind: st.sampled_from(pool)})
    left = draw(histories([*pools, VALUES], signed=signed, prefix="l"))
    right = draw(histories([VALUES, *pools], signed=signed, prefix="r"))
    safe = tuple(draw(st.booleans()) for _ in range(keys))
    spec = JoinSpec(
        tuple(f"l{i}" for i in range(keys)), tuple(f"r{i + 1}" for i in range(keys)), safe
    )
    return left, right, spec


@pytest.mark.semantics(44)
@examples(150)
@given(
    st.integers(0, 2).flatmap(sides),
    windows(),
    st.sampled_from([1, 3, 1 << 20]),
    st.booleans(),
)
def test_join_at_every_time(
    case: tuple[pa.Table, pa.Table, JoinSpec],
    cut: list[tuple[int, int]],
    chunk: int,
    few_hashes: bool,
) -> None:
    left, right, spec = case
    with pytest.MonkeyPatch.context() as patch:
        if few_hashes:
            collide(patch)
        output = play(spec, left, right, cut, chunk)
    sides_changes = rows_of(left), rows_of(right)
    for time in range(TIMES):
        expected = joined(spec, *(holds(changes, time) for changes in sides_changes))
        assert holds(output, time) == expected
