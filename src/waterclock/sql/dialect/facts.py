"""What a session contributes to the meaning of a query."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from waterclock.model.manner import IntervalStyle, Manner
from waterclock.model.pg_types import PgType

TextParser = Callable[[str, PgType], pa.Scalar]
"""Reads a text as PostgreSQL's input function of the type does, in the session's time zone.

The scalar has the Arrow type that values of the type are held in. Raises a `WaterclockError`.
"""


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What a session contributes to the meaning of a query.

    `now` and `mz_now` may be unknown while a query is only described. `parse_text` reads constants;
    without it only the plainest forms of them are known.
    """

    current_user: str
    session_user: str
    current_database: str
    search_path: tuple[str, ...]
    timezone: str
    now: datetime.datetime | None
    mz_now: int | None
    parse_text: TextParser | None = None
    statement_now: datetime.datetime | None = None
    """When the statement came, if that was not when the transaction began."""
    interval_style: IntervalStyle = IntervalStyle.POSTGRES
    """How intervals are written as text."""
    float_digits: int = 1
    """How many digits floats have as text, as `Manner` counts them."""

    @property
    def manner(self) -> Manner:
        """How values are written as text."""
        return Manner(self.timezone, self.interval_style, self.float_digits)

    def of_views(self) -> SessionFacts:
        """The same for the text of a view, which has to be the same for everybody."""
        return replace(self, interval_style=IntervalStyle.POSTGRES, float_digits=1)
