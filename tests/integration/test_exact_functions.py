"""Functions of exact numbers on Spark: compiled and interpreted, they are those of Python."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from waterclock.model.exact import FLOAT, Exact
from waterclock.sql.dialect import exponentials
from waterclock.sql.dialect.numerics import known_quotient
from waterclock.sql.functions import FUNCTIONS, OPERATORS

pytestmark = pytest.mark.slow

Pair = tuple[Decimal, Decimal]
PAIRS = 500
_EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


def _drawn(chance: random.Random) -> Decimal:
    number = Decimal(chance.randrange(1, 10 ** chance.randrange(1, 20)))
    number = number.scaleb(-chance.randrange(0, 12))
    return -number if chance.random() < 0.3 else number


def _texts(spark: SparkSession, pairs: Sequence[tuple[Decimal, Decimal]], sql: str) -> list[str]:
    rows = ", ".join(f"({n}, '{a:f}', '{b:f}')" for n, (a, b) in enumerate(pairs))
    query = f"SELECT {sql} AS t FROM VALUES {rows} AS v(n, a, b) ORDER BY n"
    return [row.t for row in spark.sql(query).collect()]


def _number(name: str) -> str:
    return f"{Exact.PARSED}({name})"


_TEN = f"{Exact.PARSED}('10')"


def _quotient(left: str, right: str) -> str:
    held = f"{Exact.HELD}({Exact.QUOTIENT}({_number(left)}, {_number(right)}))"
    return f"{Exact.TEXT}({Exact.READ}({held}))"


def test_quotients_are_those_of_python(spark: SparkSession) -> None:
    chance = random.Random(3)
    pairs = [(_drawn(chance), _drawn(chance)) for _ in range(PAIRS)]
    pairs = [(a, b) for a, b in pairs if -known_quotient(a, b).as_tuple().exponent <= 36]  # type: ignore[operator]
    wanted = [f"{known_quotient(a, b):f}" for a, b in pairs]
    assert len(pairs) > PAIRS // 2
    assert _texts(spark, pairs, _quotient("a", "b")) == wanted
    # The body of a lambda is not compiled.
    interpreted = f"ELEMENT_AT(TRANSFORM(ARRAY(STRUCT(a, b)), x -> {_quotient('x.a', 'x.b')}), 1)"
    assert _texts(spark, pairs, interpreted) == wanted


def _logarithm(pair: Pair) -> Decimal:
    return exponentials.logarithm(abs(pair[1]), pair[0])


def _whole_power(pair: Pair) -> Decimal:
    return exponentials.power(pair[0], Decimal(int(pair[1])))


@pytest.mark.parametrize(
    ("call", "ours"),
    [
        (f"{Exact.LN}({_number('a')})", lambda pair: exponentials.natural_logarithm(pair[0])),
        (f"{Exact.EXP}({_number('b')})", lambda pair: exponentials.exponential(pair[1])),
        (f"{Exact.LOG}({Exact.ABSOLUTE}({_number('b')}), {_number('a')})", _logarithm),
        (f"{Exact.POWER}({_number('a')}, {_number('b')})", lambda pair: exponentials.power(*pair)),
        (f"{Exact.POWER}({_number('a')}, {Exact.CUT}({_number('b')}, 0))", _whole_power),
    ],
)
def test_logarithms_and_powers_are_those_of_python(
    spark: SparkSession, call: str, ours: Callable[[Pair], Decimal]
) -> None:
    chance = random.Random(8)
    drawn = [(abs(_drawn(chance)), _drawn(chance) % 9) for _ in range(PAIRS)]
    pairs = [(a, b) for a, b in drawn if abs(b) not in (0, 1)]
    found = _texts(spark, pairs, f"{Exact.TEXT}({call})")
    wanted = [f"{ours(pair):f}" for pair in pairs]
    wrong = [each for each in zip(pairs, found, wanted, strict=True) if each[1] != each[2]]
    assert wrong == []


def test_a_root_is_rounded_once(spark: SparkSession) -> None:
    chance = random.Random(4)
    pairs = [(abs(_drawn(chance)), Decimal(1)) for _ in range(PAIRS)]
    root = f"{Exact.TEXT}({Exact.ROOT_OF_SAME_SCALE}({_number('a')}))"
    wanted = []
    for number, _ in pairs:
        scale = Decimal(1).scaleb(int(number.as_tuple().exponent))
        wanted.append(f"{_EXACT.quantize(_EXACT.sqrt(number), scale):f}")
    assert _texts(spark, pairs, root) == wanted


@pytest.mark.parametrize(
    ("text", "number"),
    [
        *(("1.50", "1.50"), ("1e3", "1000"), ("-.5e-3", "-0.0005"), ("0e500", "0"), ("1e38", None)),
        *(("9" * 38, "9" * 38), ("1e-37", None), (f"0.{'0' * 35}1", f"0.{'0' * 35}1")),
    ],
)
def test_texts_are_read_if_there_is_room(
    spark: SparkSession, text: str, number: str | None
) -> None:
    [row] = spark.sql(f"SELECT {Exact.TEXT}({_number(repr(text))}) AS t").collect()
    assert row.t == number


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (f"{Exact.QUOTIENT}({_number('a')}, {_number('z')})", "22012 division by zero"),
        (f"{Exact.REMAINDER}({_number('a')}, {_number('z')})", "22012 division by zero"),
        (f"{Exact.WHOLE_QUOTIENT}({_number('a')}, {_number('z')})", "22012 division by zero"),
        (f"{Exact.ROOT}({Exact.NEGATIVE}({_number('a')}))", "2201F cannot take square root"),
        (f"{Exact.POWER}({_number('a')}, {_number('a')})", "22003 a numeric has more than 38"),
        (f"{Exact.POWER}({_number('a')}, {_TEN})", "22003 a numeric has more than 38 digits"),
        (f"{Exact.EXP}({_number('a')})", "22003 a numeric has more than 38 digits"),
        (f"{Exact.LN}({Exact.NOT_ZERO}({_number('z')}))", "2201E cannot take logarithm of zero"),
        (
            f"{Exact.LN}({Exact.NOT_NEGATIVE}({Exact.NEGATIVE}({_TEN})))",
            "2201E cannot take logarithm of a negative number",
        ),
        (f"{Exact.LOG}({_number(repr('1.0'))}, {_TEN})", "22012 division by zero"),
        (
            f"{Exact.DEFINED}({_number('z')}, {_number(repr('-1'))})",
            "2201F zero raised to a negative power is undefined",
        ),
        (
            f"{Exact.REAL}({_number(repr('-1'))}, {_number(repr('0.5'))})",
            "2201F a negative number raised to a non-integer power",
        ),
    ],
)
def test_what_has_no_value_is_an_error(spark: SparkSession, call: str, message: str) -> None:
    query = f"SELECT {Exact.HELD}({call}) FROM VALUES ('12345', '0.0') AS v(a, z)"
    with pytest.raises(PySparkException, match=message):
        spark.sql(query).collect()


@pytest.mark.parametrize("function", [Exact.QUOTIENT, Exact.REMAINDER, Exact.SUM, Exact.PRODUCT])
def test_null_gives_null_even_by_zero(spark: SparkSession, function: Exact) -> None:
    calls = [
        f"{Exact.HELD}({function}({_number(left)}, {_number(right)})) AS c{n}"
        for n, (left, right) in enumerate([("m", "z"), ("z", "m"), ("m", "m")])
    ]
    query = f"SELECT {', '.join(calls)} FROM VALUES (CAST(NULL AS STRING), '0') AS v(m, z)"
    assert [tuple(row) for row in spark.sql(query).collect()] == [(None, None, None)]


def test_every_session_knows_them(spark: SparkSession) -> None:
    [row] = spark.newSession().sql(f"SELECT {_quotient(repr('1'), repr('3'))} AS t").collect()
    assert row.t == "0.33333333333333333333"


def test_every_function_is_there(spark: SparkSession) -> None:
    named = {row.function for row in spark.sql("SHOW FUNCTIONS LIKE 'wc_exact_*'").collect()}
    assert named == set(Exact)


def test_every_function_of_floats_is_there(spark: SparkSession) -> None:
    named = {row.function for row in spark.sql("SHOW FUNCTIONS LIKE 'wc_float_*'").collect()}
    written = {
        name
        for entries in (*FUNCTIONS.values(), *OPERATORS.values())
        for entry in entries
        if isinstance(entry.sql, str)
        for name in re.findall(FLOAT.format("[a-z0-9]+"), entry.sql)
    }
    assert named == written
