"""Numbers that are equal and look different, compared and spelled without the engine."""

from __future__ import annotations

import operator
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.adapter import twins
from waterclock.persist.numerics import MOST_SCALE, numbers_of, numeric_array
from waterclock.sql.binding import Comparison
from waterclock.testing.examples import examples

_NUMBERS = st.one_of(
    st.sampled_from([Decimal(t) for t in ("0", "0.0", "1.5", "1.50", "-1.5", "-1", "15", "1e3")]),
    st.decimals(-100, 100, places=2),
    st.decimals(-(10**20), 10**20, places=9),
)
_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@given(st.lists(st.none() | _NUMBERS, max_size=12), _NUMBERS, st.sampled_from(sorted(_OPERATORS)))
@examples(150)
def test_numbers_compare_as_they_do_in_python(
    numbers: list[Decimal | None], other: Decimal, sign: str
) -> None:
    found = twins.holds(numeric_array(numbers), Comparison("x", sign, (other,)))
    wanted = [None if each is None else _OPERATORS[sign](each, other) for each in numbers]
    assert found.to_pylist() == wanted


@given(st.lists(st.none() | _NUMBERS, max_size=12), st.lists(_NUMBERS, max_size=4))
@examples(150)
def test_a_number_is_among_others_whatever_its_scale(
    numbers: list[Decimal | None], others: list[Decimal]
) -> None:
    found = twins.holds(numeric_array(numbers), Comparison("x", "in", tuple(others)))
    assert found.to_pylist() == [None if each is None else each in others for each in numbers]


@given(_NUMBERS)
@examples(100)
def test_every_number_that_is_equal_is_spelled(number: Decimal) -> None:
    texts = twins.spellings([number])
    read = numbers_of(twins.read(texts))
    assert {Decimal(text) for text in texts} == {number}
    assert f"{number if number else number.copy_abs():f}" in texts
    least = len(texts[0].partition(".")[2])
    assert [len(text.partition(".")[2]) for text in texts] == list(range(least, MOST_SCALE + 1))
    assert [str(each) for each in read] == [str(Decimal(text)) for text in texts]


@pytest.mark.parametrize("number", ["0", "-0", "0.000", "0e5"])
def test_there_is_one_zero(number: str) -> None:
    assert twins.spellings([Decimal(number)])[:2] == ("0", "0.0")
