"""UPDATE: the old rows, and the new values of some columns beside them, found by one query.

What RETURNING shows is part of that query too: it may name the relations in FROM.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from waterclock.adapter.api import Response, StatementDescription
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import NOTHING_GIVEN, AllGiven
from waterclock.adapter.sequencer.composing import Composed, Part, clause, composed
from waterclock.adapter.sequencer.evaluation import evaluated
from waterclock.adapter.sequencer.partners import once_each
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.adapter.sequencer.writing import (
    Changed,
    Parameters,
    check_nulls,
    described_shown,
    in_table,
    places_of,
    read_then_write,
    returned,
    target_of,
    writable,
)
from waterclock.catalog.objects import Privilege, Relation
from waterclock.model.errors import DuplicateColumn
from waterclock.model.pg_types import PgType
from waterclock.sql import ast
from waterclock.sql.ast.changes import RowAssignment
from waterclock.sql.ast.common import DefaultValue, Identifier
from waterclock.sql.binding.errors import located
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.query import parse_query, tree
from waterclock.sql.quoting import quote_ident

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


async def update(session: SqlSession, statement: ast.Update, parameters: Parameters) -> Response:
    changed = partial(updated, session, statement, parameters)
    return (await read_then_write(session, changed)).response()


async def updated(
    session: SqlSession,
    statement: ast.Update,
    parameters: Parameters,
    given: AllGiven = NOTHING_GIVEN,
) -> Changed:
    """The old rows and the new ones."""
    table = writable(session, statement.table, Privilege.UPDATE)
    query, places = await _query(session, table, statement)
    width = len(table.columns)
    with query.tracing():
        plan = await planned(
            session, query.query, parameters=parameters, assigned=places, given=given
        )
    found = await evaluated(session, plan)
    if statement.from_items is not None:
        found = await once_each(session, table, statement, found)
    old = in_table(table, found.columns[:width])
    values = list(old.columns)
    for place, column in zip(places, found.columns[width:], strict=False):
        values[place] = column
    new = in_table(table, values)
    check_nulls(session, table, new)
    columns, shown = returned(statement, plan, found, width + len(places))
    tag = f"UPDATE {new.num_rows}"
    return Changed(table, "UPDATE", tag, old, new, columns, shown)


async def describe_update(
    session: SqlSession,
    statement: ast.Update,
    types: Sequence[PgType | None],
    given: AllGiven = NOTHING_GIVEN,
) -> StatementDescription:
    """The types of the parameters: those of the columns that they go into, where that is said."""
    table = writable(session, statement.table, Privilege.SELECT)
    query, places = await _query(session, table, statement)
    with query.tracing():
        plan = await planned(session, query.query, types=types, assigned=places, given=given)
    shown = described_shown(statement, plan, len(table.columns) + len(places))
    return StatementDescription(plan.bound.parameters, shown)


async def _query(
    session: SqlSession, table: Relation, statement: ast.Update
) -> tuple[Composed, list[int]]:
    """What `update_query` makes, where it delays nobody."""
    size = len(session.running)
    return await session.front.offload.run(lambda _: update_query(table, statement), size)


def update_query(
    table: Relation, statement: ast.Update, *, is_whole: bool = True
) -> tuple[Composed, list[int]]:
    """The old rows, the new values of the columns assigned, and what RETURNING shows.

    Which columns are assigned comes with it. If it is not whole, RETURNING is left out.
    """
    places: list[int] = []
    values: list[Part] = []
    for column, value in _assignments(statement):
        [place] = places_of(table, [column])
        if place in places:
            told = f'multiple assignments to same column "{column.name}"'
            raise located(DuplicateColumn(told), column.position)
        places.append(place)
        if value is None:
            value = (table.columns[place].default or "NULL",)
        values += [", (", *value, ")"]
    name = quote_ident(statement.alias or statement.table.parts[-1])
    query = composed(
        *clause("", statement.ctes),
        f" SELECT {name}.*",
        *values,
        *clause(", ", statement.returning if is_whole else None),
        f" FROM {target_of(statement)}",
        *clause(", ", statement.from_items),
        *clause(" WHERE ", statement.where),
    )
    return query, places


def _assignments(statement: ast.Update) -> Iterator[tuple[Identifier, tuple[Part, ...] | None]]:
    """The columns with the text of their new values; None is the default of the column."""
    for each in statement.assignments:
        if not isinstance(each, RowAssignment):
            yield each.column, None if isinstance(each.value, DefaultValue) else (each.value,)
            continue
        width = _width(parse_query(each.query.text))
        if width is None:
            raise Unsupported(
                "assigning a row from a subquery with * is not supported",
                hint="Name the columns of the subquery.",
            )
        if width != len(each.columns):
            told = "number of columns does not match number of values"
            raise SyntaxFault(told, each.query.position)
        names = ", ".join(f"c{number}" for number in range(width))
        for number, column in enumerate(each.columns):
            yield column, (f"SELECT s.c{number} FROM (", each.query, f") AS s({names})")


def _width(query: tree.Query) -> int | None:
    """How many columns a query has, if its text alone tells that."""
    match query.body:
        case tree.Select(items=items):
            has_star = any(isinstance(item.expression, tree.Star) for item in items)
            return None if has_star else len(items)
        case tree.Values(rows=rows):
            return len(rows[0])
        case tree.SetOperation(left=left):
            return _width(left)
        case _:
            return None


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Update: update}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Update: describe_update
}
