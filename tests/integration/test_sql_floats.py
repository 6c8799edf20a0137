"""Functions of floating-point numbers beside a real PostgreSQL: the same but for few last digits.

PostgreSQL asks the C library, which is right to the last digit in all but about one of a thousand
results; cube roots and a part of the others are less exact, and differ from one library to another.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from waterclock.testing.sql_oracle.engine import Answer, Engine
from waterclock.testing.sql_oracle.oracle import Oracle

pytestmark = [pytest.mark.slow, pytest.mark.service]

ROWS = 1_500
MOST_DIFFERENT = 0.008
MOST_STEPS = 4
"""How many doubles two results may be apart."""
CALLS = {
    "a": ("exp(a)", "sinh(a)", "cosh(a)", "tanh(a)", "asinh(a)", "sin(a)", "cos(a)", "tan(a)"),
    "b": ("ln(b)", "log(b)", "b ^ a", "power(b, 0.5)", "power(b, -3)", "acosh(1 + b)", "log10(b)"),
    "c": ("asin(c)", "acos(c)", "atanh(c)", "asind(c)", "acosd(c)", "exp(c)", "atan(c)", "sin(c)"),
    "d": (
        "atan(d)",
        "atan2(a, d)",
        "atan2(d, c)",
        "sind(d)",
        "cosd(d)",
        "atan2d(c, d)",
        "atand(d)",
    ),
    "e": ("sin(e)", "cos(e)", "tan(e)", "cot(a)", "tand(d)", "cotd(d)", "exp(- b)", "asinh(e)"),
}
EXACT = {
    "exp(1::float8)": "2.718281828459045",
    "exp(0::float8)": "1",
    "cbrt(27::float8)": "3",
    "cbrt(-0.001::float8)": "-0.1",
    "power(94906267::float8, 2)": "9.007199515875288e+15",
    "power(10::float8, 22)": "1e+22",
    "power(2::float8, -1074)": "5e-324",
    "ln(10::float8)": "2.302585092994046",
    "log(1000::float8)": "3",
    "sind(30)": "0.5",
    "cosd(60)": "0.5",
    "tand(45)": "1",
    "atan2(-0.0::float8, -1)": "-3.141592653589793",
    "sin(1e22::float8)": "-0.8522008497671888",
    "sin(1e300::float8)": "-0.8178819121159085",
    "atanh(1::float8)": "Infinity",
}


def _drawn(chance: random.Random) -> tuple[str, ...]:
    sign = chance.choice((-1, 1))
    draws: tuple[Callable[[], float], ...] = (
        lambda: chance.choice((chance.uniform(-3, 3), chance.uniform(-30, 30))),
        lambda: chance.choice((chance.uniform(0, 4), float(chance.randrange(1, 10**5)))),
        lambda: chance.choice((chance.uniform(-1, 1), sign * 10 ** chance.uniform(-9, 0))),
        lambda: chance.choice((chance.uniform(-400, 400), float(chance.randrange(-720, 720)))),
        lambda: chance.choice((chance.uniform(-1e4, 1e4), sign * 10 ** chance.uniform(3, 25))),
    )
    return tuple(repr(draw()) for draw in draws)


def _steps(one: str | None, other: str | None) -> float:
    """How many doubles are between two outcomes."""
    assert one is not None, other
    assert other is not None, one
    if one.startswith("!") or other.startswith("!"):
        return 0 if one[:3] == other[:3] else math.inf
    left, right = float(one[1:]), float(other[1:])
    if left == right or (math.isnan(left) and math.isnan(right)):
        return 0
    return abs(left - right) / math.ulp(right)


def test_random_numbers_have_the_digits_of_the_c_library(engine: Engine, oracle: Oracle) -> None:
    chance = random.Random(11)
    rows = [_drawn(chance) for _ in range(ROWS)]
    types = dict.fromkeys("abcde", "float8")
    engine.create_named("floats", types, rows)
    oracle.create_named("floats", types, rows)
    calls = [call for group in CALLS.values() for call in group]
    wrong = {}
    for call, answer in zip(calls, engine.answers("floats", calls), strict=True):
        assert isinstance(answer, Answer), (call, answer)
        theirs = oracle.outcomes("floats", call)
        apart = [_steps(_told(answer, n), theirs[n]) for n in range(ROWS)]
        share = sum(each > 0 for each in apart) / ROWS
        if share > MOST_DIFFERENT or max(apart) > MOST_STEPS:
            wrong[call] = (share, max(apart), rows[apart.index(max(apart))])
    assert not wrong


def _told(answer: Answer, row: int) -> str | None:
    found = answer.outcomes[row]
    return answer.tell(row) if found == "!" else found


def test_results_that_are_known(engine: Engine) -> None:
    engine.create_named("one", {"x": "int"}, [("1",)])
    answers = engine.answers("one", list(EXACT))
    found = {
        call: answer.outcomes[0] if isinstance(answer, Answer) else answer
        for call, answer in zip(EXACT, answers, strict=True)
    }
    assert found == {call: f"={text}" for call, text in EXACT.items()}
