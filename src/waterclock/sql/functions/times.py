"""Operators on dates, times and intervals."""

from __future__ import annotations

from waterclock.model.pg_types import (
    DATE,
    FLOAT8,
    INT4,
    INTERVAL,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
)
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.faults import raised
from waterclock.sql.functions.registry import Function, SqlRule, Use, scalar


def shifted(sign: str, *, flipped: bool = False) -> SqlRule:
    """A date or timestamp with an interval added or subtracted."""

    def written(use: Use) -> str:
        moment, value = reversed(use.arguments) if flipped else use.arguments
        span = dt.Span.of(value.sql, value.value, negated=sign == "-")
        other = value.sql if value.value is None else None
        if moment.type.oid == TIMESTAMPTZ.oid:
            later = dt.moment_plus_interval(moment.sql, span, use.zone)
            later = later if span.is_forward else dt.in_range(later, zoned=True)
            return dt.if_finite(moment.sql, "timestamptz", later, other)
        if moment.type.oid == DATE.oid:
            later = dt.plus_interval(f"CAST({moment.sql} AS TIMESTAMP_NTZ)", span)
            later = later if span.is_forward else dt.in_range(later, zoned=False)
            return dt.between_kinds(moment.sql, "date", "timestamp", later, other)
        later = dt.plus_interval(moment.sql, span)
        later = later if span.is_forward else dt.in_range(later, zoned=False)
        return dt.if_finite(moment.sql, "timestamp", later, other)

    return written


def _between(zoned: bool) -> SqlRule:
    def written(use: Use) -> str:
        later, earlier = use.arguments
        kind = "timestamptz" if zoned else "timestamp"
        endless = " OR ".join(dt.is_infinite(each.sql, kind) for each in use.arguments)
        wrong = raised("22008", "cannot subtract infinite timestamps")
        between = dt.difference(later.sql, earlier.sql, zoned=zoned)
        known = f"{later.sql} IS NOT NULL AND {earlier.sql} IS NOT NULL"
        return f"(CASE WHEN {known} AND ({endless}) THEN {wrong} ELSE ({between}) END)"

    return written


def time_shifted(sign: str, *, flipped: bool = False) -> SqlRule:
    """A time of day with an interval added or subtracted, around midnight."""

    def written(use: Use) -> str:
        time, span = reversed(use.arguments) if flipped else use.arguments
        micros = f"{dt.time_micros(time.sql)} + ({sign}{span.sql}.micros)"
        return f"TIME_FROM_MICROS(PMOD({micros}, {dt.DAY_MICROS}L))"

    return written


def _times_between(use: Use) -> str:
    later, earlier = use.arguments
    micros = f"TIME_DIFF('MICROSECOND', {earlier.sql}, {later.sql})"
    return dt.unless_any_null((later.sql, earlier.sql), dt.interval("0", "0", micros))


def _by_field(sign: str) -> SqlRule:
    function = "TRY_ADD" if sign == "+" else "TRY_SUBTRACT"

    def written(use: Use) -> str:
        one, other = (each.sql for each in use.arguments)
        fields = [f"{function}({one}.{name}, {other}.{name})" for name in dt.FIELDS]
        return dt.unless_any_null((one, other), dt.computed_interval(*fields))

    return written


def _negated(use: Use) -> str:
    [value] = (each.sql for each in use.arguments)
    fields = [f"TRY_SUBTRACT(0, {value}.{name})" for name in dt.FIELDS]
    return dt.unless_null(value, dt.computed_interval(*fields))


def _scaled(operator: str, *, flipped: bool = False) -> SqlRule:
    """An interval times or by a number: what is left of months goes to days, of days to micros.

    The remainders are rounded as PostgreSQL does: days to a millionth before they are cut.
    """

    def written(use: Use) -> str:
        value, factor = (each.sql for each in (use.arguments[::-1] if flipped else use.arguments))
        months = f"v.i.months {operator} v.f"
        days = f"v.i.days {operator} v.f"
        whole_months = "TRY_CAST(v.m AS INT)"
        whole_days = "TRY_CAST(v.d AS INT)"
        rest = f"RINT((v.m - {whole_months}) * 30D * 1000000D) / 1000000D"
        more_days = f"CAST({rest} AS INT)"
        seconds = f"(v.d - {whole_days} + {rest} - {more_days}) * 86400D"
        rounded = f"RINT({seconds} * 1000000D) / 1000000D"
        # What was rounded up to a whole day is one.
        carried = "CAST(v.s / 86400D AS INT)"
        micros = f"RINT(v.i.micros {operator} v.f + (v.s - {carried} * 86400D) * 1000000D)"
        all_days = f"TRY_ADD({whole_days}, {carried} + {more_days})"
        made = dt.computed_interval(whole_months, all_days, micros)
        products = f"NAMED_STRUCT('i', v.i, 'f', v.f, 'm', {months}, 'd', {days})"
        with_seconds = f"NAMED_STRUCT('i', v.i, 'f', v.f, 'm', v.m, 'd', v.d, 's', {rounded})"
        start = f"ARRAY(NAMED_STRUCT('i', {value}, 'f', {factor}))"
        let = f"TRANSFORM(TRANSFORM({start}, v -> {products}), v -> {with_seconds})"
        let = f"TRANSFORM({let}, v -> {made})"
        return dt.unless_any_null((value, factor), f"ELEMENT_AT({let}, 1)")

    return written


divided_interval = _scaled("/")


def _days_later(date: str, days: str) -> str:
    """The engine's own sum goes around at the end of the calendar."""
    number = f"(UNIX_DATE({date}) + CAST({days} AS BIGINT))"
    wrong = raised("22008", "date out of range")
    made = f"DATE_FROM_UNIX_DATE(CAST({number} AS INT))"
    kept = f"CASE WHEN {number} BETWEEN {dt.FIRST_DAY} AND {dt.LAST_DAY} THEN {made}"
    later = f"({kept} WHEN {number} IS NOT NULL THEN {wrong} END)"
    return dt.if_finite(date, "date", later, days)


_DAYS_BETWEEN = (
    "(CASE WHEN {0} IS NULL OR {1} IS NULL THEN NULL"
    f" WHEN {dt.is_infinite('{0}', 'date')} OR {dt.is_infinite('{1}', 'date')} THEN "
    + raised("22008", "cannot subtract infinite dates")
    + " ELSE DATEDIFF({0}, {1}) END)"
)
_AT_TIME = dt.between_kinds(
    "{0}",
    "date",
    "timestamp",
    f"TIMESTAMPADD(MICROSECOND, {dt.time_micros('{1}')}, CAST({{0}} AS TIMESTAMP_NTZ))",
    "{1}",
)


def _shifts() -> list[Function]:
    found = []
    for moment in (DATE, TIMESTAMP, TIMESTAMPTZ):
        result = TIMESTAMP if moment == DATE else moment
        found += [
            scalar("+", (moment, INTERVAL), result, shifted(""), "So much later."),
            scalar("+", (INTERVAL, moment), result, shifted("", flipped=True), "So much later."),
            scalar("-", (moment, INTERVAL), result, shifted("-"), "So much earlier."),
        ]
    return found


OPERATORS: tuple[Function, ...] = (
    *_shifts(),
    scalar("+", (DATE, INT4), DATE, _days_later("{0}", "{1}"), "So many days later."),
    scalar("+", (INT4, DATE), DATE, _days_later("{1}", "{0}"), "So many days later."),
    scalar(
        "-",
        (DATE, INT4),
        DATE,
        _days_later("{0}", "- CAST({1} AS BIGINT)"),
        "So many days earlier.",
    ),
    scalar("-", (DATE, DATE), INT4, _DAYS_BETWEEN, "Days between two dates."),
    scalar(
        *("+", (DATE, TIME), TIMESTAMP),
        _AT_TIME,
        "The date at that time.",
    ),
    scalar("-", (TIMESTAMP, TIMESTAMP), INTERVAL, _between(False), "Days and time between."),
    scalar("-", (TIMESTAMPTZ, TIMESTAMPTZ), INTERVAL, _between(True), "Days and time between."),
    scalar("+", (TIME, INTERVAL), TIME, time_shifted(""), "Later, around midnight."),
    scalar("+", (INTERVAL, TIME), TIME, time_shifted("", flipped=True), "Later, around midnight."),
    scalar("-", (TIME, INTERVAL), TIME, time_shifted("-"), "Earlier, around midnight."),
    scalar("-", (TIME, TIME), INTERVAL, _times_between, "The time between."),
    scalar("+", (INTERVAL, INTERVAL), INTERVAL, _by_field("+"), "Both together."),
    scalar("-", (INTERVAL, INTERVAL), INTERVAL, _by_field("-"), "The one without the other."),
    scalar("-", (INTERVAL,), INTERVAL, _negated, "The interval backwards."),
    scalar("*", (INTERVAL, FLOAT8), INTERVAL, _scaled("*"), "The interval so many times."),
    scalar("*", (FLOAT8, INTERVAL), INTERVAL, _scaled("*", flipped=True), "So many times."),
    scalar("/", (INTERVAL, FLOAT8), INTERVAL, divided_interval, "A part of the interval."),
)
