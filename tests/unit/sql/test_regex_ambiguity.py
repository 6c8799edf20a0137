"""Expressions that match nothing in too many ways are refused; others are not."""

from __future__ import annotations

import pytest

from waterclock.sql.functions.ambiguity import MOST_WAYS, require_bounded
from waterclock.sql.functions.regexes import java_regex, similar_regex
from waterclock.sql.functions.registry import Invalid


@pytest.mark.parametrize(
    "source",
    [
        "(|)" * 30 + "x",
        "(|)*" * 20,
        "((a?)?)?" * 20 + "x",
        "a(b*|c*)(b*|c*)" * 12 + "(b*|c*)" * 14,
        "(a*)*" * 20 + "b",
        "(" * 300 + "a" + ")" * 300,
        "((|)(|)|(|)(|))" * 8,
    ],
)
def test_too_many_ways_are_refused(source: str) -> None:
    with pytest.raises(Invalid, match="too complex") as refused:
        java_regex(source)
    assert refused.value.sqlstate == "2201B"


@pytest.mark.parametrize(
    "source",
    [
        "a?" * 100,  # at the end of the text there is one way only
        "(a|b)*c{2,3}[^x]+$",
        "^([a-z0-9._]+)@([a-z0-9]+[.])+[a-z]{2,}$",
        r"\m(one|two)\M.*\y",
        "(|a)" + "x(|b)" * 100,
        "[(|)]*" * 10,
        r"\(\|\)" * 50,
        "(?=a)(?!b)a",
    ],
)
def test_usual_expressions_are_not(source: str) -> None:
    java_regex(source)


def test_similar_to_is_looked_at_too() -> None:
    with pytest.raises(Invalid, match="too complex"):
        similar_regex("(|)" * 30, "\\")
    similar_regex("%(b|d)%", "\\")


def test_the_bound_is_where_it_says() -> None:
    require_bounded("(|)" * 13)
    with pytest.raises(Invalid):
        require_bounded("(|)" * 14)
    assert 2**13 <= MOST_WAYS < 2**14
