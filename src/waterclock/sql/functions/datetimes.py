"""Functions of dates, times and intervals.

Fields and units are constants, since they decide what the result is. What depends on the session's
time zone is written out for the zone that it has.
"""

from __future__ import annotations

import re
import zoneinfo
from collections.abc import Callable

from waterclock.model.pg_types import (
    BOOL,
    DATE,
    FLOAT8,
    INT4,
    INTERVAL,
    TEXT,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    PgType,
    numeric,
)
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.types import name_of, shown, spark_type
from waterclock.sql.functions.formats import time_format
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    Invalid,
    Refused,
    SqlRule,
    Use,
    scalar,
)
from waterclock.sql.functions.time_reading import time_reading

_UNITS = {
    **{unit: unit for unit in ("second", "minute", "hour", "day", "week", "month", "quarter")},
    **{"year": "year", "years": "year", "months": "month", "days": "day", "hours": "hour"},
    **{"microseconds": "microsecond", "microsecond": "microsecond", "weeks": "week"},
    **{"milliseconds": "millisecond", "millisecond": "millisecond", "seconds": "second"},
    "minutes": "minute",
}


_LONG_UNITS = {"decade": 10, "century": 100, "millennium": 1000}


def _word(argument: Argument, what: str) -> str:
    if argument.text is None:
        raise Refused(f"{what} that is not a constant")
    return argument.text.lower()


def _local(argument: Argument, use: Use) -> str:
    """A date or timestamp as a TIMESTAMP_NTZ in the session's zone."""
    match name_of(argument.type):
        case "timestamptz":
            return dt.to_local(argument.sql, use.zone)
        case "date":
            return dt.date_as_timestamp(argument.sql)
        case _:
            return argument.sql


# --- Truncating -----------------------------------------------------------------------------------


def _unit(argument: Argument, kind: PgType) -> str:
    word = _word(argument, "a unit of date_trunc()")
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
    cut = _cut(word, _local(moment, use))
    if moment.type.oid == TIMESTAMPTZ.oid:
        cut = dt.to_moment(cut, use.zone)
    return dt.if_finite(moment.sql, name_of(moment.type), cut)


def _truncated_in(use: Use) -> str:
    unit, moment, zone = use.arguments
    word = _unit(unit, moment.type)
    name = _zone(zone)
    cut = dt.to_moment(_cut(word, dt.to_local(moment.sql, name)), name)
    return dt.if_finite(moment.sql, "timestamptz", cut)


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


# --- Fields ---------------------------------------------------------------------------------------

_Field = tuple[PgType, str]
_HUNDREDS = (
    "(CASE WHEN YEAR({{0}}) > 0 THEN CEIL(YEAR({{0}}) / {n}D)"
    " ELSE - FLOOR(({n}D - YEAR({{0}})) / {n}D) END)"
)
_WHOLE = numeric(20, 0)
_DATE_FIELDS: dict[str, _Field] = {
    "year": (_WHOLE, "(CASE WHEN YEAR({0}) > 0 THEN YEAR({0}) ELSE YEAR({0}) - 1 END)"),
    "month": (_WHOLE, "MONTH({0})"),
    "day": (_WHOLE, "DAY({0})"),
    "quarter": (_WHOLE, "QUARTER({0})"),
    "week": (_WHOLE, "WEEKOFYEAR({0})"),
    "dow": (_WHOLE, "(DAYOFWEEK({0}) - 1)"),
    "isodow": (_WHOLE, "(WEEKDAY({0}) + 1)"),
    "doy": (_WHOLE, "DAYOFYEAR({0})"),
    "isoyear": (
        _WHOLE,
        "(CASE WHEN EXTRACT(YEAROFWEEK FROM {0}) > 0 THEN EXTRACT(YEAROFWEEK FROM {0})"
        " ELSE EXTRACT(YEAROFWEEK FROM {0}) - 1 END)",
    ),
    "decade": (_WHOLE, "FLOOR(YEAR({0}) / 10D)"),
    "century": (_WHOLE, _HUNDREDS.format(n=100)),
    "millennium": (_WHOLE, _HUNDREDS.format(n=1000)),
    "julian": (_WHOLE, "(UNIX_DATE({0}) + 2440588)"),
}
_CLOCK_FIELDS: dict[str, _Field] = {
    "hour": (_WHOLE, "({0} DIV 3600000000L % 24)"),
    "minute": (_WHOLE, "({0} DIV 60000000L % 60)"),
    "second": (numeric(20, 6), "CAST(({0} % 60000000L) * 0.000001BD AS DECIMAL(20,6))"),
    "milliseconds": (numeric(20, 3), "CAST(({0} % 60000000L) * 0.001BD AS DECIMAL(20,3))"),
    "microseconds": (_WHOLE, "({0} % 60000000L)"),
}
_EPOCH = numeric(30, 6)
_ALIASES = {"seconds": "second", "minutes": "minute", "hours": "hour", "days": "day"}
_ALIASES |= {"months": "month", "years": "year", "weeks": "week", "msec": "milliseconds"}
_ALIASES |= {"millisecond": "milliseconds", "microsecond": "microseconds", "usec": "microseconds"}


def _field_name(argument: Argument) -> str:
    word = _word(argument, "a field of extract()")
    return _ALIASES.get(word, word)


def _unknown_field(word: str, kind: PgType) -> Exception:
    if word in ("julian", "timezone", "timezone_hour", "timezone_minute"):
        return Refused(f"extract() of {word}")
    if word in _DATE_FIELDS or word in _CLOCK_FIELDS:
        return Invalid("0A000", f'unit "{word}" not supported for type {shown(kind)}')
    return Invalid("22023", f'unit "{word}" not recognized for type {shown(kind)}')


def _of_moment(word: str, moment: Argument, use: Use) -> _Field:
    """A field of a date or timestamp: its type, and its SQL."""
    is_date = moment.type.oid == DATE.oid
    if is_date and word == "epoch":
        return _EPOCH, f"(UNIX_DATE({moment.sql}) * 86400BD)"
    local = moment.sql if is_date else _local(moment, use)
    if word == "julian" and not is_date:
        raise Refused("extract() of julian from a timestamp")
    if word == "epoch":
        zoned = moment.type.oid == TIMESTAMPTZ.oid
        micros = dt.micros_of(moment.sql if zoned else local, zoned=zoned)
        return _EPOCH, f"CAST({micros} * 0.000001BD AS DECIMAL(30,6))"
    if word in _DATE_FIELDS:
        kind, template = _DATE_FIELDS[word]
        return kind, template.format(local)
    if word in _CLOCK_FIELDS and moment.type.oid != DATE.oid:
        kind, template = _CLOCK_FIELDS[word]
        micros = f"PMOD({dt.micros_of(local, zoned=False)}, {dt.DAY_MICROS}L)"
        return kind, template.format(micros)
    raise _unknown_field(word, moment.type)


def _of_interval(word: str, span: Argument) -> _Field:
    value = span.sql
    if word == "epoch":
        days = f"{value}.months DIV 12 * 365.25BD + {value}.months % 12 * 30BD + {value}.days"
        seconds = f"({days}) * 86400BD + {value}.micros * 0.000001BD"
        return _EPOCH, f"CAST({seconds} AS DECIMAL(30,6))"
    fields = {
        "year": f"({value}.months DIV 12)",
        "decade": f"({value}.months DIV 120)",
        "century": f"({value}.months DIV 1200)",
        "millennium": f"({value}.months DIV 12000)",
        "month": f"({value}.months % 12)",
        "quarter": f"({value}.months % 12 DIV 3 + 1)",
        "day": f"{value}.days",
        "hour": f"({value}.micros DIV 3600000000L)",
    }
    if word in fields:
        return _WHOLE, fields[word]
    if word in _CLOCK_FIELDS:
        kind, template = _CLOCK_FIELDS[word]
        return kind, template.format(f"{value}.micros")
    raise _unknown_field(word, span.type)


def _of_time(word: str, time: Argument) -> _Field:
    micros = dt.time_micros(time.sql)
    if word == "epoch":
        return _EPOCH, f"CAST({micros} * 0.000001BD AS DECIMAL(30,6))"
    if word in _CLOCK_FIELDS:
        kind, template = _CLOCK_FIELDS[word]
        return kind, template.format(micros)
    raise _unknown_field(word, time.type)


def _field(arguments: tuple[Argument, ...], use: Use) -> _Field:
    word, value = _field_name(arguments[0]), arguments[1]
    match name_of(value.type):
        case "interval":
            return _of_interval(word, value)
        case "time":
            return _of_time(word, value)
        case _:
            return _of_moment(word, value, use)


_GROWING = frozenset({"year", "decade", "century", "millennium", "julian", "isoyear", "epoch"})
"""The fields that are infinite for an infinite time; the others are null."""


def _finite_field(arguments: tuple[Argument, ...], sql: str, endless: str) -> str:
    """The field of a time; `endless` is that of infinity."""
    value = arguments[1]
    kind = name_of(value.type)
    if kind in ("interval", "time"):
        return sql
    grows = _field_name(arguments[0]) in _GROWING
    return (
        f"(CASE WHEN {dt.is_infinite(value.sql, kind)} THEN {endless if grows else 'NULL'}"
        f" ELSE {sql} END)"
    )


def _extracted(use: Use) -> str:
    kind, sql = _field(use.arguments, use)
    endless = raised("0A000", "an infinite number of type numeric is not supported")
    return _finite_field(use.arguments, f"CAST({sql} AS {spark_type(kind)})", endless)


_FIELD_TYPES = {"second": numeric(20, 6), "milliseconds": numeric(20, 3), "epoch": _EPOCH}


def _extracted_type(arguments: tuple[Argument, ...]) -> PgType:
    if arguments[1].type.oid == DATE.oid:
        return _WHOLE
    return _FIELD_TYPES.get(_field_name(arguments[0]), _WHOLE)


def _extracted_from_date(use: Use) -> str:
    _, sql = _field(use.arguments, use)
    endless = raised("0A000", "an infinite number of type numeric is not supported")
    return _finite_field(use.arguments, f"CAST({sql} AS {spark_type(_WHOLE)})", endless)


def _seconds_as_float(value: str) -> str:
    """In the order in which PostgreSQL adds them up, which decides how the sum is rounded."""
    return (
        f"({value}.micros / 1000000D + 31557600D * ({value}.months DIV 12)"
        f" + 2592000D * ({value}.months % 12) + 86400D * {value}.days)"
    )


def _date_part(use: Use) -> str:
    _, sql = _field(use.arguments, use)
    value = use.arguments[1]
    if name_of(value.type) == "interval" and _field_name(use.arguments[0]) == "epoch":
        return _seconds_as_float(value.sql)
    endless = "NULL"
    if name_of(value.type) not in ("interval", "time"):
        first = dt.is_infinity(value.sql, name_of(value.type), negative=True)
        endless = f"CAST(CASE WHEN {first} THEN '-Infinity' ELSE 'Infinity' END AS DOUBLE)"
    return _finite_field(use.arguments, f"CAST({sql} AS DOUBLE)", endless)


def _field_functions() -> list[Function]:
    found = []
    for kind in (TIMESTAMP, TIMESTAMPTZ, DATE, TIME, INTERVAL):
        rule: SqlRule = _extracted_from_date if kind == DATE else _extracted
        pair = (TEXT, kind)
        found.append(scalar("extract", pair, _extracted_type, rule, "One field, as a numeric."))
        found.append(scalar("date_part", pair, FLOAT8, _date_part, "One field, as a float."))
    return found


# --- Zones ----------------------------------------------------------------------------------------


_OFFSET = re.compile(r"(?P<sign>[+-])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?")


def _zone(argument: Argument) -> str:
    """The name of a zone as the engine has it. A bare offset counts to the west, as in POSIX."""
    if argument.text is None:
        raise Refused("a time zone that is not a constant")
    offset = _OFFSET.fullmatch(argument.text)
    if offset is not None:
        sign = "-" if offset["sign"] == "+" else "+"
        return f"{sign}{int(offset['hours']):02}:{offset['minutes'] or '00'}"
    if dt.is_utc(argument.text):
        return "UTC"
    try:
        zoneinfo.ZoneInfo(argument.text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise Refused(f'the time zone "{argument.text}"', "Use a name of the IANA list.") from None
    return argument.text


def _in_zone(use: Use) -> str:
    """`timestamptz AT TIME ZONE zone`: the local time there."""
    zone, moment = use.arguments
    return dt.to_local(moment.sql, _zone(zone))


def _from_zone(use: Use) -> str:
    """`timestamp AT TIME ZONE zone`: the moment of the local time there."""
    zone, local = use.arguments
    return dt.to_moment(local.sql, _zone(zone))


# --- Spans ----------------------------------------------------------------------------------------


def _age(use: Use) -> str:
    """The symbolic difference: full months, then days, then time, borrowing from the left."""
    later, earlier = (_local(each, use) for each in use.arguments)
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
    fields = {name: f"v.{name}" for name in ("months", "days", "micros")}
    fields[high] = f"v.{high} + v.{low} DIV {size}L"
    fields[low] = f"v.{low} % {size}L"
    down = f"v.{high} > 0 AND v.{low} < 0"
    up = f"v.{high} < 0 AND v.{low} > 0"
    signed = {name: f"v.{name}" for name in fields}
    signed[high] = f"v.{high} + CASE WHEN {down} THEN -1 WHEN {up} THEN 1 ELSE 0 END"
    signed[low] = f"v.{low} + CASE WHEN {down} THEN {size}L WHEN {up} THEN -{size}L ELSE 0L END"
    return f"TRANSFORM(TRANSFORM({{0}}, v -> {dt.interval(*fields.values())}), v -> " + (
        f"{dt.interval(*signed.values())})"
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


_MOMENTS = (TIMESTAMP, TIMESTAMPTZ)
_NO_YEAR = raised("22008", "date field value out of range")
_YEAR = "(CASE WHEN {0} < 0 THEN {0} + 1 ELSE {0} END)"
FUNCTIONS: tuple[Function, ...] = (
    *_field_functions(),
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
    scalar("timezone", (TEXT, TIMESTAMPTZ), TIMESTAMP, _in_zone, "The local time in a zone."),
    scalar("timezone", (TEXT, TIMESTAMP), TIMESTAMPTZ, _from_zone, "The moment of a local time."),
    *(
        scalar("age", (kind, kind), INTERVAL, _age, "Years, months, days between.")
        for kind in _MOMENTS
    ),
    *(
        scalar("to_char", (kind, TEXT), TEXT, time_format, "As text, in a format.")
        for kind in (*_MOMENTS,)
    ),
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
        *("make_timestamp", (INT4, INT4, INT4, INT4, INT4, FLOAT8), TIMESTAMP),
        "(CASE WHEN {0} IS NULL OR {1} IS NULL OR {2} IS NULL OR {3} IS NULL OR {4} IS NULL"
        " OR {5} IS NULL THEN NULL"
        f" WHEN {{0}} = 0 OR ISNAN({{5}}) OR ABS({{5}}) > 60D THEN {_NO_YEAR}"
        f" ELSE MAKE_TIMESTAMP_NTZ({_YEAR}, {{1}}, {{2}}, {{3}}, {{4}},"
        " CAST({5} AS DECIMAL(16,6))) END)",
        "A timestamp from its fields.",
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
