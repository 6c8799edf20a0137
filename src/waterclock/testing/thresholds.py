"""Thresholds made small, so that a few rows already go through everything that is made for many.

Batches become Parquet objects, objects get several parts, merges spill to files and pause, sweeps
take several steps, and the log is cut short all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from waterclock.persist import compaction, inline, maintenance, parts, spill
from waterclock.storage import background
from waterclock.storage.controller import Storage

_SMALL: tuple[tuple[object, str, float], ...] = (
    (inline, "INLINE_ROWS", 12),
    (inline, "INLINE_BYTES", 2048),
    (parts, "PART_ROWS", 60),
    (spill, "IN_MEMORY_ROWS", 150),
    (compaction, "FEWEST", 3),
    (compaction, "FEWEST_TINY", 6),
    (compaction, "TINY_ROWS", 40),
    (compaction, "STEP_ROWS", 50),
    (maintenance, "SWEEP_KEYS", 3),
    (background, "_REST_S", 0.002),
    (background, "_REST_PER_WORK", 0.1),
)


@contextmanager
def small_thresholds() -> Iterator[None]:
    """A few rows count as many inside the block, in all threads of the process."""
    with ExitStack() as stack:
        for module, name, value in _SMALL:
            stack.enter_context(mock.patch.object(module, name, value))
        yield


def checkpoint_often(storage: Storage, every_bytes: int) -> None:
    """Have this server write its state whole each time the log has grown by so much."""
    storage.maintenance._checkpoint_bytes = every_bytes
