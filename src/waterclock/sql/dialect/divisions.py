"""Quotients, remainders and roots of `numeric` values that have scales of their own.

The digits of a number are taken as one whole number, and divided as by hand: each step brings as
many digits as there is room for. So a result is exact, and rounded as PostgreSQL does, wherever 38
digits suffice; beyond that it is an error (22003). How many digits behind the point a quotient or a
root has depends on the values, by PostgreSQL's rules.
"""

from __future__ import annotations

from decimal import Decimal

from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.literals import decimal_literal
from waterclock.sql.dialect.scaled import (
    MOST_SCALE,
    TOO_LONG,
    WHOLE,
    from_unscaled,
    let,
    unscaled,
)
from waterclock.sql.dialect.types import MOST_DIGITS

_ZERO_DIVISOR = raised("22012", "division by zero")
_MOST_CHUNK = 19
"""Digits of a quotient that Spark has room for before the point."""
_CHUNK = decimal_literal(Decimal(10**_MOST_CHUNK))
_ROOT_DIGITS = 12
"""Digits that a root is computed with besides those that it shows."""


# --- Quotients ------------------------------------------------------------------------------------


def quotient_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    """The quotient with as many digits as PostgreSQL gives it."""
    (one, s), (other, t) = unscaled("o.a", left_type), unscaled("o.b", right_type)
    numbers = {"a": one, "s": s, "b": other, "t": t}
    scale = let(
        {**_leading("x.a", "x.s", "a"), **_leading("x.b", "x.t", "b")},
        "y",
        "16 - 4 * (y.wa - y.wb - CASE WHEN y.fa > y.fb THEN 0 ELSE 1 END)",
    )
    known = {
        **{name: f"x.{name}" for name in ("a", "s", "b", "t")},
        "r": f"GREATEST({scale}, x.s, x.t, 0)",
    }
    negative = "(z.a < 0) <> (z.b < 0)"
    divided = _divided("ABS(z.a)", "ABS(z.b)", "z.r + z.t - z.s")
    signed = f"{divided} * CASE WHEN {negative} THEN -1BD ELSE 1BD END"
    body = (
        f"CASE WHEN z.a IS NULL OR z.b IS NULL THEN NULL WHEN z.b = 0 THEN {_ZERO_DIVISOR}"
        f" WHEN z.r > {MOST_SCALE} THEN {TOO_LONG}"
        f" ELSE {from_unscaled(f'CAST({signed} AS {WHOLE})', 'z.r')} END"
    )
    inner = let(numbers, "x", let(known, "z", body))
    return let({"a": left, "b": right}, "o", inner)


def _leading(number: str, scale: str, name: str) -> dict[str, str]:
    """The place of the first group of four digits, counted from the point, and the group."""
    text = f"CAST(ABS({number}) AS STRING)"
    place = f"(LENGTH({text}) - 1 - {scale})"
    weight = f"(({place} + 400) DIV 4 - 100)"
    width = f"CAST({place} - 4 * {weight} + 1 AS INT)"
    group = f"CAST(LEFT(RPAD({text}, GREATEST(4, LENGTH({text})), '0'), {width}) AS INT)"
    return {
        f"w{name}": f"CASE WHEN {number} = 0 THEN 0L ELSE {weight} END",
        f"f{name}": f"CASE WHEN {number} = 0 THEN 0 ELSE {group} END",
    }


def _power(count: str) -> str:
    return f"CAST(RPAD('1', CAST({count} + 1 AS INT), '0') AS {WHOLE})"


def _short_quotient(above: str, below: str) -> str:
    """A quotient of whole numbers, cut, that has few digits."""
    return f"CAST(({above} - {above} % {below}) / {below} AS {WHOLE})"


def _whole_quotient(above: str, below: str) -> str:
    """A quotient of whole numbers, cut: of the first digits, then of what is left."""
    halves = {"h": _short_quotient("v.a", _CHUNK), "l": f"v.a % {_CHUNK}", "b": "v.b"}
    first = {
        "q": _short_quotient("w.h", "w.b"),
        "r": f"CAST((w.h % w.b) * {_CHUNK} + w.l AS {WHOLE})",
        "b": "w.b",
    }
    found = f"CAST(y.q * {_CHUNK} + {_short_quotient('y.r', 'y.b')} AS {WHOLE})"
    long = let(halves, "w", let(first, "y", found))
    is_short = f"ABS(v.a) < {_CHUNK}"
    body = f"CASE WHEN {is_short} THEN {_short_quotient('v.a', 'v.b')} ELSE {long} END"
    return let({"a": above, "b": below}, "v", body)


def _divided(above: str, below: str, more: str) -> str:
    """A quotient of whole numbers above zero, with so many digits more, rounded: long division.

    Each step brings as many digits as there is room for.
    """
    fields = {"a": above, "b": below, "e": f"CAST({more} AS INT)"}
    room = f"LEAST({MOST_DIGITS} - LENGTH(CAST(d.b AS STRING)), {_MOST_CHUNK})"
    steps = "CAST((d.e + g.c - 1) DIV g.c AS INT)"
    start = (
        f"NAMED_STRUCT('q', {_whole_quotient('d.a', 'd.b')}, 'r', CAST(d.a % d.b AS {WHOLE}),"
        " 'e', d.e)"
    )
    count = "LEAST(h.e, g.c)"
    moved = f"CAST(h.r * {_power(count)} AS {WHOLE})"
    step = let(
        {"n": moved, "p": _power(count), "c": count, "q": "h.q", "e": "h.e"},
        "m",
        f"NAMED_STRUCT('q', CAST(m.q * m.p + {_short_quotient('m.n', 'd.b')} AS {WHOLE}),"
        f" 'r', CAST(m.n % d.b AS {WHOLE}), 'e', CAST(m.e - m.c AS INT))",
    )
    rounded = "CASE WHEN h.r >= d.b - h.r THEN h.q + 1BD ELSE h.q END"
    divided = (
        f"AGGREGATE(SEQUENCE(0, {steps}), {start}, (h, i) -> CASE WHEN i = 0 THEN h ELSE {step}"
        f" END, h -> CAST({rounded} AS {WHOLE}))"
    )
    body = f"CASE WHEN g.c < 1 THEN {TOO_LONG} ELSE {divided} END"
    return let(fields, "d", let({"c": room}, "g", body))


def remainder_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    """The remainder, with the longer scale."""
    found = from_unscaled("a.a % a.b", "a.s")
    return _aligned(left, left_type, right, right_type, found)


def whole_quotient_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    """The quotient cut to a whole number."""
    return _aligned(left, left_type, right, right_type, _whole_quotient("a.a", "a.b"))


def _aligned(left: str, left_type: PgType, right: str, right_type: PgType, body: str) -> str:
    """The body, in which `a.a` and `a.b` are the digits of both with the same scale `a.s`."""
    (one, s), (other, t) = unscaled("o.a", left_type), unscaled("o.b", right_type)
    numbers = {"a": one, "s": s, "b": other, "t": t}
    same = {
        "a": f"CAST(x.a * {_power('GREATEST(x.t - x.s, 0)')} AS {WHOLE})",
        "b": f"CAST(x.b * {_power('GREATEST(x.s - x.t, 0)')} AS {WHOLE})",
        "s": "GREATEST(x.s, x.t)",
    }
    divided = (
        "CASE WHEN a.a IS NULL OR a.b IS NULL THEN NULL"
        f" WHEN a.b = 0 THEN {_ZERO_DIVISOR} ELSE {body} END"
    )
    return let({"a": left, "b": right}, "o", let(numbers, "x", let(same, "a", divided)))


# --- Roots ----------------------------------------------------------------------------------------


def root_sql(value: str, declared: PgType) -> str:
    """The square root of a number that is not negative, with PostgreSQL's digits."""
    number, scale = unscaled("o.a", declared)
    weight = _leading("x.m", "x.s", "a")["wa"]
    digits_of = {"m": "x.m", "s": "x.s", "r": f"GREATEST(15 - 2 * ({weight}), x.s, 0)"}
    rooted = let({"m": number, "s": scale}, "x", let(digits_of, "z", _rooted("z.m", "z.s", "z.r")))
    return let({"a": value}, "o", rooted)


def root_of_same_scale(value: str) -> str:
    """The square root of a number with a scale of its own, with just that scale."""
    number, scale = unscaled("o.a", NUMERIC)
    rooted = let({"m": number, "s": scale}, "x", _rooted("x.m", "x.s", "x.s"))
    return let({"a": value}, "o", rooted)


def _rooted(number: str, scale: str, shown: str) -> str:
    """The root of a double has half of the digits, a step of Newton's method nearly all.

    A second step is made with some digits more, and rounded. The number with all the digits that it
    would take is never made: a step only divides it.
    """
    more = f"(2 * {shown} - {scale})"
    given = {"m": number, "e": f"CAST({more} AS INT)", "r": shown}
    start = f"GREATEST(1BD, CAST(SQRT(CAST(f.m AS DOUBLE)) * POWER(10D, f.e / 2D) AS {WHOLE}))"
    first = {"m": "f.m", "e": "f.e", "r": "f.r", "x": start}
    closer = f"CAST((g.x + {_divided('g.m', 'g.x', 'g.e')}) * 0.5BD AS {WHOLE})"
    second = {"m": "g.m", "e": "g.e", "r": "g.r", "x": closer}
    power = decimal_literal(Decimal(10**_ROOT_DIGITS))
    half = decimal_literal(Decimal(5).scaleb(-_ROOT_DIGITS - 1))
    doubled = f"(h.x * {power} + {_divided('h.m', 'h.x', f'h.e + {_ROOT_DIGITS}')})"
    found = from_unscaled(f"CAST(CAST({doubled} AS {WHOLE}) * {half} AS {WHOLE})", "h.r")
    body = (
        f"CASE WHEN f.m = 0 THEN {from_unscaled('f.m', 'f.r')}"
        f" WHEN f.m IS NOT NULL THEN {let(first, 'g', let(second, 'h', found))} END"
    )
    return let(given, "f", body)
