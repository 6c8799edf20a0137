"""What a transaction reads after it has written: its moment, with its own changes added.

The changes are nowhere but in the transaction until it ends. So tables are read as they are at the
moment, and the changes of each are put on top; and a view over a table that was changed is computed
from its text, since what is maintained of it knows nothing of them (see `planning.Names`). The
answer is the one that a read right after the end would give, if nothing else happens in between;
and if something does, the end of the transaction is refused, as after any read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from waterclock.adapter.parts import evaluated_over
from waterclock.adapter.picking import picked
from waterclock.adapter.planning import Plan
from waterclock.adapter.reading import Moment
from waterclock.compute.snapshot import rows_of
from waterclock.model.ids import GlobalId
from waterclock.persist.consolidate import consolidate
from waterclock.persist.rows import DIFF, TIME

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_ANY_TIME = 0
_FIELDS = {name: pa.field(name, pa.int64(), nullable=False) for name in (TIME, DIFF)}


async def rows_with(
    session: SqlSession, plan: Plan, moment: Moment, own: Mapping[GlobalId, pa.Table]
) -> pa.Table:
    """The rows of a plan at the moment, with changes to some of what it reads."""
    reading, cancellation = session.front.reading, session.cancellation
    inputs = list(plan.inputs)
    await reading.complete(moment, inputs, cancellation)
    await reading.check_errors(moment, inputs, cancellation)
    contents: dict[GlobalId, pa.Table] = {}
    for each, schema in plan.inputs.items():
        rows = await reading.contents(moment, each, schema, cancellation)
        contents[each] = with_changes(rows, own[each]) if each in own else rows
    return await rows_over(session, plan, contents, moment.time)


async def rows_over(
    session: SqlSession, plan: Plan, contents: Mapping[GlobalId, pa.Table], time: int | None
) -> pa.Table:
    """The rows of a plan over the contents of what it reads, and over what it is given."""
    inputs = {**plan.inputs, **{each: given.schema for each, given in plan.given.items()}}
    contents = {**contents, **{each: given.rows for each, given in plan.given.items()}}
    simple = plan.bound.simple
    if simple is not None:
        return picked(contents[simple.source], simple)
    return await evaluated_over(session.front.reading, plan.bound, inputs, contents, time)


def with_changes(rows: pa.Table, changes: pa.Table) -> pa.Table:
    """Rows after changes, which are rows with diffs. A row that is there twice comes twice."""
    held = _stamped(rows.append_column(_FIELDS[DIFF], _ones(rows.num_rows)))
    changed = _stamped(changes.select([*rows.column_names, DIFF])).cast(held.schema)
    return rows_of(pa.concat_tables([held, changed]), _ANY_TIME)


def net(changes: pa.Table) -> pa.Table:
    """The same changes, without those that take each other back."""
    return consolidate(_stamped(changes)).select(changes.column_names)


def _stamped(changes: pa.Table) -> pa.Table:
    times = pa.repeat(pa.scalar(_ANY_TIME, pa.int64()), changes.num_rows)
    return changes.append_column(_FIELDS[TIME], times)


def _ones(count: int) -> pa.Array:
    return pa.array(np.ones(count, dtype=np.int64))
