"""An interval as text, in each of PostgreSQL's four styles.

`1 mon -2 days +03:04:05`, `@ 1 mon -2 days 3 hours 4 mins 5 secs`, `+0-1 -2 +3:04:05` and
`P1M-2DT3H4M5S` are the same. Years and months have one sign, and so have hours, minutes and
seconds; a sign is written where the style needs it to tell the fields apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from waterclock.model.manner import IntervalStyle
from waterclock.sql.dialect.datetimes import unless_null
from waterclock.sql.dialect.letting import let

_YEARS, _MONTHS = "i.months DIV 12", "i.months % 12"
_HOURS, _MINUTES = "i.micros DIV 3600000000L", "i.micros DIV 60000000L % 60"
_MICROS = "ABS(i.micros)"
_WHOLE_SECONDS = f"{_MICROS} DIV 1000000L % 60"
_FRACTION = (
    f"CASE WHEN {_MICROS} % 1000000L = 0 THEN '' ELSE TRIM(TRAILING '0' FROM"
    f" CONCAT('.', LPAD(CAST({_MICROS} % 1000000L AS STRING), 6, '0'))) END"
)
_SECONDS = f"CONCAT(CAST({_WHOLE_SECONDS} AS STRING), {_FRACTION})"
_HAS_SECONDS = "i.micros % 60000000L <> 0"
_PLUS, _MINUS, _NOTHING = "'+'", "'-'", "''"
_IS_ZERO = "i.months = 0 AND i.days = 0 AND i.micros = 0"


def interval_text(value: str, style: IntervalStyle) -> str:
    """The text of an interval; null if it is null."""
    return unless_null(value, f"ELEMENT_AT(TRANSFORM(ARRAY({value}), i -> {_TEXTS[style]()}), 1)")


def _number(value: str) -> str:
    return f"CAST({value} AS STRING)"


def _magnitude(value: str) -> str:
    return _number(f"ABS(CAST({value} AS BIGINT))")


def _if(condition: str, then: str, otherwise: str = _NOTHING) -> str:
    return f"CASE WHEN {condition} THEN {then} ELSE {otherwise} END"


def _padded(value: str) -> str:
    return f"LPAD({_number(value)}, 2, '0')"


def _clock(hours: str) -> str:
    minutes = f"{_MICROS} DIV 60000000L % 60"
    return f"{hours}, ':', {_padded(minutes)}, ':', {_padded(_WHOLE_SECONDS)}, {_FRACTION}"


# The style `postgres`


def _postgres() -> str:
    """`1 year 2 mons 3 days 04:05:06.7`; a positive field behind a negative one has a sign."""
    plus_days = "i.months < 0 AND i.days > 0"
    plus_clock = "i.micros >= 0 AND (i.days < 0 OR (i.days = 0 AND i.months < 0))"
    hours = f"{_MICROS} DIV 3600000000L"
    sign = f"CASE WHEN i.micros < 0 THEN '-' WHEN {plus_clock} THEN '+' ELSE '' END"
    zero = _if(f"{hours} < 10", "'0'")
    clock = _clock(f"{zero}, {_number(hours)}")
    pieces = (
        _named_field(_YEARS, "year", "FALSE"),
        _named_field(_MONTHS, "mon", "FALSE"),
        _named_field("i.days", "day", plus_days),
        f"CASE WHEN i.micros <> 0 OR ({_IS_ZERO}) THEN CONCAT({sign}, {clock}) END",
    )
    return f"CONCAT_WS(' ', {', '.join(pieces)})"


def _named_field(number: str, unit: str, plus: str) -> str:
    ending = _if(f"{number} = 1", f"' {unit}'", f"' {unit}s'")
    text = f"CONCAT({_if(plus, _PLUS)}, {_number(number)}, {ending})"
    return f"CASE WHEN {number} <> 0 THEN {text} END"


# The style `postgres_verbose`


def _verbose() -> str:
    """`@ 1 year 2 mons`; if the first field is negative, all are turned round and it is `ago`."""
    is_ago = (
        "CASE WHEN i.months <> 0 THEN i.months < 0"
        " WHEN i.days <> 0 THEN i.days < 0 ELSE i.micros < 0 END"
    )
    turned = {name: f"CAST(i.{name} AS BIGINT) * r.sign" for name in ("months", "days", "micros")}
    pieces = (
        *(_verbose_field(number, unit) for number, unit in _VERBOSE_FIELDS),
        _if(_HAS_SECONDS, _verbose_seconds()),
        _if(_IS_ZERO, "' 0'"),
        _if("r.sign < 0", "' ago'"),
    )
    text = f"CONCAT('@', {', '.join(pieces)})"
    return let({"sign": _if(is_ago, "-1L", "1L")}, "r", let(turned, "i", text))


_VERBOSE_FIELDS = (
    *((_YEARS, "year"), (_MONTHS, "mon"), ("i.days", "day")),
    *((_HOURS, "hour"), (_MINUTES, "min")),
)


def _verbose_field(number: str, unit: str) -> str:
    ending = _if(f"{number} = 1", f"' {unit}'", f"' {unit}s'")
    return _if(f"{number} <> 0", f"CONCAT(' ', {_number(number)}, {ending})")


def _verbose_seconds() -> str:
    ending = _if(f"{_MICROS} % 60000000L = 1000000L", "' sec'", "' secs'")
    return f"CONCAT(' ', {_if('i.micros < 0', _MINUS)}, {_SECONDS}, {ending})"


# The style `sql_standard`


def _standard() -> str:
    """`1-2` or `3 4:05:06`, with one sign; what mixes both, or signs, has every field and sign."""
    is_negative = "(i.months < 0 OR i.days < 0 OR i.micros < 0)"
    is_positive = "(i.months > 0 OR i.days > 0 OR i.micros > 0)"
    is_mixed = (
        f"({is_negative} AND {is_positive}) OR (i.months <> 0 AND (i.days <> 0 OR i.micros <> 0))"
    )
    years = f"{_magnitude(_YEARS)}, '-', {_magnitude(_MONTHS)}"
    days = _magnitude("i.days")
    clock = _clock(_number(f"{_MICROS} DIV 3600000000L"))
    months_sign, days_sign, clock_sign = (
        _if(f"i.{name} < 0", _MINUS, _PLUS) for name in ("months", "days", "micros")
    )
    mixed = f"CONCAT({months_sign}, {years}, ' ', {days_sign}, {days}, ' ', {clock_sign}, {clock})"
    plain = (
        f"CASE WHEN i.months <> 0 THEN CONCAT({years})"
        f" WHEN i.days <> 0 THEN CONCAT({days}, ' ', {clock}) ELSE CONCAT({clock}) END"
    )
    signed = f"CONCAT({_if(is_negative, _MINUS)}, {plain})"
    return f"CASE WHEN {_IS_ZERO} THEN '0' WHEN {is_mixed} THEN {mixed} ELSE {signed} END"


# The style `iso_8601`


def _iso() -> str:
    """`P1Y2M3DT4H5M6S`: every field with its own sign."""
    date, time = (
        [_if(f"{number} <> 0", f"CONCAT({_number(number)}, '{letter}')") for number, letter in part]
        for part in (
            ((_YEARS, "Y"), (_MONTHS, "M"), ("i.days", "D")),
            ((_HOURS, "H"), (_MINUTES, "M")),
        )
    )
    seconds = _if(_HAS_SECONDS, f"CONCAT({_if('i.micros < 0', _MINUS)}, {_SECONDS}, 'S')")
    pieces = ("'P'", *date, _if("i.micros <> 0", "'T'"), *time, seconds)
    return f"CASE WHEN {_IS_ZERO} THEN 'PT0S' ELSE CONCAT({', '.join(pieces)}) END"


_TEXTS: Mapping[IntervalStyle, Callable[[], str]] = {
    IntervalStyle.POSTGRES: _postgres,
    IntervalStyle.POSTGRES_VERBOSE: _verbose,
    IntervalStyle.SQL_STANDARD: _standard,
    IntervalStyle.ISO_8601: _iso,
}
