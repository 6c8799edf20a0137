"""How a session has values written: its time zone, its style of intervals, its digits of floats.

What is held never depends on it; only what is shown, and how what is ambiguous is read.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class IntervalStyle(enum.StrEnum):
    """PostgreSQL's `IntervalStyle`: the four forms in which an interval can be shown."""

    POSTGRES = "postgres"
    POSTGRES_VERBOSE = "postgres_verbose"
    SQL_STANDARD = "sql_standard"
    ISO_8601 = "iso_8601"


@dataclass(frozen=True, slots=True)
class Manner:
    """A zone, by its name, a style, and how many digits a float has."""

    zone: str
    intervals: IntervalStyle = IntervalStyle.POSTGRES
    float_digits: int = 1
    """PostgreSQL's `extra_float_digits`: above 0, as many as it takes to read the float back."""
