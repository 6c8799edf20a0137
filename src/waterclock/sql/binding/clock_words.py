"""`'now'`, `'today'`, `'yesterday'` and `'tomorrow'`: constants that are times of the transaction.

They are read as the types of dates and timestamps, and mean what `now()` means.
"""

from __future__ import annotations

import datetime
import zoneinfo

import pyarrow as pa

from waterclock.model.pg_types import DATE, NO_MODIFIER, TIMESTAMP, TIMESTAMPTZ, PgType
from waterclock.sql.binding import constants
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.facts import SessionFacts
from waterclock.sql.dialect.literals import moment_scalar
from waterclock.sql.errors import FeatureNotSupported

_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}
_KINDS = frozenset({DATE.oid, TIMESTAMP.oid, TIMESTAMPTZ.oid})
CLOCK_HINT = "Compare with mz_now() in a filter: it is the time at which the view is read."


def clock_word(text: str, declared: PgType, statement: Statement, at: int) -> Typed | None:
    """The time that a text names by such a word; None if it does not."""
    word = text.strip().lower()
    if declared.oid not in _KINDS or (word != "now" and word not in _DAYS):
        return None
    if statement.maintained:
        raise FeatureNotSupported(
            f"'{word}' in a view that is maintained is not supported", at, hint=CLOCK_HINT
        )
    statement.uses_now = True
    scalar = _scalar(word, declared, statement.facts, at)
    if scalar is None:
        return constants.null_of(declared, at)
    return constants.known(scalar, declared, at)


def _scalar(word: str, declared: PgType, facts: SessionFacts, at: int) -> pa.Scalar | None:
    """The time in the type; None while that of the transaction is not known."""
    if facts.now is None:
        return None
    try:
        zone = zoneinfo.ZoneInfo(facts.timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        what = f"'{word}' in the time zone {facts.timezone}"
        raise FeatureNotSupported.of(what, at) from None
    local = facts.now.astimezone(zone)
    if word in _DAYS:
        day = local.date() + datetime.timedelta(days=_DAYS[word])
        local = datetime.datetime.combine(day, datetime.time.min, zone)
    if declared.oid == DATE.oid:
        return pa.scalar(local.date(), pa.date32())
    local = _rounded(local, declared.modifier)
    if declared.oid == TIMESTAMP.oid:
        return moment_scalar(local.replace(tzinfo=None), TIMESTAMP)
    return moment_scalar(local.astimezone(datetime.UTC), TIMESTAMPTZ)


def _rounded(moment: datetime.datetime, digits: int) -> datetime.datetime:
    """The moment with so many digits of a second."""
    if digits == NO_MODIFIER:
        return moment
    step = 10 ** (6 - digits)
    micros = (moment.microsecond + step // 2) // step * step
    return moment.replace(microsecond=0) + datetime.timedelta(microseconds=micros)
