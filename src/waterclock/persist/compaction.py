"""Keeping shards small: merging batches and consolidating them as since advances.

A merge reads some batches, advances their times to the shard's since, consolidates, writes one
batch in their place and commits the exchange. What a reader sees at or after since is the same
before and after, so readers, and appends, go on meanwhile; a reader that began before keeps its
blobs pinned.

Which batches: the longest run of smallest ones in which none is much larger than all smaller ones
together. So a row is rewritten a logarithmic number of times and the number of batches stays
logarithmic too. Batches that since has passed whole are merged as soon as a good part of their rows
may cancel. A shard that nobody can read any more loses all its batches.

A merge is a generator that pauses after each bounded piece of work, so that a large one does not
delay others. Its first piece is to look whether there is anything to do: if not, it ends at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.persist.parts import measured, read_batches, write_batch
from waterclock.persist.records import AnyEvent, Batch, Bound, Replaced, keys_of, rows_of
from waterclock.persist.spill import Spill
from waterclock.persist.state import State
from waterclock.persist.store import Plan, Store

FEWEST = 4
"""Fewer batches than this are not worth a merge."""
FEWEST_TINY = 1024
TINY_ROWS = 4096
"""Batches that have fewer rows together are worth it only if there are many of them."""
STEP_ROWS = 100_000
"""Rows that a merge reads between two pauses."""
RATIO = 2
"""A batch is merged with the smaller ones if it is at most this many times their total size."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a merge starts from: some batches of a shard as they are now."""

    columns: pa.Schema
    since: Bound
    batches: tuple[Batch, ...]


def mergeable(batches: Iterable[Batch], since: Bound) -> list[Batch]:
    """The batches to replace by one, or by nothing; an empty list if it is not worth it yet."""
    batches = list(batches)
    if since is None:
        return batches
    sizes = rows_of(batches)
    if len(batches) < FEWEST_TINY and sum(sizes) < TINY_ROWS:
        return []
    order = np.argsort(sizes, kind="stable")
    batches = [batches[place] for place in order.tolist()]
    count, together = _run_of_similar(np.array(sizes)[order])
    if count >= FEWEST_TINY or (count >= FEWEST and together >= TINY_ROWS):
        return batches[:count]
    return _cancellable([batch for batch in batches if batch.max_time <= since])


def _cancellable(passed: list[Batch]) -> list[Batch]:
    """All batches that since has passed, if much in them may cancel."""
    signed = sum(batch.rows for batch in passed if batch.signed)
    rows = sum(batch.rows for batch in passed)
    apart = len(passed) > 1 or any(batch.min_time < batch.max_time for batch in passed)
    much = signed and RATIO * signed >= rows - signed and rows >= TINY_ROWS
    return passed if apart and much else []


def _run_of_similar(sizes: npt.NDArray[np.int64]) -> tuple[int, int]:
    """The longest run from the smallest on whose last is not much larger than the rest together:
    how many it has, and how many rows.
    """
    together = np.cumsum(sizes)
    similar = np.flatnonzero(sizes <= RATIO * np.maximum(together - sizes, 1))
    return (int(similar[-1]) + 1, int(together[similar[-1]])) if len(similar) else (0, 0)


def merge(store: Store, shard_id: str) -> Generator[None]:
    """Merge the shard's mergeable batches, pausing after each bounded piece of work."""
    with ExitStack() as stack:
        candidate = stack.enter_context(store.pinned(_candidate(shard_id)))
        if not candidate.batches:
            return
        yield
        written: list[Batch] = []
        if candidate.since is not None:
            extent, columns, since = measured(candidate.batches), candidate.columns, candidate.since
            spill = Spill(columns, *extent, since=since, folder=store.scratch)
            stack.enter_context(spill)
            since_pause = 0
            for found in read_batches(store, candidate.batches, candidate.columns):
                spill.add(found)
                since_pause += found.num_rows + 1
                if since_pause >= STEP_ROWS:
                    since_pause = 0
                    yield
            for table in spill.tables():
                written += _written(store, shard_id, table, stack)
                yield
        store.commit(_exchange(shard_id, candidate, written))


def _candidate(shard_id: str) -> Callable[[State], tuple[Candidate, list[str]]]:
    def look(state: State) -> tuple[Candidate, list[str]]:
        shard = state.shards[shard_id]
        batches = tuple(mergeable(shard.batches.values(), shard.since))
        return Candidate(shard.columns, shard.since, batches), keys_of(batches)

    return look


def _written(store: Store, shard_id: str, table: pa.Table, stack: ExitStack) -> list[Batch]:
    batch = write_batch(store, shard_id, _ordered(table), stack)
    return [] if batch is None else [batch]


def _ordered(table: pa.Table) -> pa.Table:
    """Sorted by the first column that has an order, so that row groups have narrow statistics."""
    for field in table.schema:
        if not pa.types.is_nested(field.type):
            return table.sort_by(field.name)
    return table


def _exchange(shard_id: str, candidate: Candidate, written: list[Batch]) -> Plan[None]:
    """Put what was written in the place of what was read. Nobody else removes batches, so they are
    all there.
    """
    removed = tuple(batch.id for batch in candidate.batches)

    def plan(state: State) -> tuple[list[AnyEvent], None]:
        joined = _joined(state.next_batch, written)
        return [Replaced(shard_id, removed, joined)], None

    return plan


def _joined(batch_id: int, pieces: list[Batch]) -> Batch | None:
    if not pieces:
        return None
    return Batch(
        batch_id,
        min(piece.min_time for piece in pieces),
        max(piece.max_time for piece in pieces),
        any(piece.signed for piece in pieces),
        tuple(part for piece in pieces for part in piece.parts),
    )
