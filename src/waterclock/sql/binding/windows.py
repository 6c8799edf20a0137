"""OVER: partitions, orders and frames of windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

from waterclock.model.pg_types import INT8, INTERVAL
from waterclock.persist.numerics import python_value
from waterclock.sql.binding.api import Context
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import Rejected, UndefinedObject, WindowFault
from waterclock.sql.binding.exclusions import Offsets
from waterclock.sql.binding.ordering import directed, sort_key
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect import datetimes as dt
from waterclock.sql.dialect import scaled
from waterclock.sql.dialect.types import (
    MOST_DIGITS,
    bounded,
    digits,
    is_unconstrained,
    name_of,
    shown,
    spark_type,
)
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.windows import WITHOUT_FRAME
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions

_NUMBERS = frozenset({"int2", "int4", "int8", "numeric", "float4", "float8"})
_WHOLE_NUMBERS = ("int2", "int4", "int8")
_MONTHS, _DAYS = " MONTH ", " DAY TO SECOND "
"""The engine's two kinds of intervals, of which both bounds of a frame must have the same."""
_MOMENTS = frozenset({"date", "timestamp", "timestamptz"})
_PRECEDING = ("unbounded preceding", "preceding", "current row", "following", "unbounded following")


@dataclass(frozen=True, slots=True)
class BoundWindow:
    """What stands behind OVER, in brackets, and what it is computed from."""

    sql: str
    parts: tuple[Typed, ...]
    whole: str = ""
    """The same over all rows of the partition."""


_MOST_ROWS = 2**31 - 2
"""So far behind or before a row the engine can count."""
_INVALID_SIZE = "invalid preceding or following size in window function"
_BEYOND_INT4 = 2**33
"""No two numbers of four bytes are as far apart."""
_BY_PLACE = frozenset({"row_number", "ntile", "lag", "lead"})
"""Functions for which it counts which row comes first, also where all are peers."""


class Windows:
    """Binds windows."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def over(
        self,
        over: tree.Window | tree.WindowName,
        place: Place,
        *,
        function: str = "",
        keeps_frame: bool = False,
    ) -> BoundWindow:
        """The window of a call. Functions that see the whole partition do without its frame."""
        window = self._resolved(over, place)
        inner = replace(place, clause="window definitions", allows_windows=False, inside="window")
        has_frame = keeps_frame or function not in WITHOUT_FRAME
        partition = [
            key for each in window.partition for key in self._expressions.keys(each, inner)
        ]
        terms = [term for item in window.order for term in self._expressions.sorted_by(item, inner)]
        order = [term.key for term in terms]
        clauses = []
        if partition:
            clauses.append("PARTITION BY " + ", ".join(key_sql(each) for each in partition))
        keys = [sort_key(term.key, term.descending, term.nulls_first) for term in terms]
        frame = ""
        if window.frame is not None and has_frame and not _is_whole(window):
            self._check_frame(window, window.frame)
            if window.frame.unit is tree.FrameUnit.GROUPS:
                keys = self._groups(window.frame, clauses, keys, inner)
            frame = self._frame(window.frame, order, inner)
            if _is_range_of(window.frame, order, "date"):
                keys = [_as_timestamp(order[0], window.order[0])]
            if any(_is_range_of(window.frame, order, kind) for kind in _WHOLE_NUMBERS):
                keys = [_as_wider(order[0], window.order[0])]
            if _is_range_of(window.frame, order, "numeric"):
                places = self._places(window.frame, order, inner)
                keys = [_as_decimal(order[0], window.order[0], places)]
        if not keys and function in _BY_PLACE:
            keys = [
                sort_key(term.key, term.descending, term.nulls_first) for term in place.order.terms
            ]
        if not keys and not has_frame:
            keys = ["NULL"]  # Spark wants an order, even where there is none
        if keys:
            clauses.append("ORDER BY " + ", ".join(keys))
        if frame:
            clauses.append(frame)
        every = "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
        whole = f"({' '.join([*clauses[: len(clauses) - bool(frame)], every])})"
        return BoundWindow(f"({' '.join(clauses)})", (*partition, *order), whole)

    def excluding(
        self, over: tree.Window | tree.WindowName, place: Place, function: str
    ) -> tree.Window | None:
        """The window of a call, if its frame leaves rows out."""
        window = self._resolved(over, place)
        if function in WITHOUT_FRAME or window.frame is None or window.frame.exclusion is None:
            return None
        self._check_frame(window, window.frame)
        return window

    def offsets(self, window: tree.Window, place: Place) -> Offsets | None:
        """What is known of a frame that is a RANGE with offsets; None if it is not."""
        frame = window.frame
        assert frame is not None, "the caller has looked"
        if frame.unit is not tree.FrameUnit.RANGE:
            return None
        if frame.start.offset is None and frame.end.offset is None:
            return None
        inner = replace(place, clause="window definitions", allows_windows=False, inside="window")
        terms = [term for item in window.order for term in self._expressions.sorted_by(item, inner)]
        order = [term.key for term in terms]
        first, last = (self._way(each, frame, order, inner) for each in (frame.start, frame.end))
        return Offsets(first, last, _step(order[0], frame.at))

    def _way(
        self, bound: tree.FrameBound, frame: tree.Frame, order: list[Typed], place: Place
    ) -> float:
        """Below 0 if the bound is before the peers of the current row, above 0 if behind them."""
        if bound.kind == "current row":
            return 0
        if bound.offset is not None and not self._distance(bound, frame, order, place):
            return 0
        return -1 if bound.kind.endswith("preceding") else 1

    def _resolved(self, over: tree.Window | tree.WindowName, place: Place) -> tree.Window:
        if isinstance(over, tree.WindowName):
            return self._named(over.name, place, over.at)
        if over.base is None:
            return over
        base = self._named(over.base, place, over.at)
        if over.partition:
            raise WindowFault(
                f'cannot override PARTITION BY clause of window "{over.base}"', over.at
            )
        if over.order and base.order:
            raise WindowFault(f'cannot override ORDER BY clause of window "{over.base}"', over.at)
        if base.frame is not None:
            what = f'cannot copy window "{over.base}" because it has a frame clause'
            raise WindowFault(what, over.at)
        return replace(over, base=None, partition=base.partition, order=over.order or base.order)

    def _named(self, name: str, place: Place, at: int) -> tree.Window:
        window = place.windows.get(name)
        if window is None:
            raise UndefinedObject(f'window "{name}" does not exist', at)
        return self._resolved(window, place)

    # Frames

    def _groups(
        self, frame: tree.Frame, partition: list[str], keys: list[str], place: Place
    ) -> list[str]:
        """The sort keys under which a frame of groups of peers is a range.

        Groups are counted by their number, which is computed beforehand. Where none are counted,
        groups of peers are what a range consists of anyway.
        """
        if frame.start.offset is None and frame.end.offset is None:
            return keys
        if place.is_grouped or place.representatives:
            raise FeatureNotSupported(
                "a window frame of GROUPS beside GROUP BY is not supported",
                frame.at,
                hint="Group in a query in FROM, and write the window around it.",
            )
        name = self._expressions.statement.alias()
        clauses = " ".join([*partition, "ORDER BY " + ", ".join(keys)])
        place.scope.extended.append(f"DENSE_RANK() OVER ({clauses}) AS {name}")
        return [name]

    def _frame(self, frame: tree.Frame, order: list[Typed], place: Place) -> str:
        unit = "ROWS" if frame.unit is tree.FrameUnit.ROWS else "RANGE"
        bounds = [self._bound(each, frame, order, place) for each in (frame.start, frame.end)]
        if sum(_MONTHS in bound for bound in bounds) == 1 and sum(_DAYS in b for b in bounds) == 1:
            what = "a window frame from months to days or hours"
            raise FeatureNotSupported.of(what, frame.at)
        return f"{unit} BETWEEN {bounds[0]} AND {bounds[1]}"

    def _check_frame(self, window: tree.Window, frame: tree.Frame) -> None:
        if frame.start.kind == "unbounded following":
            raise WindowFault("frame start cannot be UNBOUNDED FOLLOWING", frame.start.at)
        if frame.end.kind == "unbounded preceding":
            raise WindowFault("frame end cannot be UNBOUNDED PRECEDING", frame.end.at)
        if _PRECEDING.index(frame.start.kind) > _PRECEDING.index(frame.end.kind):
            what = "frame starting from a later row cannot end with an earlier one"
            raise WindowFault(what, frame.start.at)
        if frame.unit is tree.FrameUnit.GROUPS and not window.order:
            raise WindowFault("GROUPS mode requires an ORDER BY clause", window.at)

    def empty(
        self, over: tree.Window | tree.WindowName, place: Place, function: str
    ) -> tree.Window | None:
        """The window of a call, if its frame ends before it begins: the engine has no such frame.

        One of ROWS that begins so far behind the current row that no row is there is empty too.
        """
        window = self._resolved(over, place)
        frame = window.frame
        if frame is None or function in WITHOUT_FRAME or _is_whole(window):
            return None
        self._check_frame(window, frame)
        inner = replace(place, clause="window definitions", allows_windows=False, inside="window")
        terms = [term for item in window.order for term in self._expressions.sorted_by(item, inner)]
        order = [term.key for term in terms]
        first, last = (
            None if each.offset is None else self._distance(each, frame, order, inner)
            for each in (frame.start, frame.end)
        )
        if frame.unit is not tree.FrameUnit.RANGE:
            if frame.start.kind == "following" and first is not None and first > _MOST_ROWS:
                return window
            if frame.end.kind == "preceding" and last is not None and last > _MOST_ROWS:
                return window
        if frame.start.kind != frame.end.kind or first is None or last is None or first == last:
            return None
        return window if (first > last) == (frame.start.kind == "following") else None

    def _distance(
        self, bound: tree.FrameBound, frame: tree.Frame, order: list[Typed], place: Place
    ) -> Any:
        """What the bound is compared with another by; raises if it is none."""
        self._bound(bound, frame, order, place)
        return _size(self._offset(bound, frame, order, place).value)

    def _offset(
        self, bound: tree.FrameBound, frame: tree.Frame, order: list[Typed], place: Place
    ) -> Typed:
        """How far a bound is away; of moments a constant without a type is an interval."""
        assert bound.offset is not None
        found = self._expressions.bind(bound.offset, place)
        if frame.unit is not tree.FrameUnit.RANGE:
            return self._expressions.coercion.coerce(found, INT8, Context.IMPLICIT)
        kinds = [name_of(each.type) for each in order]
        if found.is_unknown and len(kinds) == 1 and kinds[0] in _MOMENTS:
            return self._expressions.coercion.coerce(found, INTERVAL, Context.IMPLICIT)
        return self._expressions.coercion.settled(found)

    def _places(self, frame: tree.Frame, order: list[Typed], place: Place) -> int:
        """How many digits the offsets have behind the point, which are constants."""
        values = [
            self._offset(bound, frame, order, place).value
            for bound in (frame.start, frame.end)
            if bound.offset is not None
        ]
        return max(len(f"{Decimal(value).normalize():f}".partition(".")[2]) for value in values)

    def _bound(
        self, bound: tree.FrameBound, frame: tree.Frame, order: list[Typed], place: Place
    ) -> str:
        if bound.offset is None:
            return bound.kind.upper()
        offset = self._offset(bound, frame, order, place)
        if frame.unit is tree.FrameUnit.RANGE:
            self._check_range(order, offset, frame.at)
            if name_of(offset.type) == "interval":
                return self._span(bound, offset, order[0])
        scalar = None if offset.known is None else offset.known.scalar
        if scalar is None or not scalar.is_valid:
            raise FeatureNotSupported.of("a window frame whose offset is not constant", bound.at)
        if isinstance(scalar.as_py(), float) and not isfinite(scalar.as_py()):
            if isnan(scalar.as_py()):
                raise Rejected("22013", _INVALID_SIZE, bound.at)
            raise FeatureNotSupported.of("a window frame whose offset is infinite", bound.at)
        if python_value(scalar) < 0:
            which = "starting" if bound is frame.start else "ending"
            raise Rejected("22013", f"frame {which} offset must not be negative", bound.at)
        if frame.unit is not tree.FrameUnit.RANGE and scalar.as_py() > _MOST_ROWS:
            return f"UNBOUNDED {bound.kind.upper()}"
        if name_of(offset.type) == "numeric":
            return f"{_short(python_value(scalar), bound.at):f} {bound.kind.upper()}"
        distance = scalar.as_py()
        if frame.unit is tree.FrameUnit.RANGE and name_of(order[0].type) in ("int2", "int4"):
            distance = min(distance, _BEYOND_INT4)
        return f"{distance} {bound.kind.upper()}"

    def _check_range(self, order: list[Typed], offset: Typed, at: int) -> None:
        if len(order) != 1:
            raise WindowFault(
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column", at
            )
        kinds = (name_of(order[0].type), name_of(offset.type))
        if not _NUMBERS.issuperset(kinds) and (kinds[0] not in _MOMENTS or kinds[1] != "interval"):
            what = "a RANGE of something else than numbers, dates or timestamps"
            raise FeatureNotSupported.of(what, at)

    def _span(self, bound: tree.FrameBound, offset: Typed, key: Typed) -> str:
        """An interval as the bound of a frame; months and days of moments are those of UTC."""
        fields = offset.value
        if fields is None:
            raise FeatureNotSupported.of("a window frame whose offset is not constant", bound.at)
        months, days, micros = (int(fields[name]) for name in ("months", "days", "micros"))
        if min(months, days, micros) < 0 or (months and (days or micros)):
            if max(months, days, micros) > 0:
                raise FeatureNotSupported.of("a window frame of such an interval", bound.at)
            raise Rejected("22013", _INVALID_SIZE, bound.at)
        zone = self._expressions.statement.facts.timezone
        if name_of(key.type) == "timestamptz" and (months or days) and not dt.is_utc(zone):
            raise FeatureNotSupported(
                "a window frame of days or months over moments is not supported in this time zone",
                bound.at,
                hint="Count in hours, or order by a timestamp without time zone.",
            )
        if months:
            return f"INTERVAL '{months}'{_MONTHS}{bound.kind.upper()}"
        days, micros = divmod(days * dt.DAY_MICROS + micros, dt.DAY_MICROS)
        minutes, micros = divmod(micros, 60_000_000)
        clock = f"{minutes // 60:02}:{minutes % 60:02}:{micros // 1_000_000:02}"
        text = f"{days} {clock}.{micros % 1_000_000:06}"
        return f"INTERVAL '{text}'{_DAYS}{bound.kind.upper()}"


def _step(key: Typed, at: int) -> tree.Expression:
    """How far from each other two values of a sort key are at least."""
    match name_of(key.type):
        case "int2" | "int4" | "int8":
            return tree.Number("1", at)
        case "numeric" if not is_unconstrained(key.type):
            return tree.Number(f"{Decimal(1).scaleb(-digits(key.type)[1]):f}", at)
        case "date":
            return tree.Cast(tree.String("1 day", at), INTERVAL, at)
        case "timestamp" | "timestamptz":
            return tree.Cast(tree.String("1 microsecond", at), INTERVAL, at)
        case _:
            what = f"EXCLUDE in a window frame of RANGE over values of type {shown(key.type)}"
            raise FeatureNotSupported.of(what, at)


def _is_whole(window: tree.Window) -> bool:
    """Whether all rows of a partition are in the frame, since none comes before another."""
    frame = window.frame
    return (
        frame is not None
        and frame.unit is tree.FrameUnit.RANGE
        and not window.order
        and frame.start.offset is None
        and frame.end.offset is None
        and frame.start.kind != "unbounded following"
        and frame.end.kind != "unbounded preceding"
    )


def _is_range_of(frame: tree.Frame, order: list[Typed], kind: str) -> bool:
    is_range = frame.unit is tree.FrameUnit.RANGE
    has_offset = frame.start.offset is not None or frame.end.offset is not None
    return is_range and has_offset and [name_of(each.type) for each in order] == [kind]


def _as_timestamp(date: Typed, item: tree.SortItem) -> str:
    """A sort key of dates from which intervals can be counted."""
    return directed(dt.date_as_timestamp(date.sql), item.descending, item.nulls_first)


def _as_wider(number: Typed, item: tree.SortItem) -> str:
    """A sort key of whole numbers to which any offset can be added without an overflow."""
    wider = "DECIMAL(38,0)" if name_of(number.type) == "int8" else "BIGINT"
    return directed(f"CAST({number.sql} AS {wider})", item.descending, item.nulls_first)


def _as_decimal(number: Typed, item: tree.SortItem, places: int) -> str:
    """A sort key of numbers to which others, of so many digits behind the point, can be added."""
    if is_unconstrained(number.type):
        key = scaled.in_range(number.sql)
    else:
        scale = max(places, digits(number.type)[1])
        key = f"CAST({number.sql} AS {spark_type(bounded(MOST_DIGITS, scale))})"
    return directed(key, item.descending, item.nulls_first)


def _short(offset: Decimal, at: int) -> Decimal:
    if offset != round(offset, scaled.RANGE_SCALE):
        what = f"a window frame whose offset has more than {scaled.RANGE_SCALE} digits behind the"
        raise FeatureNotSupported.of(f"{what} point", at)
    return offset


def _size(offset: Any) -> Any:
    """What offsets of one kind are compared by."""
    if isinstance(offset, dict):
        days = offset["months"] * dt.MONTH_DAYS + offset["days"]
        return days * dt.DAY_MICROS + offset["micros"]
    return offset
