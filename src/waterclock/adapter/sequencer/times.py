"""Times that statements name, such as those of AS OF: constant expressions.

They read nothing and are evaluated by the catalog's own engine. A number is milliseconds.
"""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Literal

from waterclock.adapter.errors import InvalidTime
from waterclock.adapter.sequencer.catalog_queries import answered
from waterclock.oracle.selection import AsOf
from waterclock.persist.numerics import python_value
from waterclock.sql import ast
from waterclock.sql.ast.common import ExpressionText
from waterclock.sql.ast.queries import Moment

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


async def as_of_time(
    session: SqlSession, as_of: ast.queries.AsOf | Literal[Moment.UPSTREAM] | None
) -> AsOf | None:
    """The time that AS OF names; None if that is to be found out."""
    if as_of is None or as_of is Moment.UPSTREAM:
        return None
    return AsOf(await time_of(session, as_of.time, "AS OF"), as_of.at_least)


async def time_of(session: SqlSession, written: ExpressionText, what: str) -> int:
    """The time that a constant expression stands for; `what` says where it was written."""
    found = await answered(session, f"SELECT ({written.text})")
    value = python_value(found.rows.column(0)[0]) if found.rows.num_rows == 1 else None
    return _millis(value, f"{what} {written.text}")


def _millis(value: object, text: str) -> int:
    """A time of the timeline: milliseconds, or a moment of the calendar."""
    match value:
        case int():
            return value
        case decimal.Decimal() if value == int(value):
            return int(value)
        case str() if value.strip().isdigit():
            return int(value)
        case datetime.datetime():
            zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return int(zoned.timestamp() * 1000)
        case _:
            raise InvalidTime(f"{text} is not a time")
