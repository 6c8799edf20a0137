"""UPDATE: the old rows, and the new values of some columns beside them, found by one query.

With FROM, an old row may find several partners, and takes the values of one of them: the least, so
that it is always the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Container, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Response, StatementDescription
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.sequencer.composing import Composed, Part, clause, composed
from waterclock.adapter.sequencer.queries import evaluated, planned
from waterclock.adapter.sequencer.writing import (
    TRIES,
    Parameters,
    answer,
    check_nulls,
    described_returning,
    has_landed,
    in_table,
    keep,
    places_of,
    target_of,
    writable,
)
from waterclock.catalog.objects import Privilege, Relation
from waterclock.model.errors import DuplicateColumn
from waterclock.model.pg_types import PgType
from waterclock.sql import ast
from waterclock.sql.ast.changes import RowAssignment
from waterclock.sql.ast.common import DefaultValue, QueryText
from waterclock.sql.binding.errors import located
from waterclock.sql.quoting import quote_ident

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Key = tuple[object, ...]


async def update(session: SqlSession, statement: ast.Update, parameters: Parameters) -> Response:
    table = writable(session, statement.table, Privilege.UPDATE)
    query, places = update_query(table, statement)

    async def changed() -> tuple[pa.Table, pa.Table]:
        types = _types(table, places)
        with query.tracing():
            plan = planned(session, query.query, parameters=parameters, target_types=types)
        found = await evaluated(session, plan)
        if statement.from_items is not None:
            found = await _once_each(session, table, statement, found)
        old = in_table(table, found.columns[: len(table.columns)])
        columns = list(old.columns)
        for place, column in zip(places, found.columns[len(table.columns) :], strict=True):
            columns[place] = column
        return old, in_table(table, columns)

    for attempt in range(TRIES):
        old, new = await changed()
        check_nulls(session, table, new)
        keep(session, table, old, -1, "UPDATE")
        keep(session, table, new, 1, "UPDATE")
        if await has_landed(session, attempt):
            break
    return await answer(session, table, statement, new, f"UPDATE {new.num_rows}")


async def describe_update(
    session: SqlSession, statement: ast.Update, types: Sequence[PgType | None]
) -> StatementDescription:
    """The types of the parameters: those of the columns that they go into, where that is said."""
    table = writable(session, statement.table, Privilege.SELECT)
    query, places = update_query(table, statement)
    with query.tracing():
        plan = planned(session, query.query, types=types, target_types=_types(table, places))
    return StatementDescription(plan.bound.parameters, described_returning(session, statement))


def update_query(table: Relation, statement: ast.Update) -> tuple[Composed, list[int]]:
    """The old rows and the new values of the columns assigned, and which columns these are."""
    places: list[int] = []
    values: list[Part] = []
    for assignment in statement.assignments:
        if isinstance(assignment, RowAssignment):
            raise Unsupported(
                "assigning a row from a subquery is not supported",
                hint="Assign each column from a subquery of its own, or use UPDATE ... FROM.",
            )
        [place] = places_of(table, [assignment.column])
        if place in places:
            name = assignment.column.name
            told = f'multiple assignments to same column "{name}"'
            raise located(DuplicateColumn(told), assignment.column.position)
        places.append(place)
        value = assignment.value
        if isinstance(value, DefaultValue):
            values += [", (", table.columns[place].default or "NULL", ")"]
        else:
            values += [", (", value, ")"]
    name = quote_ident(statement.alias or statement.table.parts[-1])
    query = composed(
        *clause("", statement.ctes),
        f" SELECT {name}.*",
        *values,
        f" FROM {target_of(statement)}",
        *clause(", ", statement.from_items),
        *clause(" WHERE ", statement.where),
    )
    return query, places


def _types(table: Relation, places: Sequence[int]) -> list[PgType]:
    """Of the columns of `update_query`."""
    return [*(c.type for c in table.columns), *(table.columns[place].type for place in places)]


async def _once_each(
    session: SqlSession, table: Relation, statement: ast.Update, found: pa.Table
) -> pa.Table:
    """What was found, with one partner for each old row, as often as that row is there."""
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


async def _counts(
    session: SqlSession, statement: ast.Update, wanted: Container[Key]
) -> Counter[Key]:
    """How often each of the old rows is there."""
    plan = planned(session, QueryText(f"SELECT * FROM {target_of(statement)}", 1))
    rows = await evaluated(session, plan)
    keys = (_key(row) for row in zip(*(c.to_pylist() for c in rows.columns), strict=True))
    return Counter(key for key in keys if key in wanted)


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Update: update}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Update: describe_update
}
