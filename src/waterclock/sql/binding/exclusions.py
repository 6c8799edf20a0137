"""EXCLUDE in window frames: what is left of a frame, as windows without EXCLUDE.

The engine has no such frames. What is left are a few runs of rows: those before the current row or
its peers, those behind them, and in between what is kept of the peers. A function of the frame is
put together from the same function over each run. The runs are in the order of the frame.

Rows before and behind the peers can be counted in groups, or, in a RANGE with offsets, begin one
step of the key away: so the key must be of a type whose values have a step between them. Of ROWS
only the current row can be left out. Sums of floating-point numbers are not put together: their
last digits depend on the order of adding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import inf
from typing import TypeAlias

from waterclock.model.pg_types import NUMERIC
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree
from waterclock.sql.query.tree import Exclusion, FrameUnit

_Combining: TypeAlias = Callable[[Sequence[tree.Call]], tree.Expression]


@dataclass(frozen=True, slots=True)
class Offsets:
    """What is known of a RANGE with offsets."""

    first: float
    last: float
    """Where the bounds are: below 0 before the peers of the current row, above 0 behind them."""
    step: tree.Expression
    """How far from each other two keys are at least, if they are not the same."""


def without_excluded(
    call: tree.Call, window: tree.Window, offsets: Offsets | None
) -> tree.Expression:
    """The call over such a window, written with windows that leave nothing out."""
    frame = window.frame
    assert frame is not None, "the caller has looked"
    if offsets is None:
        return _combined(call, window, remaining(window, frame))
    # A row without a key has its peers for a frame, or all up to an end of the partition.
    start, end = frame.start, frame.end
    current = tree.FrameBound("current row", None, frame.at)
    groups = tree.Frame(
        FrameUnit.GROUPS,
        current if start.offset is not None else start,
        current if end.offset is not None else end,
        frame.at,
        frame.exclusion,
    )
    has_no_key = tree.Is(window.order[0].expression, tree.Test.NULL, False, call.at)
    without_key = _combined(call, window, remaining(window, groups))
    with_key = _combined(call, window, remaining_range(window, frame, offsets))
    return tree.Case(None, ((has_no_key, without_key),), with_key, call.at)


def _combined(call: tree.Call, window: tree.Window, runs: Sequence[tree.Window]) -> tree.Expression:
    assert window.frame is not None
    combine = _COMBINED.get(call.name[-1])
    if combine is None:
        what = f"{call.name[-1]}() over a window frame with EXCLUDE"
        raise FeatureNotSupported.of(what, window.frame.at)
    if not runs:
        nothing = replace(window, frame=None)
        return _of_no_rows(call, nothing, tree.Boolean(False, call.at))
    return combine([replace(call, over=run) for run in runs])


def of_nothing(call: tree.Call, window: tree.Window) -> tree.Expression:
    """The call over a frame without rows: null, or 0 if it counts.

    In a RANGE with offsets a row whose key is null has the rows whose key is null for its frame.
    """
    at = call.at
    assert window.frame is not None
    never: tree.Expression = tree.Boolean(False, at)
    peers = replace(window, frame=None)
    if window.frame.unit is FrameUnit.RANGE and window.order:
        current = tree.FrameBound("current row", None, at)
        peers = replace(window, frame=tree.Frame(FrameUnit.RANGE, current, current, at))
        never = tree.Is(window.order[0].expression, tree.Test.NULL, False, at)
    return _of_no_rows(call, peers, never)


def _of_no_rows(
    call: tree.Call, window: tree.Window, exception: tree.Expression
) -> tree.Expression:
    """The call over no rows: over the window only where there is an exception."""
    at = call.at
    found = tree.Case(None, ((exception, replace(call, over=window)),), None, at)
    counts = call.name[-1] in ("count", "regr_count")
    return _coalesced(found, tree.Number("0", at)) if counts else found


def remaining(window: tree.Window, frame: tree.Frame) -> list[tree.Window]:
    """The runs of rows that are left of a frame, in order, each as a window of its own."""
    _check(frame)
    first, last = _place(frame.start), _place(frame.end)
    unit = FrameUnit.ROWS if frame.unit is FrameUnit.ROWS else FrameUnit.GROUPS
    found = []
    if window.order or unit is FrameUnit.ROWS:
        found = [_run(window, frame, unit, first, min(last, -1))]
    if first <= 0 <= last:
        found += _kept_peers(window, frame)
    if window.order or unit is FrameUnit.ROWS:
        found.append(_run(window, frame, unit, max(first, 1), last))
    return [run for run in found if run is not None]


def remaining_range(window: tree.Window, frame: tree.Frame, offsets: Offsets) -> list[tree.Window]:
    """The runs of rows that are left of a RANGE with offsets, seen from a row that has a key."""
    if offsets.last < 0 or offsets.first > 0:
        return [replace(window, frame=replace(frame, exclusion=None))]
    before = tree.FrameBound("preceding", offsets.step, frame.at)
    behind = tree.FrameBound("following", offsets.step, frame.at)
    runs: list[tree.Window | None] = []
    if offsets.first < 0:
        first = tree.Frame(FrameUnit.RANGE, frame.start, before, frame.at)
        runs.append(replace(window, frame=first))
    runs += _kept_peers(window, frame)
    if offsets.last > 0:
        last = tree.Frame(FrameUnit.RANGE, behind, frame.end, frame.at)
        runs.append(replace(window, frame=last))
    return [run for run in runs if run is not None]


def _check(frame: tree.Frame) -> None:
    if frame.unit is FrameUnit.ROWS and frame.exclusion is not Exclusion.CURRENT_ROW:
        assert frame.exclusion is not None
        what = f"EXCLUDE {frame.exclusion.value} in a window frame of ROWS"
        raise FeatureNotSupported.of(what, frame.at)


def _place(bound: tree.FrameBound) -> float:
    """How many rows or groups behind the current one a bound is."""
    match bound.kind:
        case "unbounded preceding":
            return -inf
        case "unbounded following":
            return inf
        case "current row":
            return 0
    if not isinstance(bound.offset, tree.Number) or not bound.offset.text.isdigit():
        what = "EXCLUDE in a window frame whose offset is not a plain number"
        raise FeatureNotSupported.of(what, bound.at)
    distance = int(bound.offset.text)
    return -distance if bound.kind == "preceding" else distance


def _run(
    window: tree.Window, frame: tree.Frame, unit: FrameUnit, first: float, last: float
) -> tree.Window | None:
    """The rows or groups from one place to another; None if there are none."""
    if first > last or first == inf or last == -inf:
        return None
    start, end = (_bound(each, frame.at) for each in (first, last))
    return replace(window, frame=tree.Frame(unit, start, end, frame.at))


def _bound(place: float, at: int) -> tree.FrameBound:
    way = "preceding" if place < 0 else "following"
    if place in (-inf, inf):
        return tree.FrameBound(f"unbounded {way}", None, at)
    if place == 0:
        return tree.FrameBound("current row", None, at)
    return tree.FrameBound(way, tree.Number(str(abs(int(place))), at), at)


def _kept_peers(window: tree.Window, frame: tree.Frame) -> list[tree.Window | None]:
    """What is left of the current row and its peers, which are in the frame."""
    if frame.exclusion is Exclusion.TIES:
        return [_run(window, frame, FrameUnit.ROWS, 0, 0)]
    if frame.exclusion is Exclusion.GROUP or frame.unit is FrameUnit.ROWS:
        return []
    partition = (*window.partition, *(item.expression for item in window.order))
    peers = replace(window, partition=partition)
    return [
        _run(peers, frame, FrameUnit.ROWS, -inf, -1),
        _run(peers, frame, FrameUnit.ROWS, 1, inf),
    ]


# --- Functions, put together ----------------------------------------------------------------------


def _coalesced(*values: tree.Expression) -> tree.Expression:
    return tree.Coalescing("coalesce", values, values[0].at)


def _joined(operator: str) -> _Combining:
    """By an operator, where a run without a value does not count."""

    return lambda runs: _reduced(lambda a, b: tree.Binary(operator, a, b, a.at), runs)


def _decided(logic: tree.Logic) -> _Combining:
    return lambda runs: _reduced(lambda a, b: tree.Logical(logic, (a, b), a.at), runs)


def _reduced(
    joined: Callable[[tree.Expression, tree.Expression], tree.Expression],
    runs: Sequence[tree.Expression],
) -> tree.Expression:
    """All runs, two by two; of two that have no common value, the one that has any."""
    return reduce(lambda a, b: _coalesced(joined(a, b), a, b), runs)


def _chosen(name: str) -> _Combining:
    return lambda runs: tree.Coalescing(name, tuple(runs), runs[0].at)


def _count(runs: Sequence[tree.Call]) -> tree.Expression:
    counts: Sequence[tree.Expression] = runs
    return reduce(lambda one, other: tree.Binary("+", one, other, one.at), counts)


def _mean(runs: Sequence[tree.Call]) -> tree.Expression:
    at = runs[0].at
    total = _joined("+")([replace(run, name=("sum",)) for run in runs])
    count = _count([replace(run, name=("count",)) for run in runs])
    some = tree.Coalescing("nullif", (count, tree.Number("0", at)), at)
    return tree.Binary("/", tree.Cast(total, NUMERIC, at), some, at)


def _texts(runs: Sequence[tree.Call]) -> tree.Expression:
    separator = runs[0].arguments[1]

    def joined(left: tree.Expression, right: tree.Expression) -> tree.Expression:
        return tree.Binary("||", tree.Binary("||", left, separator, left.at), right, left.at)

    return _reduced(joined, runs)


def _first(runs: Sequence[tree.Call]) -> tree.Expression:
    """The value over the first run that has rows."""
    at = runs[0].at
    branches = []
    for run in runs:
        rows = tree.Call(("count",), (), at, is_star=True, over=run.over)
        branches.append((tree.Binary(">", rows, tree.Number("0", at), at), run))
    return tree.Case(None, tuple(branches), None, at)


_COMBINED: dict[str, _Combining] = {
    "count": _count,
    "sum": _joined("+"),
    "avg": _mean,
    "min": _chosen("least"),
    "max": _chosen("greatest"),
    "bool_and": _decided(tree.Logic.AND),
    "every": _decided(tree.Logic.AND),
    "bool_or": _decided(tree.Logic.OR),
    "array_agg": _joined("||"),
    "string_agg": _texts,
    "first_value": _first,
    "last_value": lambda runs: _first(runs[::-1]),
}
