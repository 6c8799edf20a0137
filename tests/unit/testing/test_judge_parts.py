"""The parts of the judge that need no server: decisions, cases, and the rules for differences."""

from __future__ import annotations

import pytest

from waterclock.testing.judge.cases import drawn_case
from waterclock.testing.judge.choices import Choices, smaller
from waterclock.testing.judge.expressions import Constants
from waterclock.testing.judge.faults import REWRITES
from waterclock.testing.judge.rules import explanation
from waterclock.testing.judge.systems import Answer


def test_a_record_gives_the_same_case_again() -> None:
    for seed in range(50):
        choices = Choices(seed)
        case = drawn_case(choices)
        assert drawn_case(Choices(choices.record)) == case


def test_any_part_of_a_record_gives_a_case() -> None:
    choices = Choices(7)
    drawn_case(choices)
    for record in smaller(choices.record):
        assert drawn_case(Choices(record)).queries


def test_smaller_records_are_simpler() -> None:
    record = (5, 0, 3, 9)
    for candidate in smaller(record):
        assert (len(candidate), sum(candidate)) < (len(record), sum(record))
    assert () in set(smaller((4,)))


def test_no_decisions_give_the_simplest_case() -> None:
    case = drawn_case(Choices(()))
    assert len(case.tables) == len(case.queries) == 1
    assert case.history == ()


def test_constants_are_literals_or_parameters() -> None:
    constants = Constants()
    text = f"{constants.add('it' + chr(39) + 's', 'text')} || {constants.add(None, '_int4')}"
    assert constants.as_literals(text) == "'it''s'::text || NULL::int4[]"
    assert constants.as_parameters(text) == ("($1::text) || ($2::int4[])", ["it's", None])


def test_every_planted_fault_changes_something_that_is_drawn() -> None:
    statements = [
        statement for seed in range(1500) for statement in drawn_case(Choices(seed)).statements
    ]
    reads = ["select * from m0"]
    for name, rewrite in REWRITES.items():
        assert any(rewrite(each) != each for each in (*statements, *reads)), name


ROWS = Answer((("a", 23),), ((b"1",),))


@pytest.mark.parametrize(
    ("ours", "theirs", "rule"),
    [
        (Answer(sqlstate="0A000"), ROWS, "refused"),
        (ROWS, Answer(sqlstate="0A000"), "PostgreSQL refuses"),
        (Answer(sqlstate="22012"), ROWS, "evaluation order"),
        (Answer(sqlstate="22012"), Answer(sqlstate="22003"), "evaluation order"),
        (Answer(sqlstate="42703"), ROWS, None),
        (Answer(sqlstate="XX000"), ROWS, None),
        (Answer((("a", 23),), ((b"2",),)), ROWS, None),
        (Answer((("a", 1700),), ((b"1",),)), Answer((("a", 1700),), ((b"1.00",),)), "equal values"),
        (Answer((("a", 1700),), ((b"1",),)), Answer((("a", 1700),), ((b"1.01",),)), None),
    ],
)
def test_differences_are_explained_by_rules_only(
    ours: Answer, theirs: Answer, rule: str | None
) -> None:
    found = explanation("select distinct a from t", ours, theirs)
    assert (None if found is None else found.name) == rule
