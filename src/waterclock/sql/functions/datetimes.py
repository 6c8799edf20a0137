"""Functions of dates, times and intervals.

Fields and units are constants, since they decide what the result is. What depends on the session's
time zone is written out for the zone that it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from waterclock.model.pg_types import (
    BOOL,
    DATE,
    INTERVAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    PgType,
)
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import null, scalar_literal
from waterclock.sql.dialect.types import name_of, shown, spark_type
from waterclock.sql.functions.formats import time_format
from waterclock.sql.functions.overlaps import OVERLAPS
from waterclock.sql.functions.registry import Argument, Function, Invalid, Stability, Use, scalar
from waterclock.sql.functions.system import clock_value
from waterclock.sql.functions.time_arguments import constant_word, local_time, zone_name
from waterclock.sql.functions.time_fields import field_functions
from waterclock.sql.functions.time_making import MAKING

_UNITS = {
    **{unit: unit for unit in ("second", "minute", "hour", "day", "week", "month", "quarter")},
    **{"year": "year", "years": "year", "months": "month", "days": "day", "hours": "hour"},
    **{"microseconds": "microsecond", "microsecond": "microsecond", "weeks": "week"},
    **{"milliseconds": "millisecond", "millisecond": "millisecond", "seconds": "second"},
    "minutes": "minute",
}


_LONG_UNITS = {"decade": 10, "century": 100, "millennium": 1000}


# --- Truncating -----------------------------------------------------------------------------------


def _unit(argument: Argument, kind: PgType) -> str:
    word = constant_word(argument, "a unit of date_trunc()")
    unit = _UNITS.get(word)
    if unit is None:
        if word in _LONG_UNITS:
            return word
        raise Invalid("22023", f'unit "{word}" not recognized for type {shown(kind)}')
    return unit


def _cut(word: str, local: str) -> str:
    """A local time, cut to a unit."""
    if word not in _LONG_UNITS:
        return f"CAST(DATE_TRUNC('{word.upper()}', CAST({local} AS TIMESTAMP)) AS TIMESTAMP_NTZ)"
    years = _LONG_UNITS[word]
    year = f"YEAR({local})"
    first = f"(FLOOR({year} / {years}D) * {years})"
    if word != "decade":  # they begin with the year 1 of a hundred, or a thousand
        first = f"(FLOOR(({year} - 1) / {years}D) * {years} + 1)"
    return f"MAKE_TIMESTAMP_NTZ(CAST({first} AS INT), 1, 1, 0, 0, 0BD)"


def _truncated(use: Use) -> str:
    unit, moment = use.arguments
    word = _unit(unit, moment.type)
    if moment.type.oid == TIMESTAMPTZ.oid:
        return _cut_in(word, moment.sql, use.zone)
    cut = _cut(word, local_time(moment, use))
    return dt.if_finite(moment.sql, name_of(moment.type), cut)


def _cut_in(word: str, moment: str, zone: str) -> str:
    """A moment, cut to a unit of the local time of a zone.

    Within a day it keeps its offset: of an hour that comes twice, each has its own beginning.
    """
    local = dt.to_local(moment, zone)
    if word in _CLOCK_UNITS:
        behind = f"PMOD({dt.micros_of(local, zoned=False)}, {_CLOCK_UNITS[word]}L)"
        cut = f"TIMESTAMPADD(MICROSECOND, - {behind}, {moment})"
    else:
        cut = dt.to_moment(_cut(word, local), zone)
    return dt.if_finite(moment, "timestamptz", cut)


def _truncated_in(use: Use) -> str:
    unit, moment, zone = use.arguments
    word = _unit(unit, moment.type)
    return _cut_in(word, moment.sql, zone_name(zone))


_INTERVAL_UNITS = {"year": 12, "quarter": 3, "month": 1}
_INTERVAL_UNITS |= {word: 12 * years for word, years in _LONG_UNITS.items()}
_CLOCK_UNITS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_CLOCK_UNITS |= {"millisecond": 1_000, "microsecond": 1}


def _truncated_interval(use: Use) -> str:
    unit, span = use.arguments
    word, value = _unit(unit, span.type), span.sql
    if word in _INTERVAL_UNITS:
        step = _INTERVAL_UNITS[word]
        made = dt.interval(f"{value}.months DIV {step} * {step}", "0", "0")
    elif word == "day":
        made = dt.interval(f"{value}.months", f"{value}.days", "0")
    elif word in _CLOCK_UNITS:
        step = _CLOCK_UNITS[word]
        made = dt.interval(
            f"{value}.months", f"{value}.days", f"{value}.micros DIV {step}L * {step}L"
        )
    else:
        raise Invalid("0A000", f'unit "{word}" not supported for type interval')
    return dt.unless_null(value, made)


def _binned(use: Use) -> str:
    stride, moment, origin = use.arguments
    zoned = moment.type.oid == TIMESTAMPTZ.oid
    step = f"({stride.sql}.days * {dt.DAY_MICROS}L + {stride.sql}.micros)"
    at, start = (dt.micros_of(each.sql, zoned=zoned) for each in (moment, origin))
    months = raised(
        "0A000", "timestamps cannot be binned into intervals containing months or years"
    )
    low = raised("22008", "stride must be greater than zero")
    binned = dt.from_micros(f"({at} - PMOD({at} - {start}, {step}))", zoned=zoned)
    kind = name_of(moment.type)
    endless = raised("22008", "origin out of range")
    known = " AND ".join(f"{each.sql} IS NOT NULL" for each in use.arguments)
    return (
        f"(CASE WHEN NOT ({known}) THEN NULL"
        f" WHEN {dt.is_infinite(moment.sql, kind)} THEN {moment.sql}"
        f" WHEN {dt.is_infinite(origin.sql, kind)} THEN {endless}"
        f" WHEN {stride.sql}.months <> 0 THEN {months} WHEN {step} <= 0 THEN {low}"
        f" ELSE {binned} END)"
    )


# --- Zones ----------------------------------------------------------------------------------------


def _in_zone(use: Use) -> str:
    """`timestamptz AT TIME ZONE zone`: the local time there."""
    zone, moment = use.arguments
    if zone.text is None:
        return _by_value(zone, moment, dt.local_in("v.t", "v.z"))
    return dt.to_local(moment.sql, zone_name(zone))


def _from_zone(use: Use) -> str:
    """`timestamp AT TIME ZONE zone`: the moment of the local time there."""
    zone, local = use.arguments
    if zone.text is None:
        return _by_value(zone, local, dt.moment_in("m.t", "m.z"), "m")
    return dt.to_moment(local.sql, zone_name(zone))


def _by_offset(use: Use) -> str:
    """AT TIME ZONE an interval, of which whole seconds count."""
    zone, time = use.arguments
    have, want = name_of(time.type), name_of(use.result)
    sign = "" if have == "timestamptz" else "- "
    micros = f"{sign}({zone.sql}.micros DIV 1000000L * 1000000L)"
    converted = f"CAST({time.sql} AS {spark_type(use.result)})"
    shifted = f"TIMESTAMPADD(MICROSECOND, {micros}, {converted})"
    wrong = raised("22023", "interval time zone must not include months or days")
    odd = f"{zone.sql}.months <> 0 OR {zone.sql}.days <> 0"
    body = f"(CASE WHEN {odd} THEN {wrong} ELSE {shifted} END)"
    return dt.between_kinds(time.sql, have, want, body, zone.sql)


def _by_value(zone: Argument, time: Argument, body: str, name: str = "v") -> str:
    """A time in a zone that differs from row to row."""
    known = f"(CASE WHEN {time.sql} IS NOT NULL THEN {dt.zone_of(zone.sql)} END)"
    found = {"t": time.sql, "z": known}
    return let(found, name, dt.unless_any_null((f"{name}.t", f"{name}.z"), body))


# --- Spans ----------------------------------------------------------------------------------------


def _age(use: Use) -> str:
    """The symbolic difference: full months, then days, then time, borrowing from the left."""
    later, earlier = (local_time(each, use) for each in use.arguments)
    months = "(YEAR(v.l) * 12 + MONTH(v.l) - YEAR(v.e) * 12 - MONTH(v.e))"
    clock = "(PMOD({0}, 86400000000L))"
    time = "(" + " - ".join(clock.format(dt.micros_of(f"v.{x}", zoned=False)) for x in "le") + ")"
    days = f"(DAY(v.l) - DAY(v.e) - CASE WHEN {time} < 0 THEN 1 ELSE 0 END)"
    borrowed = f"CASE WHEN {days} < 0 THEN 1 ELSE 0 END"
    fields = (
        f"v.s * ({months} - {borrowed})",
        f"v.s * ({days} + {borrowed} * DAY(LAST_DAY(v.e)))",
        f"v.s * ({time} + CASE WHEN {time} < 0 THEN {dt.DAY_MICROS}L ELSE 0L END)",
    )
    order = (
        f"CASE WHEN {later} >= {earlier}"
        f" THEN NAMED_STRUCT('l', {later}, 'e', {earlier}, 's', 1)"
        f" ELSE NAMED_STRUCT('l', {earlier}, 'e', {later}, 's', -1) END"
    )
    made = f"ELEMENT_AT(TRANSFORM(ARRAY({order}), v -> {dt.interval(*fields)}), 1)"
    endless = " OR ".join(dt.is_infinite(each, "timestamp") for each in (later, earlier))
    wrong = raised("0A000", "age() of an infinite time is not supported")
    finite = dt.unless_any_null((later, earlier), made)
    known = f"{later} IS NOT NULL AND {earlier} IS NOT NULL"
    return f"(CASE WHEN {known} AND ({endless}) THEN {wrong} ELSE ({finite}) END)"


def _carried(low: str, high: str, size: int) -> str:
    """What is whole of the lower field, moved to the higher; both then have the same sign.

    `v` is a struct of the fields.
    """
    fields = {name: f"v.{name}" for name in dt.FIELDS}
    fields[high] = f"v.{high} + v.{low} DIV {size}L"
    fields[low] = f"v.{low} % {size}L"
    down = f"v.{high} > 0 AND v.{low} < 0"
    up = f"v.{high} < 0 AND v.{low} > 0"
    signed = {name: f"v.{name}" for name in fields}
    signed[high] = f"v.{high} + CASE WHEN {down} THEN -1 WHEN {up} THEN 1 ELSE 0 END"
    signed[low] = f"v.{low} + CASE WHEN {down} THEN {size}L WHEN {up} THEN -{size}L ELSE 0L END"
    return f"TRANSFORM(TRANSFORM({{0}}, v -> {dt.computed_interval(*fields.values())}), v -> " + (
        f"{dt.computed_interval(*signed.values())})"
    )


def _justified(*, hours: bool, days: bool) -> Callable[[Use], str]:
    def written(use: Use) -> str:
        [value] = (each.sql for each in use.arguments)
        made = f"ARRAY({value})"
        if hours:
            made = _carried("micros", "days", dt.DAY_MICROS).format(made)
        if days:
            made = _carried("days", "months", dt.MONTH_DAYS).format(made)
        return dt.unless_null(value, f"ELEMENT_AT({made}, 1)")

    return written


def _justified_all(use: Use) -> str:
    """Whole days of the clock, then whole months of the days; then all have the same sign."""
    [value] = (each.sql for each in use.arguments)
    days = f"(v.days + v.micros DIV {dt.DAY_MICROS}L)"
    whole = dt.computed_interval(
        f"v.months + {days} DIV {dt.MONTH_DAYS}",
        f"{days} % {dt.MONTH_DAYS}",
        f"v.micros % {dt.DAY_MICROS}L",
    )
    less = "v.months > 0 AND (v.days < 0 OR (v.days = 0 AND v.micros < 0))"
    more = "v.months < 0 AND (v.days > 0 OR (v.days = 0 AND v.micros > 0))"
    months = dt.computed_interval(
        f"v.months + CASE WHEN {less} THEN -1 WHEN {more} THEN 1 ELSE 0 END",
        f"v.days + CASE WHEN {less} THEN 30 WHEN {more} THEN -30 ELSE 0 END",
        "v.micros",
    )
    less, more = "v.days > 0 AND v.micros < 0", "v.days < 0 AND v.micros > 0"
    day = f"{dt.DAY_MICROS}L"
    signed = dt.computed_interval(
        "v.months",
        f"v.days + CASE WHEN {less} THEN -1 WHEN {more} THEN 1 ELSE 0 END",
        f"v.micros + CASE WHEN {less} THEN {day} WHEN {more} THEN -{day} ELSE 0L END",
    )
    steps = f"ARRAY({value})"
    for step in (whole, months, signed):
        steps = f"TRANSFORM({steps}, v -> {step})"
    return dt.unless_null(value, f"ELEMENT_AT({steps}, 1)")


def _age_today(use: Use) -> str:
    value = clock_value("current_date", use.facts)
    date = null(DATE) if value is None else scalar_literal(value, DATE)
    today = Argument(f"CAST({date} AS TIMESTAMP_NTZ)", TIMESTAMP)
    return _age(replace(use, arguments=(today, *use.arguments)))


_MOMENTS = (TIMESTAMP, TIMESTAMPTZ)
FUNCTIONS: tuple[Function, ...] = (
    *field_functions(),
    *MAKING,
    *(
        scalar("date_trunc", (TEXT, kind), kind, _truncated, "Cut to a unit, such as 'month'.")
        for kind in _MOMENTS
    ),
    scalar(
        *("date_trunc", (TEXT, TIMESTAMPTZ, TEXT), TIMESTAMPTZ, _truncated_in),
        "Cut to a unit in a time zone.",
    ),
    scalar("date_trunc", (TEXT, INTERVAL), INTERVAL, _truncated_interval, "Cut to a unit."),
    *(
        scalar("date_bin", (INTERVAL, kind, kind), kind, _binned, "The start of its bin.")
        for kind in _MOMENTS
    ),
    *(
        scalar("timezone", (INTERVAL, kind), other, _by_offset, doc)
        for kind, other, doc in (
            (TIMESTAMPTZ, TIMESTAMP, "The local time so far from UTC."),
            (TIMESTAMP, TIMESTAMPTZ, "The moment of such a local time."),
        )
    ),
    scalar("timezone", (TEXT, TIMESTAMPTZ), TIMESTAMP, _in_zone, "The local time in a zone."),
    scalar("timezone", (TEXT, TIMESTAMP), TIMESTAMPTZ, _from_zone, "The moment of a local time."),
    *(
        scalar("age", (kind, kind), INTERVAL, _age, "Years, months, days between.")
        for kind in _MOMENTS
    ),
    *(
        scalar(
            *("age", (kind,), INTERVAL, _age_today, "Years, months, days until today."),
            stability=Stability.CLOCK,
        )
        for kind in _MOMENTS
    ),
    *(
        scalar("to_char", (kind, TEXT), TEXT, time_format, "As text, in a format.")
        for kind in (*_MOMENTS, INTERVAL)
    ),
    scalar(
        "justify_hours", (INTERVAL,), INTERVAL, _justified(hours=True, days=False), "24 h: a day."
    ),
    scalar(
        "justify_days",
        (INTERVAL,),
        INTERVAL,
        _justified(hours=False, days=True),
        "30 days: a month.",
    ),
    scalar("justify_interval", (INTERVAL,), INTERVAL, _justified_all, "Both, with one sign."),
    *OVERLAPS,
    *(
        scalar(
            *("isfinite", (kind,), BOOL, f"(NOT {dt.is_infinite('{0}', name_of(kind))})"),
            "Whether it is not infinity.",
        )
        for kind in (DATE, TIMESTAMP, TIMESTAMPTZ)
    ),
    scalar(
        "isfinite", (INTERVAL,), BOOL, "({0} IS NOT NULL OR NULL)", "True: no interval is infinite."
    ),
)
