"""Functions that make dates, times and intervals of their fields, or read them from texts.

A field that is out of its range is an error, as in PostgreSQL; sixty seconds are a minute. What
PostgreSQL would let overflow is not supported: it is never made into something else.
"""

from __future__ import annotations

from waterclock.model.pg_types import (
    DATE,
    FLOAT8,
    INT4,
    INTERVAL,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    PgType,
)
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.faults import raised
from waterclock.sql.functions.registry import Function, Refused, Use, scalar
from waterclock.sql.functions.time_arguments import zone_name
from waterclock.sql.functions.time_reading import time_reading

PARAMETERS: dict[str, tuple[str, ...]] = {
    "make_date": ("year", "month", "day"),
    "make_time": ("hour", "min", "sec"),
    "make_timestamp": ("year", "month", "mday", "hour", "min", "sec"),
    "make_timestamptz": ("year", "month", "mday", "hour", "min", "sec", "timezone"),
    "make_interval": ("years", "months", "weeks", "days", "hours", "mins", "secs"),
}
"""The names by which arguments may be given; those of `make_interval` that are left out are 0."""

_NO_YEAR = raised("22008", "date field value out of range")
_YEAR = "(CASE WHEN {0} < 0 THEN {0} + 1 ELSE {0} END)"
_LOCAL = (
    "(CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL OR {3} IS NULL OR {4} IS NULL"
    " OR {5} IS NULL THEN NULL"
    f" WHEN {{0}} = 0 OR ISNAN({{5}}) OR ABS({{5}}) > 60D THEN {_NO_YEAR}"
    f" ELSE MAKE_TIMESTAMP_NTZ({_YEAR}, {{1}}, {{2}}, {{3}}, {{4}},"
    " CAST({5} AS DECIMAL(16,6))) END)"
)


def _moment(use: Use) -> str:
    """The moment of a local time in the session's zone, or in one that is named."""
    *fields, last = use.arguments
    zone = use.zone
    if len(use.arguments) > 6:
        if last.text is not None and last.text[:1] in ("+", "-"):
            raise Refused("make_timestamptz() with an offset", "Use a name of the IANA list.")
        zone = zone_name(last)
    else:
        fields.append(last)
    return dt.to_moment(_LOCAL.format(*(each.sql for each in fields)), zone)


# --- Times of day ---------------------------------------------------------------------------------

_MICROS = "(({0} * 60L + {1}) * 60000000L + CAST(RINT({2} * 1000000D) AS BIGINT))"
_NO_TIME = raised("22008", "time field value out of range")
_TIME = (
    "(CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL THEN NULL"
    " WHEN {0} NOT BETWEEN 0 AND 24 OR {1} NOT BETWEEN 0 AND 59 OR ISNAN({2})"
    f" OR {{2}} < 0D OR {{2}} > 60D OR {_MICROS} > {dt.DAY_MICROS}L THEN {_NO_TIME}"
    f" WHEN {_MICROS} = {dt.DAY_MICROS}L THEN {dt.NO_MIDNIGHT}"
    f" ELSE TIME_FROM_MICROS({_MICROS}) END)"
)


# --- Intervals ------------------------------------------------------------------------------------


def _interval(use: Use) -> str:
    given = [each.sql for each in use.arguments]
    years, months, weeks, days, hours, mins = (*given[:6], *("0",) * (6 - len(given[:6])))
    secs = given[6] if len(given) > 6 else "0D"
    fields = {
        "m": f"CAST({years} AS BIGINT) * 12 + {months}",
        "d": f"CAST({weeks} AS BIGINT) * 7 + {days}",
        "t": f"(CAST({hours} AS BIGINT) * 60 + {mins}) * 60000000L",
        "g": secs,
        "s": f"RINT({secs} * 1000000D)",
    }
    values = ", ".join(f"'{name}', {sql}" for name, sql in fields.items())
    large = raised("0A000", "an interval of such a length is not supported")
    endless = raised("22008", "interval out of range")
    made = dt.interval("v.m", "v.d", "v.t + CAST(v.s AS BIGINT)")
    chosen = (
        f"CASE WHEN ISNAN(v.g) OR ABS(v.g) = CAST('Infinity' AS DOUBLE) THEN {endless}"
        f" WHEN ABS(v.s) > 9e18D OR ABS(v.m) > 2147483647L OR ABS(v.d) > 2147483647L THEN {large}"
        f" ELSE {made} END"
    )
    found = f"ELEMENT_AT(TRANSFORM(ARRAY(NAMED_STRUCT({values})), v -> {chosen}), 1)"
    return dt.unless_any_null(tuple(given), found) if given else found


_INTERVAL: tuple[PgType, ...] = (INT4, INT4, INT4, INT4, INT4, INT4, FLOAT8)
_FIELDS: tuple[PgType, ...] = (INT4, INT4, INT4, INT4, INT4, FLOAT8)
MAKING: tuple[Function, ...] = (
    scalar("to_date", (TEXT, TEXT), DATE, time_reading, "A date that is written in a format."),
    scalar(
        "to_timestamp", (TEXT, TEXT), TIMESTAMPTZ, time_reading, "A moment written in a format."
    ),
    scalar(
        *("to_timestamp", (FLOAT8,), TIMESTAMPTZ),
        f"(CASE WHEN {{0}} = CAST('Infinity' AS DOUBLE) THEN {dt.infinity('timestamptz')}"
        " WHEN {0} = CAST('-Infinity' AS DOUBLE)"
        f" THEN {dt.infinity('timestamptz', negative=True)}"
        f" WHEN {{0}} < -210866803200D THEN {raised('22008', 'timestamp out of range')}"
        " ELSE TIMESTAMP_MICROS(CAST(RINT({0} * 1000000D) AS BIGINT)) END)",
        "The moment so many seconds after 1970.",
    ),
    scalar(
        *("make_date", (INT4, INT4, INT4), DATE),
        f"(CASE WHEN {{1}} IS NULL OR {{2}} IS NULL THEN NULL WHEN {{0}} = 0 THEN {_NO_YEAR}"
        f" ELSE MAKE_DATE({_YEAR}, {{1}}, {{2}}) END)",
        "Year, month, day; years below 0 are before the era.",
    ),
    scalar(
        *("make_timestamp", _FIELDS, TIMESTAMP, _LOCAL),
        "A timestamp from its fields.",
    ),
    scalar("make_timestamptz", _FIELDS, TIMESTAMPTZ, _moment, "The moment of a local time."),
    scalar(
        *("make_timestamptz", (*_FIELDS, TEXT), TIMESTAMPTZ, _moment),
        "The moment of a local time in a zone.",
    ),
    scalar("make_time", (INT4, INT4, FLOAT8), TIME, _TIME, "A time from its fields."),
    *(
        scalar(
            *("make_interval", _INTERVAL[:count], INTERVAL, _interval),
            "Years, months, weeks, days, hours, minutes, seconds; those left out are 0.",
            never_null=not count,
        )
        for count in range(8)
    ),
)
