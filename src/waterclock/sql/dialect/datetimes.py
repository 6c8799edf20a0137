"""Dates, times and intervals in Spark SQL.

A `timestamptz` is a Spark TIMESTAMP, a `timestamp` a TIMESTAMP_NTZ. Spark's session is in UTC, so a
cast between the two is the conversion at UTC; other zones are written out. An interval is a struct
of months, days and microseconds, as PostgreSQL holds it, and what PostgreSQL does with its fields
is written out too.

The greatest and the least number stand for infinity; what is computed of a time keeps them.

A local time that occurs twice, when clocks are put back, is standard time, as in PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.sql.dialect.faults import raised, raised_with
from waterclock.sql.dialect.literals import quoted
from waterclock.sql.dialect.zone_abbreviations import WORDS

DAY_MICROS = 86_400_000_000
MONTH_DAYS = 30
FIELDS = ("months", "days", "micros")
"""Of an interval."""
NO_MIDNIGHT = raised("0A000", "the time 24:00:00 is not supported")
_REGION = "^[A-Za-z]+(/[A-Za-z0-9_+-]+)+$"
_UTC = frozenset({"utc", "etc/utc", "gmt", "z", "zulu", "uct", "universal", "etc/gmt", "+00"})


_LAST, _FIRST = "9223372036854775807L", "(-9223372036854775807L - 1L)"
_INFINITIES = {
    "date": ("DATE_FROM_UNIX_DATE(2147483647)", "DATE_FROM_UNIX_DATE(-2147483648)"),
    "timestamptz": (f"TIMESTAMP_MICROS({_LAST})", f"TIMESTAMP_MICROS({_FIRST})"),
    "timestamp": (
        f"CAST(TIMESTAMP_MICROS({_LAST}) AS TIMESTAMP_NTZ)",
        f"CAST(TIMESTAMP_MICROS({_FIRST}) AS TIMESTAMP_NTZ)",
    ),
}
_EARLIEST = "-210866803200000000L"
FIRST_DAY, LAST_DAY = -2_440_588, 2_145_042_905
"""The dates that PostgreSQL has, in days since 1970."""


def infinity(kind: str, *, negative: bool = False) -> str:
    """Infinity of `date`, `timestamp` or `timestamptz`."""
    return _INFINITIES[kind][1 if negative else 0]


_LIMITS = {
    "date": ("2147483647", "-2147483648"),
    "timestamp": (_LAST, _FIRST),
    "timestamptz": (_LAST, _FIRST),
}


def _number(value: str, kind: str) -> str:
    """The number that a time is held as.

    Times are compared with infinity by it: the optimizer would move a cast from a time to the
    constant that it is compared with, and no other type has that one.
    """
    return f"UNIX_DATE({value})" if kind == "date" else micros_of(value, zoned=kind != "timestamp")


def is_infinite(value: str, kind: str) -> str:
    """Whether a date or timestamp is before or after all others."""
    return f"({_number(value, kind)} IN ({', '.join(_LIMITS[kind])}))"


def is_infinity(value: str, kind: str, *, negative: bool = False) -> str:
    """Whether it is the one infinity, or the other."""
    return f"({_number(value, kind)} = {_LIMITS[kind][1 if negative else 0]})"


def if_finite(value: str, kind: str, result: str, besides: str | None = None) -> str:
    """The result, which has the same type, but infinity stays what it is.

    `besides` is another operand, which must not be null.
    """
    known = f" AND {besides} IS NOT NULL" if besides is not None else ""
    return f"(CASE WHEN {is_infinite(value, kind)}{known} THEN {value} ELSE {result} END)"


def between_kinds(value: str, have: str, want: str, result: str, besides: str | None = None) -> str:
    """The result of a conversion, with infinity as it is in the other type."""
    known = f" AND {besides} IS NOT NULL" if besides is not None else ""
    cases = " ".join(
        f"WHEN {is_infinity(value, have, negative=negative)}{known}"
        f" THEN {infinity(want, negative=negative)}"
        for negative in (False, True)
    )
    return f"(CASE {cases} ELSE {result} END)"


def in_range(result: str, *, zoned: bool) -> str:
    """A timestamp that was computed, unless it is before all that PostgreSQL has."""
    first = from_micros(_EARLIEST, zoned=zoned)
    wrong = raised("22008", "timestamp out of range")
    return f"(CASE WHEN {result} < {first} THEN {wrong} ELSE {result} END)"


def date_as_timestamp(value: str) -> str:
    """The beginning of a day."""
    return between_kinds(value, "date", "timestamp", f"CAST({value} AS TIMESTAMP_NTZ)")


def zone_of(value: str) -> str:
    """A text as the name of a zone, for the engine; an error if it is not one of the IANA list.

    Others, such as CET, mean something else to the engine, or nothing.
    """
    utc = ", ".join(sorted(f"'{each}'" for each in _UTC))
    wrong = raised_with("0A000", 'the time zone "', value, '" as a value is not supported')
    unknown = raised_with("22023", 'time zone "', value, '" not recognized')
    words = ", ".join(sorted(f"'{each}'" for each in WORDS))
    is_known = f"{value} RLIKE '[^A-Za-z]' OR LOWER({value}) IN ({words})"
    return (
        f"(CASE WHEN LOWER({value}) IN ({utc}) THEN 'UTC' WHEN {value} RLIKE {quoted(_REGION)}"
        f" THEN {value} WHEN {is_known} THEN {wrong} WHEN {value} IS NOT NULL THEN {unknown} END)"
    )


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
    if is_utc(zone):
        return f"CAST({moment} AS TIMESTAMP_NTZ)"
    return local_in(moment, quoted(zone))


def local_in(moment: str, name: str) -> str:
    """The local time of a moment in a zone whose name, which must not be null, is computed."""
    local = f"CAST({moment} AS TIMESTAMP_NTZ)"
    return if_finite(local, "timestamp", f"CONVERT_TIMEZONE('UTC', {name}, {local})")


def to_moment(local: str, zone: str) -> str:
    """The moment of a local time."""
    return f"CAST({local} AS TIMESTAMP)" if is_utc(zone) else moment_in(local, quoted(zone))


def moment_in(local: str, name: str) -> str:
    """The moment of a local time in a zone whose name, which must not be null, is computed."""
    early = f"CONVERT_TIMEZONE({name}, 'UTC', {local})"
    # The same local time by the offset that holds a day later.
    tomorrow = "TIMESTAMPADD(DAY, 1, v.u)"
    offset = f"TIMESTAMPDIFF(MICROSECOND, {tomorrow}, CONVERT_TIMEZONE('UTC', {name}, {tomorrow}))"
    late = f"TIMESTAMPADD(MICROSECOND, - {offset}, v.l)"
    chosen = f"CASE WHEN CONVERT_TIMEZONE('UTC', {name}, {late}) = v.l THEN {late} ELSE v.u END"
    both = f"NAMED_STRUCT('u', {early}, 'l', {local})"
    found = f"CAST(ELEMENT_AT(TRANSFORM(ARRAY({both}), v -> {chosen}), 1) AS TIMESTAMP)"
    return between_kinds(local, "timestamp", "timestamptz", found)


def interval(months: str, days: str, micros: str) -> str:
    """An interval of the fields given."""
    return (
        f"NAMED_STRUCT('months', CAST({months} AS INT), 'days', CAST({days} AS INT),"
        f" 'micros', CAST({micros} AS BIGINT))"
    )


def computed_interval(months: str, days: str, micros: str) -> str:
    """An interval of fields, none of them null, that may be too large; null stands for that too."""
    wrong = raised("22008", "interval out of range")
    # As a number of 64 bits, the engine takes 2 ^ 63 for the greatest there is.
    small = f"CASE WHEN {micros} < 9223372036854775808D THEN {micros} END"
    fields = ((months, "INT"), (days, "INT"), (small, "BIGINT"))
    return interval(*(f"COALESCE(TRY_CAST({sql} AS {kind}), {wrong})" for sql, kind in fields))


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

    @property
    def is_forward(self) -> bool:
        """Whether it is known not to lead back."""
        return all(each.isdigit() or not each for each in (self.months, self.days, self.micros))

    @classmethod
    def of(
        cls, value: str, known: Mapping[str, int] | None = None, *, negated: bool = False
    ) -> Span:
        """The fields of an interval, which may be a constant."""
        if known is None:
            sign = "-" if negated else ""
            return cls(*(f"{sign}{value}.{name}" for name in FIELDS))
        factor = -1 if negated else 1
        numbers = [known[name] * factor for name in FIELDS]
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
