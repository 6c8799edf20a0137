"""The types of columns, and the values that each may have: few ordinary ones, and extremes.

Few, so that joins meet and groups have members. Values of one type that are equal look the same,
since SQL does not say which of two equal values a group shows; and sums of floating-point numbers
are exact, since it does not say in which order they are added.
"""

from __future__ import annotations

from waterclock.testing.judge.choices import Choices

ORDINARY: dict[str, tuple[str, ...]] = {
    "int4": ("1", "2", "0", "3", "-1", "7"),
    "int8": ("1", "2", "0", "5000000000", "-7"),
    "numeric(10,2)": ("1.00", "0.00", "2.50", "-2.25", "10.10"),
    "numeric": ("1", "0", "2.5", "-2.25", "0.001", "12345678901234567890"),
    "float8": ("1", "0", "1.5", "-2.25", "0.5", "1048576"),
    "text": ("a", "", "b", "abc", "A b", "é"),
    "bool": ("t", "f"),
    "date": ("2024-02-29", "2000-01-01", "1969-12-31"),
    "timestamp": ("2024-02-29 12:34:56.5", "2000-01-01 00:00:00", "1969-12-31 23:59:59"),
    "timestamptz": ("2024-02-29 12:34:56.5+00", "2000-01-01 00:00:00+00"),
    "interval": ("1 day", "01:00:00", "2 mons", "-3 days"),
    "varchar(5)": ("a", "b", "abc"),
    "char(3)": ("a", "ab", "abc"),
    "_int4": ("{1,2}", "{}", "{1,NULL}", "{3}"),
    "jsonb": ("1", "{}", '{"a": 1}', "[1, 2]", '"x"'),
    "uuid": ("00000000-0000-0000-0000-000000000001", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "bytea": ("\\x61", "\\x", "\\x00ff"),
    "time": ("10:20:30", "00:00:00"),
    "int2": ("1", "2", "-1"),
}
EXTREME: dict[str, tuple[str, ...]] = {
    "int4": ("2147483647", "-2147483648"),
    "int8": ("9223372036854775807", "-9223372036854775808"),
    "numeric(10,2)": ("99999999.99", "-99999999.99"),
    "float8": ("Infinity", "-Infinity", "NaN"),
    "text": ("日本語", "it's", "back\\slash", "%_", "a\tb"),
    "date": ("infinity", "-infinity", "0001-01-01"),
    "timestamp": ("infinity", "-infinity", "9999-12-31 23:59:59.999999"),
    "int2": ("32767", "-32768"),
    "bytea": ("\\x5c27",),
}
COLUMN_TYPES = tuple(ORDINARY)
COMMON_TYPES = ("int4", "text", "int8", "numeric(10,2)", "bool", "date", "float8")
"""What most columns are of, so that expressions have something to work with."""
NULL_PERCENT = 15


def value_of(choices: Choices, kind: str, *, extremes: bool) -> str | None:
    """A value of the type, as its text."""
    if choices.happens(NULL_PERCENT):
        return None
    if extremes and kind in EXTREME and choices.happens(10):
        return choices.pick(EXTREME[kind])
    return choices.pick(ORDINARY[kind])


def literal(value: str | None, kind: str) -> str:
    """The value in SQL, with its type."""
    name = declared_as(kind)
    if value is None:
        return f"NULL::{name}"
    quoted = value.replace("'", "''")
    return f"'{quoted}'::{name}"


def declared_as(kind: str) -> str:
    """The type as SQL writes it."""
    return f"{kind[1:]}[]" if kind.startswith("_") else kind


def base(kind: str) -> str:
    """The type without length, precision and scale, as expressions have it."""
    name = kind.partition("(")[0]
    return {"varchar": "varchar", "char": "bpchar"}.get(name, name)
