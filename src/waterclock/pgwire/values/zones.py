"""Time zones: the distance from UTC of many moments at once, and the moment of a local time.

The rules come from the tz database through `zoneinfo`, which covers the years 1 to 9999. Before
that, a zone has its first offset; after it, the rules repeat every 400 years as the calendar does.

An offset is asked for once at both ends of each day that occurs. Only on the days on which it
changes is every moment asked for by itself.
"""

from __future__ import annotations

import re
import zoneinfo
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from waterclock.model.manner import IntervalStyle, Manner
from waterclock.pgwire.values.calendar import DAY_MICROS
from waterclock.pgwire.values.errors import InvalidZone

_CYCLE_DAYS = 146_097
_FIRST_DAY = -719_161
"""0001-01-02: a day on which any offset can still be applied."""
_LAST_DAY = 2_932_895
_FIXED = re.compile(r"<[+-]\d\d(?::?\d\d){0,2}>([+-]?)(\d{1,2})(?::(\d\d))?(?::(\d\d))?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOCAL_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class Zone:
    """A time zone under the name by which the session knows it.

    With it go the style of the session's intervals and its digits of floats: what is needed to
    write and read values of all types is one thing.
    """

    name: str
    rules: tzinfo
    intervals: IntervalStyle = IntervalStyle.POSTGRES
    float_digits: int = 1

    @property
    def is_utc(self) -> bool:
        return self.rules is UTC

    def offsets(self, micros: NDArray[np.int64]) -> NDArray[np.int64]:
        """Seconds east of UTC at each moment."""
        if isinstance(self.rules, timezone):
            fixed = self.rules.utcoffset(None)
            return np.full(len(micros), fixed.total_seconds(), dtype=np.int64)
        days, place = np.unique(micros // DAY_MICROS, return_inverse=True)
        ends = [_offsets_of_day(self, day) for day in days.tolist()]
        first, last = np.array(ends, dtype=np.int64).reshape(len(days), 2).T
        offsets = first[place]
        for row in np.nonzero((first != last)[place])[0]:
            offsets[row] = self.offset_at(int(micros[row]))
        return offsets

    def moment(self, local_micros: int) -> int:
        """The moment of a local time. One that occurs twice, or never, is standard time."""
        day, within = divmod(local_micros, DAY_MICROS)
        known = _known_day(day)
        local = _LOCAL_EPOCH + timedelta(days=known, microseconds=within)
        earlier = _seconds(local.replace(tzinfo=self.rules, fold=0).utcoffset())
        later = _seconds(local.replace(tzinfo=self.rules, fold=1).utcoffset())
        # Clocks put forward: `later` is the greater. Put back: it is the smaller.
        return local_micros - min(earlier, later) * 1_000_000

    def offset_at(self, micros: int) -> int:
        """Seconds east of UTC at a moment."""
        day, within = divmod(micros, DAY_MICROS)
        moment = _EPOCH + timedelta(days=_known_day(day), microseconds=within)
        return _seconds(moment.astimezone(self.rules).utcoffset())


UTC_ZONE = Zone("UTC", UTC)


def zone_named(
    name: str, intervals: IntervalStyle = IntervalStyle.POSTGRES, float_digits: int = 1
) -> Zone:
    """A zone of the tz database, or a fixed one such as `<+02>-02`; `InvalidZone`.

    The same object for the same arguments, so that it can be compared quickly.
    """
    return _zone(Manner(name, intervals, float_digits))


def zone_of(manner: Manner) -> Zone:
    """The zone and the style of a session."""
    return _zone(manner)


@lru_cache(maxsize=256)
def _zone(manner: Manner) -> Zone:
    return Zone(manner.zone, _rules(manner.zone), manner.intervals, manner.float_digits)


def _rules(name: str) -> tzinfo:
    if name.upper() in ("UTC", "GMT", "Z", "ETC/UTC", "ZULU", "UCT"):
        return UTC
    fixed = _FIXED.fullmatch(name)
    if fixed is not None:
        # POSIX counts to the west.
        seconds = sum(
            int(part or 0) * unit
            for part, unit in zip(fixed.groups()[1:], (3600, 60, 1), strict=True)
        )
        return timezone(timedelta(seconds=seconds if fixed[1] == "-" else -seconds))
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidZone(f'invalid value for parameter "TimeZone": "{name}"') from None


@lru_cache(maxsize=65_536)
def _offsets_of_day(zone: Zone, day: int) -> tuple[int, int]:
    return zone.offset_at(day * DAY_MICROS), zone.offset_at((day + 1) * DAY_MICROS - 1)


def _known_day(day: int) -> int:
    if day < _FIRST_DAY:
        return _FIRST_DAY
    if day > _LAST_DAY:
        return day - ((day - _LAST_DAY) // _CYCLE_DAYS + 1) * _CYCLE_DAYS
    return day


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return int(offset.total_seconds())
