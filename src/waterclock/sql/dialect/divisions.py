"""Quotients, remainders and roots of `numeric` values that have scales of their own.

The digits of a number are taken as one whole number, and divided as by hand: each step brings as
many digits as there is room for. So a result is exact, and rounded as PostgreSQL does, wherever 38
digits suffice; beyond that it is an error (22003). How many digits behind the point a quotient or a
root has depends on the values, by PostgreSQL's rules.
"""

from __future__ import annotations

from decimal import Decimal

from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.persist.numerics import MOST_SCALE
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import decimal_literal
from waterclock.sql.dialect.scaled import (
    TOO_LONG,
    WHOLE,
    from_unscaled,
    unscaled,
)
from waterclock.sql.dialect.types import MOST_DIGITS, digits, is_unconstrained

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
    given = {"a": one, "s": s, "b": other, "t": t}
    texts = {
        **{"a": "ABS(x.a)", "b": "ABS(x.b)", "n": "(x.a < 0) <> (x.b < 0)"},
        **{f"t{name}": f"CAST(ABS(x.{name}) AS STRING)" for name in "ab"},
    }
    weights = {"a": _weight("y.a", "y.ta", "x.s"), "b": _weight("y.b", "y.tb", "x.t")}
    is_more = f"{_first('y.a', 'y.ta', 'x.s', 'w.a')} > {_first('y.b', 'y.tb', 'x.t', 'w.b')}"
    scale = f"16 - 4 * (w.a - w.b - CASE WHEN {is_more} THEN 0 ELSE 1 END)"
    known = {"r": f"CAST(GREATEST({scale}, x.s, x.t, 0) AS INT)"}
    quotient = _quotient("(z.r + x.t - x.s)", right_type)
    signed = f"CAST({quotient} * CASE WHEN y.n THEN -1BD ELSE 1BD END AS {WHOLE})"
    body = (
        f"CASE WHEN y.a IS NULL OR y.b IS NULL THEN NULL WHEN y.b = 0 THEN {_ZERO_DIVISOR}"
        f" WHEN z.r > {MOST_SCALE} THEN {TOO_LONG} ELSE {from_unscaled(signed, 'z.r')} END"
    )
    inner = let(given, "x", let(texts, "y", let(weights, "w", let(known, "z", body))))
    return let({"a": left, "b": right}, "o", inner)


def _quotient(more: str, right_type: PgType) -> str:
    """`y.a` by `y.b`, which are above zero, with so many digits more, rounded.

    Most quotients are small enough to be made at once, which is much quicker.
    """
    precision = MOST_DIGITS if is_unconstrained(right_type) else digits(right_type)[0]
    length = f"LENGTH(y.ta) + {more}"
    fits = (
        f"{more} >= 0 AND {length} <= {MOST_DIGITS}"
        f" AND {length} - LENGTH(y.tb) < {_room(precision)}"
    )
    found = f"CAST((f.n - g.m) / CAST(y.b AS DECIMAL({precision},0)) AS {WHOLE})"
    rounded = f"({found} + CASE WHEN g.m >= y.b - g.m THEN 1BD ELSE 0BD END)"
    number = {"n": f"CAST(y.a * {_power(more)} AS {WHOLE})"}
    once = let(number, "f", let({"m": "f.n % y.b"}, "g", rounded))
    return f"CASE WHEN {fits} THEN {once} ELSE {_divided('y.a', 'y.b', more)} END"


def _room(precision: int) -> int:
    """How many digits before the point Spark has for a quotient by a number of so many digits."""
    behind = max(6, min(MOST_DIGITS, precision + 1))
    return MOST_DIGITS - (behind - (behind // 2 + 1))


def _weight(number: str, text: str, scale: str) -> str:
    """The place of the first group of four digits, counted from the point."""
    place = f"(LENGTH({text}) - 1 - {scale})"
    return f"CASE WHEN {number} = 0 THEN 0 ELSE CAST(({place} + 400) DIV 4 - 100 AS INT) END"


def _first(number: str, text: str, scale: str, weight: str) -> str:
    """The first group of four digits, of which some may be zeros that are not written."""
    width = f"(LENGTH({text}) - {scale} - 4 * {weight})"
    group = f"CAST(RPAD(LEFT({text}, {width}), {width}, '0') AS INT)"
    return f"CASE WHEN {number} = 0 THEN 0 ELSE {group} END"


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
    weight = _weight("x.m", "CAST(x.m AS STRING)", "x.s")
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
