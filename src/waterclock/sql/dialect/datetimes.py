"""Dates, times and intervals in Spark SQL.

A `timestamptz` is a Spark TIMESTAMP, a `timestamp` a TIMESTAMP_NTZ. Spark's session is in UTC, so a
cast between the two is the conversion at UTC; other zones are written out. An interval is a struct
of months, days and microseconds, as PostgreSQL holds it, and what PostgreSQL does with its fields
is written out too.

A local time that occurs twice, when clocks are put back, is standard time, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.sql.dialect.literals import quoted

DAY_MICROS = 86_400_000_000
MONTH_DAYS = 30
_UTC = frozenset({"utc", "etc/utc", "gmt", "z", "zulu", "uct", "universal", "etc/gmt", "+00"})


def is_utc(zone: str) -> bool:
    return zone.lower() in _UTC


def micros_of(value: str, *, zoned: bool) -> str:
    """Microseconds since 1970 of a timestamp."""
    return f"UNIX_MICROS({value if zoned else f'CAST({value} AS TIMESTAMP)'})"


def from_micros(micros: str, *, zoned: bool) -> str:
    moment = f"TIMESTAMP_MICROS({micros})"
    return moment if zoned else f"CAST({moment} AS TIMESTAMP_NTZ)"


def to_local(moment: str, zone: str) -> str:
    """The local time of a moment in a zone whose name is known."""
    local = f"CAST({moment} AS TIMESTAMP_NTZ)"
    if is_utc(zone):
        return local
    return f"CONVERT_TIMEZONE('UTC', {quoted(zone)}, {local})"


def to_moment(local: str, zone: str) -> str:
    """The moment of a local time."""
    if is_utc(zone):
        return f"CAST({local} AS TIMESTAMP)"
    name = quoted(zone)
    early = f"CONVERT_TIMEZONE({name}, 'UTC', {local})"
    back = f"CONVERT_TIMEZONE('UTC', {name}, TIMESTAMPADD(HOUR, 1, u))"
    chosen = f"CASE WHEN {back} = {local} THEN TIMESTAMPADD(HOUR, 1, u) ELSE u END"
    return f"CAST(ELEMENT_AT(TRANSFORM(ARRAY({early}), u -> {chosen}), 1) AS TIMESTAMP)"


def interval(months: str, days: str, micros: str) -> str:
    """An interval of the fields given."""
    return (
        f"NAMED_STRUCT('months', CAST({months} AS INT), 'days', CAST({days} AS INT),"
        f" 'micros', CAST({micros} AS BIGINT))"
    )


def unless_null(value: str, result: str) -> str:
    """The result; null if the value is, since a struct made of null fields is not null."""
    return f"CASE WHEN {value} IS NOT NULL THEN {result} END"


def unless_any_null(values: tuple[str, ...], result: str) -> str:
    condition = " AND ".join(f"{each} IS NOT NULL" for each in values)
    return f"CASE WHEN {condition} THEN {result} END"


def total_micros(value: str) -> str:
    """What intervals are compared by: a month is 30 days, a day 24 hours."""
    days = f"CAST({value}.months AS DECIMAL(38,0)) * {MONTH_DAYS}BD + {value}.days"
    return f"(({days}) * {DAY_MICROS}BD + {value}.micros)"


@dataclass(frozen=True, slots=True)
class Span:
    """The fields of an interval, as SQL; one that is known to be zero is empty."""

    months: str
    days: str
    micros: str

    @classmethod
    def of(
        cls, value: str, known: Mapping[str, int] | None = None, *, negated: bool = False
    ) -> Span:
        """The fields of an interval, which may be a constant."""
        if known is None:
            sign = "-" if negated else ""
            return cls(*(f"{sign}{value}.{name}" for name in ("months", "days", "micros")))
        factor = -1 if negated else 1
        numbers = [known[name] * factor for name in ("months", "days", "micros")]
        return cls(*("" if not number else str(number) for number in numbers))


def plus_interval(local: str, span: Span) -> str:
    """A TIMESTAMP_NTZ with an interval added: first its months, then its days, then the rest."""
    return _added(_added(_added(local, "MONTH", span.months), "DAY", span.days), "", span.micros)


def moment_plus_interval(moment: str, span: Span, zone: str) -> str:
    """A TIMESTAMP with an interval added: months and days in local time."""
    if is_utc(zone):
        return plus_interval(moment, span)
    if not span.months and not span.days:
        return _added(moment, "", span.micros)
    local = _added(_added(to_local(moment, zone), "MONTH", span.months), "DAY", span.days)
    shifted = to_moment(local, zone)
    if span.months and span.days and not span.days.lstrip("-").isdigit():
        # Without months and days it is not a local time that counts, but the moment.
        untouched = f"{span.months} = 0 AND {span.days} = 0"
        shifted = f"(CASE WHEN {untouched} THEN {moment} ELSE {shifted} END)"
    return _added(shifted, "", span.micros)


def _added(moment: str, unit: str, number: str) -> str:
    """So many units later; microseconds if no unit is said."""
    if not number:
        return moment
    is_long = not unit and number.lstrip("-").isdigit()
    return f"TIMESTAMPADD({unit or 'MICROSECOND'}, {number}{'L' if is_long else ''}, {moment})"


def difference(later: str, earlier: str, *, zoned: bool) -> str:
    """The interval between two timestamps: whole days, and the rest."""
    micros = f"({micros_of(later, zoned=zoned)} - {micros_of(earlier, zoned=zoned)})"
    made = interval("0", f"{micros} DIV {DAY_MICROS}L", f"{micros} % {DAY_MICROS}L")
    return unless_any_null((later, earlier), made)


def time_micros(value: str) -> str:
    """Microseconds since midnight of a time."""
    return f"TIME_DIFF('MICROSECOND', TIME '00:00:00', {value})"
