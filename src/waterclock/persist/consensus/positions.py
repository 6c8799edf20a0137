"""What the contract of the log says about positions, in one place for every implementation.

An implementation decides under its own lock or transaction; what follows from the decision is here:
which of the two errors a refused append is, and that the pages of a read join without a gap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from waterclock.persist.errors import PositionTaken, Unavailable


def check_position(position: int) -> None:
    assert position >= 1, f"position {position} is before the first"


def refuse(position: int, end: int) -> NoReturn:
    """Raise what a refused append at `position` deserves, if the log ends at `end` by now.

    It was refused for not being at the end, and the end only grows: a position at the end by now
    was beyond it then.
    """
    assert position < end, f"position {position} was beyond the end of the log, {end} by now"
    raise PositionTaken(f"position {position} of the log is taken")


def check_truncation(before: int, end: int) -> None:
    assert before < end, f"truncation before {before} leaves nothing of a log that ends at {end}"


def read_pages(
    start: int, fetch: Callable[[int], Sequence[tuple[int, bytes]]]
) -> Iterator[tuple[int, bytes]]:
    """The entries from `start` on, by pages: `fetch(p)` gives some of those at `p` and later, in
    order.

    An empty page is the end. The first page may begin later than `start`, where the log has been
    truncated; if that happens between two pages, entries that were promised are gone, and the
    reader has to begin again: `Unavailable`.
    """
    page = fetch(start)
    while page:
        yield from page
        expected = page[-1][0] + 1
        page = fetch(expected)
        if page and page[0][0] != expected:
            raise Unavailable("could not read on: the log was truncated meanwhile")
