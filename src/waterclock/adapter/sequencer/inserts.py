"""INSERT, of values or of what a query gives.

Values need no engine unless they compute something. Columns that are not given get their defaults.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa

from waterclock.adapter.api import Response, StatementDescription
from waterclock.adapter.offload import SMALL_TEXT
from waterclock.adapter.planning import NOTHING_GIVEN, AllGiven, column_named
from waterclock.adapter.sequencer.composing import Composed, Part, clause, composed
from waterclock.adapter.sequencer.evaluation import constants, evaluated
from waterclock.adapter.sequencer.query_plans import described, planned
from waterclock.adapter.sequencer.writing import (
    Changed,
    Parameters,
    TooManyValues,
    check_nulls,
    in_table,
    places_of,
    read_then_write,
    returned_of,
    returning_plan,
    writable,
)
from waterclock.catalog.objects import Column, Privilege, Relation
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType
from waterclock.persist.rows import DIFF, TIME, row_schema
from waterclock.sql import ast
from waterclock.sql.ast.changes import Conflict, DefaultRow
from waterclock.sql.ast.changes import Rows as ValueRows
from waterclock.sql.ast.common import DefaultValue, ExpressionText, Identifier, QueryText
from waterclock.sql.binding import bind_values
from waterclock.sql.binding.errors import located
from waterclock.sql.budget import Meter
from waterclock.sql.lexer import lex
from waterclock.sql.tokens import Kind

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


_SIZE_OF_VALUE = 40
"""Characters of text that cost about as much as binding one value."""


_TOKENS_LOOKED_AT = 3


class NoKey(WaterclockError):
    """ON CONFLICT names columns that no row has to itself."""

    sqlstate: ClassVar[str] = "42P10"


class NoConstraint(WaterclockError):
    """ON CONFLICT names a constraint that the table does not have."""

    sqlstate: ClassVar[str] = "42704"


async def insert(session: SqlSession, statement: ast.Insert, parameters: Parameters) -> Response:
    if isinstance(statement.source, QueryText):
        changed = partial(inserted, session, statement, parameters)
        return (await read_then_write(session, changed)).response()
    found = await inserted(session, statement, parameters)
    found.keep(session)
    return found.response()


async def inserted(
    session: SqlSession,
    statement: ast.Insert,
    parameters: Parameters,
    given: AllGiven = NOTHING_GIVEN,
) -> Changed:
    """The rows to insert."""
    table = writable(session, statement.table, Privilege.INSERT)
    places = places_of(table, statement.columns)
    check_conflict(table, statement.conflict)
    source = statement.source
    if isinstance(source, QueryText):
        query = insert_query(statement, source)
        named = statement.columns
        rows = await _queried(session, table, places, query, parameters, named, given)
    else:
        values = source.rows if isinstance(source, ValueRows) else ()
        if isinstance(source, DefaultRow):
            places, values = [], ((),)
        elif statement.columns is not None:
            _require_values(statement.columns, values)
        rows = await _valued(session, table, places, values, parameters, statement.ctes, given)
    columns, shown = await returned_of(session, table, statement, rows, parameters)
    tag = f"INSERT 0 {rows.num_rows}"
    return Changed(table, "INSERT", tag, new=rows, columns=columns, shown=shown)


async def describe_insert(
    session: SqlSession,
    statement: ast.Insert,
    types: Sequence[PgType | None],
    given: AllGiven = NOTHING_GIVEN,
) -> StatementDescription:
    """The types of the parameters: those of the columns that they go into, where that is said."""
    table = writable(session, statement.table, Privilege.SELECT)
    parameters: tuple[PgType, ...] = ()
    match statement.source:
        case ValueRows(rows):
            places = places_of(table, statement.columns)
            query = await session.front.offload.run(
                lambda meter: _values_query(
                    full_rows(table, places, rows, meter), statement.ctes, meter
                ),
                len(rows) * max(len(table.columns), 1) * _SIZE_OF_VALUE,
            )
            parameters = await _parameters(session, query, types, _types(table), given)
        case QueryText() as source:
            targets = [table.columns[p].type for p in places_of(table, statement.columns)]
            written = insert_query(statement, source)
            parameters = await _parameters(session, written, types, targets, given)
        case DefaultRow():
            pass
    shown = await returning_plan(session, statement, types=parameters)
    if shown is None:
        return StatementDescription(parameters, None)
    return StatementDescription(shown.bound.parameters, described(shown))


def check_conflict(table: Relation, conflict: Conflict | None) -> None:
    """Raise what is wrong with ON CONFLICT. Tables have no keys, so no row is in the way of one."""
    if conflict is None or conflict == Conflict():
        return
    if conflict.constraint is not None:
        wanted = conflict.constraint.name
        told = f'constraint "{wanted}" for table "{table.name}" does not exist'
        raise located(NoConstraint(told), conflict.constraint.position)
    for key in conflict.keys:
        name = column_named(key)
        if name is not None:
            places_of(table, [Identifier(name, key.position)])
    raise NoKey("there is no unique or exclusion constraint matching the ON CONFLICT specification")


# Values


async def _valued(
    session: SqlSession,
    table: Relation,
    places: Sequence[int],
    values: Sequence[Sequence[ExpressionText | DefaultValue]],
    parameters: Parameters,
    ctes: QueryText | None,
    given: AllGiven,
) -> pa.Table:
    """Constant rows, with defaults in the places that are not given."""
    types = _types(table)
    size = len(values) * max(len(types), 1) * _SIZE_OF_VALUE
    rows = await session.front.offload.run(
        lambda meter: full_rows(table, places, values, meter), size
    )
    names = [column.name for column in table.columns]
    bind = partial(
        bind_values,
        rows,
        types,
        facts=session.facts(),
        parameters=parameters,
        target_names=names,
    )
    found = await session.front.offload.run(lambda meter: bind(meter=meter), size)
    if found is None:
        query = await session.front.offload.run(
            lambda meter: _values_query(rows, ctes, meter), size
        )
        with query.tracing():
            plan = await planned(
                session,
                query.query,
                parameters=parameters,
                target_types=types,
                target_names=names,
                given=given,
            )
        found = await evaluated(session, plan)
    made = in_table(table, found.columns)
    check_nulls(session, table, made)
    return made


def full_rows(
    table: Relation,
    places: Sequence[int],
    rows: Sequence[Sequence[ExpressionText | DefaultValue]],
    meter: Meter,
) -> list[list[ExpressionText]]:
    """A value for each column in each row."""
    full = []
    for row in rows:
        meter.count()
        full.append(full_row(table, places, row))
    return full


def full_row(
    table: Relation, places: Sequence[int], row: Sequence[ExpressionText | DefaultValue]
) -> list[ExpressionText]:
    if len(row) > len(places):
        error = TooManyValues("INSERT has more expressions than target columns")
        raise located(error, row[len(places)].position)
    given = dict(zip(places, row, strict=False))
    full = []
    for place, column in enumerate(table.columns):
        value = given.get(place)
        if value is None or isinstance(value, DefaultValue):
            value = ExpressionText(column.default or "NULL", 1)
        full.append(value)
    return full


def _types(table: Relation) -> list[PgType]:
    return [column.type for column in table.columns]


async def _parameters(
    session: SqlSession,
    query: Composed,
    types: Sequence[PgType | None],
    wanted: Sequence[PgType],
    given: AllGiven,
) -> tuple[PgType, ...]:
    """The types of parameters: one that is a value alone has the type of its column."""
    with query.tracing():
        plan = await planned(session, query.query, types=types, target_types=wanted, given=given)
    parameters: tuple[PgType, ...] = plan.bound.parameters
    return parameters


def _values_query(
    rows: Sequence[Sequence[ExpressionText]], ctes: QueryText | None, meter: Meter
) -> Composed:
    parts: list[Part] = [*clause("", ctes), " VALUES "]
    for number, row in enumerate(rows):
        meter.count()
        parts.append(", (" if number else "(")
        for place, value in enumerate(row):
            # A default is of ours, and not where its position says.
            written = value if value.position > 1 else value.text
            parts += [", ", written] if place else [written]
        parts.append(")")
    return composed(*parts)


def _require_values(
    columns: Sequence[Identifier], rows: Sequence[Sequence[ExpressionText | DefaultValue]]
) -> None:
    """Raise unless each column that is named gets a value."""
    _require_all(columns, min(map(len, rows), default=len(columns)))


def _require_all(columns: Sequence[Identifier], count: int) -> None:
    if count < len(columns):
        error = TooManyValues("INSERT has more target columns than expressions")
        raise located(error, columns[count].position)


# Queries


def insert_query(statement: ast.Insert, source: QueryText) -> Composed:
    """What an INSERT inserts, with what the WITH in front of it says."""
    if statement.ctes is None:
        return composed(source)
    more = _behind_with(source)
    if more is not None:  # one WITH for both, for a query can not have two
        return composed(statement.ctes, ", ", more)
    return composed(statement.ctes, " (", source, ")")


def _behind_with(source: QueryText) -> QueryText | None:
    """What comes behind the WITH that a query begins with; None if it does not."""
    tokens = lex(source.text[:SMALL_TEXT])
    if len(tokens) <= _TOKENS_LOOKED_AT:  # the last of them may have been cut
        tokens = lex(source.text)
    first, second, *_ = tokens
    if first.kind is not Kind.WORD or first.value != "with" or second.value == "recursive":
        return None
    start = second.start
    return QueryText(source.text[start:], source.position + start)


async def _queried(
    session: SqlSession,
    table: Relation,
    places: Sequence[int],
    query: Composed,
    parameters: Parameters,
    columns_named: Sequence[Identifier] | None,
    given: AllGiven,
) -> pa.Table:
    targets = [table.columns[place] for place in places]
    with query.tracing():
        plan = await planned(
            session,
            query.query,
            parameters=parameters,
            target_types=[column.type for column in targets],
            target_names=[column.name for column in targets],
            given=given,
        )
    if columns_named is not None:
        _require_all(columns_named, len(plan.bound.columns))
    found = await evaluated(session, plan)
    assert found.num_columns <= len(places), "the binder refuses more"
    filled = dict(zip(places, found.columns, strict=False))
    columns: list[Any] = []
    missing = [c for place, c in enumerate(table.columns) if place not in filled]
    defaults = await default_values(session, missing)
    kinds = row_schema(table.schema)
    for place, column in enumerate(table.columns):
        if place in filled:
            columns.append(filled[place])
        else:
            kind = kinds.field(column.name).type
            columns.append(pa.repeat(pa.scalar(defaults[column.name], kind), found.num_rows))
    made = in_table(table, columns)
    check_nulls(session, table, made)
    return made


# Defaults, and the first rows of a new table


async def default_values(session: SqlSession, columns: Sequence[Column]) -> dict[str, object]:
    """The values of columns that an INSERT does not mention."""
    written = [ExpressionText(column.default or "NULL", 1) for column in columns]
    values = await constants(session, written, [column.type for column in columns])
    return {column.name: value.as_py() for column, value in zip(columns, values, strict=True)}


async def check_default(session: SqlSession, default: ExpressionText, wanted: PgType) -> None:
    """Raise what is wrong with a default."""
    query = QueryText(f"SELECT {default.text}", default.position)
    await planned(session, query, target_types=[wanted])


def stamped(table: Relation, rows: pa.Table, time: int) -> pa.Table:
    """Rows as the first updates of a table, at a time."""
    made = in_table(table, rows.columns)
    for name, value in ((TIME, time), (DIFF, 1)):
        made = made.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), made.num_rows))
    return made


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Insert: insert}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Insert: describe_insert
}
