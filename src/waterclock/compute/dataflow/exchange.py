"""How rows get from the tasks of one stage to those of the next, when there are many.

Rows that travel through Spark's shuffle are made of Arrow into Spark's form and back again, one by
one, twice. So they do not: a task writes what is for another as an Arrow file into the run's inbox,
which all executors can read, and only a *note* of it, the file's name, goes through the shuffle.
The shuffle keeps what it is good for: no task begins before all it needs has been written.

A file has a name that is never used again, so a task that is run twice writes others, and only
those whose notes arrive are read. All of them go with the inbox.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

COLUMN = "mz_column"
FILE = "mz_file"
PARTITION = "mz_partition"
"""The columns of a note: of which column of the stream the rows are, in which file, for whom."""
NOTES = pa.schema([(COLUMN, pa.string()), (FILE, pa.string()), (PARTITION, pa.int32())])


class Outgoing:
    """What one task writes for others: for each column of the stream and task, one file."""

    def __init__(self, folder: Path, schemas: Mapping[str, pa.Schema]) -> None:
        self._folder = folder
        self._schemas = schemas
        self._name = uuid.uuid4().hex
        self._writers: dict[tuple[str, int], pa.ipc.RecordBatchFileWriter] = {}

    def add(self, column: str, rows: pa.Table, numbers: np.ndarray) -> None:
        """Send each row to the task whose number stands in its place."""
        if not rows.num_rows:
            return
        first = int(numbers[0])
        if (numbers == first).all():
            self._writer(column, first).write_table(rows)
            return
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            part = rows.take(pa.array(np.flatnonzero(numbers == number)))
            self._writer(column, number).write_table(part)

    def close(self) -> pa.RecordBatch:
        """Finish the files; gives the notes of them."""
        notes = []
        for (column, number), writer in self._writers.items():
            writer.close()
            notes.append((column, self._file(column, number), number))
        self._writers.clear()
        columns = list(zip(*notes, strict=True)) or [(), (), ()]
        arrays = [
            pa.array(values, field.type) for values, field in zip(columns, NOTES, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=NOTES)

    def _file(self, column: str, number: int) -> str:
        return f"{self._name}-{column}-{number}.arrow"

    def _writer(self, column: str, number: int) -> pa.ipc.RecordBatchFileWriter:
        writer = self._writers.get((column, number))
        if writer is None:
            path = str(self._folder / self._file(column, number))
            writer = pa.ipc.new_file(path, self._schemas[column])
            self._writers[column, number] = writer
        return writer


def delivered(
    notes: Iterable[pa.RecordBatch], folder: Path, schemas: Mapping[str, pa.Schema]
) -> dict[str, pa.Table]:
    """The rows that the notes tell of, by column. They stay in the files, mapped into memory."""
    found: dict[str, list[pa.Table]] = {
        column: [schema.empty_table()] for column, schema in schemas.items()
    }
    for batch in notes:
        columns, files = (batch.column(batch.schema.get_field_index(n)) for n in (COLUMN, FILE))
        for column, file in zip(columns.to_pylist(), files.to_pylist(), strict=True):
            with pa.memory_map(str(folder / file)) as source, pa.ipc.open_file(source) as reader:
                found[column].append(reader.read_all())
    return {column: pa.concat_tables(tables) for column, tables in found.items()}
