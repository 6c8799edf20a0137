"""The Python stages of a tick's job.

A stage takes the whole stream, runs the operators of its level, and passes on what later levels
need. It writes the new rows of each arrangement as runs before it hands anything out; they count
once the tick is committed. Run again, it writes the same runs again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from waterclock.compute.arrangement.cover import EVERY_HASH, Cover
from waterclock.compute.arrangement.trace import Trace
from waterclock.compute.arrangement.writing import write_run
from waterclock.compute.dataflow.operators import StageOperator
from waterclock.compute.dataflow.stream import Tables, nullable, packed, unpacked
from waterclock.compute.dataflow.tick import Inbox, Tick
from waterclock.compute.kernels.errors import ERROR_SCHEMA
from waterclock.compute.kernels.linear import negate, union

WRITTEN = "mz_written"
ERRORS = "mz_errors"
WRITTEN_SCHEMA = pa.schema([("arrangement", pa.string()), ("run", pa.string())])
REPORTS = {WRITTEN: WRITTEN_SCHEMA, ERRORS: nullable(ERROR_SCHEMA)}
"""Columns that every stream has: the runs that were written, and the errors' changes."""


@dataclass(frozen=True)
class Source:
    """The first stage: it brings the inputs' changes from the inbox into the stream."""

    inbox: Path
    columns: Mapping[str, pa.Schema]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        inbox = Inbox(self.inbox)
        tables = {name: inbox.delta(name, schema) for name, schema in self.columns.items()}
        yield from packed(tables, {**self.columns, **REPORTS})


@dataclass(frozen=True)
class Placed:
    """An operator in its place: where its inputs come from, where its output and state go.

    An input is a sum of columns of the stream, each with whether it counts positively.
    """

    operator: StageOperator
    inputs: tuple[tuple[tuple[str, bool], ...], ...]
    output: str
    arrangements: tuple[str, ...]


@dataclass(frozen=True)
class Stage:
    """All operators of a level."""

    inbox: Path
    state: Path
    operators: tuple[Placed, ...]
    incoming: Mapping[str, pa.Schema]
    outgoing: Mapping[str, pa.Schema]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tick = Inbox(self.inbox).tick()
        tables = unpacked(batches, self.incoming)
        for placed in self.operators:
            self._step(placed, tick, tables)
        passed = {name: tables[name] for name in self.outgoing}
        yield from packed(passed, self.outgoing)

    def _step(self, placed: Placed, tick: Tick, tables: Tables) -> None:
        deltas = [_sum(parts, tables) for parts in placed.inputs]
        operator = placed.operator
        with ExitStack() as stack:
            traces = [
                stack.enter_context(self._trace(name, layout_number, placed, tick))
                for layout_number, name in enumerate(placed.arrangements)
            ]
            stepped = operator.step(deltas, traces)
        output = [stepped.output]
        initial = operator.initial(tick.lower) if tick.first else None
        if initial is not None:
            output.append(initial)
        tables[placed.output] = _as(union(output), self.outgoing[placed.output])
        tables[ERRORS] = pa.concat_tables([tables[ERRORS], _as(stepped.errors, REPORTS[ERRORS])])
        for place, rows in enumerate(stepped.arranged):
            self._write(placed, place, rows, tick, tables)

    def _trace(self, name: str, place: int, placed: Placed, tick: Tick) -> Trace:
        covers = [_cover(run) for run in tick.runs.get(name, ())]
        return Trace.open(self.state / name, placed.operator.layouts[place], covers)

    def _write(
        self, placed: Placed, place: int, rows: pa.Table, tick: Tick, tables: Tables
    ) -> None:
        name = placed.arrangements[place]
        cover = Cover(tick.lower, tick.upper, EVERY_HASH)
        run = write_run(self.state / name, placed.operator.layouts[place], cover, rows)
        if run is not None:
            note = pa.table([[name], [cover.name]], schema=WRITTEN_SCHEMA)
            tables[WRITTEN] = pa.concat_tables([tables[WRITTEN], note])


def _cover(name: str) -> Cover:
    cover = Cover.try_parse(name)
    assert cover is not None, f"{name} does not name a run"
    return cover


def _sum(parts: Sequence[tuple[str, bool]], tables: Tables) -> pa.Table:
    return union([tables[n] if positive else negate(tables[n]) for n, positive in parts])


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the columns that the stream has for it."""
    return table.rename_columns(schema.names).cast(schema)
