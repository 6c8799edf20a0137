"""Functions that tell of the session, the time and the types. They are constants of the query."""

from __future__ import annotations

import zoneinfo

import pyarrow as pa

from waterclock.model.pg_types import (
    DATE,
    MZ_TIMESTAMP,
    REGTYPE,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    PgType,
)
from waterclock.sql.dialect.datetimes import is_utc
from waterclock.sql.dialect.facts import SessionFacts
from waterclock.sql.dialect.literals import moment_scalar, null, quoted, scalar_literal
from waterclock.sql.dialect.types import ANY, NAME, shown
from waterclock.sql.functions.registry import Function, Refused, SqlRule, Stability, Use, scalar

MZ_NOW = "mz_now"


_STATEMENT = "statement_timestamp"
CLOCKS: dict[str, PgType] = {
    **dict.fromkeys(("now", "current_timestamp", "transaction_timestamp", _STATEMENT), TIMESTAMPTZ),
    "localtimestamp": TIMESTAMP,
    "localtime": TIME,
    "current_date": DATE,
}
"""The functions that tell the time of the transaction, and what they tell it as.

One of them tells that of the statement, which in a block comes later.
"""


def clock_value(name: str, facts: SessionFacts) -> pa.Scalar | None:
    """What such a function tells; None while it is not known."""
    kind = CLOCKS[name]
    if facts.now is None:
        return None
    if kind == TIMESTAMPTZ:
        later = facts.statement_now if name == _STATEMENT else None
        return moment_scalar(later or facts.now, TIMESTAMPTZ)
    try:
        zone = zoneinfo.ZoneInfo(facts.timezone)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        raise Refused(f"a local time in the zone {facts.timezone}") from None
    local = facts.now.astimezone(zone).replace(tzinfo=None)
    if kind == DATE:
        return pa.scalar(local.date(), pa.date32())
    if kind == TIME:
        return pa.scalar(local.time(), pa.time64("us"))
    return moment_scalar(local, kind)


def _clock(name: str) -> SqlRule:
    kind = CLOCKS[name]

    def written(use: Use) -> str:
        value = clock_value(name, use.facts)
        return null(kind) if value is None else scalar_literal(value, kind)

    return written


_WALL_CLOCK = "CAST(JAVA_METHOD('java.time.Instant', 'now') AS TIMESTAMP)"
"""What the clock shows when the row is computed: nothing that the engine works out beforehand."""


def _time_of_day(use: Use) -> str:
    if not is_utc(use.zone):
        raise Refused(f"timeofday() in the time zone {use.zone}", "Use clock_timestamp().")
    local = f"CAST({_WALL_CLOCK} AS TIMESTAMP_NTZ)"
    return f"CONCAT(DATE_FORMAT({local}, 'EEE MMM dd HH:mm:ss.SSSSSS yyyy'), ' ', 'UTC')"


def _fact(name: str) -> SqlRule:
    return lambda use: quoted(str(getattr(use.facts, name)))


def _schema(use: Use) -> str:
    path = use.facts.search_path
    return quoted(path[0]) if path else null(TEXT)


def _type_name(use: Use) -> str:
    return quoted(shown(use.arguments[0].type))


def _told(name: str, rule: SqlRule, doc: str, kind: PgType = NAME) -> Function:
    return scalar(name, (), kind, rule, doc, stability=Stability.SESSION)


FUNCTIONS: tuple[Function, ...] = (
    *(
        scalar(
            *(name, (), kind, _clock(name)),
            "When the statement came." if name == _STATEMENT else "When the transaction began.",
            stability=Stability.CLOCK,
            never_null=True,
        )
        for name, kind in CLOCKS.items()
    ),
    scalar(
        *("clock_timestamp", (), TIMESTAMPTZ, _WALL_CLOCK, "What the clock shows by now."),
        stability=Stability.MOMENT,
        never_null=True,
    ),
    scalar(
        *("timeofday", (), TEXT, _time_of_day, "The same as text, with the day of the week."),
        stability=Stability.MOMENT,
        never_null=True,
    ),
    *(
        _told(name, _fact("current_user"), "The role whose rights count.")
        for name in ("current_user", "current_role", "user")
    ),
    _told("session_user", _fact("session_user"), "The role that has connected."),
    *(
        _told(name, _fact("current_database"), "The database of the session.")
        for name in ("current_database", "current_catalog")
    ),
    _told("current_schema", _schema, "The schema in which names are looked up first."),
    scalar(
        *("pg_typeof", (ANY,), REGTYPE, _type_name, "The argument's type."),
        never_null=True,
    ),
    scalar(
        *(MZ_NOW, (), MZ_TIMESTAMP, "MZ_NOW()", "The time at which a view is read, in ms."),
        never_null=True,
    ),
    scalar(
        *("gen_random_uuid", (), UUID, "UNHEX(REPLACE(UUID(), '-', ''))", "A random UUID."),
        stability=Stability.VOLATILE,
        never_null=True,
    ),
    scalar(
        "version",
        (),
        TEXT,
        quoted("PostgreSQL 15.0 (Waterclock)"),
        "The version.",
        never_null=True,
    ),
)
