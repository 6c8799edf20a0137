"""The join: null keys, floats as keys, chunks, columns that have gone, and what is arranged."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest

from waterclock.compute.kernels.join import JoinSpec, join
from waterclock.compute.kernels.trace import MemoryTrace, arranged_schema


def updates(columns: dict[str, list[Any]], times: list[int], diffs: list[int]) -> pa.Table:
    arrays: dict[str, Any] = {n: pa.array(v) for n, v in columns.items()}
    arrays["mz_timestamp"] = pa.array(times, pa.int64())
    arrays["mz_diff"] = pa.array(diffs, pa.int64())
    return pa.table(arrays)


def traces(*deltas: pa.Table) -> list[MemoryTrace]:
    return [MemoryTrace(arranged_schema(delta.schema)) for delta in deltas]


def listed(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True), key=repr)


@pytest.mark.parametrize(("safe", "pairs"), [((), 1), ((False,), 1), ((True,), 2)])
def test_null_keys(safe: tuple[bool, ...], pairs: int) -> None:
    left = updates({"a": [1, None]}, [0, 0], [1, 1])
    right = updates({"b": [1, None]}, [0, 0], [1, 1])
    step = join(JoinSpec(("a",), ("b",), safe), left, right, *traces(left, right))
    assert step.table().num_rows == pairs
    assert step.left.num_rows == step.right.num_rows == pairs


def test_floats_match_as_keys_and_come_out_as_they_were() -> None:
    left = updates({"a": [-0.0, math.nan]}, [0, 0], [1, 1])
    right = updates({"b": [0.0, -math.nan]}, [0, 0], [1, 1])
    found = join(JoinSpec(("a",), ("b",)), left, right, *traces(left, right)).table()
    assert found.num_rows == 2
    signs = [math.copysign(1, v) for v in found["a"].to_pylist() if v == 0]
    assert signs == [-1]


def test_a_pair_comes_to_be_at_the_later_time() -> None:
    left = updates({"a": ["x", "x"]}, [3, 8], [1, -1])
    right = updates({"b": ["x"]}, [5], [2])
    found = join(JoinSpec(("a",), ("b",)), left, right, *traces(left, right)).table()
    assert listed(found) == [("x", "x", 5, 2), ("x", "x", 8, -2)]


def test_what_state_and_delta_make_together_may_cancel() -> None:
    spec = JoinSpec(("a",), ("b",))
    left, right = updates({"a": ["x"]}, [0], [1]), updates({"b": ["x"]}, [9], [1])
    both = traces(left, right)
    first = join(spec, left, right.slice(0, 0), *both)
    assert first.table().num_rows == 0
    both[0].insert(first.left)
    gone = updates({"a": ["x"]}, [9], [-1])
    assert join(spec, gone, right, *both).table().num_rows == 0


def test_no_deltas_no_lookups() -> None:
    class Unread:
        def lookup(self, hashes: Any) -> pa.Table:
            raise AssertionError(hashes)

    left, right = updates({"a": ["x"]}, [0], [1]), updates({"b": ["x"]}, [0], [1])
    step = join(JoinSpec(("a",), ("b",)), left[:0], right[:0], Unread(), Unread())
    assert step.table().schema.names == ["a", "b", "mz_timestamp", "mz_diff"]


def test_cross_join_of_rows_without_columns() -> None:
    left, right = updates({}, [1, 2], [2, 1]), updates({"b": [7]}, [1], [3])
    found = join(JoinSpec((), ()), left, right, *traces(left, right)).table()
    assert listed(found) == [(7, 1, 6), (7, 2, 3)]


def test_large_output_comes_in_chunks() -> None:
    left = updates({"a": list(range(50))}, [0] * 50, [1] * 50)
    right = updates({"b": list(range(30))}, [0] * 30, [1] * 30)
    chunks = list(join(JoinSpec((), ()), left, right, *traces(left, right), chunk_rows=100).output)
    assert [c.num_rows for c in chunks] == [90] * 16 + [60]
    assert len({*listed(pa.concat_tables(chunks))}) == 1500


def test_one_name_on_both_sides_is_refused() -> None:
    one = updates({"a": ["x"]}, [0], [1])
    with pytest.raises(AssertionError, match="rename"):
        join(JoinSpec(("a",), ("a",)), one, one, *traces(one, one))


def test_only_what_is_shown_is_made() -> None:
    left = updates({"a": ["x", "y"], "n": [1, 2]}, [0, 0], [1, 1])
    right = updates({"b": ["x", "y"], "m": [3, 4]}, [0, 0], [1, 2])
    both = traces(left, right)
    step = join(JoinSpec(("a",), ("b",)), left, right, *both, shown={"n", "m"})
    assert listed(step.table()) == [(None, 1, None, 3, 0, 1), (None, 2, None, 4, 0, 2)]
    assert step.left.column_names == ["hash", "a", "n", "mz_timestamp", "mz_diff"]
    assert step.left["a"].null_count == 0


def test_rows_with_several_updates_stay_together_in_chunks() -> None:
    times = [0, 1, 2, 3, 0, 1]
    left = updates({"a": [1, 1, 2, 1, 2, 1]}, times, [1, 1, 1, -1, 1, -1])
    right = updates({"b": [1, 2, 1]}, [0, 0, 2], [1, 1, 1])
    spec = JoinSpec(("a",), ("b",))
    whole = join(spec, left, right, *traces(left, right)).table()
    chunks = list(join(spec, left, right, *traces(left, right), chunk_rows=2).output)
    assert len(chunks) > 1
    assert listed(pa.concat_tables(chunks)) == listed(whole)
    assert len({row[:-1] for row in listed(whole)}) == whole.num_rows
