"""How changes are shown to a subscriber: as diffs, or by key as upserts or before and after.

All forms begin with the time. With progress, a column tells rows from statements of progress, which
have a time and nothing else. Then, for diffs, the diff and the columns of the row; by key, the
state of the key after that time, its columns, and the others, once or twice.

By key, each key has one row for each time at which it changed. What changed is told from that
time's updates alone: one row that came is its new value, one that went without another coming means
that it was deleted, and anything else that there is not one row for the key, as there should be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.adapter.api import ColumnDescription
from waterclock.adapter.picking import in_order, kept
from waterclock.model.pg_types import BOOL, INT8, TEXT, column_type, numeric
from waterclock.persist.consolidate import consolidate
from waterclock.persist.rows import DIFF, TIME, arrow_type
from waterclock.sql.ast.queries import SubscribeForm
from waterclock.sql.binding import Comparison

_TIME_TYPE = numeric(20, 0)
"""A time as clients see it: a number that every driver knows."""
_PROGRESSED = "mz_progressed"
_STATE = "mz_state"


@dataclass(frozen=True, slots=True)
class Shape:
    """What a subscriber gets to see of a collection's updates."""

    columns: tuple[ColumnDescription, ...]
    """Of the row."""
    sources: tuple[str, ...]
    """The collection's columns that these are."""
    conditions: tuple[Comparison, ...] = ()
    progress: bool = False
    form: SubscribeForm = SubscribeForm.DIFFS
    key: tuple[int, ...] = ()
    """The places of the key's columns, for the forms that have one."""
    order: tuple[tuple[int | None, bool, bool], ...] = ()
    """Within a time: the place of a column, or None for the diff; descending; nulls first."""

    @property
    def needed(self) -> tuple[str, ...]:
        """The collection's columns that have to be read."""
        return tuple(dict.fromkeys([*self.sources, *(c.column for c in self.conditions)]))

    @property
    def described(self) -> tuple[ColumnDescription, ...]:
        """All columns, as clients are told of them."""
        head = [ColumnDescription(TIME, _TIME_TYPE)]
        if self.progress:
            head.append(ColumnDescription(_PROGRESSED, BOOL))
        if self.form is SubscribeForm.DIFFS:
            return (*head, ColumnDescription(DIFF, INT8), *self.columns)
        keys = [self.columns[place] for place in self.key]
        values = [self.columns[place] for place in self._values]
        if self.form is SubscribeForm.DEBEZIUM:
            values = [
                ColumnDescription(f"{when}_{column.name}", column.type)
                for when in ("before", "after")
                for column in values
            ]
        return (*head, ColumnDescription(_STATE, TEXT), *keys, *values)

    @property
    def _values(self) -> tuple[int, ...]:
        return tuple(place for place in range(len(self.columns)) if place not in self.key)

    def schema(self) -> pa.Schema:
        kinds = [arrow_type(column_type(column.type)) for column in self.described]
        return pa.schema([(f"c{place}", kind) for place, kind in enumerate(kinds)])

    def shown(self, updates: pa.Table) -> pa.Table:
        """Updates, in the order of their times, as the subscriber sees them."""
        rows = self._picked(updates)
        if self.form is SubscribeForm.DIFFS:
            rows = self._in_order(rows)
            shown = [rows[DIFF], *(rows[_name(place)] for place in range(len(self.columns)))]
            return self._with_head(rows[TIME], shown)
        return self._by_key(rows)

    def statement(self, time: int) -> pa.RecordBatch:
        """A statement of progress: nothing more comes before the time."""
        schema = self.schema()
        head = [pa.array([time], pa.int64()).cast(schema.field(0).type), pa.array([True])]
        rest = [pa.nulls(1, field.type) for field in list(schema)[2:]]
        return pa.RecordBatch.from_arrays([*head, *rest], schema=schema)

    def _picked(self, updates: pa.Table) -> pa.Table:
        """The columns shown, by place, of the rows for which the conditions hold, consolidated."""
        rows = kept(updates, self.conditions)
        columns = {_name(place): rows[name] for place, name in enumerate(self.sources)}
        picked = pa.table({**columns, TIME: rows[TIME], DIFF: rows[DIFF]})
        return consolidate(picked)

    def _in_order(self, rows: pa.Table) -> pa.Table:
        """By time, then as asked for; without that, what goes comes before what comes."""
        asked = [
            (DIFF if place is None else _name(place), descending, nulls_first)
            for place, descending, nulls_first in self.order
        ]
        keys = [(TIME, False, False), *(asked or [(DIFF, False, False)])]
        return rows.take(in_order(rows, keys))

    def _with_head(self, times: pa.ChunkedArray, shown: Sequence[pa.ChunkedArray]) -> pa.Table:
        schema = self.schema()
        head = [times.cast(schema.field(0).type)]
        if self.progress:
            head.append(pa.repeat(pa.scalar(False), len(times)))
        return pa.Table.from_arrays([*head, *shown], schema=schema)

    def _by_key(self, rows: pa.Table) -> pa.Table:
        keys = [_name(place) for place in self.key]
        groups = _Groups.of(rows, keys)
        values = [rows[_name(place)] for place in self._values]
        shown = [groups.states(debezium=self.form is SubscribeForm.DEBEZIUM)]
        shown += [groups.keys[name] for name in keys]
        if self.form is SubscribeForm.DEBEZIUM:
            shown += [column.take(groups.before) for column in values]
        shown += [column.take(groups.after) for column in values]
        return self._with_head(groups.keys[TIME], shown)


@dataclass(frozen=True, slots=True)
class _Groups:
    """The keys that changed, at each time, in the order of the times."""

    keys: pa.Table
    came: np.ndarray
    went: np.ndarray
    before: pa.Array
    """The place of the row that went, where there is one and only one; else null."""
    after: pa.Array

    @classmethod
    def of(cls, rows: pa.Table, keys: Sequence[str]) -> _Groups:
        diffs = rows[DIFF].to_numpy()
        places = np.arange(rows.num_rows)
        counted = (
            rows.select([TIME, *keys])
            .append_column("came", pa.array(np.maximum(diffs, 0)))
            .append_column("went", pa.array(np.maximum(-diffs, 0)))
            .append_column("after", pa.array(places, mask=diffs <= 0))
            .append_column("before", pa.array(places, mask=diffs >= 0))
            .group_by([TIME, *keys], use_threads=False)
            .aggregate([("came", "sum"), ("went", "sum"), ("after", "max"), ("before", "max")])
        ).sort_by(TIME)
        came = counted["came_sum"].to_numpy()
        went = counted["went_sum"].to_numpy()
        sound = (came <= 1) & (went <= 1)
        return cls(
            counted.select([TIME, *keys]),
            came,
            went,
            _only(counted["before_max"], sound),
            _only(counted["after_max"], sound),
        )

    def states(self, *, debezium: bool) -> pa.Array:
        sound = (self.came <= 1) & (self.went <= 1)
        came, went = self.came == 1, self.went == 1
        names = np.full(len(sound), "key_violation", dtype=object)
        names[sound & came & went] = "update" if debezium else "upsert"
        names[sound & came & ~went] = "insert" if debezium else "upsert"
        names[sound & ~came & went] = "delete"
        return pa.array(names, pa.string())


def _only(places: pa.ChunkedArray, sound: np.ndarray) -> pa.Array:
    chosen = pc.if_else(pa.array(sound), places, pa.scalar(None, pa.int64()))
    return chosen.combine_chunks() if isinstance(chosen, pa.ChunkedArray) else chosen


def _name(place: int) -> str:
    return f"r{place}"
