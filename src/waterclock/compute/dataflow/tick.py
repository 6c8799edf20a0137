"""What a tick's stages must know, and how it reaches them.

The job of a tick is planned once and run every time, so nothing that changes from tick to tick can
be in the plan. It is in an *inbox* instead: a folder that all executors can read, with the inputs'
changes and a small record of the window and of the runs that make up each arrangement. The driver
writes it before it runs the job.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pyarrow as pa


class Tick(msgspec.Struct, frozen=True):
    """One step: the window of times, and the state it begins from."""

    lower: int
    upper: int
    first: bool
    """Whether nothing was computed before: constants and initial rows are emitted."""
    runs: dict[str, tuple[str, ...]]
    """For each arrangement, by the name of its folder, the names of its runs."""


class Inbox:
    """A folder that the driver fills and the stages read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, tick: Tick, deltas: Mapping[str, pa.Table]) -> None:
        """Make this the tick that the next run of the job works on."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for old in self.folder.glob("*.arrow"):
            old.unlink()
        for name, table in deltas.items():
            with (
                pa.OSFile(str(self.folder / f"{name}.arrow"), "wb") as sink,
                pa.ipc.new_file(sink, table.schema) as writer,
            ):
                writer.write_table(table)
        fresh = self.folder / "tick.new"
        fresh.write_bytes(msgspec.msgpack.encode(tick))
        os.replace(fresh, self.folder / "tick")

    def tick(self) -> Tick:
        return msgspec.msgpack.decode((self.folder / "tick").read_bytes(), type=Tick)

    def delta(self, name: str, schema: pa.Schema, part: int = 0, parts: int = 1) -> pa.Table:
        """The changes of an input in the tick's window, or one of several equal parts of them."""
        path = self.folder / f"{name}.arrow"
        if not path.exists():
            return schema.empty_table()
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            rows = reader.read_all()
        first, last = (rows.num_rows * bound // parts for bound in (part, part + 1))
        return rows.slice(first, last - first).rename_columns(schema.names).cast(schema)
