"""Functions of dates, times and intervals.

Fields and units are constants, since they decide what the result is. What depends on the session's
time zone is written out for the zone that it has.
"""

from __future__ import annotations

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

_UNITS = {
    **{unit: unit for unit in ("second", "minute", "hour", "day", "week", "month", "quarter")},
    **{"year": "year", "years": "year", "months": "month", "days": "day", "hours": "hour"},
    **{"microseconds": "microsecond", "microsecond": "microsecond", "weeks": "week"},
    **{"milliseconds": "millisecond", "millisecond": "millisecond", "seconds": "second"},
    "minutes": "minute",
}


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
            return f"CAST({argument.sql} AS TIMESTAMP_NTZ)"
        case _:
            return argument.sql


# --- Truncating -----------------------------------------------------------------------------------


def _unit(argument: Argument, kind: PgType) -> str:
    word = _word(argument, "a unit of date_trunc()")
    unit = _UNITS.get(word)
    if unit is None:
        if word in ("decade", "century", "millennium"):
            raise Refused(f"date_trunc() to a {word}")
        raise Invalid("22023", f'unit "{word}" not recognized for type {shown(kind)}')
    return unit


def _truncated(use: Use) -> str:
    unit, moment = use.arguments
    word = _unit(unit, moment.type)
    local = f"CAST({_local(moment, use)} AS TIMESTAMP)"
    cut = f"CAST(DATE_TRUNC('{word.upper()}', {local}) AS TIMESTAMP_NTZ)"
    if moment.type.oid == TIMESTAMPTZ.oid:
        return dt.to_moment(cut, use.zone)
    return cut


def _truncated_in(use: Use) -> str:
    unit, moment, zone = use.arguments
    word = _unit(unit, moment.type)
    name = _zone(zone)
    local = f"CAST({dt.to_local(moment.sql, name)} AS TIMESTAMP)"
    return dt.to_moment(f"CAST(DATE_TRUNC('{word.upper()}', {local}) AS TIMESTAMP_NTZ)", name)


_INTERVAL_UNITS = {"year": 12, "quarter": 3, "month": 1}
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
        raise Invalid("22023", f'unit "{word}" not supported for type interval')
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
    return (
        f"(CASE WHEN {stride.sql}.months <> 0 THEN {months} WHEN {step} <= 0 THEN {low}"
        f" ELSE {binned} END)"
    )


# --- Fields ---------------------------------------------------------------------------------------

_Field = tuple[PgType, str]
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
    "isoyear": (_WHOLE, "EXTRACT(YEAROFWEEK FROM {0})"),
    "decade": (_WHOLE, "FLOOR(YEAR({0}) / 10D)"),
    "century": (_WHOLE, "CEIL(YEAR({0}) / 100D)"),
    "millennium": (_WHOLE, "CEIL(YEAR({0}) / 1000D)"),
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
    return Invalid("22023", f'unit "{word}" not recognized for type {shown(kind)}')


def _of_moment(word: str, moment: Argument, use: Use) -> _Field:
    """A field of a date or timestamp: its type, and its SQL."""
    local = _local(moment, use)
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


def _extracted(use: Use) -> str:
    kind, sql = _field(use.arguments, use)
    return f"CAST({sql} AS {spark_type(kind)})"


_FIELD_TYPES = {"second": numeric(20, 6), "milliseconds": numeric(20, 3), "epoch": _EPOCH}


def _extracted_type(arguments: tuple[Argument, ...]) -> PgType:
    if arguments[1].type.oid == DATE.oid:
        return _WHOLE
    return _FIELD_TYPES.get(_field_name(arguments[0]), _WHOLE)


def _extracted_from_date(use: Use) -> str:
    _, sql = _field(use.arguments, use)
    return f"CAST({sql} AS {spark_type(_WHOLE)})"


def _date_part(use: Use) -> str:
    _, sql = _field(use.arguments, use)
    return f"CAST({sql} AS DOUBLE)"


def _field_functions() -> list[Function]:
    found = []
    for kind in (TIMESTAMP, TIMESTAMPTZ, DATE, TIME, INTERVAL):
        rule: SqlRule = _extracted_from_date if kind == DATE else _extracted
        pair = (TEXT, kind)
        found.append(scalar("extract", pair, _extracted_type, rule, "One field, as a numeric."))
        found.append(scalar("date_part", pair, FLOAT8, _date_part, "One field, as a float."))
    return found


# --- Zones ----------------------------------------------------------------------------------------


def _zone(argument: Argument) -> str:
    if argument.text is None:
        raise Refused("a time zone that is not a constant")
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
    return dt.unless_any_null((later, earlier), made)


def _justified(*, hours: bool, days: bool) -> Callable[[Use], str]:
    def written(use: Use) -> str:
        [value] = (each.sql for each in use.arguments)
        made_days, micros = f"{value}.days", f"{value}.micros"
        if hours:
            made_days = f"({made_days} + CAST({micros} DIV {dt.DAY_MICROS}L AS INT))"
            micros = f"({micros} % {dt.DAY_MICROS}L)"
        months = f"{value}.months"
        if days:
            months = f"({months} + {made_days} DIV 30)"
            made_days = f"({made_days} % 30)"
        made = dt.interval(months, made_days, micros)
        return dt.unless_null(value, made)

    return written


_MOMENTS = (TIMESTAMP, TIMESTAMPTZ)
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
    scalar(
        *("to_timestamp", (FLOAT8,), TIMESTAMPTZ),
        "TIMESTAMP_MICROS(CAST(RINT({0} * 1000000D) AS BIGINT))",
        "The moment so many seconds after 1970.",
    ),
    scalar("make_date", (INT4, INT4, INT4), DATE, "MAKE_DATE({0}, {1}, {2})", "Year, month, day."),
    scalar(
        *("make_timestamp", (INT4, INT4, INT4, INT4, INT4, FLOAT8), TIMESTAMP),
        "MAKE_TIMESTAMP_NTZ({0}, {1}, {2}, {3}, {4}, CAST({5} AS DECIMAL(16,6)))",
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
        scalar("isfinite", (kind,), BOOL, "({0} IS NOT NULL OR NULL)", "Whether it is a time.")
        for kind in (DATE, TIMESTAMP, TIMESTAMPTZ, INTERVAL)
    ),
)
