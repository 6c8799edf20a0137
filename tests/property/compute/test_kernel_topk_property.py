"""At every time: what is shown of each group is what sorting its rows at that time shows."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_histories_property import (
    ANY,
    TIMES,
    VALUES,
    Multiset,
    Row,
    collide,
    histories,
    holds,
    plain_row,
    played,
    windows,
)

from waterclock.compute.kernels.topk import OrderBy, TopKSpec, topk
from waterclock.compute.kernels.trace import MemoryTrace, arranged_schema
from waterclock.testing.examples import examples


def evaluated(history: pa.Table, spec: TopKSpec, time: int) -> tuple[Multiset, int]:
    """The output at the time from scratch, and how many groups are in error."""
    counts: dict[Row, int] = {}
    normal: dict[Row, Row] = {}
    for *row, t, d in zip(*(c.to_pylist() for c in history.columns), strict=True):
        if t <= time:
            counts[plain_row(row)] = counts.get(plain_row(row), 0) + d
            normal[plain_row(row)] = plain_row(row, normal=True)
    groups: dict[Row, list[Row]] = {}
    wrong = set()
    for row, n in counts.items():
        key = tuple(normal[row][int(k[1:])] for k in spec.keys)
        groups.setdefault(key, []).extend([row] * n)
        if n < 0:
            wrong.add(key)
    result: Multiset = {}
    for rows in groups.values():
        rows.sort()  # ties: the whole row
        for by in reversed(spec.order):  # sorting is stable, so the first column goes last
            place = int(by.column[1:])
            some = [r for r in rows if r[place] != ()]
            none = [r for r in rows if r[place] == ()]
            some.sort(key=lambda r: normal[r][place], reverse=by.descending)
            rows[:] = none + some if by.nulls_first else some + none
        end = None if spec.limit is None else spec.offset + spec.limit
        for row in rows[spec.offset : end]:
            result[row] = result.get(row, 0) + 1
    return result, len(wrong)


@st.composite
def specs(draw: st.DrawFn, columns: int) -> TopKSpec:
    names = [f"c{i}" for i in range(columns)]
    order = st.builds(OrderBy, st.sampled_from(names), st.booleans(), st.booleans())
    return TopKSpec(
        tuple(names[: draw(st.integers(0, 1))]),
        tuple(draw(st.lists(order, max_size=2))),
        draw(st.none() | st.integers(0, 4)),
        draw(st.integers(0, 3)),
    )


@pytest.mark.semantics(44)
@examples(120)
@given(
    st.booleans().flatmap(lambda s: histories([ANY, VALUES, VALUES], signed=s)),
    windows(),
    specs(3),
    st.booleans(),
)
def test_topk_at_every_time(
    history: pa.Table, cut: list[tuple[int, int]], spec: TopKSpec, few_hashes: bool
) -> None:
    trace = MemoryTrace(arranged_schema(history.schema))
    with pytest.MonkeyPatch.context() as patch:
        if few_hashes:
            collide(patch)
        output, errors = played(lambda d, t: topk(spec, d, t), history, cut, trace)
    for time in range(TIMES):
        expected, wrong = evaluated(history, spec, time)
        assert holds(output, time) == expected
        assert sum(holds(errors, time).values()) == wrong
