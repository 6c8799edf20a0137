"""`numeric` values that each have a scale of their own, in Spark SQL.

Such a value is a struct of its value `v` (whole part `w` and fraction `f`, see `persist.numerics`)
and its scale `s`. Values are compared, grouped and joined by `v`; `s` only says how many digits are
shown. To compute with it, it is read as a number of Java's (`model.exact`), which is exact whatever
its digits; a result that there is no room for is an error (22003), never rounded.

Quotients and roots are in `dialect.divisions`.

Everything here takes and gives SQL. An operand may stand anywhere: it is written once, or it is a
column's name.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal

from waterclock.model.exact import Exact
from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.persist.numerics import MOST_SCALE, TOO_LONG
from waterclock.sql.dialect.faults import invalid_input, raised
from waterclock.sql.dialect.literals import decimal_literal, numeric_literal, quoted
from waterclock.sql.dialect.types import MOST_DIGITS, digits, is_unconstrained, spark_type

KIND = spark_type(NUMERIC)
_WHOLE = f"DECIMAL({MOST_DIGITS},0)"
_FRACTION = f"DECIMAL({MOST_SCALE},{MOST_SCALE})"
_NO_ROOM = raised("22003", TOO_LONG)
_FORM = "^\\s*[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?\\s*$"
_FAR = "[eE][+-]?0*[1-9][0-9]{6,}\\s*$"
"""An exponent that is beyond all numbers there are."""
_HALF = MOST_SCALE // 2
_MOST_ADDED = 30
_NAME = re.compile(r"[A-Za-z_`][\w.`]*")
_CONSTANT = re.compile(
    r"(?:CAST\()?\(?(-?[0-9]+(?:[.][0-9]+)?)(?:BD|S|L)?\)?(?: AS DECIMAL\([0-9]+,[0-9]+\)\))?"
)
"""A constant as `dialect.literals` writes it."""
RANGE_SCALE = 18
"""How many digits behind the point numbers have that a frame of a window counts from."""
_OUT_OF_RANGE = raised(
    "22003", f"a RANGE of a numeric with more than {RANGE_SCALE} digits behind the point"
)
_EXACT = Context(prec=10 * MOST_DIGITS)
_HELD = f"{Exact.HELD}("


def made(whole: str, fraction: str, scale: str) -> str:
    """A value of its parts. The cast makes all of them nullable, as columns have them."""
    value = f"NAMED_STRUCT('w', {whole}, 'f', {fraction})"
    return f"CAST(NAMED_STRUCT('v', {value}, 's', {scale}) AS {KIND})"


def held(number: str) -> str:
    """A number of Java's as such a value."""
    return f"{_HELD}{number})"


def number_of(value: str, declared: PgType) -> str:
    """An exact number of any kind as one of Java's."""
    if is_unconstrained(declared):
        inner = _inside(value)
        return f"{Exact.READ}({value})" if inner is None else inner
    precision, scale = digits(declared)
    decimal = value if scale else f"CAST({value} AS DECIMAL({precision},0))"
    return f"{Exact.OF_DECIMAL}({decimal})"


def _inside(value: str) -> str | None:
    """The number that was made such a value just now: there is no need to make it again."""
    if not (value.startswith(_HELD) and value.endswith(")")):
        return None
    inner = value[len(_HELD) : -1]
    depth = 0
    for sign in re.sub(r"'(\\.|[^'\\])*'|`[^`]*`", "", inner):
        depth += (sign == "(") - (sign == ")")
        if depth < 0:
            return None
    return inner


# --- Other numbers and texts into it --------------------------------------------------------------


def from_exact(value: str, declared: PgType) -> str:
    """An integer, or a decimal whose scale is known."""
    precision, scale = digits(declared)
    if scale > MOST_SCALE:
        return f"(CASE WHEN {value} IS NOT NULL THEN {_NO_ROOM} END)"
    if (constant := _CONSTANT.fullmatch(value)) is not None:
        number = _EXACT.quantize(Decimal(constant[1]), Decimal(1).scaleb(-scale))
        return numeric_literal(number)
    if not _NAME.fullmatch(value):
        return held(number_of(value, declared))
    whole, fraction = f"CAST({value} - {value} % 1BD AS {_WHOLE})", f"{value} % 1BD"
    if scale == 0:
        whole, fraction = value, "0BD"
    elif precision == scale:
        whole, fraction = "0BD", value
    return f"(CASE WHEN {value} IS NOT NULL THEN {made(whole, fraction, f'{scale}S')} END)"


def from_text(value: str) -> str:
    """A text, with the digits behind the point that it has."""
    trimmed = f"TRIM(BOTH ' \\t\\n\\r\\u000b\\f' FROM {value})"
    read = f"COALESCE({held(f'{Exact.PARSED}({trimmed})')}, {_NO_ROOM})"
    wrong = invalid_input("numeric", value)
    return (
        f"CASE WHEN {value} RLIKE {quoted(_FAR)} AND {value} RLIKE {quoted(_FORM)} THEN {_NO_ROOM}"
        f" WHEN {value} RLIKE {quoted(_FORM)} THEN {read}"
        f" WHEN {value} IS NOT NULL THEN {wrong} END"
    )


def from_float(value: str, significant: int) -> str:
    """A finite float, with the digits that PostgreSQL writes it with."""
    written = f"FORMAT_STRING('%.{significant - 1}e', {value})"
    number = f"{Exact.PARSED}(REGEXP_REPLACE({written}, '[.]?0*e', 'e'))"
    return f"CASE WHEN {value} IS NOT NULL THEN COALESCE({held(number)}, {_NO_ROOM}) END"


def into(value: str, declared: PgType) -> str:
    """An exact number of any kind as one with a scale of its own."""
    return value if is_unconstrained(declared) else from_exact(value, declared)


# --- It into other types --------------------------------------------------------------------------


def text_of(value: str) -> str:
    """The number as PostgreSQL prints it."""
    return f"{Exact.TEXT}({number_of(value, NUMERIC)})"


def to_exact(value: str, target: PgType) -> str:
    """A decimal of a known scale, rounded half away from zero."""
    precision, scale = digits(target)
    is_short = not scale or (precision < MOST_DIGITS and scale <= _MOST_ADDED)
    if is_short and _NAME.fullmatch(value):
        return _added(value, target)
    return f"CAST({text_of(value)} AS {spark_type(target)})"


def _added(value: str, target: PgType) -> str:
    """The whole part and the rounded fraction, as long as Spark's sum has room for both."""
    scale, whole = digits(target)[1], f"{value}.v.w"
    if scale:
        whole = f"CAST({whole} AS DECIMAL({MOST_DIGITS - 1 - scale},0))"
    kind = f"DECIMAL({scale + 1},{scale})"
    return f"CAST(({whole} + CAST({value}.v.f AS {kind})) AS {spark_type(target)})"


def to_float(value: str, kind: str) -> str:
    """The nearest float."""
    function = Exact.FLOAT if kind == "FLOAT" else Exact.DOUBLE
    return f"{function}({number_of(value, NUMERIC)})"


# --- Signs, sums, products ------------------------------------------------------------------------


def changed(value: str, function: Exact) -> str:
    """A function of the number alone, such as the absolute value."""
    return held(f"{function}({number_of(value, NUMERIC)})")


def combined(function: Exact, left: str, left_type: PgType, right: str, right_type: PgType) -> str:
    """A function of two numbers, such as the sum."""
    return held(f"{function}({number_of(left, left_type)}, {number_of(right, right_type)})")


# --- Rounding -------------------------------------------------------------------------------------


def cut_to(value: str, places: int, target: PgType) -> str:
    """A decimal with no more than so many digits behind the point, the others cut off."""
    kind = spark_type(target)
    if places > 0:
        cut = f"{Exact.CUT}({number_of(value, NUMERIC)}, {min(places, MOST_SCALE)})"
        return f"CAST({Exact.TEXT}({cut}) AS {kind})"
    if places == 0:
        return f"CAST({value}.v.w AS {kind})"
    unit = decimal_literal(Decimal(10**-places))
    return f"CAST(({value}.v.w - {value}.v.w % {unit}) AS {kind})"


def in_range(value: str) -> str:
    """A decimal that is just as large, to add to or take from; an error if there is none."""
    number = number_of(value, NUMERIC)
    decimal = f"CAST({Exact.TEXT}({number}) AS DECIMAL({MOST_DIGITS},{RANGE_SCALE}))"
    is_long = f"{Exact.SCALE}({Exact.TRIMMED}({number})) > {RANGE_SCALE}"
    return f"(CASE WHEN {is_long} THEN {_OUT_OF_RANGE} ELSE {decimal} END)"


# --- Sums of many ---------------------------------------------------------------------------------


def total_of(value: str, total: str, scale: str) -> str:
    """The sum of all values as a number of Java's, where `total` makes a sum of all of `{0}`.

    Fractions have more digits than a sum of Spark's has room for, so both halves are summed.
    """
    unit = decimal_literal(Decimal(10**_HALF))
    small = decimal_literal(Decimal(1).scaleb(-_HALF))
    first = f"CAST({value}.v.f AS DECIMAL({_HALF + 1},{_HALF}))"
    second = f"CAST(CAST({value}.v.f - {first} AS {_FRACTION}) * {unit} AS DECIMAL(19,{_HALF}))"
    whole, high, low = (
        f"{Exact.OF_DECIMAL}({total.format(part)})" for part in (f"{value}.v.w", first, second)
    )
    behind = f"{Exact.PRODUCT}({low}, {Exact.OF_DECIMAL}({small}))"
    added = f"{Exact.SUM}({Exact.SUM}({whole}, {high}), {behind})"
    return f"{Exact.ROUNDED}({added}, CAST({scale} AS INT))"
