"""Small updates inside the log: what is committed together is encoded together.

To frame an Arrow message and to hand out two of its columns takes longer than all else that a small
append costs. So small updates first wait in the `Bundle` of their schema. When the first of them is
needed, all that wait become one block; each of them is some rows of it, and knows which.

One that can not be encoded does not harm the others. One that was refused meanwhile may be in the
block too: rows that no batch refers to are not there.
"""

from __future__ import annotations

from collections import deque

import pyarrow as pa

from waterclock.persist.records import Batch, Block, Part
from waterclock.persist.rows import check_columns, required_columns, times_and_diffs

INLINE_ROWS = 1024
INLINE_BYTES = 32 * 1024
"""Batches of up to so many rows and bytes stay in the log, and blocks have about so many bytes."""
PAGE_BLOCKS = 512
FEW_PAGES = 16
"""Blocks that are read together are joined by so many, if they are on more pages than that."""


def is_small(updates: pa.Table | pa.RecordBatch) -> bool:
    """Whether the updates are few, and not even a piece of something large in memory."""
    return updates.num_rows <= INLINE_ROWS and bool(updates.get_total_buffer_size() <= INLINE_BYTES)


class Bundle:
    """Small updates of one schema that wait to be encoded.

    Any thread may add some. Outcomes are asked for by one at a time, which is the one that commits.
    """

    def __init__(self, columns: pa.Schema) -> None:
        self.columns = columns
        self._required = required_columns(columns)
        self._waiting: deque[Bundled] = deque()

    def check(self, updates: pa.Table | pa.RecordBatch) -> bool:
        """See `check_columns`."""
        return check_columns(updates, self.columns, self._required)

    def add(self, updates: pa.Table | pa.RecordBatch) -> Bundled:
        """Have the updates, which are small, encoded with others. Raises `WrongColumns`."""
        declared = check_columns(updates, self.columns, self._required)
        if isinstance(updates, pa.Table):
            [updates] = updates.combine_chunks().to_batches()
        if not declared:
            updates = pa.RecordBatch.from_arrays(updates.columns, schema=self.columns)
        added = Bundled(self, updates)
        self._waiting.append(added)
        return added

    def encode(self) -> None:
        """Give everything that waits its outcome."""
        waiting = self._waiting
        _encode([waiting.popleft() for _ in range(len(waiting))])


_Unnumbered = tuple[int, int, bool, tuple[Part, ...]]
"""All of a batch but its id."""


class Bundled:
    """Updates on their way into a block, then the batch or the error that they have become."""

    __slots__ = ("_bundle", "outcome", "updates")

    def __init__(self, bundle: Bundle, updates: pa.RecordBatch) -> None:
        self._bundle = bundle
        self.updates = updates
        self.outcome: _Unnumbered | Exception | None = None

    def numbered(self, number: int) -> Batch:
        """The updates as the batch of that id. Raises `WrongColumns` if one has no time or diff."""
        if self.outcome is None:
            self._bundle.encode()
        outcome = self.outcome
        if isinstance(outcome, tuple):
            return Batch(number, *outcome)
        assert outcome is not None
        raise outcome


def _encode(group: list[Bundled]) -> None:
    """Give all of them their outcome; in halves, if they are too large together or one fails."""
    try:
        batches = _encoded([bundled.updates for bundled in group])
    except Exception as error:
        if len(group) == 1:
            group[0].outcome = error
        else:
            middle = len(group) // 2
            _encode(group[:middle])
            _encode(group[middle:])
    else:
        for bundled, batch in zip(group, batches, strict=True):
            bundled.outcome = batch


def _encoded(group: list[pa.RecordBatch]) -> list[_Unnumbered]:
    """One block of all updates, and a batch that refers to it for each."""
    joined = group[0]
    if len(group) > 1:
        joined = pa.concat_batches(group)
        if joined.get_total_buffer_size() > INLINE_BYTES:
            raise _TooLarge
    columns = times_and_diffs(joined)
    times, diffs = (column.to_pylist() for column in columns)
    data = joined.serialize().to_pybytes()
    block = Block(joined.num_rows, data)
    size = len(data) // block.rows
    batches: list[_Unnumbered] = []
    first = 0
    for updates in group:
        rows = updates.num_rows
        parts = (Part(rows, size * rows, block, None, first),)
        if rows == 1:  # mostly
            when = times[first]
            batches.append((when, when, diffs[first] <= 0, parts))
        else:
            those = slice(first, first + rows)
            earliest, latest = min(times[those]), max(times[those])
            batches.append((earliest, latest, min(diffs[those]) <= 0, parts))
        first += rows
    return batches


class _TooLarge(Exception):
    """The updates are small, but too large to be one block."""


def try_inline(updates: pa.Table | pa.RecordBatch) -> Batch | None:
    """The updates as a batch with a block of its own, if they are few and small enough."""
    if updates.num_rows > INLINE_ROWS:
        return None
    if isinstance(updates, pa.Table):
        [updates] = updates.combine_chunks().to_batches()
    [found] = _encoded([updates])
    batch = Batch(0, *found)
    return batch if batch.size <= INLINE_BYTES else None


def read_inline(parts: list[Part], columns: pa.Schema) -> pa.Table:
    """The updates of inline parts as one table, in the order of the parts."""
    _turn_to_pages([part.inline for part in parts if part.inline is not None], columns)
    found: list[pa.RecordBatch] = []
    rows: list[int] = []
    page = None
    for part in parts:
        block = part.inline
        assert block is not None
        assert block.page is not None
        held, at = block.page
        if held is not page:
            if rows:
                found.append(_picked(page, rows))
            page, rows = held, []
        first = at + part.first
        if part.rows == 1:  # mostly
            rows.append(first)
        else:
            rows += range(first, first + part.rows)
    if rows:
        found.append(_picked(page, rows))
    return pa.Table.from_batches(found, columns).combine_chunks()


def _picked(page: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    first, count = rows[0], len(rows)
    if rows == list(range(first, first + count)):
        return page.slice(first, count)
    return page.take(pa.array(rows, pa.int64()))


def _turn_to_pages(blocks: list[Block], columns: pa.Schema) -> None:
    """Have every block decoded, and on few pages if there are many of them.

    The shards whose updates were committed together are merged one after the other, and each finds
    its rows in the same blocks: to pick them from a page costs a small part of what it costs to
    slice them out of every block.
    """
    pages: set[int] = set()
    for block in blocks:
        if block.page is None:
            block.page = pa.ipc.read_record_batch(pa.py_buffer(block.data), columns), 0
        pages.add(id(block.page[0]))
    if len(pages) > FEW_PAGES:
        each = list({id(block): block for block in blocks}.values())
        for start in range(0, len(each), PAGE_BLOCKS):
            _join(each[start : start + PAGE_BLOCKS])


def _join(blocks: list[Block]) -> None:
    """Put decoded blocks on one page."""
    joined = pa.concat_batches([_rows_of(block) for block in blocks])
    at = 0
    for block in blocks:
        block.page = joined, at
        at += block.rows


def _rows_of(block: Block) -> pa.RecordBatch:
    assert block.page is not None
    page, at = block.page
    return page.slice(at, block.rows)
