"""Results on their way out: in the types that were promised, in pieces that can be sent."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from waterclock.adapter.api import AtHand, Batches
from waterclock.model.pg_types import PgType, column_type
from waterclock.persist.rows import arrow_type

_BATCH_ROWS = 8192


def shaped(table: pa.Table, types: Sequence[PgType]) -> pa.Table:
    """The table in the Arrow types in which values of the declared types are held."""
    columns = []
    for column, declared in zip(table.columns, types, strict=True):
        held = arrow_type(column_type(declared))
        columns.append(column if column.type == held else column.cast(held))
    names = [f"c{place}" for place in range(len(columns))]
    return pa.Table.from_arrays(columns, names=names)


def in_batches(table: pa.Table) -> Batches:
    """The rows of a table, in pieces that are not too large to send.

    What is one piece is at hand; sending more takes a while, in which it can be stopped.
    """
    if table.num_rows <= _BATCH_ROWS:
        return AtHand(table.combine_chunks().to_batches())
    return _in_pieces(table)


async def _in_pieces(table: pa.Table) -> Batches:
    for batch in table.combine_chunks().to_batches(max_chunksize=_BATCH_ROWS):
        yield batch


async def closed(batches: Batches) -> None:
    """End what feeds the batches, if something does."""
    close = getattr(batches, "aclose", None)
    if close is not None:
        await close()
