"""Functions of numbers."""

from __future__ import annotations

from collections.abc import Callable

from waterclock.model.exact import FLOAT, Exact
from waterclock.model.pg_types import (
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    NUMERIC,
    TEXT,
    PgType,
)
from waterclock.persist.numerics import MOST_SCALE
from waterclock.sql.dialect import divisions, scaled
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.types import MOST_DIGITS, bounded, digits, is_unconstrained, spark_type
from waterclock.sql.functions import whole_numbers
from waterclock.sql.functions.arithmetic import (
    ABSOLUTE,
    OPERATORS,
    POWER,
    SQUARE_ROOT,
    numeric_power,
    power_type,
    scaled_float,
)
from waterclock.sql.functions.exponentials import LOGARITHMS
from waterclock.sql.functions.number_formats import KINDS as FORMATTED
from waterclock.sql.functions.number_formats import number_format
from waterclock.sql.functions.number_reading import number_reading
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    ResultRule,
    SqlRule,
    Stability,
    Use,
    same_type,
    scalar,
)

_EXACT_BELOW = "4503599627370496D"
_NUMBERS = (INT2, INT4, INT8, FLOAT4, FLOAT8)


def _whole(name: str) -> str:
    """Large floats are whole numbers already, and too large for Spark's integers.

    What rounds to zero from below is a negative zero.
    """
    zero = "{0} > -1 AND {0} <= 0" if name == "CEIL" else "{0} = 0"
    return (
        f"(CASE WHEN {zero} THEN {{0}} * 0D"
        f" WHEN ABS({{0}}) < {_EXACT_BELOW} THEN CAST({name}({{0}}) AS DOUBLE) ELSE {{0}} END)"
    )


def _to_whole(arguments: tuple[Argument, ...]) -> PgType:
    if is_unconstrained(arguments[0].type):
        return bounded(MOST_DIGITS, 0)
    precision, scale = digits(arguments[0].type)
    return bounded(precision - scale + 1, 0)


def _next_whole(name: str, function: Exact) -> SqlRule:
    """The next whole number, above or below."""

    def written(use: Use) -> str:
        [value] = use.arguments
        kind = spark_type(use.result)
        if not is_unconstrained(value.type):
            return f"CAST({name}({value.sql}) AS {kind})"
        return f"CAST({scaled.changed(value.sql, function)}.v.w AS {kind})"

    return written


def _nearest(use: Use) -> str:
    [value] = use.arguments
    if is_unconstrained(value.type):
        return scaled.to_exact(value.sql, use.result)
    return f"CAST(ROUND({value.sql}, 0) AS {spark_type(use.result)})"


def _sign(use: Use) -> str:
    [value] = use.arguments
    if is_unconstrained(value.type):
        sign = f"{Exact.SIGN}({scaled.number_of(value.sql, NUMERIC)})"
        return f"CAST({sign} AS {spark_type(use.result)})"
    return f"CAST(SIGN({value.sql}) AS {spark_type(use.result)})"


def _places(argument: Argument) -> int | None:
    """A constant number of digits."""
    return None if argument.value is None else int(argument.value)


def _to_places(arguments: tuple[Argument, ...]) -> PgType:
    places = _places(arguments[1])
    if places is None or places > MOST_SCALE:
        return NUMERIC
    wanted = max(0, places)
    if is_unconstrained(arguments[0].type):
        return bounded(MOST_DIGITS - 1, wanted)
    precision, scale = digits(arguments[0].type)
    whole = max(precision - scale + 1, 1)
    return bounded(whole + wanted, wanted) if whole + wanted <= MOST_DIGITS else NUMERIC


def _to_any_places(use: Use, function: Exact) -> str:
    """To a number of digits that is known of each row only, or very large."""
    value, places = use.arguments
    return scaled.held(f"{function}({scaled.number_of(value.sql, value.type)}, {places.sql})")


def _rounded(use: Use) -> str:
    value, places = use.arguments[0], _places(use.arguments[1])
    if places is None or is_unconstrained(use.result):
        return _to_any_places(use, Exact.ROUNDED)
    if not is_unconstrained(value.type):
        return f"CAST(ROUND({value.sql}, {places}) AS {spark_type(use.result)})"
    if places < 0:
        rounded = f"{Exact.ROUNDED}({scaled.number_of(value.sql, value.type)}, {places})"
        return f"CAST({Exact.TEXT}({rounded}) AS {spark_type(use.result)})"
    return scaled.to_exact(value.sql, use.result)


def _cut(use: Use) -> str:
    value, places = use.arguments[0], 0
    if len(use.arguments) > 1:
        found = _places(use.arguments[1])
        if found is None or is_unconstrained(use.result):
            return _to_any_places(use, Exact.CUT)
        places = found
    if is_unconstrained(value.type):
        return scaled.cut_to(value.sql, places, use.result)
    if places >= digits(value.type)[1]:
        return f"CAST({value.sql} AS {spark_type(use.result)})"
    up, down = f"CEIL({value.sql}, {places})", f"FLOOR({value.sql}, {places})"
    cut = f"CASE WHEN {value.sql} < 0 THEN {up} ELSE {down} END"
    return f"CAST({cut} AS {spark_type(use.result)})"


def _root(use: Use) -> str:
    [value] = use.arguments
    return divisions.root_sql(value.sql, value.type)


def _positive(name: str) -> str:
    return (
        "(CASE WHEN {0} = 0 THEN "
        + raised("2201E", "cannot take logarithm of zero")
        + " WHEN {0} < 0 THEN "
        + raised("2201E", "cannot take logarithm of a negative number")
        + f" ELSE {FLOAT.format(name)}({{0}}) END)"
    )


def _each(
    name: str, make: Callable[[PgType], str], doc: str, types: tuple[PgType, ...] = _NUMBERS
) -> list[Function]:
    return [scalar(name, (each,), each, make(each), doc) for each in types]


_INFINITE = "CAST('Infinity' AS DOUBLE)"
_OUTSIDE = raised("22003", "input is out of range")
_EXPONENTIAL = (
    # Beyond these the result has no room, or is less than half of the least number.
    f"(CASE WHEN {{0}} > 709.782712893384D AND {{0}} < {_INFINITE} THEN "
    + raised("22003", "value out of range: overflow")
    + f" WHEN {{0}} < -745.1332191019411D AND {{0}} > - {_INFINITE} THEN "
    + raised("22003", "value out of range: underflow")
    + f" ELSE {FLOAT.format('exp')}({{0}}) END)"
)
_DEGREE = "0.017453292519943295D"


def _bounded_floats() -> list[Function]:
    """Functions that are not defined everywhere."""
    endless = f"ABS({{0}}) = {_INFINITE}"
    beyond = "ABS({0}) > 1D AND NOT ISNAN({0})"
    kinds = {
        "sin": ("The sine.", endless),
        "cos": ("The cosine.", endless),
        "tan": ("The tangent.", endless),
        "cot": ("The cotangent.", endless),
        "asin": ("The inverse sine.", beyond),
        "acos": ("The inverse cosine.", beyond),
        "sind": ("The sine of degrees.", endless),
        "cosd": ("The cosine of degrees.", endless),
        "tand": ("The tangent of degrees.", endless),
        "cotd": ("The cotangent of degrees.", endless),
        "asind": ("The inverse sine in degrees.", beyond),
        "acosd": ("The inverse cosine in degrees.", beyond),
        "acosh": ("The inverse hyperbolic cosine.", "{0} < 1D"),
        "atanh": ("The inverse hyperbolic tangent.", beyond),
    }
    return [
        scalar(
            *(name, (FLOAT8,), FLOAT8),
            f"(CASE WHEN {outside} THEN {_OUTSIDE} ELSE {FLOAT.format(name)}({{0}}) END)",
            doc,
        )
        for name, (doc, outside) in kinds.items()
    ]


def _floats() -> list[Function]:
    """Functions of one float, or two, that are defined everywhere."""
    names = {
        "atan": "The inverse tangent.",
        "atand": "The inverse tangent in degrees.",
        "sinh": "The hyperbolic sine.",
        "cosh": "The hyperbolic cosine.",
        "tanh": "The hyperbolic tangent.",
        "asinh": "The inverse hyperbolic sine.",
        "cbrt": "The cube root.",
    }
    found = [
        scalar(name, (FLOAT8,), FLOAT8, FLOAT.format(name) + "({0})", doc)
        for name, doc in names.items()
    ]
    for name, doc in (("atan2", "The angle of a point."), ("atan2d", "The same in degrees.")):
        sql = FLOAT.format(name) + "({0}, {1})"
        found.append(scalar(name, (FLOAT8, FLOAT8), FLOAT8, sql, doc))
    return found


def _modulo() -> list[Function]:
    """`mod` is the operator `%` by another name."""
    return [
        scalar("mod", entry.arguments, entry.result, entry.sql, entry.doc)
        for entry in OPERATORS
        if entry.name == "%"
    ]


def _whole_quotient(use: Use) -> str:
    one, other = use.arguments
    left, right = one.sql, other.sql
    if is_unconstrained(one.type) or is_unconstrained(other.type):
        exact = divisions.whole_quotient_sql(left, one.type, right, other.type)
    else:
        exact = f"({left} - {left} % {right}) / {right}"
    return f"CAST({exact} AS {spark_type(use.result)})"


def _quotient_digits(arguments: tuple[Argument, ...]) -> PgType:
    if any(is_unconstrained(each.type) for each in arguments):
        return bounded(MOST_DIGITS, 0)
    (p, s), (_, t) = digits(arguments[0].type), digits(arguments[1].type)
    return bounded(p - s + t, 0)


_SAME: ResultRule = same_type
_PLACES = (NUMERIC, INT4)
FUNCTIONS: tuple[Function, ...] = (
    *whole_numbers.FUNCTIONS,
    *_each("abs", lambda _: "ABS({0})", "The absolute value."),
    scalar("abs", (NUMERIC,), _SAME, ABSOLUTE, "The absolute value."),
    *(
        entry
        for name in ("ceil", "ceiling")
        for entry in (
            scalar(name, (FLOAT8,), FLOAT8, _whole("CEIL"), "The next whole number above."),
            scalar(
                name, (NUMERIC,), _to_whole, _next_whole("CEIL", Exact.ABOVE), "The next above."
            ),
        )
    ),
    scalar("floor", (FLOAT8,), FLOAT8, _whole("FLOOR"), "The next whole number below."),
    scalar(
        *("floor", (NUMERIC,), _to_whole, _next_whole("FLOOR", Exact.BELOW)),
        "The next whole number below.",
    ),
    scalar("round", (FLOAT8,), FLOAT8, "RINT({0})", "The nearest whole number, even if two are."),
    scalar("round", (NUMERIC,), _to_whole, _nearest, "The nearest whole number."),
    scalar("round", _PLACES, _to_places, _rounded, "Rounded to so many digits."),
    scalar(
        *("trunc", (FLOAT8,), FLOAT8),
        "(CASE WHEN {0} < 0 THEN " + _whole("CEIL") + " ELSE " + _whole("FLOOR") + " END)",
        "The number without its fraction.",
    ),
    scalar("trunc", (NUMERIC,), _to_whole, _cut, "The number without its fraction."),
    scalar("trunc", _PLACES, _to_places, _cut, "Cut after so many digits."),
    scalar(
        *("sign", (FLOAT8,), FLOAT8),
        "(CASE WHEN ISNAN({0}) OR {0} = 0D THEN 0D ELSE SIGN({0}) END)",
        "-1, 0 or 1.",
    ),
    scalar("sign", (NUMERIC,), bounded(1, 0), _sign, "-1, 0 or 1."),
    scalar("sqrt", (FLOAT8,), FLOAT8, SQUARE_ROOT, "The square root."),
    scalar("sqrt", (NUMERIC,), NUMERIC, _root, "The square root."),
    scalar("ln", (FLOAT8,), FLOAT8, _positive("ln"), "The natural logarithm."),
    *LOGARITHMS,
    scalar("log", (FLOAT8,), FLOAT8, _positive("log10"), "The logarithm to base 10."),
    scalar("log10", (FLOAT8,), FLOAT8, _positive("log10"), "The logarithm to base 10."),
    *(
        entry
        for name in ("power", "pow")
        for entry in (
            scalar(name, (FLOAT8, FLOAT8), FLOAT8, POWER, "A power."),
            scalar(name, (NUMERIC, NUMERIC), power_type, numeric_power, "A power."),
        )
    ),
    scalar("pi", (), FLOAT8, "PI()", "The number pi.", never_null=True),
    scalar("div", (NUMERIC, NUMERIC), _quotient_digits, _whole_quotient, "The whole quotient."),
    *(
        scalar("to_char", (kind, TEXT), TEXT, number_format, "As text, in a format.")
        for kind in FORMATTED
    ),
    scalar("to_number", (TEXT, TEXT), NUMERIC, number_reading, "A number written in a format."),
    *_floats(),
    *_bounded_floats(),
    scalar("exp", (FLOAT8,), FLOAT8, _EXPONENTIAL, "The exponential."),
    scalar("degrees", (FLOAT8,), FLOAT8, scaled_float("/", _DEGREE), "Radians in degrees."),
    scalar("radians", (FLOAT8,), FLOAT8, scaled_float("*", _DEGREE), "Degrees in radians."),
    *_modulo(),
    scalar(
        *("random", (), FLOAT8, "RAND()", "A random number from 0 to below 1."),
        stability=Stability.VOLATILE,
        never_null=True,
    ),
)
