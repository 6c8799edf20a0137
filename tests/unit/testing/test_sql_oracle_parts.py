"""The parts of the comparison with PostgreSQL that need neither it nor the engine."""

from __future__ import annotations

import random

import pytest

from waterclock.model.pg_types import FLOAT8, INT4, NUMERIC, TEXT
from waterclock.sql.types import parse_type_name
from waterclock.testing.relations import KnownRelations, bound
from waterclock.testing.sql_fuzz.data import COLUMNS, TABLES
from waterclock.testing.sql_fuzz.queries import drawn_query
from waterclock.testing.sql_fuzz.runner import difference
from waterclock.testing.sql_oracle.arguments import combined, pool
from waterclock.testing.sql_oracle.calls import all_calls, cast_calls
from waterclock.testing.sql_oracle.comparing import is_same


def test_few_arguments_are_combined_in_all_ways() -> None:
    assert combined([("1", None), ("a", "b", "c")], 0, 100) == [
        *(("1", "a"), ("1", "b"), ("1", "c"), (None, "a"), (None, "b"), (None, "c")),
    ]
    assert combined([], 0, 100) == [()]


def test_of_many_arguments_each_value_comes_at_least_once() -> None:
    pools = [tuple(str(n) for n in range(30)), tuple(str(n) for n in range(17))]
    rows = combined(pools, 7, 60)
    assert len(rows) == len(set(rows)) == 60
    assert [{row[n] for row in rows} for n in (0, 1)] == [set(each) for each in pools]
    assert rows == combined(pools, 7, 60)


def test_every_type_that_is_called_with_has_values() -> None:
    for call in (*all_calls(), *cast_calls()):
        for spelled in filter(None, call.columns):
            values = pool(parse_type_name(spelled), spelled)
            assert None in values
            assert len(values) > 2


@pytest.mark.parametrize(
    ("ours", "theirs", "kind", "expected"),
    [
        ("=1", "=1", INT4, True),
        ("=1", "=2", INT4, False),
        (None, "=", TEXT, False),
        ("!22012", "!22003", INT4, True),
        ("!22012", "!2201E", INT4, True),
        ("!XX000", "!22003", INT4, False),
        ("!22003", "=1", INT4, False),
        ("=1", "!22003", INT4, False),
        ("=1.50", "=1.50", NUMERIC, True),
        ("=1.5", "=1.50", NUMERIC, False),
        ("=0.3333333333333333", "=0.33333333333333333333", NUMERIC, False),
        ("=0.333", "=0.33333333333333333333", NUMERIC, False),
        ("=NaN", "=1", NUMERIC, False),
        ("=0.1", "=0.10000000000000002", FLOAT8, False),
    ],
)
def test_what_counts_as_the_same(
    ours: str | None, theirs: str | None, kind: object, expected: bool
) -> None:
    assert is_same(ours, theirs, kind) is expected  # type: ignore[arg-type]


def test_the_last_digit_of_a_power_may_differ() -> None:
    one, other = "=9.882117688026185", "=9.882117688026186"
    assert not is_same(one, other, FLOAT8)
    assert is_same(one, other, FLOAT8, "exp")
    assert not is_same("=9.8821", other, FLOAT8, "exp")


@pytest.mark.parametrize("seed", range(40))
def test_random_queries_can_be_bound(seed: int) -> None:
    relations = KnownRelations({name: {"id": "int", **COLUMNS} for name in TABLES})
    chance = random.Random(seed)
    for _ in range(4):
        assert bound(drawn_query(chance), relations).columns


def test_rows_that_differ_are_found() -> None:
    rows = [("1", "1.50"), ("1", None), ("2", "x")]
    assert difference(rows, [rows[2], rows[0], rows[1]], is_ordered=False) is None
    assert difference(rows, [("1", "1.5"), *rows[1:]], is_ordered=True) is None
    assert difference(rows, [rows[1], rows[0], rows[2]], is_ordered=True) is not None
    assert difference(rows, rows[:2], is_ordered=False) is not None
    assert difference(rows, [("1", "1.51"), *rows[1:]], is_ordered=False) is not None
    assert difference([("1",)], [("1",), ("1",)], is_ordered=False) is not None


def test_equal_numbers_may_come_in_any_order() -> None:
    rows = [("1.5",), ("1.50",), ("2",)]
    others = [rows[1], rows[0], rows[2]]
    assert difference(rows, others, is_ordered=True, is_strict=True) is None
    assert difference(rows, others[::-1], is_ordered=True, is_strict=True) is not None
    assert difference(rows, [rows[0], *rows[::2]], is_ordered=True, is_strict=True) is not None
