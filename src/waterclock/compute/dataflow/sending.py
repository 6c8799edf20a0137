"""Rows that a stage sends straight to the tasks of a later one.

Some columns of a base, without the rows that have a null where none can match, are often all that
an operator takes in, and need nothing from Catalyst; or no more than a stage can compute as well
(`plain`). When the work is spread over many tasks, the stage that has the base sends such rows off
itself, as files (`exchange`), so that they do not pass through Spark at all. The notes of the files
travel in the stream, as the column `SENT`, up to the shuffle before the stage that they are for.
Rows that turn out to need Catalyst after all go its way, as a column of the stream of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.dataflow.exchange import Outgoing
from waterclock.compute.dataflow.plain import Computed, typed
from waterclock.compute.dataflow.program import Direct
from waterclock.compute.kernels.keys import key_columns, key_hashes
from waterclock.compute.kernels.linear import condensed, negate
from waterclock.persist.arrangement.cover import partition_numbers

SENT = "mz_sent"
"""The column of the notes of what was sent."""


def task_numbers(rows: pa.Table, keys: Sequence[str] | None, parts: int) -> np.ndarray:
    """Which task each row is for, by its keys; the first one for all if there are none."""
    if keys is None:
        return np.zeros(rows.num_rows, dtype=np.int64)
    hashes = key_hashes(key_columns(rows, keys), rows.num_rows)
    return partition_numbers(hashes, parts)


def picked(
    base: pa.Table, places: Sequence[int], present: Sequence[int], schema: pa.Schema
) -> pa.Table:
    """Updates of some columns of a base, without the rows that are null in those of `present`."""
    for place in present:
        if base.column(place).null_count:
            base = base.filter(pc.is_valid(base.column(place)))
    stamp = base.num_columns - 2
    return typed([base.column(place) for place in (*places, stamp, stamp + 1)], schema)


@dataclass(frozen=True)
class Send:
    """One part of an operator's input: what is made of the rows of a base."""

    source: str
    made: Direct | Computed
    positive: bool
    column: str
    """What the operator's input is called in the stream."""
    keys: tuple[str, ...] | None
    rest: str | None = None
    """What rows of the base are called in the stream that Catalyst has to see after all."""

    def rows(self, base: pa.Table, schema: pa.Schema) -> pa.Table | None:
        """The updates to send, of these of the base; None if Catalyst has to make them."""
        match self.made:
            case Direct(places, present):
                found = picked(base, places, present, schema)
            case Computed():
                some = self.made.of(base, schema)
                if some is None:
                    return None
                found = some
        return found if self.positive else negate(found)


@dataclass(frozen=True)
class Sending:
    """All that one stage sends."""

    sends: tuple[Send, ...] = ()
    schemas: Mapping[str, pa.Schema] | None = None
    parts: int = 1

    def begin(self, folder: Path) -> Outgoing:
        """To be closed by the task that sends."""
        return Outgoing(folder, self.schemas or {})

    def add(self, tables: Mapping[str, pa.Table], sent: Outgoing) -> dict[str, pa.Table]:
        """Send what there is to send of the bases; gives what is left for Catalyst."""
        left: dict[str, pa.Table] = {}
        for send in self.sends:
            base = tables.get(send.source)
            if base is None:
                continue
            assert self.schemas is not None
            rows = send.rows(base, self.schemas[send.column])
            if send.rest is not None:
                left[send.rest] = base if rows is None else base.slice(0, 0)
            if rows is not None:
                rows = condensed(rows)
                sent.add(send.column, rows, task_numbers(rows, send.keys, self.parts))
        return left
