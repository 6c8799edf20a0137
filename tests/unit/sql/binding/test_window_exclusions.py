"""What EXCLUDE leaves of a frame, as runs of rows: compared with leaving rows out one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, product

import pytest

from waterclock.sql.binding.exclusions import Offsets, remaining, remaining_range
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query.tree import (
    ColumnRef,
    Exclusion,
    Frame,
    FrameBound,
    FrameUnit,
    Number,
    SortItem,
    Window,
)

KEYS = [1, 1, 1, 2, 3, 3, 5]
"""What the rows of a partition are sorted by."""
BOUNDS = [
    FrameBound("unbounded preceding", None, 1),
    FrameBound("preceding", Number("2", 1), 1),
    FrameBound("preceding", Number("1", 1), 1),
    FrameBound("current row", None, 1),
    FrameBound("following", Number("1", 1), 1),
    FrameBound("unbounded following", None, 1),
]
FRAMES = [
    (start, end)
    for (n, start), (m, end) in product(enumerate(BOUNDS), repeat=2)
    if n <= m and start is not BOUNDS[-1] and end is not BOUNDS[0]
]
ORDER = (SortItem(ColumnRef(("k",), 1), False, None, 1),)


def window(frame: Frame) -> Window:
    return Window(None, (), ORDER, frame, 1)


def rows_of(over: Window, row: int) -> list[int]:
    """The rows of a frame without EXCLUDE, seen from one of them."""
    assert over.frame is not None
    assert over.frame.exclusion is None
    seen = list(range(len(KEYS)))
    if over.partition:  # of peers
        seen = [other for other in seen if KEYS[other] == KEYS[row]]
    if over.frame.unit is FrameUnit.ROWS:
        units = [[each] for each in seen]
    else:
        units = [list(peers) for _, peers in groupby(seen, key=lambda each: KEYS[each])]
    [here] = [n for n, unit in enumerate(units) if row in unit]
    low, high = (place(bound) for bound in (over.frame.start, over.frame.end))
    return [each for n, unit in enumerate(units) if low <= n - here <= high for each in unit]


def place(bound: FrameBound) -> float:
    if bound.kind.startswith("unbounded"):
        return float("-inf" if bound.kind.endswith("preceding") else "inf")
    if bound.kind == "current row":
        return 0
    assert isinstance(bound.offset, Number)
    return int(bound.offset.text) * (-1 if bound.kind == "preceding" else 1)


def left_out(exclusion: Exclusion, row: int) -> set[int]:
    peers = {other for other, key in enumerate(KEYS) if key == KEYS[row]}
    match exclusion:
        case Exclusion.CURRENT_ROW:
            return {row}
        case Exclusion.GROUP:
            return peers
        case Exclusion.TIES:
            return peers - {row}


@pytest.mark.parametrize(
    ("unit", "exclusion"),
    [
        (FrameUnit.ROWS, Exclusion.CURRENT_ROW),
        *((FrameUnit.GROUPS, exclusion) for exclusion in Exclusion),
    ],
)
@pytest.mark.parametrize(("start", "end"), FRAMES)
def test_runs_are_the_frame_without_what_is_left_out(
    unit: FrameUnit, exclusion: Exclusion, start: FrameBound, end: FrameBound
) -> None:
    frame = Frame(unit, start, end, 1)
    runs = remaining(window(frame), Frame(unit, start, end, 1, exclusion))
    for row in range(len(KEYS)):
        found = [each for run in runs for each in rows_of(run, row)]
        kept = [e for e in rows_of(window(frame), row) if e not in left_out(exclusion, row)]
        assert found == kept


@pytest.mark.parametrize("exclusion", Exclusion)
@pytest.mark.parametrize(("start", "end"), FRAMES)
def test_runs_of_a_range_are_the_frame_without_what_is_left_out(
    exclusion: Exclusion, start: FrameBound, end: FrameBound
) -> None:
    frame = Frame(FrameUnit.RANGE, start, end, 1, exclusion)
    offsets = Offsets(place(start), place(end), Number("1", 1))
    runs = remaining_range(window(frame), frame, offsets)
    for row in range(len(KEYS)):
        found = [each for run in runs for each in rows_in_range(run, row)]
        whole = rows_in_range(window(replace(frame, exclusion=None)), row)
        assert found == [each for each in whole if each not in left_out(exclusion, row)]


def rows_in_range(over: Window, row: int) -> list[int]:
    """The rows of a frame that may be a RANGE, seen from one of them."""
    assert over.frame is not None
    if over.frame.unit is not FrameUnit.RANGE:
        return rows_of(over, row)
    low, high = (KEYS[row] + place(bound) for bound in (over.frame.start, over.frame.end))
    return [other for other, key in enumerate(KEYS) if low <= key <= high]


def test_without_an_order_all_rows_are_peers() -> None:
    frame = Frame(FrameUnit.RANGE, BOUNDS[0], BOUNDS[-1], 1, Exclusion.GROUP)
    assert remaining(Window(None, (), (), frame, 1), frame) == []


@pytest.mark.parametrize(
    "frame",
    [
        Frame(FrameUnit.ROWS, BOUNDS[0], BOUNDS[3], 1, Exclusion.TIES),
        Frame(
            *(FrameUnit.ROWS, FrameBound("preceding", ColumnRef(("x",), 1), 1), BOUNDS[3], 1),
            Exclusion.CURRENT_ROW,
        ),
    ],
)
def test_frames_that_can_not_be_taken_apart(frame: Frame) -> None:
    with pytest.raises(FeatureNotSupported, match="EXCLUDE"):
        remaining(window(frame), frame)
