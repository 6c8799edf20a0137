"""The envelope MATERIALIZE: updates say their times, and statements say when all are there.

Updates may come several times and in any order, and so may statements. An update that has come is
held until a statement covers its time and as many different updates are there as it says; then all
times before the statement's upper are complete, and what happened in them is seen at once, at the
time of the binding. Updates at times that are complete have been seen, and are dropped.

If the output is on a timeline of its own, updates stay at the times that they say of themselves,
and the output is complete as far as the statements are.

What is held is noted. Statements that contradict the updates, or each other, are errors of the
source: nothing that can come later would make them right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.consolidate import row_codes
from waterclock.persist.rows import DIFF, TIME
from waterclock.storage.envelopes.materialize_messages import PROGRESS, UPDATES
from waterclock.storage.envelopes.noting import noted, noted_rows, rows_noted
from waterclock.storage.envelopes.plain import where
from waterclock.storage.sources.api import (
    ERROR,
    OFFSET,
    Changes,
    ErrorUpdate,
    Messages,
    Standing,
)
from waterclock.storage.sources.errors import SourceFault

AT = "mz_at"
"""The time that an update says of itself."""
END = 2**62
"""Times of a timeline of its own are before this one."""


class Statement(msgspec.Struct, frozen=True):
    """From `lower` on and before `upper`, there are so many updates at each time, and no others."""

    lower: int
    upper: int | None
    counts: tuple[tuple[int, int], ...] = ()

    def has_passed(self, time: int) -> bool:
        return self.upper is None or time < self.upper


class Course(msgspec.Struct):
    """How far everything is complete (None: for good), and the statements that wait."""

    complete_to: int | None = 0
    waiting: list[Statement] = []
    next_note: int = 0


class Materialize:
    """Implements `sources.api.Envelope` for messages as `MaterializeDecoding` makes them."""

    def __init__(self, rows: pa.Schema, *, keeps_times: bool = False) -> None:
        """`rows` is the schema of the output's rows."""
        self._keeps_times = keeps_times
        fields = [field.with_nullable(True) for field in rows]
        ends = [pa.field(AT, pa.int64()), pa.field(DIFF, pa.int64(), nullable=False)]
        self._schema = pa.schema([*fields, *ends])
        self._course = Course()
        self._held = self._schema.empty_table()
        self._notes: list[str] = []

    def resume(self, standing: Standing) -> None:
        notes = dict(standing.notes())
        course = notes.pop("course", None)
        self._course = Course(0, []) if course is None else msgspec.json.decode(course, type=Course)
        self._notes = sorted(notes)
        held = [rows_noted(notes[note]).cast(self._schema) for note in self._notes]
        self._held = pa.concat_tables([self._schema.empty_table(), *held])

    @property
    def has_ended(self) -> bool:
        """Whether a statement has said that nothing comes any more."""
        return self._course.complete_to is None

    def changes(self, messages: Sequence[Messages]) -> Changes:
        began = self._course.complete_to
        errors: list[ErrorUpdate] = []
        new = self._schema.empty_table()
        for each in messages:
            errors += _wrong(each)
            new = pa.concat_tables([new, self._updates(each.batch)])
            self._course.waiting += _statements(each.batch)
        was_held = self._held.num_rows
        self._held = self._distinct(pa.concat_tables([self._held, new]))
        fresh = self._held.slice(was_held)
        released = self._advance()
        if not messages:
            return Changes(complete_to=(began or 0) if self._keeps_times else None)
        notes = self._noted(fresh, rewritten=released is not None)
        if self._keeps_times:
            return self._at_own_times(released, errors, notes)
        rows = () if released is None else released.drop_columns([AT]).to_batches()
        return Changes(list(rows), errors, notes)

    def _at_own_times(
        self,
        released: pa.Table | None,
        errors: Sequence[ErrorUpdate],
        notes: Mapping[str, bytes | None],
    ) -> Changes:
        """The changes at the times that the messages say; at the end these go as far as needed."""
        rows, end = [], self._course.complete_to or 0
        if released is not None and released.num_rows:
            names = [TIME if name == AT else name for name in released.column_names]
            rows = released.rename_columns(names).to_batches()
            end = max(end, pc.max(released[AT]).as_py() + 1)
        return Changes(rows, errors, notes, complete_to=min(end, END))

    def _updates(self, batch: pa.RecordBatch) -> pa.Table:
        """The updates in messages, one row for each."""
        structs = batch.column(UPDATES).flatten()
        parts = dict(zip(structs.type.names, structs.flatten(), strict=True))
        data = parts["data"]
        is_row = len(self._schema) > 3 or pa.types.is_struct(data.type)
        columns = data.flatten() if is_row else [data]
        arrays = [*columns, parts["time"], parts["diff"]]
        if self._keeps_times:
            _require_times(parts["time"])
        return pa.Table.from_arrays(arrays, schema=self._schema)

    def _distinct(self, table: pa.Table) -> pa.Table:
        """Each update once, those held before first, without what is complete."""
        if self._course.complete_to is None:
            return self._schema.empty_table()
        codes = row_codes(table.columns, table.num_rows)
        _, first = np.unique(codes, return_index=True)
        times = table.column(AT).to_numpy()
        kept = np.sort(first)
        return table.take(pa.array(kept[times[kept] >= self._course.complete_to]))

    def _advance(self) -> pa.Table | None:
        """Go as far as statements let us; what happened on the way, None if they do not."""
        began = self._course.complete_to
        while (found := self._next()) is not None:
            self._course.complete_to = found.upper
            if found.upper is None:
                break
        end = self._course.complete_to
        self._course.waiting = [s for s in self._course.waiting if not self._is_over(s)]
        if end == began:
            return None
        times = self._held.column(AT).to_numpy()
        is_over = np.ones(len(times), np.bool_) if end is None else times < end
        released = self._held.filter(pa.array(is_over))
        self._held = self._held.filter(pa.array(~is_over))
        return released

    def _next(self) -> Statement | None:
        """A statement that says what happens next, and whose updates are all there."""
        at = self._course.complete_to
        if at is None:
            return None
        times, counts = np.unique(self._held.column(AT).to_numpy(), return_counts=True)
        there = dict(zip(times.tolist(), counts.tolist(), strict=True))
        for statement in self._course.waiting:
            if statement.lower <= at and statement.has_passed(at):
                said = dict(statement.counts)
                asked = {t for t in (*said, *there) if t >= at and statement.has_passed(t)}
                if any(there.get(t, 0) > said.get(t, 0) for t in asked):
                    raise SourceFault(
                        "there are more updates than the statement of progress says",
                        detail=f"It is about the times from {statement.lower} on.",
                    )
                if all(there.get(t, 0) == said.get(t, 0) for t in asked):
                    return statement
        return None

    def _is_over(self, statement: Statement) -> bool:
        end = self._course.complete_to
        return end is None or (statement.upper is not None and statement.upper <= end)

    def _noted(self, fresh: pa.Table, *, rewritten: bool) -> dict[str, bytes | None]:
        """What has to be remembered: what is new, or all that is left."""
        notes: dict[str, bytes | None] = {}
        if rewritten:
            notes |= dict.fromkeys(self._notes)
            self._notes = []
            fresh = self._held
        if fresh.num_rows:
            note = f"held/{self._course.next_note:012d}"
            self._course.next_note += 1
            self._notes.append(note)
            notes[note] = noted_rows(fresh)
        notes["course"] = noted(self._course)
        return notes


def _wrong(messages: Messages) -> list[ErrorUpdate]:
    texts = messages.batch.column(ERROR).to_pylist()
    offsets = messages.batch.column(OFFSET).to_pylist()
    pairs = zip(texts, offsets, strict=True)
    return [ErrorUpdate(where(messages, o), text, 1) for text, o in pairs if text is not None]


def _require_times(times: pa.Array) -> None:
    """Raise `SourceFault` unless these can be times of a timeline."""
    for time in pc.min_max(times).values():
        if time.is_valid and not 0 <= time.as_py() < END:
            raise SourceFault(
                f"an update is at {time}, which is not a time",
                detail=f"Times are numbers from 0 to {END - 1}.",
            )


def _statements(batch: pa.RecordBatch) -> list[Statement]:
    found = []
    for said in batch.column(PROGRESS).to_pylist():
        if said is not None:
            lower, upper = said["lower"], said["upper"]
            counts = tuple((each["time"], each["count"]) for each in said["counts"] or ())
            found.append(Statement(min(lower), min(upper) if upper else None, counts))
    return found
