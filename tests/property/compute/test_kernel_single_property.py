"""At every time: the one row of each group, an error for a group of several, nulls for nothing."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_histories_property import (
    ANY,
    TIMES,
    Multiset,
    collide,
    histories,
    holds,
    plain_row,
    played,
    rows_of,
    windows,
)

from waterclock.compute.kernels.errors import NEGATIVE
from waterclock.compute.kernels.single import SEVERAL, initial_output, single
from waterclock.compute.kernels.trace import MemoryTrace, arranged_schema
from waterclock.testing.examples import examples


def contents(history: pa.Table, keys: int, time: int) -> dict[Any, Multiset]:
    """What each group holds; rows that differ in the sign of a zero are different rows."""
    groups: dict[Any, Multiset] = defaultdict(dict)
    for *row, t, d in zip(*(c.to_pylist() for c in history.columns), strict=True):
        if t <= time:
            group = groups[plain_row(row[:keys], normal=True)]
            shown = plain_row(row)
            group[shown] = group.get(shown, 0) + d
    return {key: {row: n for row, n in group.items() if n} for key, group in groups.items()}


def evaluated(history: pa.Table, keys: int, time: int) -> tuple[Multiset, list[str]]:
    """The output at the time from scratch, and the errors that hold."""
    groups = contents(history, keys, time)
    if not keys:
        groups = groups or {(): {}}
    output: Multiset = {}
    errors: list[str] = []
    for group in groups.values():
        if any(n < 0 for n in group.values()):
            errors.append(NEGATIVE)
        elif sum(group.values()) > 1:
            errors.append(SEVERAL)
        elif group:
            output |= group
        elif not keys:
            output[plain_row([None] * (history.num_columns - 2))] = 1
    return output, sorted(errors)


@pytest.mark.semantics(44, 45)
@examples(150)
@given(
    st.integers(0, 2).flatmap(
        lambda n: st.tuples(
            st.just(n), st.booleans().flatmap(lambda s: histories([ANY] * (n + 1), signed=s))
        )
    ),
    windows(),
    st.booleans(),
)
def test_single_at_every_time(
    case: tuple[int, pa.Table], cut: list[tuple[int, int]], few_hashes: bool
) -> None:
    number, history = case
    keys = tuple(f"c{i}" for i in range(number))
    trace = MemoryTrace(arranged_schema(history.schema))
    with pytest.MonkeyPatch.context() as patch:
        if few_hashes:
            collide(patch)
        output, errors = played(lambda d, t: single(keys, d, t), history, cut, trace)
    output += rows_of(initial_output(keys, history.schema, 0))
    for time in range(TIMES):
        expected, wrong = evaluated(history, number, time)
        assert holds(output, time) == expected
        held = [(row[1][0], n) for row, n in holds(errors, time).items()]
        assert sorted(text for text, n in held for _ in range(n)) == wrong
