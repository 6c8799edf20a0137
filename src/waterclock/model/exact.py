"""The functions of exact numbers that expressions are written with, besides Spark's own.

They are methods of a class of ours inside Spark's JVM (`compute.jvm`), and named in SQL that the
binder writes. In it, a number is an object of Java's (`BigDecimal`), which has a value and a scale;
it never leaves an expression. All functions give null if an argument is null.
"""

from __future__ import annotations

from enum import StrEnum


class Exact(StrEnum):
    """A function, by the name that Spark knows it by."""

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
    POWER = "wc_exact_power"
    """To a whole number that is not negative, with as many digits as PostgreSQL gives it."""
    ROUNDED = "wc_exact_rounded"
    """To so many digits behind the point, half away from zero."""
    ABOVE = "wc_exact_above"
    """The next whole number, above or, the other, below."""
    BELOW = "wc_exact_below"
    CUT = "wc_exact_cut"
    """To so many digits behind the point, the others cut off."""
