"""`numeric` values that each have a scale of their own, in Spark SQL.

Such a value is a struct of its value `v` (whole part `w` and fraction `f`, see `persist.numerics`)
and its scale `s`. Values are compared, grouped and joined by `v`; `s` only says how many digits are
shown. Sums add whole parts and fractions. Products, quotients and remainders are computed with the
digits as one whole number, so that they are exact wherever 38 digits suffice; beyond that they are
errors (22003), never rounded.

Quotients and roots are in `dialect.divisions`.

Everything here takes and gives SQL; an operand may stand anywhere and is written once or twice
only, else it is bound to a name first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.persist.numerics import MOST_SCALE
from waterclock.sql.dialect.faults import invalid_input, raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import decimal_literal, quoted
from waterclock.sql.dialect.types import MOST_DIGITS, digits, is_unconstrained, spark_type

KIND = spark_type(NUMERIC)
WHOLE = f"DECIMAL({MOST_DIGITS},0)"
_FRACTION = f"DECIMAL({MOST_SCALE},{MOST_SCALE})"
TOO_LONG = raised(
    "22003",
    f"a numeric has more than {MOST_DIGITS} digits, or more than {MOST_SCALE} behind the point",
)
_FORM = "^\\s*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\\s*$"
_LONGEST = 100
_HALF = MOST_SCALE // 2
_MOST_ADDED = 30
_NAME = re.compile(r"[\w.`]+")


def made(whole: str, fraction: str, scale: str) -> str:
    """A value of its parts. The cast makes all of them nullable, as columns have them."""
    value = f"NAMED_STRUCT('w', {whole}, 'f', {fraction})"
    return f"CAST(NAMED_STRUCT('v', {value}, 's', {scale}) AS {KIND})"


# --- Other numbers and texts into it --------------------------------------------------------------


def from_exact(value: str, declared: PgType) -> str:
    """An integer, or a decimal whose scale is known."""
    precision, scale = digits(declared)
    if scale > MOST_SCALE:
        return f"(CASE WHEN {value} IS NOT NULL THEN {TOO_LONG} END)"
    if scale == 0:
        return f"(CASE WHEN {value} IS NOT NULL THEN {made(value, '0BD', '0S')} END)"
    whole = f"CAST(n.x - n.x % 1BD AS {WHOLE})"
    fraction = f"CAST(n.x % 1BD AS {_FRACTION})"
    if precision == scale:
        whole, fraction = "0BD", "n.x"
    body = f"CASE WHEN n.x IS NOT NULL THEN {made(whole, fraction, f'{scale}S')} END"
    return let({"x": value}, "n", body)


def from_text(value: str) -> str:
    """A text, with the digits behind the point that it has."""
    trimmed = f"TRIM(BOTH ' \\t\\n\\r\\u000b\\f' FROM {value})"
    pieces = {
        "n": "LEFT(t.x, 1) = '-'",
        "w": "REGEXP_EXTRACT(t.x, '^[+-]?([0-9]*)', 1)",
        "f": "REGEXP_EXTRACT(t.x, '[.]([0-9]*)', 1)",
        "e": "CAST(COALESCE(NULLIF(REGEXP_EXTRACT(t.x, '[eE]([+-]?[0-9]+)', 1), ''), '0') AS INT)",
    }
    scale = "LENGTH(p.f) - p.e"
    zeros = f"LEAST({_LONGEST}, GREATEST(0, 0 - ({scale})))"
    digits_of = {
        "n": "p.n",
        "d": f"CONCAT(p.w, p.f, REPEAT('0', {zeros}))",
        "s": f"GREATEST(0, {scale})",
    }
    read = let(pieces, "p", let(digits_of, "d", _from_digits("d.n", "d.d", "d.s")))
    wrong = invalid_input("numeric", "t.o")
    body = f"CASE WHEN t.o RLIKE {quoted(_FORM)} THEN {read} WHEN t.o IS NOT NULL THEN {wrong} END"
    return let({"o": value, "x": trimmed}, "t", body)


def from_float(value: str, significant: int) -> str:
    """A finite float, with the digits that PostgreSQL writes it with."""
    written = f"FORMAT_STRING('%.{significant - 1}e', {value})"
    return from_text(f"REGEXP_REPLACE({written}, '[.]?0*e', 'e')")


def _from_digits(negative: str, text: str, scale: str) -> str:
    """A number of all its digits as text, of which so many are behind the point."""
    padded = f"LPAD({text}, GREATEST(LENGTH({text}), {scale} + 1), '0')"
    sign = f"CASE WHEN {negative} THEN '-' ELSE '' END"
    whole = "CAST(CONCAT(q.n, LEFT(q.d, LENGTH(q.d) - q.s)) AS " + WHOLE + ")"
    fraction = f"CAST(CONCAT(q.n, '0.', RIGHT(q.d, q.s)) AS {_FRACTION})"
    body = f"CASE WHEN q.s > {MOST_SCALE} THEN {TOO_LONG} ELSE {made(whole, fraction, 'q.s')} END"
    fields = {"n": sign, "d": padded, "s": f"LEAST({scale}, {_LONGEST})"}
    return let(fields, "q", body)


def from_unscaled(number: str, scale: str) -> str:
    """A whole number, of whose digits so many are behind the point."""
    parts = {"m": number, "s": scale}
    read = _from_digits("u.m < 0", "CAST(ABS(u.m) AS STRING)", "u.s")
    return let(parts, "u", f"CASE WHEN u.m IS NOT NULL THEN {read} END")


def into(value: str, declared: PgType) -> str:
    """An exact number of any kind as one with a scale of its own."""
    return value if is_unconstrained(declared) else from_exact(value, declared)


# --- It into other types --------------------------------------------------------------------------


def text_of(value: str) -> str:
    """The number as PostgreSQL prints it."""
    body = (
        f"CONCAT({_sign('n.x')}, CAST(ABS(n.x.v.w) AS STRING),"
        f" CASE WHEN n.x.s > 0 THEN CONCAT('.', {_digits_behind('n.x')}) ELSE '' END)"
    )
    return let({"x": value}, "n", body)


def to_exact(value: str, target: PgType) -> str:
    """A decimal of a known scale, rounded half away from zero."""
    precision, scale = digits(target)
    if scale and (precision == MOST_DIGITS or scale > _MOST_ADDED):
        return f"CAST({text_of(value)} AS {spark_type(target)})"
    if not _NAME.fullmatch(value):
        return let({"x": value}, "n", _added("n.x", target))
    return _added(value, target)


def _added(value: str, target: PgType) -> str:
    """The whole part and the rounded fraction, as long as Spark's sum has room for both."""
    scale, whole = digits(target)[1], f"{value}.v.w"
    if scale:
        whole = f"CAST({whole} AS DECIMAL({MOST_DIGITS - 1 - scale},0))"
    kind = f"DECIMAL({scale + 1},{scale})"
    return f"CAST(({whole} + CAST({value}.v.f AS {kind})) AS {spark_type(target)})"


def to_float(value: str, kind: str) -> str:
    """The nearest float."""
    return f"CAST({text_of(value)} AS {kind})"


def _sign(value: str) -> str:
    return f"CASE WHEN {value}.v.w < 0 OR {value}.v.f < 0 THEN '-' ELSE '' END"


def _digits_behind(value: str) -> str:
    return f"SUBSTRING(CAST(ABS({value}.v.f) AS STRING), 3, {value}.s)"


def unscaled(value: str, declared: PgType) -> tuple[str, str]:
    """All digits of an exact number as one whole number, and its scale."""
    if is_unconstrained(declared):
        digits_text = f"CAST(ABS({value}.v.w) AS STRING), {_digits_behind(value)}"
        whole = f"CAST(CONCAT({_sign(value)}, {digits_text}) AS {WHOLE})"
        return whole, f"CAST({value}.s AS INT)"
    precision, scale = digits(declared)
    if scale == 0:
        return f"CAST({value} AS {WHOLE})", "0"
    if precision + scale + 2 <= MOST_DIGITS:
        factor = decimal_literal(Decimal(10**scale))
        return f"CAST({value} * {factor} AS {WHOLE})", str(scale)
    return f"CAST(REPLACE(CAST({value} AS STRING), '.', '') AS {WHOLE})", str(scale)


# --- Signs, sums, products ------------------------------------------------------------------------


def each_part(value: str, template: str) -> str:
    """A function of the whole part and of the fraction, such as the absolute value."""
    whole, fraction = template.format("n.x.v.w"), template.format("n.x.v.f")
    body = f"CASE WHEN n.x IS NOT NULL THEN {made(whole, fraction, 'n.x.s')} END"
    return let({"x": value}, "n", body)


def sum_sql(left: str, operator: str, right: str) -> str:
    """The sum or difference of two such numbers, with the longer scale."""
    body = joined(
        f"(o.a.v.w {operator} o.b.v.w)",
        f"(o.a.v.f {operator} o.b.v.f)",
        "GREATEST(o.a.s, o.b.s)",
    )
    whole = f"CASE WHEN o.a IS NOT NULL AND o.b IS NOT NULL THEN {body} END"
    return let({"a": left, "b": right}, "o", whole)


def joined(whole: str, rest: str, scale: str) -> str:
    """A number of a whole part and a rest of less than two, whose signs may differ."""
    given = {"w": whole, "t": rest, "s": scale}
    first = {"w": "i.w + CAST(i.t - i.t % 1BD AS DECIMAL(2,0))", "r": "i.t % 1BD", "s": "i.s"}
    shift = "CASE WHEN j.w > 0 AND j.r < 0 THEN -1BD WHEN j.w < 0 AND j.r > 0 THEN 1BD ELSE 0BD END"
    number = made("k.w + k.c", f"CAST(k.r - k.c AS {_FRACTION})", "k.s")
    again = {"w": "j.w", "r": "j.r", "c": shift, "s": "j.s"}
    return let(given, "i", let(first, "j", let(again, "k", number)))


def product_sql(left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    """The product, with the digits behind the point of both."""
    (one, s), (other, t) = unscaled("o.a", left_type), unscaled("o.b", right_type)
    product = from_unscaled(f"CAST({one} * {other} AS {WHOLE})", f"{s} + {t}")
    return let({"a": left, "b": right}, "o", product)


# --- Rounding -------------------------------------------------------------------------------------


def cut_sql(value: str, places: int) -> str:
    """The number with no more than so many digits behind the point, the others cut off."""
    if places <= 0:
        unit = decimal_literal(Decimal(10**-places))
        return f"{value}.v.w" if places == 0 else f"({value}.v.w - {value}.v.w % {unit})"
    unit = decimal_literal(Decimal(1).scaleb(-places))
    kept = f"(n.x.v.f - n.x.v.f % {unit})"
    body = f"CASE WHEN n.x IS NOT NULL THEN {made('n.x.v.w', kept, f'{places}S')} END"
    return let({"x": value}, "n", body)


def extreme_sql(values: Sequence[str], sign: str) -> str:
    """The first of the values that is the greatest, or the least."""
    better = f"b IS NULL OR e.v {sign} b.v"
    step = f"CASE WHEN e IS NULL THEN b WHEN {better} THEN e ELSE b END"
    return f"AGGREGATE(ARRAY({', '.join(values)}), CAST(NULL AS {KIND}), (b, e) -> {step})"


# --- Sums of many ---------------------------------------------------------------------------------


def total_sql(value: str, total: str, scale: str) -> str:
    """The sum of all values, where `total` makes a sum of all of `{0}`, and `scale` is known.

    Fractions have more digits than a sum of Spark's has room for, so both halves are summed.
    """
    unit = decimal_literal(Decimal(10**_HALF))
    small = decimal_literal(Decimal(1).scaleb(-_HALF))
    first = f"CAST({value}.v.f AS DECIMAL({_HALF + 1},{_HALF}))"
    second = f"CAST(CAST({value}.v.f - {first} AS {_FRACTION}) * {unit} AS DECIMAL(19,{_HALF}))"
    sums = {
        "w": total.format(f"{value}.v.w"),
        "h": total.format(first),
        "l": total.format(second),
        "s": scale,
    }
    carried = {
        "w": "s.w",
        "h": f"s.h + CAST((s.l - s.l % 1BD) * {small} AS DECIMAL(29,{_HALF}))",
        "l": f"CAST(CAST(s.l % 1BD AS DECIMAL(19,{_HALF})) * {small} AS {_FRACTION})",
        "s": "s.s",
    }
    number = joined(
        f"(c.w + CAST(c.h - c.h % 1BD AS {WHOLE}))",
        f"(CAST(c.h % 1BD AS {_FRACTION}) + c.l)",
        "c.s",
    )
    body = f"CASE WHEN s.w IS NOT NULL THEN {let(carried, 'c', number)} END"
    return let(sums, "s", body)
