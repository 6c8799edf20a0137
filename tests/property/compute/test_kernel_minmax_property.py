"""At every time: each group's least and greatest value are those it has at that time."""

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
    Multiset,
    Row,
    collide,
    histories,
    holds,
    plain,
    plain_row,
    played,
    rows_of,
    windows,
)

from waterclock.compute.kernels.minmax import (
    Extreme,
    MinMaxSpec,
    initial_output,
    minmax,
    state_schema,
)
from waterclock.compute.kernels.trace import MemoryTrace
from waterclock.testing.examples import examples


def evaluated(history: pa.Table, keys: int, time: int, *, always: bool) -> tuple[Multiset, int]:
    """The output at the time from scratch, and how many groups are in error."""
    groups: dict[Row, dict[Any, int]] = {(): {}} if always else {}
    for *row, t, d in zip(*(c.to_pylist() for c in history.columns), strict=True):
        if t <= time:
            members = groups.setdefault(plain_row(row[:keys], normal=True), {})
            value = plain(row[keys], normal=True)
            members[value] = members.get(value, 0) + d
    result: Multiset = {}
    wrong = 0
    for key, members in groups.items():
        if any(n < 0 for n in members.values()):
            wrong += 1
            continue
        values = [v for v, n in members.items() if n and v != ()]
        if always or any(members.values()):
            result[(*key, min(values, default=()), max(values, default=()))] = 1
    return result, wrong


@pytest.mark.semantics(44)
@examples(120)
@given(
    st.tuples(st.integers(0, 2), st.booleans()).flatmap(
        lambda n: st.tuples(st.just(n[0]), histories([*[ANY] * n[0], ANY, VALUES], signed=n[1]))
    ),
    windows(),
    st.booleans(),
    st.booleans(),
)
def test_minmax_at_every_time(
    case: tuple[int, pa.Table], cut: list[tuple[int, int]], few_hashes: bool, always: bool
) -> None:
    keys, history = case
    always = always and keys == 0
    spec = MinMaxSpec(
        tuple(f"c{i}" for i in range(keys)),
        f"c{keys}",
        (("low", Extreme.MIN), ("high", Extreme.MAX)),
        always,
    )
    trace = MemoryTrace(state_schema(spec, history.schema))
    with pytest.MonkeyPatch.context() as patch:
        if few_hashes:
            collide(patch)
        output, errors = played(lambda d, t: minmax(spec, d, t), history, cut, trace)
    output += rows_of(initial_output(spec, history.schema, 0))
    for time in range(TIMES):
        expected, wrong = evaluated(history, keys, time, always=always)
        assert holds(output, time) == expected
        assert sum(holds(errors, time).values()) == wrong
