"""The fuzzer without Spark: cases from seeds, histories, and making cases smaller."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from waterclock.testing.fuzz.case import Case, drawn, from_parts, to_text
from waterclock.testing.fuzz.histories import contents, times_of, updates
from waterclock.testing.fuzz.shrink import shrunk
from waterclock.testing.fuzz.trees import clause, listed, query, simpler

SEEDS = range(60)

WANTED = {
    "inner join",
    "left join",
    "right join",
    "full join",
    "cross join",
    "semi join",
    "anti join",
    "lateral join",
    "join without equality",
    "equality",
    "null-safe equality",
    "residual condition",
    "in",
    "not in",
    "exists",
    "not exists",
    "scalar subquery",
    "correlated scalar subquery",
    "subquery under OR",
    "nested subquery",
    "filter",
    "distinct aggregate",
    "several distinct aggregates",
    "rollup",
    "cube",
    "grouping sets",
    "having",
    "global aggregate",
    "spread",
    "ordered aggregate",
    "aggregate without a kernel",
    "distinct",
    "union",
    "union all",
    "intersect",
    "intersect all",
    "except",
    "except all",
    "window: total",
    "window: peers",
    "window: whole",
    "order by and limit",
    "top rows of a group",
    "cte",
    "nested view",
    "nested query",
    "constant rows",
    "generate: array",
    "generate: sequence",
    "generate: split",
    "generate: position",
    "generate: stack",
}


def test_a_seed_decides_everything() -> None:
    assert [to_text(drawn(seed)) for seed in SEEDS] == [to_text(drawn(seed)) for seed in SEEDS]
    assert len({to_text(drawn(seed)) for seed in SEEDS}) == len(SEEDS)


def test_the_grammar_makes_everything_it_should() -> None:
    made: Counter[str] = Counter()
    for seed in range(200):
        for asked in drawn(seed).queries:
            made.update(asked.features)
    assert set(made) >= WANTED


@pytest.mark.parametrize("seed", SEEDS)
def test_a_case_is_the_same_after_json(seed: int) -> None:
    case = drawn(seed)
    read = from_parts(json.loads(to_text(case)))
    assert to_text(read) == to_text(case)
    assert read.relations == case.relations
    assert read.lives == case.lives
    assert read.steps == case.steps
    for before, after in zip(case.queries, read.queries, strict=True):
        assert (before.comes, before.goes) == (after.comes, after.goes)


@pytest.mark.parametrize("seed", SEEDS)
def test_histories_never_take_away_what_is_not_there(seed: int) -> None:
    case = drawn(seed)
    for name in case.relations:
        held: Counter[tuple[object, ...]] = Counter()
        lower = 0
        for upper in case.steps.uppers:
            changes = updates(case.lives, name, lower, upper)
            for time in range(lower, upper):
                for row, when, diff in changes:
                    held[row] += diff if when == time else 0
                assert min(held.values(), default=0) >= 0
                assert Counter(contents(case.lives, name, time)) == held
            lower = upper
    assert times_of(case.lives)[-1] < case.steps.uppers[-1]


def test_histories_have_what_makes_views_go_wrong() -> None:
    cases = [drawn(seed) for seed in SEEDS]
    lives = [life for case in cases for life in case.lives]
    assert any(life.copies > 1 for life in lives)
    assert any(value is None for life in lives for value in life.row)
    assert any(case.steps.restarts for case in cases)
    assert any(case.steps.crashes for case in cases)
    assert any(case.steps.wide_rows for case in cases)
    asked = [(each, len(case.steps.uppers)) for case in cases for each in case.queries]
    assert any(0 < each.comes < steps for each, steps in asked)
    assert any(each.goes and 0 < each.goes < steps for each, steps in asked)
    assert all(any(map(each.is_there, range(steps))) for each, steps in asked)
    emptied = [
        (case, name, time)
        for case in cases
        for name in case.relations
        for time in times_of(case.lives)[1:]
        if not contents(case.lives, name, time)
    ]
    assert emptied
    several = [
        1
        for case in cases
        for lower, upper in zip((0, *case.steps.uppers), case.steps.uppers, strict=False)
        if sum(lower <= time < upper for time in times_of(case.lives)) > 1
    ]
    assert len(several) > len(cases) / 2


def test_simpler_trees_are_smaller_in_one_place() -> None:
    tree = query("SELECT ", listed(["a", "b"]), " FROM (", query("SELECT 1"), ")", clause(" x"))
    assert tree.text == "SELECT a, b FROM (SELECT 1) x"
    assert [each.text for each in simpler(tree)] == [
        "SELECT 1",
        "SELECT b FROM (SELECT 1) x",
        "SELECT a FROM (SELECT 1) x",
        "SELECT a, b FROM (SELECT 1)",
    ]


def test_shrinking_leaves_what_matters_and_nothing_else() -> None:
    case = drawn(7).alone(0)
    culprit = case.lives[5]

    def fails(smaller: Case) -> bool:
        return culprit.row in [life.row for life in smaller.lives] and "u" in smaller.queries[0].sql

    small = shrunk(case.asking(case.queries), lambda c: fails(c) and c.relations == case.relations)
    assert [life.row for life in small.lives] == [culprit.row]
    assert len(small.steps.uppers) == 1
    assert not small.steps.restarts
    assert (small.queries[0].comes, small.queries[0].goes) == (0, None)
    assert small.queries[0].tree.size <= case.queries[0].tree.size


def test_a_case_that_is_small_already_stays() -> None:
    case = drawn(3).alone(1)
    assert shrunk(case, lambda _: False) == case
