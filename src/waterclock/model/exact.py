"""The functions of numbers that expressions are written with, besides Spark's own.

They are methods of classes of ours inside Spark's JVM (`compute.jvm`), and named in SQL that the
binder writes. All functions give null if an argument is null.

To functions of exact numbers (`Exact`) a number is an object of Java's (`BigDecimal`), which has a
value and a scale; it never leaves an expression. Those of floating-point numbers (`FLOAT`) have the
names that they have in PostgreSQL.
"""

from __future__ import annotations

from enum import StrEnum

FLOAT = "wc_float_{0}"
"""A function of floating-point numbers. Where it has no value it gives NaN or infinity."""


class Exact(StrEnum):
    """A function of exact numbers, by the name that Spark knows it by."""

    OF_DECIMAL = "wc_exact_of_decimal"
    """A number, of a decimal of Spark's."""
    READ = "wc_exact_read"
    """A number, of a struct that holds one (see `persist.numerics`)."""
    PARSED = "wc_exact_parsed"
    """A number, of a text that is one; null if it has more digits than there is room for."""
    HELD = "wc_exact_held"
    """The struct that holds a number; an error (22003) if there is no room for its digits."""
    TEXT = "wc_exact_text"
    """A number as PostgreSQL prints it."""
    DOUBLE = "wc_exact_double"
    FLOAT = "wc_exact_float"
    SIGN = "wc_exact_sign"
    """-1, 0 or 1, as an integer."""
    ABSOLUTE = "wc_exact_absolute"
    NEGATIVE = "wc_exact_negative"
    SUM = "wc_exact_sum"
    DIFFERENCE = "wc_exact_difference"
    PRODUCT = "wc_exact_product"
    REMAINDER = "wc_exact_remainder"
    WHOLE_QUOTIENT = "wc_exact_whole_quotient"
    QUOTIENT = "wc_exact_quotient"
    """With as many digits as PostgreSQL gives it. These three are errors (22012) by zero."""
    VARIANCE = "wc_exact_variance"
    """Of the count, the sum of squares, the sum, and the count or one less; null by zero."""
    ROOT = "wc_exact_root"
    """With as many digits as PostgreSQL gives it; an error (2201F) of a negative number."""
    ROOT_OF_SAME_SCALE = "wc_exact_root_of_same_scale"
    """Of a number that is not negative."""
    LN = "wc_exact_ln"
    """Of a positive number. This and those that follow have as many digits as in PostgreSQL."""
    LOG = "wc_exact_log"
    """To the base that comes first, both positive; an error (22012) if the base is 1."""
    EXP = "wc_exact_exp"
    POWER = "wc_exact_power"
    """Of a base that is `DEFINED` and `REAL`; both are errors (22003) if far too large."""
    NOT_ZERO = "wc_exact_not_zero"
    """The number; an error (2201E) if it is 0 or, the other, negative."""
    NOT_NEGATIVE = "wc_exact_not_negative"
    DEFINED = "wc_exact_defined"
    """The base of a power; an error (2201F) if it is 0 and the exponent negative."""
    REAL = "wc_exact_real"
    """The base of a power; an error (2201F) if it is negative and the exponent not whole."""
    SCALE = "wc_exact_scale"
    """How many digits are behind the point, as an integer."""
    TRIMMED = "wc_exact_trimmed"
    """Without zeros at the end."""
    DIVISOR = "wc_exact_divisor"
    """The greatest that both are multiples of."""
    MULTIPLE = "wc_exact_multiple"
    """The least that is a multiple of both."""
    BUCKET = "wc_exact_bucket"
    """Which of so many equal parts a number between two bounds is in, as an integer from 1 on."""
    ROUNDED = "wc_exact_rounded"
    """To so many digits behind the point, half away from zero; below 0, to tens and so on."""
    ABOVE = "wc_exact_above"
    """The next whole number, above or, the other, below."""
    BELOW = "wc_exact_below"
    CUT = "wc_exact_cut"
    """To so many digits behind the point, the others cut off."""
