"""How a session has values written as text: its time zone, and its style of intervals.

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
    """A zone, by its name, and a style."""

    zone: str
    intervals: IntervalStyle = IntervalStyle.POSTGRES
