"""A union is its deltas together, consolidated."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from test_kernel_histories_property import ANY, VALUES, histories

from waterclock.compute.kernels.linear import negate, union
from waterclock.persist.consolidate import consolidate
from waterclock.testing.examples import examples


@examples(150)
@given(histories([ANY, VALUES, ANY], signed=True), st.integers(0, 20))
def test_a_union_is_consolidated(history: pa.Table, cut: int) -> None:
    parts = [history.slice(0, cut), history.slice(cut), negate(history.slice(0, cut // 2))]
    together = pa.concat_tables(parts).combine_chunks()
    assert union(parts).schema == history.schema
    assert repr(union(parts).to_pylist()) == repr(consolidate(together).to_pylist())
