"""OVER: partitions, orders and frames of windows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import INT8
from waterclock.sql.binding.api import Context
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import Rejected, UndefinedObject, WindowFault
from waterclock.sql.binding.ordering import sort_key
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.types import name_of
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.windows import WITHOUT_FRAME
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions

_NUMBERS = frozenset({"int2", "int4", "int8", "numeric", "float4", "float8"})
_PRECEDING = ("unbounded preceding", "preceding", "current row", "following", "unbounded following")


@dataclass(frozen=True, slots=True)
class BoundWindow:
    """What stands behind OVER, in brackets, and what it is computed from."""

    sql: str
    parts: tuple[Typed, ...]


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
        partition = [self._expressions.value(each, inner) for each in window.partition]
        order = [self._expressions.value(each.expression, inner) for each in window.order]
        clauses = []
        if partition:
            clauses.append("PARTITION BY " + ", ".join(key_sql(each) for each in partition))
        keys = [
            sort_key(value, item.descending, item.nulls_first)
            for value, item in zip(order, window.order, strict=True)
        ]
        ignores_frame = not keeps_frame and function in WITHOUT_FRAME
        if not keys and ignores_frame:
            keys = ["NULL"]  # Spark wants an order, even where there is none
        if keys:
            clauses.append("ORDER BY " + ", ".join(keys))
        if window.frame is not None and not ignores_frame:
            clauses.append(self._frame(window.frame, order, inner))
        return BoundWindow(f"({' '.join(clauses)})", (*partition, *order))

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

    def _frame(self, frame: tree.Frame, order: list[Typed], place: Place) -> str:
        if frame.unit is tree.FrameUnit.GROUPS:
            raise FeatureNotSupported.of("a window frame of GROUPS", frame.at)
        self._check(frame)
        bounds = [self._bound(each, frame, order, place) for each in (frame.start, frame.end)]
        return f"{frame.unit.value} BETWEEN {bounds[0]} AND {bounds[1]}"

    def _check(self, frame: tree.Frame) -> None:
        if frame.start.kind == "unbounded following":
            raise WindowFault("frame start cannot be UNBOUNDED FOLLOWING", frame.start.at)
        if frame.end.kind == "unbounded preceding":
            raise WindowFault("frame end cannot be UNBOUNDED PRECEDING", frame.end.at)
        if _PRECEDING.index(frame.start.kind) > _PRECEDING.index(frame.end.kind):
            what = "frame starting from a later row cannot end with an earlier one"
            raise WindowFault(what, frame.start.at)

    def _bound(
        self, bound: tree.FrameBound, frame: tree.Frame, order: list[Typed], place: Place
    ) -> str:
        if bound.offset is None:
            return bound.kind.upper()
        offset = self._expressions.value(bound.offset, place)
        if frame.unit is tree.FrameUnit.RANGE:
            self._check_range(order, offset, frame.at)
        else:
            offset = self._expressions.coercion.coerce(offset, INT8, Context.IMPLICIT)
        scalar = None if offset.known is None else offset.known.scalar
        if scalar is None or not scalar.is_valid:
            raise FeatureNotSupported.of("a window frame whose offset is not constant", bound.at)
        if scalar.as_py() < 0:
            which = "starting" if bound is frame.start else "ending"
            raise Rejected("22013", f"frame {which} offset must not be negative", bound.at)
        return f"{scalar.as_py()} {bound.kind.upper()}"

    def _check_range(self, order: list[Typed], offset: Typed, at: int) -> None:
        if len(order) != 1:
            raise WindowFault(
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column", at
            )
        kinds = (name_of(order[0].type), name_of(offset.type))
        if not _NUMBERS.issuperset(kinds):
            raise FeatureNotSupported.of("a RANGE of something else than numbers", at)
