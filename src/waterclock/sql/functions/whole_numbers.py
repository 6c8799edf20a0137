"""Functions of whole numbers, and the buckets that numbers fall into."""

from __future__ import annotations

from waterclock.model.exact import Exact
from waterclock.model.pg_types import FLOAT8, INT4, INT8, NUMERIC, PgType, numeric
from waterclock.sql.dialect.equality import equality_key
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.scaled import combined, held, into, number_of
from waterclock.sql.dialect.types import (
    ANYCOMPATIBLE,
    ANYCOMPATIBLEARRAY,
    digits,
    is_unconstrained,
)
from waterclock.sql.functions.registry import Function, SqlRule, Use, scalar

_NEGATIVE = raised("22003", "factorial of a negative number is undefined")
_LARGE = raised("22003", "value overflows numeric format")
_FACTORIAL = (
    f"(CASE WHEN {{0}} < 0 THEN {_NEGATIVE} WHEN {{0}} > 33 THEN {_LARGE} WHEN {{0}} IS NOT NULL"
    " THEN AGGREGATE(SEQUENCE(1L, GREATEST({0}, 1L)), CAST(1 AS DECIMAL(38,0)),"
    " (a, i) -> CAST(a * i AS DECIMAL(38,0))) END)"
)
_STEPS = {INT4.oid: 46, INT8.oid: 92}
"""Of Euclid's algorithm: two numbers of Fibonacci's that fit the type take the most."""
_UNEQUAL = raised("2201G", "lower bound cannot equal upper bound")
_TOO_FAR = raised("0A000", "width_bucket() of bounds that are so far apart is not supported")
"""PostgreSQL's own arithmetic overflows there, and it gives some number."""
_NO_BUCKET = raised("2201G", "count must be greater than zero")
_NAN = raised("2201G", "operand, lower bound, and upper bound cannot be NaN")
_INFINITE = raised("2201G", "lower and upper bounds must be finite")
_NULL_THRESHOLD = raised("22004", "thresholds array must not contain NULLs")


def _gcd(kind: PgType) -> str:
    step = "IF(s.b = 0, s, NAMED_STRUCT('a', s.b, 'b', s.a % s.b))"
    start = "NAMED_STRUCT('a', {0}, 'b', {1})"
    return f"AGGREGATE(SEQUENCE(1, {_STEPS[kind.oid]}), {start}, (s, i) -> {step}, s -> ABS(s.a))"


def _lcm(kind: PgType) -> SqlRule:
    spark = "INT" if kind == INT4 else "BIGINT"

    def written(use: Use) -> str:
        left, right = (each.sql for each in use.arguments)
        divisor = _gcd(kind).format("l.a", "l.b")
        body = (
            "(CASE WHEN l.a IS NULL OR l.b IS NULL THEN NULL WHEN l.a = 0 OR l.b = 0 THEN 0"
            f" ELSE CAST(ABS((l.a DIV {divisor}) * l.b) AS {spark}) END)"
        )
        return let({"a": left, "b": right}, "l", body)

    return written


def _float_bucket(use: Use) -> str:
    infinity = "CAST('Infinity' AS DOUBLE)"
    quotients = ("b.n * (b.x - b.a) / (b.b - b.a)", "b.n * (b.a - b.x) / (b.a - b.b)")
    up, down = (
        f"CASE WHEN ABS({each}) < {infinity} THEN FLOOR({each} + 1) ELSE {_TOO_FAR} END"
        for each in quotients
    )
    checks = (
        f" WHEN ISNAN(b.x) OR ISNAN(b.a) OR ISNAN(b.b) THEN {_NAN}"
        f" WHEN ABS(b.a) = {infinity} OR ABS(b.b) = {infinity} THEN {_INFINITE}"
    )
    return _bucket([each.sql for each in use.arguments], "", checks, up, down)


def _exact_bucket(use: Use) -> str:
    *numbers, count = use.arguments
    held = [into(each.sql, each.type) for each in numbers]
    read = ", ".join(number_of(f"b.{name}", NUMERIC) for name in "xab")
    inside = f"{Exact.BUCKET}({read}, b.n)"
    return _bucket([*held, count.sql], ".v", "", inside, inside)


def _bucket(arguments: list[str], value: str, checks: str, up: str, down: str) -> str:
    """Up or down from one bound to the other; 0 before the first, one more than all behind."""
    x, first, end = (f"b.{name}{value}" for name in "xab")
    last = "CAST(b.n + 1 AS INT)"
    body = (
        "(CASE WHEN b.x IS NULL OR b.a IS NULL OR b.b IS NULL OR b.n IS NULL THEN NULL"
        f" WHEN b.n <= 0 THEN {_NO_BUCKET}{checks} WHEN {first} = {end} THEN {_UNEQUAL}"
        f" WHEN {first} < {end} THEN CASE WHEN {x} < {first} THEN 0 WHEN {x} >= {end} THEN {last}"
        f" ELSE CAST({up} AS INT) END"
        f" ELSE CASE WHEN {x} > {first} THEN 0 WHEN {x} <= {end} THEN {last}"
        f" ELSE CAST({down} AS INT) END END)"
    )
    return let(dict(zip("xabn", arguments, strict=True)), "b", body)


def _among(use: Use) -> str:
    """How many thresholds the value has reached, by what values of the type are compared by."""
    value, thresholds = use.arguments
    key, threshold = (equality_key(each, value.type) for each in ("b.x", "e"))
    body = (
        "(CASE WHEN b.x IS NULL OR b.a IS NULL THEN NULL"
        f" WHEN EXISTS(b.a, e -> e IS NULL) THEN {_NULL_THRESHOLD}"
        f" ELSE SIZE(FILTER(b.a, e -> {threshold} <= {key})) END)"
    )
    return let({"x": value.sql, "a": thresholds.sql}, "b", body)


def _scale(use: Use) -> str:
    [value] = use.arguments
    if is_unconstrained(value.type):
        return f"CAST({value.sql}.s AS INT)"
    return f"(CASE WHEN {value.sql} IS NOT NULL THEN {digits(value.type)[1]} END)"


def _least_scale(use: Use) -> str:
    [value] = use.arguments
    return f"{Exact.SCALE}({Exact.TRIMMED}({number_of(value.sql, value.type)}))"


def _trimmed(use: Use) -> str:
    [value] = use.arguments
    return held(f"{Exact.TRIMMED}({number_of(value.sql, value.type)})")


def _of_two(function: Exact) -> SqlRule:
    def written(use: Use) -> str:
        left, right = use.arguments
        return combined(function, left.sql, left.type, right.sql, right.type)

    return written


_TWO = (NUMERIC, NUMERIC)
FUNCTIONS: tuple[Function, ...] = (
    scalar("factorial", (INT8,), numeric(38, 0), _FACTORIAL, "The product of all up to it."),
    *(
        scalar("gcd", (kind, kind), kind, _gcd(kind), "The greatest common divisor.")
        for kind in (INT4, INT8)
    ),
    *(
        scalar("lcm", (kind, kind), kind, _lcm(kind), "The least common multiple.")
        for kind in (INT4, INT8)
    ),
    scalar("gcd", _TWO, NUMERIC, _of_two(Exact.DIVISOR), "The greatest common divisor."),
    scalar("lcm", _TWO, NUMERIC, _of_two(Exact.MULTIPLE), "The least common multiple."),
    *(
        scalar(
            *("width_bucket", (kind, kind, kind, INT4), INT4, rule),
            "Which of so many equal parts between two bounds it is in.",
        )
        for kind, rule in ((FLOAT8, _float_bucket), (NUMERIC, _exact_bucket))
    ),
    scalar(
        *("width_bucket", (ANYCOMPATIBLE, ANYCOMPATIBLEARRAY), INT4, _among),
        "How many of the bounds, which are sorted, are not greater.",
    ),
    scalar("scale", (NUMERIC,), INT4, _scale, "How many digits are behind the point."),
    scalar("min_scale", (NUMERIC,), INT4, _least_scale, "How many of them are needed."),
    scalar("trim_scale", (NUMERIC,), NUMERIC, _trimmed, "The number with only these."),
)
