"""Small updates inside the log: what is committed together is encoded together.

To frame an Arrow message and to hand out two of its columns takes longer than all else that a small
append costs. So small updates first wait in the `Bundle` of their schema. When the first of them is
needed, all that wait become one block; each of them is some rows of it, and knows which.

One that can not be encoded does not harm the others. One that was refused meanwhile may be in the
block too: rows that no batch refers to are not there.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import accumulate

import pyarrow as pa

from waterclock.persist.records import Batch, Block, Page, Part
from waterclock.persist.rows import times_and_diffs

INLINE_ROWS = 1024
INLINE_BYTES = 32 * 1024
"""Batches of up to so many rows and bytes stay in the log, and blocks have about so many bytes."""
PAGE_BLOCKS = 64
"""Blocks that are read together are joined by so many."""


def is_small(updates: pa.Table | pa.RecordBatch) -> bool:
    """Whether the updates are few, and not even a piece of something large in memory."""
    return updates.num_rows <= INLINE_ROWS and bool(updates.get_total_buffer_size() <= INLINE_BYTES)


class Bundle:
    """Small updates of one schema that wait to be encoded. Thread-safe."""

    def __init__(self, columns: pa.Schema) -> None:
        self._columns = columns
        self._lock = threading.Lock()
        self._waiting: list[Bundled] = []

    def add(self, updates: pa.Table | pa.RecordBatch) -> Bundled:
        """Have the updates, which are small and have the columns, encoded with others."""
        if isinstance(updates, pa.Table):
            [updates] = updates.combine_chunks().to_batches()
        if not updates.schema.equals(self._columns):  # declared otherwise, but of the same types
            updates = pa.RecordBatch.from_arrays(updates.columns, schema=self._columns)
        added = Bundled(self, updates)
        with self._lock:
            self._waiting.append(added)
        return added

    def encode(self) -> None:
        """Give everything that waits its outcome."""
        with self._lock:  # so that who asks meanwhile for one of them gets its outcome
            waiting, self._waiting = self._waiting, []
            if waiting:
                _encode(waiting)


class Bundled:
    """Updates on their way into a block, then the batch or the error that they have become."""

    __slots__ = ("_bundle", "outcome", "updates")

    def __init__(self, bundle: Bundle, updates: pa.RecordBatch) -> None:
        self._bundle = bundle
        self.updates = updates
        self.outcome: Batch | Exception | None = None

    def numbered(self, number: int) -> Batch:
        """The updates as the batch of that id. Raises `WrongColumns` if one has no time or diff."""
        if self.outcome is None:
            self._bundle.encode()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        assert self.outcome is not None
        return self.outcome.numbered(number)


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


def _encoded(group: list[pa.RecordBatch]) -> list[Batch]:
    """One block of all updates, and a batch without an id yet for each."""
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
    batches: list[Batch] = []
    first = 0
    for updates in group:
        rows = updates.num_rows
        parts = (Part(rows, size * rows, block, None, first),)
        if rows == 1:  # mostly
            when = times[first]
            batches.append(Batch(0, when, when, diffs[first] <= 0, parts))
        else:
            those = slice(first, first + rows)
            earliest, latest = min(times[those]), max(times[those])
            batches.append(Batch(0, earliest, latest, min(diffs[those]) <= 0, parts))
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
    [batch] = _encoded([updates])
    return batch if batch.size <= INLINE_BYTES else None


def read_inline(parts: list[Part], columns: pa.Schema) -> pa.Table:
    """The updates of inline parts as one table, in the order of the parts."""
    blocks = {id(part.inline): part.inline for part in parts if part.inline is not None}
    pages = _pages(blocks, columns)
    found: list[pa.RecordBatch] = []
    rows: list[int] = []
    page = None
    for part in parts:
        if part.inline is None:
            continue
        held, at = pages[id(part.inline)]
        if held is not page:
            if rows:
                found.append(_picked(page, rows))
            page, rows = held, []
        rows += range(at + part.first, at + part.first + part.rows)
    if rows:
        found.append(_picked(page, rows))
    return pa.Table.from_batches(found, columns).combine_chunks()


def _picked(page: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    first, count = rows[0], len(rows)
    if rows == list(range(first, first + count)):
        return page.slice(first, count)
    return page.take(pa.array(rows, pa.int64()))


def _pages(blocks: Mapping[int, Block], columns: pa.Schema) -> dict[int, Page]:
    """Where the updates of each block are, decoded: on few pages, if there are many blocks.

    The shards whose updates were committed together are merged one after the other, and each finds
    its rows in the same blocks: to pick them from a page costs a small part of what it costs to
    slice them out of every block.
    """
    pages = {key: block.page or _decoded(block, columns) for key, block in blocks.items()}
    if len({id(page) for page, _ in pages.values()}) > PAGE_BLOCKS:
        keys = list(pages)
        for start in range(0, len(keys), PAGE_BLOCKS):
            some = keys[start : start + PAGE_BLOCKS]
            pages |= _joined({key: pages[key] for key in some}, blocks)
    for key, page in pages.items():
        blocks[key].page = page
    return pages


def _decoded(block: Block, columns: pa.Schema) -> Page:
    return pa.ipc.read_record_batch(pa.py_buffer(block.data), columns), 0


def _joined(pages: Mapping[int, Page], blocks: Mapping[int, Block]) -> dict[int, Page]:
    """The same blocks on one page."""
    joined = pa.concat_batches(
        [page.slice(at, blocks[key].rows) for key, (page, at) in pages.items()]
    )
    ends = accumulate(blocks[key].rows for key in pages)
    return {key: (joined, end - blocks[key].rows) for key, end in zip(pages, ends, strict=True)}
