"""The rows of a cursor that goes both ways, and where it stands.

A cursor stands on a row, before the first one or behind the last one. Rows are counted from 1, so
these are the places 0 and one more than there are rows. It comes to stand behind the last row only
by looking for a further one, as PostgreSQL has it: the row before that place is the last one.

All rows are kept until the cursor is closed. They are of one moment, so nothing can change them.
"""

from __future__ import annotations

from typing import assert_never

import pyarrow as pa

from waterclock.sql.ast.session import Direction


class Scroll:
    """A cursor over rows that are all there."""

    __slots__ = ("_rows", "place")

    def __init__(self, rows: pa.Table | None) -> None:
        """None is no rows at all."""
        self._rows = rows
        self.place = 0

    @property
    def _count(self) -> int:
        return 0 if self._rows is None else self._rows.num_rows

    def fetch(self, direction: Direction, count: int | None) -> list[pa.RecordBatch]:
        """The rows that are passed, in the order in which they are; a `count` of None is all."""
        places, self.place = way(self.place, self._count, direction, count)
        if not places or self._rows is None:
            return []
        if places.step == 1:
            found = self._rows.slice(places.start - 1, len(places))
        else:
            found = self._rows.take(pa.array([place - 1 for place in places], pa.int64()))
        return list(found.to_batches())


def way(place: int, rows: int, direction: Direction, count: int | None) -> tuple[range, int]:
    """The places of the rows to take, and where the cursor stands then."""
    match direction:
        case Direction.FORWARD:
            return _steps(place, rows, rows + 1 if count is None else count)
        case Direction.BACKWARD:
            return _steps(place, rows, -rows - 1 if count is None else -count)
        case Direction.ABSOLUTE:
            assert count is not None, "ALL has no place"
            return _single(count if count >= 0 else rows + 1 + count, rows)
        case Direction.RELATIVE:
            assert count is not None, "ALL has no place"
            return _single(place + count, rows)
        case _:
            assert_never(direction)


def _steps(place: int, rows: int, count: int) -> tuple[range, int]:
    """So many rows forward, or backward if it is negative; 0 is the row that it stands on."""
    if count == 0:
        return _single(place, rows)
    if count > 0:
        last = min(place + count, rows)
        return range(place + 1, last + 1), last if place + count <= rows else rows + 1
    first = max(place + count, 1)
    return range(place - 1, first - 1, -1), first if place + count >= 1 else 0


def _single(place: int, rows: int) -> tuple[range, int]:
    """The row at a place, if there is one; else the cursor stands at that end."""
    if 1 <= place <= rows:
        return range(place, place + 1), place
    return range(0), 0 if place < 1 else rows + 1
