"""What a session contributes to the meaning of a query."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

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
