"""The Python stages of a tick's job.

A stage takes the whole stream, runs the operators of its level, and passes on what later levels
need. It writes the new rows of each arrangement as runs before it hands anything out; they count
once the tick is committed. Run again, it writes the same runs again. A run begins where the last
one ended, maybe some steps ago, so that there is no gap between them (see `arrangement.cover`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from waterclock.compute.dataflow.exchange import COLUMN, Outgoing, delivered
from waterclock.compute.dataflow.operators import StageOperator, TemporalOperator
from waterclock.compute.dataflow.sending import SENT, Sending, picked, task_numbers
from waterclock.compute.dataflow.shape import Shape
from waterclock.compute.dataflow.stream import (
    ERRORS,
    SOURCE,
    Tables,
    blamed,
    nullable,
    packed,
    unpacked,
)
from waterclock.compute.dataflow.tick import Inbox, Tick
from waterclock.compute.kernels.errors import ERROR_SCHEMA
from waterclock.compute.kernels.linear import condensed, negate, union
from waterclock.compute.kernels.step import Window
from waterclock.compute.kernels.versions import VERSION
from waterclock.persist.arrangement.cover import EVERY_HASH, Cover, partitions
from waterclock.persist.arrangement.files import Settling
from waterclock.persist.arrangement.layout import Layout
from waterclock.persist.arrangement.trace import Trace
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.blob.api import Blob

WRITTEN = "mz_written"
WRITTEN_SCHEMA = pa.schema([("arrangement", pa.string()), ("run", pa.string())])
REPORTS = {
    WRITTEN: Shape(WRITTEN_SCHEMA),
    ERRORS: Shape(nullable(ERROR_SCHEMA.insert(0, pa.field(SOURCE, pa.string())))),
}
"""Columns that every stream has: the runs that were written, and the errors' changes."""


@dataclass(frozen=True)
class Source:
    """Where the inputs' changes come from: the inbox, or the blobs that are listed there."""

    columns: Mapping[str, pa.Schema]
    blob: Blob | None
    parts: int = 1

    def tables(self, inbox: Inbox, name: str) -> Iterator[pa.Table]:
        """This task's part of an input's changes, in pieces."""
        schema, part = self.columns[name], _task(self.parts)
        yield inbox.delta(name, schema, part)
        for batch in inbox.contents(name, schema, self.blob, part, self.parts):
            yield pa.Table.from_batches([batch])


@dataclass(frozen=True)
class First:
    """The first stage while all rows are in one place: it runs the operators of level 0 too."""

    source: Source
    stage: Stage

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        inbox = Inbox.of_task(self.stage.inbox)
        tables = {name: shape.updates.empty_table() for name, shape in REPORTS.items()}
        for name in self.source.columns:
            tables[name] = pa.concat_tables(self.source.tables(inbox, name))
        yield from self.stage.run(inbox, tables)


@dataclass(frozen=True)
class Spread:
    """The first stage of work that is spread over many tasks: it sends rows off, piece by piece."""

    inbox: Path
    source: Source
    outgoing: Mapping[str, pa.Schema]
    sending: Sending

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        inbox = Inbox.of_task(self.inbox)
        sent = self.sending.begin(inbox.folder)
        for name in self.source.columns:
            for table in self.source.tables(inbox, name):
                left = self.sending.add({name: table}, sent)
                if name in self.outgoing:
                    left[name] = table
                yield from packed(left, self.outgoing)
        yield from packed({SENT: pa.Table.from_batches([sent.close()])}, self.outgoing)


@dataclass(frozen=True)
class Placed:
    """An operator in its place: where its inputs come from, where its output and state go.

    An input is a sum of columns of the stream, each with whether it counts positively.
    """

    operator: StageOperator
    inputs: tuple[tuple[tuple[str, bool], ...], ...]
    output: str
    schema: pa.Schema
    arrangements: tuple[str, ...]
    firsts: tuple[str, ...]
    """For each arrangement the first one that gets the same rows: itself, or another."""
    twins: tuple[tuple[str, ...], ...] = ()
    """The arrangements of other views' operators that do just the same, and need not run."""

    def does_the_same_as(self, other: Placed) -> bool:
        """Whether state and output of both are the same.

        State is a function of what was taken in before, whenever that was and in whatever steps.
        """
        mine, theirs = (self.operator, self.inputs), (other.operator, other.inputs)
        return mine == theirs and self.schema == other.schema


@dataclass(frozen=True)
class Picked:
    """Some columns of a base, under another name; only the rows that have no null in some."""

    output: str
    source: str
    places: tuple[int, ...]
    present: tuple[int, ...]
    schema: pa.Schema

    def of(self, tables: Tables) -> pa.Table:
        return picked(tables[self.source], self.places, self.present, self.schema)


@dataclass(frozen=True)
class Route:
    """An operator's input as a column of its own, and the columns by which it is divided."""

    column: str
    input: tuple[tuple[str, bool], ...]
    keys: tuple[str, ...] | None


@dataclass(frozen=True)
class Router:
    """The stage before a shuffle: it sends each row to the task that has to get it."""

    inbox: Path
    routes: tuple[Route, ...]
    arriving: frozenset[str]
    """The operators' inputs that are for the next stage: what was sent to them goes there now."""
    incoming: Mapping[str, Shape]
    outgoing: Mapping[str, pa.Schema]
    parts: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        here = _task(self.parts)
        sent = Outgoing(Inbox.of_task(self.inbox).folder, self.outgoing)
        arriving = pa.array(sorted(self.arriving), pa.string())
        for batch in batches:
            tables = unpacked([batch], self.incoming)
            for route in self.routes:
                table = condensed(_all(route.input, tables))
                sent.add(
                    route.column,
                    _as(table, self.outgoing[route.column]),
                    task_numbers(table, route.keys, self.parts),
                )
            due = pc.is_in(tables[SENT][COLUMN], value_set=arriving)
            yield from tables[SENT].filter(due).to_batches()
            tables[SENT] = tables[SENT].filter(pc.invert(due))
            for name in self.outgoing:
                if name in tables:
                    table = tables[name]
                    sent.add(name, table, np.full(table.num_rows, here))
        yield sent.close()


@dataclass(frozen=True)
class Stage:
    """All operators of a level, each after those whose output it takes in as it is."""

    inbox: Path
    state: Path
    operators: tuple[Placed | Picked, ...]
    incoming: Mapping[str, Shape]
    outgoing: Mapping[str, pa.Schema]
    sending: Sending
    parts: int = 1

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        inbox = Inbox.of_task(self.inbox)
        if self.parts == 1:
            tables = unpacked(batches, self.incoming)
        else:
            schemas = {name: shape.updates for name, shape in self.incoming.items()}
            tables = delivered(batches, inbox.folder, schemas)
        yield from self.run(inbox, tables)

    def run(self, inbox: Inbox, tables: Tables) -> Iterator[pa.RecordBatch]:
        """Run the operators over what has come, which is added to; and what leaves the stage."""
        tick = inbox.tick()
        written: list[tuple[str, str]] = []
        with Settling() as settling:
            for each in self.operators:
                if isinstance(each, Picked):
                    tables[each.output] = each.of(tables)
                else:
                    written += self._step(each, tick, tables, settling)
        if written:
            notes = pa.table(list(zip(*written, strict=True)), schema=WRITTEN_SCHEMA)
            tables[WRITTEN] = pa.concat_tables([tables[WRITTEN], notes])
        if self.sending.sends:
            sent = self.sending.begin(inbox.folder)
            tables |= self.sending.add(tables, sent)
            notes = pa.Table.from_batches([sent.close()])
            tables[SENT] = pa.concat_tables([tables[SENT], notes])
        passed = {name: tables[name] for name in self.outgoing}
        yield from packed(passed, self.outgoing)

    def _step(
        self, placed: Placed, tick: Tick, tables: Tables, settling: Settling
    ) -> list[tuple[str, str]]:
        """Let an operator do its step; gives the names of the runs that it wrote."""
        operator = placed.operator
        deltas = [_all(parts, tables) for parts in placed.inputs]
        if isinstance(operator, TemporalOperator):
            operator = operator.during(Window(tick.lower, tick.upper))
        layouts = operator.layouts
        with ExitStack() as stack:
            traces = [
                stack.enter_context(self._trace(name, layout, tick))
                for name, layout in zip(placed.arrangements, layouts, strict=True)
            ]
            stepped = operator.step(deltas, traces)
        output = stepped.output
        part = _task(self.parts)
        initial = operator.initial(tick.lower) if tick.first and part == 0 else None
        if initial is not None:
            output = union([output, initial])
        if VERSION in output.column_names:  # tasks number their versions alike
            output = _apart(output, part)
        tables[placed.output] = _as(output, placed.schema)
        if stepped.errors.num_rows:
            errors = _as(blamed(stepped.errors, placed.output), REPORTS[ERRORS].updates)
            tables[ERRORS] = pa.concat_tables([tables[ERRORS], errors])
        return [
            (name, cover.name)
            for place, (layout, rows) in enumerate(zip(layouts, stepped.arranged, strict=True))
            for name, cover in self._write(
                placed, place, layout, rows, tick, settling, is_consolidated=stepped.is_consolidated
            )
        ]

    def _trace(self, name: str, layout: Layout, tick: Tick) -> Trace:
        covers = [_cover(run) for run in tick.state[name].runs]
        return Trace.open(self.state / name, layout, covers)

    def _write(
        self,
        placed: Placed,
        place: int,
        layout: Layout,
        rows: pa.Table,
        tick: Tick,
        settling: Settling,
        *,
        is_consolidated: bool,
    ) -> Iterator[tuple[str, Cover]]:
        """Write the new rows of an arrangement, and of its twins; gives what was written.

        If they are in another one already, under a name that is the same here, it is one file.
        """
        if not rows.num_rows:
            return
        is_divided = self.parts > 1 and placed.operator.routes is not None
        hashes = partitions(self.parts)[_task(self.parts)] if is_divided else EVERY_HASH
        first = placed.firsts[place]
        for name in (names[place] for names in (placed.arrangements, *placed.twins)):
            folder = self.state / name
            cover = Cover(tick.state[name].tip, tick.upper, hashes)
            is_there = name != first and tick.state[first].tip == cover.lower
            if (is_there and settling.try_link(self.state / first, folder, cover)) or write_run(
                folder, layout, cover, rows, is_consolidated=is_consolidated, settling=settling
            ):
                yield name, cover


def _task(parts: int) -> int:
    """The number of this task among those of its stage."""
    if parts == 1:
        return 0
    context = TaskContext.get()
    assert context is not None, "a stage runs in a task"
    return context.partitionId()


def _apart(versions: pa.Table, part: int) -> pa.Table:
    """The versions under numbers that no other task has."""
    place = versions.schema.get_field_index(VERSION)
    numbers = pc.add(versions[VERSION], part << 40)
    return versions.set_column(place, versions.schema.field(place), numbers)


def _cover(name: str) -> Cover:
    cover = Cover.try_parse(name)
    assert cover is not None, f"{name} does not name a run"
    return cover


def _all(parts: Sequence[tuple[str, bool]], tables: Tables) -> pa.Table:
    """All updates of a sum, as they are: kernels add up those of the same row themselves."""
    return pa.concat_tables(_signed(parts, tables)).combine_chunks()


def _signed(parts: Sequence[tuple[str, bool]], tables: Tables) -> list[pa.Table]:
    return [tables[name] if positive else negate(tables[name]) for name, positive in parts]


def _as(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with exactly the columns that the stream has for it."""
    return table.rename_columns(schema.names).cast(schema)
