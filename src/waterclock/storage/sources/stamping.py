"""Changes of a source's outputs as updates at the time of their binding.

Rows, errors and notes each go to a collection of their own. An output on a timeline of its own has
rows that know their times. Notes are a map that is held as rows:
what is noted anew takes the place of what was noted before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.rows import DIFF, TIME
from waterclock.persist.rows import updates as update_rows
from waterclock.storage.api import ERROR_ROWS
from waterclock.storage.sources.api import STATE_ROWS, Changes, ErrorUpdate

SOURCE_WIDE = ""
"""The output under which a source's own notes are, those of its grouping."""


def stamped(changes: Sequence[pa.RecordBatch], time: int) -> pa.Table | None:
    """Rows with diffs as updates at the time; None if there are none."""
    filled = [batch for batch in changes if batch.num_rows]
    if not filled:
        return None
    table = pa.Table.from_batches(filled)
    place = table.schema.get_field_index(DIFF)
    assert place == table.num_columns - 1, "the diff comes last"
    times = pa.repeat(pa.scalar(time, pa.int64()), table.num_rows)
    return table.add_column(place, pa.field(TIME, pa.int64(), nullable=False), times)


def stamped_errors(errors: Sequence[ErrorUpdate], time: int) -> pa.Table | None:
    """Errors as updates at the time; None if there are none."""
    if not errors:
        return None
    triples = [((each.key, each.message), time, each.diff) for each in errors]
    return pa.Table.from_batches([update_rows(ERROR_ROWS, triples)])


def own_times(changes: Changes, upper: int) -> tuple[pa.Table | None, pa.Table | None, int]:
    """Rows and errors of an output on a timeline of its own, and its new upper, given the old one.

    An error has no time. It is at the first one that is not complete, and from there on there is no
    value; so that it is seen, that time is complete with it. What comes for it later does not
    matter to anybody and is moved behind.
    """
    assert changes.complete_to is not None, "an output with times of its own tells how far it is"
    filled = [batch for batch in changes.rows if batch.num_rows]
    rows, end = None, max(changes.complete_to, upper)
    if filled:
        rows = pa.Table.from_batches(filled)
        place = rows.schema.get_field_index(TIME)
        times = pc.max_element_wise(rows[TIME], upper)
        rows = rows.set_column(place, pa.field(TIME, pa.int64(), nullable=False), times)
        end = max(end, pc.max(times).as_py() + 1)
    errors = stamped_errors(changes.errors, end)
    return rows, errors, end if errors is None else end + 1


class SourceNotes:
    """Everything that a source has noted, by output and key."""

    def __init__(self, batches: Iterable[pa.RecordBatch] = ()) -> None:
        """From the contents of the collection, as updates."""
        held: dict[tuple[str, str, bytes], int] = {}
        for batch in batches:
            outputs, keys, values, _, diffs = (column.to_pylist() for column in batch.columns)
            for output, key, value, diff in zip(outputs, keys, values, diffs, strict=True):
                held[output, key, value] = held.get((output, key, value), 0) + diff
        assert all(count in (0, 1) for count in held.values()), "a note is there once"
        self._notes: dict[str, dict[str, bytes]] = {}
        for (output, key, value), count in held.items():
            if count:
                self._notes.setdefault(output, {})[key] = value

    def copy(self) -> SourceNotes:
        """The same notes, to be changed apart from these."""
        made = SourceNotes()
        made._notes = {output: dict(held) for output, held in self._notes.items()}
        return made

    def of(self, output: str) -> dict[str, bytes]:
        """The notes of an output."""
        return dict(self._notes.get(output, {}))

    def change(
        self, changes: Mapping[str, Mapping[str, bytes | None]], time: int
    ) -> pa.Table | None:
        """Note what is new; the updates that say so, None if there are none."""
        triples: list[tuple[tuple[str, str, bytes], int, int]] = []
        for output, given in changes.items():
            held = self._notes.setdefault(output, {})
            for key, value in given.items():
                known = held.pop(key, None)
                if known is not None and known != value:
                    triples.append(((output, key, known), time, -1))
                if value is not None:
                    held[key] = value
                if value is not None and known != value:
                    triples.append(((output, key, value), time, 1))
        return pa.Table.from_batches([update_rows(STATE_ROWS, triples)]) if triples else None
