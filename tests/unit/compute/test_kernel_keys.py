"""Which keys are the same, and in which order values and rows are."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from waterclock.compute.kernels.codes import ascending, dense_rows, equal_rows, ordinals, spread
from waterclock.compute.kernels.cover import is_covered, lowest_cover
from waterclock.compute.kernels.keys import key_hashes, matchable, normalised, shared_codes
from waterclock.compute.kernels.order import directed, lexicographic, ranks
from waterclock.compute.kernels.trace import MemoryTrace, arranged, arranged_schema

STRUCT = pa.struct([("x", pa.float64())])
MAP = pa.map_(pa.string(), pa.float64())


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.float64(), [-0.0, 0.0]),
        (pa.float32(), [-0.0, 0.0]),
        (pa.list_(pa.float64()), [[1.0, -0.0], [1.0, 0.0]]),
        (STRUCT, [{"x": -0.0}, {"x": 0.0}]),
        (pa.list_(STRUCT), [[{"x": -0.0}, None], [{"x": 0.0}, None]]),
        (MAP, [[("a", -0.0), ("b", None)], [("a", 0.0), ("b", None)]]),
    ],
)
def test_minus_zero_is_the_same_key_as_zero(kind: pa.DataType, values: list[Any]) -> None:
    keys = [normalised(pa.array([*values, None], kind).slice(0, 2))]
    left, right, count = shared_codes([keys[0][:1]], [keys[0][1:]], (1, 1))
    assert count == 1
    assert left == right
    assert len(set(key_hashes(keys, 2).tolist())) == 1


def test_every_nan_is_the_same_key() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000000], np.uint64)
    keys = [normalised(pa.array(bits.view(np.float64)))]
    assert dense_rows(keys, 3)[0].tolist() == [1, 1, 0]
    first, second, infinity = key_hashes(keys, 3).tolist()
    assert first == second != infinity


def test_normalisation_keeps_nulls_and_slices() -> None:
    array = pa.array([[9.0], None, [], [None, -0.0]], pa.list_(pa.float64())).slice(1)
    assert normalised(array).to_pylist() == [None, [], [None, 0.0]]
    structs = pa.array([{"x": 1.0}, None, {"x": None}], STRUCT).slice(1)
    assert normalised(structs).to_pylist() == [None, {"x": None}]
    maps = pa.array([[("a", 1.0)], None, [], [("a", -0.0), ("b", None)]], MAP).slice(1)
    assert normalised(maps).type == MAP
    assert normalised(maps).to_pylist() == [None, [], [("a", 0.0), ("b", None)]]


def test_a_null_matches_only_where_that_is_asked_for() -> None:
    column = pa.array([1, None])
    assert matchable([column], [False], 2).tolist() == [True, False]
    assert matchable([column], [True], 2).tolist() == [True, True]


@pytest.mark.parametrize(
    ("kind", "ascending_values"),
    [
        (pa.float64(), [None, -math.inf, -1.0, -0.0, 0.0, 5e-324, math.inf, math.nan]),
        (pa.string(), [None, "", "a", "a\0", "aa", "b", "\u00e9", "\U0001f600"]),
        (pa.binary(), [None, b"", b"\x00", b"\x7f", b"\x80\x00", b"\xff"]),
        (pa.binary(2), [None, b"\x00\x01", b"\x7f\xff", b"\x80\x00"]),
        (pa.decimal128(38, 2), [None, Decimal("-1E35"), Decimal("-0.01"), Decimal(0), Decimal(9)]),
        (pa.bool_(), [None, False, True]),
        (pa.int64(), [None, -(2**63), -1, 0, 2**63 - 1]),
        (pa.list_(pa.int64()), [None, [], [None], [None, 1], [1], [1, None], [1, 0], [2]]),
        (STRUCT, [None, {"x": None}, {"x": -0.0}, {"x": 0.0}, {"x": math.nan}]),
        (MAP, [None, [], [("a", None)], [("a", 1.0)], [("a", 1.0), ("b", 0.0)], [("b", 0.0)]]),
    ],
)
def test_one_order_for_each_type(kind: pa.DataType, ascending_values: list[Any]) -> None:
    found = ranks(pa.array(ascending_values[::-1], kind))[::-1]
    assert found[0] == 0
    assert np.all(np.diff(found) > 0)


def test_directions_and_places_of_nulls() -> None:
    rank = np.array([0, 1, 2])
    order = {
        (d, n): np.argsort(directed(rank, descending=d, nulls_first=n)).tolist()
        for d in (False, True)
        for n in (False, True)
    }
    assert order == {
        (False, True): [0, 1, 2],
        (False, False): [1, 2, 0],
        (True, True): [0, 2, 1],
        (True, False): [2, 1, 0],
    }


def test_many_wide_columns_still_order_row_by_row() -> None:
    columns = [np.array([0, 2**40, 1, 2**40]), np.array([5, 2**40, 5, 0]), np.array([1, 0, 0, 9])]
    assert np.argsort(lexicographic(columns, 4)).tolist() == [0, 2, 3, 1]


@pytest.mark.parametrize("width", [2, 5])
def test_structs_of_many_values_are_ranked_without_gaps(width: int) -> None:
    """Else a table of all ranks has no room in memory, and two structs none in 64 bits."""
    draw = np.random.default_rng(3)
    fields = [draw.permutation(4000) for _ in range(width)]
    names = [f"f{n}" for n in range(width)]
    found = ranks(pa.StructArray.from_arrays(list(map(pa.array, fields)), names=names))
    assert (found == fields[0] + 1).all()
    before = draw.permutation(4000) // 40
    rows = sorted(range(4000), key=lambda n: (before[n], fields[0][n]))
    assert np.argsort(lexicographic([before, found], 4000)).tolist() == rows


def test_numbers_of_any_range_are_ordered() -> None:
    extremes = np.array([2**63 - 1, -(2**63), 0, -(2**63)])
    assert ascending(extremes).tolist() == [1, 3, 2, 0]
    assert ordinals(extremes)[0].tolist() == [2, 0, 1, 0]
    sparse = np.array([10**15, 5, 10**15])
    assert ordinals(sparse)[0].tolist() == [1, 0, 1]
    assert ordinals(sparse)[1].tolist() == [5, 10**15]


def test_rows_told_apart_by_many_wide_columns() -> None:
    values = np.arange(3000) * 10**14
    columns = [pa.array(np.roll(values, i)) for i in range(6)] + [pa.array(["x"] * 3000)]
    doubled = [pa.concat_arrays([column, column]) for column in columns]
    codes, count = dense_rows(doubled, 6000)
    assert count == 3000
    assert (codes[:3000] == codes[3000:]).all()


@pytest.mark.parametrize(
    ("columns", "firsts"),
    [
        ([pa.array([7, 5, 7, None, None])], [0, 1, 0, 3, 3]),
        ([pa.array([2**63 - 1, -(2**63), 2**63 - 1])], [0, 1, 0]),
        ([pa.array([10**18 + n % 2 for n in range(4)])] * 3, [0, 1, 0, 1]),
        ([pa.array(["a", "b", "a"]), pa.array([1, 1, 1])], [0, 1, 0]),
        ([pa.array([math.nan, 0.0, -0.0, -math.nan])], [0, 1, 2, 0]),
        ([pa.array([{"x": 1}, {"x": 2}, {"x": 1}])], [0, 1, 0]),
        ([pa.nulls(2), pa.nulls(2, pa.int64())], [0, 0]),
        ([pa.nulls(3), pa.array([1, 2, 1])], [0, 1, 0]),
        ([], [0, 0]),
    ],
)
def test_rows_that_are_equal_have_the_place_of_the_first(
    columns: list[pa.Array], firsts: list[int]
) -> None:
    found = equal_rows(columns, len(firsts))
    assert found is not None
    assert found.tolist() == firsts


@pytest.mark.parametrize(
    "column", [pa.array(range(5)), pa.array(["a", "b", None]), pa.array([], pa.int64())]
)
def test_rows_that_all_differ(column: pa.Array) -> None:
    assert equal_rows([column], len(column)) is None


def test_equal_rows_are_those_that_have_one_number() -> None:
    draw = np.random.default_rng(5)
    wide = draw.integers(-(2**63), 2**63 - 1, 300)[draw.integers(0, 300, 2000)]
    texts = pa.array([f"text {n}" for n in draw.integers(0, 3, 2000)])
    for columns in ([pa.array(wide)], [pa.array(wide), texts], [pa.array(wide % 7), texts]):
        codes, count = dense_rows(columns, 2000)
        found = equal_rows(columns, 2000)
        assert found is not None
        assert len(np.unique(found)) == count
        assert (codes[found] == codes).all()
        assert (found <= np.arange(2000)).all()


def test_ranges_are_laid_out_one_after_the_other() -> None:
    assert spread(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    assert spread(np.array([], np.int64), np.array([], np.int64)).tolist() == []


def test_cover_against_the_definition() -> None:
    draw = np.random.default_rng(7)
    for size in (1, 2, 5, 33):
        starts = draw.integers(0, size, 12)
        ends = draw.integers(starts, size) + 1
        values = draw.integers(0, 9, 12)
        spans = list(zip(starts.tolist(), ends.tolist(), values.tolist(), strict=True))
        lowest = [min((v for a, b, v in spans if a <= i < b), default=99) for i in range(size)]
        assert lowest_cover(starts, ends, values, size, 99).tolist() == lowest
        assert is_covered(starts, ends, size).tolist() == [v != 99 for v in lowest]


def test_memory_trace_forgets_what_cancels_out() -> None:
    table = pa.table({"k": ["a"], "mz_timestamp": [3], "mz_diff": [2]})
    trace = MemoryTrace(arranged_schema(table.schema))
    hashes = np.array([7], np.uint64)
    trace.insert(arranged(table, hashes))
    assert trace.lookup(hashes)["mz_diff"].to_pylist() == [2]
    trace.insert(arranged(table.set_column(2, "mz_diff", [[-2]]), hashes))
    assert trace.num_rows == 0
    assert trace.lookup(hashes).schema == arranged_schema(table.schema)


@pytest.mark.parametrize("alike", [3, 1500])
def test_rows_that_agree_in_the_columns_that_fit_are_compared_in_all(alike: int) -> None:
    """Few agree, and are compared; or so many that their hashes tell them apart more quickly."""
    rng = np.random.default_rng(4)
    wide, wider = rng.integers(0, 2**45, 2000), rng.integers(0, 2**60, 2000)
    wide[:alike] = wide[0]
    wider[alike - 1] = wider[0]
    wider[-1], wide[-1] = wider[-2], wide[-2]
    found = equal_rows([pa.array(wide), pa.array(wider), pa.array(["x"] * 2000)], 2000)
    expected = np.arange(2000)
    expected[alike - 1], expected[-1] = 0, 1998
    assert found is not None
    assert found.tolist() == expected.tolist()
