"""Merging runs: which ones, and how, in bounded memory.

Runs are merged like the levels of a log-structured tree. Newer runs are merged into an older one
once it is at most twice as large as all of them together, so the sizes of the runs that stay fall
geometrically: there are logarithmically many, and each update is rewritten logarithmically often.

Only runs whose hull overlaps no other run may be merged (see `cover`). So the runs are divided
into *columns*, with disjoint hashes, and each column into *slabs*, with disjoint times, such that
no run lies in two; and what is merged is a number of newest slabs of a column. While all steps are
cut into the same partitions each of them is a column, merged by itself; one run over all hashes
makes everything one column.

A merge walks over the hashes in pieces of bounded size. It looks up in each run which hash it will
have reached with its share of the piece, and takes from all runs what is below the smallest of
these. A hash with more rows than fit a piece is taken in several, divided by the hash of the whole
row, so that equal rows still meet. Where only the latest update of a key counts, a hash has few
rows, and what says that a key has no row vanishes if nothing is older.

Times below since advance to it and updates that cancel vanish; if all do, the run is written
nevertheless, since removing the old ones one by one, with nothing in their place, would not be
atomic.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from waterclock.persist.arrangement.cover import Cover, hull
from waterclock.persist.arrangement.layout import HASH, Layout
from waterclock.persist.arrangement.run import Run
from waterclock.persist.arrangement.writing import PIECE_ROWS, RunWriter, divided, rows_for

FEWEST = 4
"""Fewer runs than this are not worth a merge."""
RATIO = 2
"""A slab is merged with the newer ones if it is at most this many times their total size."""


def mergeable(sizes: Mapping[Cover, int]) -> tuple[Cover, ...]:
    """Which of the runs, given by their rows, to replace by one; none if it is not worth it yet.

    The covers do not overlap. If several merges are worth it, this is the smallest.
    """
    candidates = []
    for column in _columns(sizes):
        chosen = _newest_of_similar_size(_slabs(column), sizes)
        if len(chosen) >= FEWEST:
            candidates.append((sum(sizes[cover] for cover in chosen), chosen))
    return min(candidates, default=(0, ()))[1]


def _columns(covers: Iterable[Cover]) -> list[list[Cover]]:
    return _connected(covers, lambda cover: (cover.hashes.low, cover.hashes.high))


def _slabs(covers: Iterable[Cover]) -> list[list[Cover]]:
    return _connected(covers, lambda cover: (cover.lower, cover.upper))


def _connected(
    covers: Iterable[Cover], interval: Callable[[Cover], tuple[int, int]]
) -> list[list[Cover]]:
    """The covers in groups whose intervals do not overlap, as many as there are, in order."""
    groups: list[list[Cover]] = []
    end = -1
    for cover in sorted(covers, key=interval):
        low, high = interval(cover)
        if low >= end:
            groups.append([])
        groups[-1].append(cover)
        end = max(end, high)
    return groups


def _newest_of_similar_size(
    slabs: Sequence[list[Cover]], sizes: Mapping[Cover, int]
) -> tuple[Cover, ...]:
    """The newest slabs, as far back as none is much larger than all that are newer."""
    chosen: list[Cover] = []
    newer = 0
    for slab in reversed(slabs):
        rows = sum(sizes[cover] for cover in slab)
        if chosen and rows > RATIO * max(1, newer):
            break
        chosen += slab
        newer += rows
    return tuple(sorted(chosen))


def merge(
    folder: Path,
    layout: Layout,
    runs: Sequence[Run],
    since: int,
    *,
    piece_rows: int = PIECE_ROWS,
) -> Generator[None, None, Run]:
    """Write the run that can take the place of `runs`, pausing after each bounded piece of work.

    Times below `since` advance to it, so what a reader finds at or after since is the same. The old
    runs are left alone. Closing the generator early leaves nothing behind. Raises `Damaged`.
    """
    size, rows = sum(run.size for run in runs), sum(run.rows for run in runs)
    limit = rows_for(size, rows, piece_rows) if rows else 1
    for run in runs:
        run.verify()
    with RunWriter(folder, layout, hull(run.cover for run in runs), since, limit) as writer:
        for piece in hash_pieces(layout, runs, limit):
            writer.write(piece)
            yield
        return Run.open(folder, layout, writer.finish())


def hash_pieces(layout: Layout, runs: Sequence[Run], limit: int) -> Iterator[pa.Table]:
    """All updates of the runs, sorted by hash, in pieces of about `limit` rows.

    All updates of one (key, values) are in the same piece; of one key, if only its latest counts.
    Those of one hash are in the order of the runs.
    """
    positions = [0] * len(runs)
    while any(at < run.rows for run, at in zip(runs, positions, strict=True)):
        cut = _next_cut(runs, positions, limit)
        ends = [run.position(cut) for run in runs]
        parts = [
            batch
            for run, start, stop in zip(runs, positions, ends, strict=True)
            for batch in run.between(start, stop)
        ]
        positions = ends
        if layout.latest or sum(batch.num_rows for batch in parts) <= limit + len(runs):
            yield _sorted(pa.Table.from_batches(parts, layout.schema))
        else:
            yield from divided(layout, parts, limit)


def _next_cut(runs: Sequence[Run], positions: Sequence[int], limit: int) -> int:
    """The hash below which to take: if more than one is below it, they have `limit` rows at most,
    plus one for each run.

    Each run's share of the limit is its share of the rows that are left. Hashes are spread evenly,
    so all runs reach about the same one.
    """
    left = [run.rows - at for run, at in zip(runs, positions, strict=True)]
    shares = [max(1, limit * rows // sum(left)) for rows in left]
    smallest = min(run.hash_at(at) for run, at in zip(runs, positions, strict=True))
    reached = (
        run.hash_at(at + share) for run, at, share in zip(runs, positions, shares, strict=True)
    )
    return max(smallest + 1, min(reached))


def _sorted(updates: pa.Table) -> pa.Table:
    """Sorted by hash. The sort finds the sorted parts it is made of and merges them."""
    if updates[HASH].num_chunks <= 1:
        return updates
    order = np.argsort(updates[HASH].to_numpy(), kind="stable")
    return updates.combine_chunks().take(pa.array(order))
