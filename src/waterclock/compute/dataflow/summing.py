"""The sum of many updates in bounded memory: a table that lies in a file.

Updates of the same row and time are added up, as `kernels.linear.union` does. They meet in pieces,
by their hash (`persist.spill`), so the order of the rows is another one. The file is unlinked as
soon as it is mapped: its room is free when nobody refers to the table any more.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from waterclock.compute.kernels.linear import negate
from waterclock.persist.spill import Spill

_BATCH_ROWS = 1 << 17


def summed(parts: Sequence[tuple[pa.Table, bool]], folder: Path) -> pa.Table:
    """The sum of tables of one schema, each with whether it counts positively."""
    schema = parts[0][0].schema
    rows = sum(table.num_rows for table, _ in parts)
    size = sum(table.nbytes for table, _ in parts)
    folder.mkdir(parents=True, exist_ok=True)
    with Spill(schema, rows, size, folder=folder) as spill:
        for table, positive in parts:
            for batch in table.to_batches(_BATCH_ROWS):
                piece = pa.Table.from_batches([batch])
                for signed in (piece if positive else negate(piece)).to_batches():
                    spill.add(signed)
        return filed(spill.tables(), schema, folder)


def filed(tables: Iterable[pa.Table], schema: pa.Schema, folder: Path) -> pa.Table:
    """The tables as one, which is in a file."""
    with tempfile.NamedTemporaryFile(dir=folder, prefix="sum-", suffix=".arrow") as file:
        with pa.OSFile(file.name, "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
            for table in tables:
                writer.write_table(table, _BATCH_ROWS)
        with pa.memory_map(file.name) as source, pa.ipc.open_file(source) as reader:
            return reader.read_all()
