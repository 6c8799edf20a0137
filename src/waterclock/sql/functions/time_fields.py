"""`extract` and `date_part`: one field of a time or an interval.

The field is a constant, since it decides what the result is. Fields of an infinite time that grow
with it are infinite too, which a `numeric` here can not be; the others are null.
"""

from __future__ import annotations

from waterclock.model.pg_types import (
    DATE,
    FLOAT8,
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
from waterclock.sql.functions.registry import (
    Argument,
    Function,
    Invalid,
    Refused,
    SqlRule,
    Use,
    scalar,
)
from waterclock.sql.functions.time_arguments import constant_word, local_time

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
_OFFSETS = {
    "timezone": "{0}",
    "timezone_hour": "({0} DIV 3600L)",
    "timezone_minute": "({0} % 3600L DIV 60L)",
}
"""Of the session's zone, in seconds of which the local time is ahead of UTC."""
_EPOCH = numeric(30, 6)
_ALIASES = {"seconds": "second", "minutes": "minute", "hours": "hour", "days": "day"}
_ALIASES |= {"months": "month", "years": "year", "weeks": "week", "msec": "milliseconds"}
_ALIASES |= {"millisecond": "milliseconds", "microsecond": "microseconds", "usec": "microseconds"}


def _field_name(argument: Argument) -> str:
    word = constant_word(argument, "a field of extract()")
    return _ALIASES.get(word, word)


def _unknown_field(word: str, kind: PgType) -> Exception:
    if word in _DATE_FIELDS or word in _CLOCK_FIELDS or word in _OFFSETS:
        return Invalid("0A000", f'unit "{word}" not supported for type {shown(kind)}')
    return Invalid("22023", f'unit "{word}" not recognized for type {shown(kind)}')


def _of_moment(word: str, moment: Argument, use: Use) -> _Field:
    """A field of a date or timestamp: its type, and its SQL."""
    is_date = moment.type.oid == DATE.oid
    if is_date and word == "epoch":
        return _EPOCH, f"(UNIX_DATE({moment.sql}) * 86400BD)"
    local = moment.sql if is_date else local_time(moment, use)
    if word == "julian" and not is_date:
        raise Refused("extract() of julian from a timestamp")
    if word == "epoch":
        zoned = moment.type.oid == TIMESTAMPTZ.oid
        micros = dt.micros_of(moment.sql if zoned else local, zoned=zoned)
        return _EPOCH, f"CAST({micros} * 0.000001BD AS DECIMAL(30,6))"
    if word in _DATE_FIELDS:
        kind, template = _DATE_FIELDS[word]
        return kind, template.format(local)
    if word in _OFFSETS and moment.type.oid == TIMESTAMPTZ.oid:
        there, here = dt.micros_of(local, zoned=False), dt.micros_of(moment.sql, zoned=True)
        return _WHOLE, _OFFSETS[word].format(f"(({there} - {here}) DIV 1000000L)")
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


def field_functions() -> list[Function]:
    found = []
    for kind in (TIMESTAMP, TIMESTAMPTZ, DATE, TIME, INTERVAL):
        rule: SqlRule = _extracted_from_date if kind == DATE else _extracted
        pair = (TEXT, kind)
        found.append(scalar("extract", pair, _extracted_type, rule, "One field, as a numeric."))
        found.append(scalar("date_part", pair, FLOAT8, _date_part, "One field, as a float."))
    return found
