"""Rows that a change finds by joining: UPDATE ... FROM, DELETE ... USING.

An old row may find several partners, and is changed once, with the values of one of them: the
least, so that it is always the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.adapter.sequencer.evaluation import evaluated
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.adapter.sequencer.writing import target_of
from waterclock.catalog.objects import Relation
from waterclock.sql.ast.changes import Change
from waterclock.sql.ast.common import QueryText

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Key = tuple[object, ...]


async def once_each(
    session: SqlSession, table: Relation, statement: Change, found: pa.Table
) -> pa.Table:
    """What was found, with one partner for each old row, as often as that row is there.

    The first columns are those of the table.
    """
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    width = len(table.columns)
    least: dict[Key, tuple[Key, int]] = {}
    for place, row in enumerate(rows):
        partner = _key(row[width:])
        known = least.get(_key(row[:width]))
        if known is None or partner < known[0]:
            least[_key(row[:width])] = (partner, place)
    counts = await _counts(session, statement, least)
    places = [place for old, (_, place) in least.items() for _ in range(counts[old])]
    return found.take(pa.array(sorted(places), pa.int64()))


def _key(values: Sequence[object]) -> Key:
    """Something that can be compared, whatever the values are; a NaN is equal to itself."""
    return tuple(map(repr, values))


async def _counts(session: SqlSession, statement: Change, wanted: Container[Key]) -> Counter[Key]:
    """How often each of the old rows is there."""
    plan = await planned(session, QueryText(f"SELECT * FROM {target_of(statement)}", 1))
    rows = await evaluated(session, plan)
    keys = (_key(row) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True))
    return Counter(key for key in keys if key in wanted)
