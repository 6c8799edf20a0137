"""INSERT, UPDATE, DELETE and TRUNCATE.

A change is rows with diffs, kept by the transaction until it ends. INSERT of constants needs no
engine. Everything that reads first is planned as a query for the rows to retract and the rows to
insert, at the transaction's moment; outside a block it is done again if a table that it read has
changed before it could be written.

Tables have no keys: a row that is there twice is two rows, and both are changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from waterclock.adapter.api import (
    ColumnDescription,
    ConstraintViolated,
    Done,
    Response,
    Rows,
    StatementDescription,
)
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.picking import picked
from waterclock.adapter.planning import name_of
from waterclock.adapter.results import in_batches, shaped
from waterclock.adapter.sequencer.queries import constants, described, evaluated, planned
from waterclock.adapter.tables import WriteConflict
from waterclock.adapter.transaction import ReadOnly
from waterclock.catalog import privileges
from waterclock.catalog.errors import WrongKind
from waterclock.catalog.objects import Column, Namespace, Privilege, Relation, Table
from waterclock.model.errors import DuplicateColumn, UnknownColumn
from waterclock.model.pg_types import PgType
from waterclock.persist.rows import DIFF, TIME, row_schema
from waterclock.sql import ast
from waterclock.sql.ast.changes import DefaultRow, RowAssignment
from waterclock.sql.ast.changes import Rows as ValueRows
from waterclock.sql.ast.common import (
    DefaultValue,
    ExpressionText,
    Identifier,
    ObjectName,
    QueryText,
)
from waterclock.sql.binding import bind_values
from waterclock.sql.lexer import lex
from waterclock.sql.quoting import quote_ident
from waterclock.sql.tokens import Kind

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
Change = ast.Insert | ast.Update | ast.Delete
_TRIES = 10
_SELECT = "SELECT "


async def insert(session: SqlSession, statement: ast.Insert, parameters: Parameters) -> Response:
    table = writable(session, statement.table, Privilege.INSERT)
    places = places_of(table, statement.columns)
    source = statement.source
    if isinstance(source, QueryText):

        async def changed() -> pa.Table:
            return await _queried(session, table, places, source, parameters)

        rows = await _read_then_write(session, table, changed, 1, "INSERT")
    else:
        values = source.rows if isinstance(source, ValueRows) else ()
        if isinstance(source, DefaultRow):
            places, values = [], ((),)
        rows = await _valued(session, table, places, values, parameters)
        keep(session, table, rows, 1, "INSERT")
    return await _answer(session, table, statement, rows, f"INSERT 0 {rows.num_rows}")


def stamped(table: Relation, rows: pa.Table, time: int) -> pa.Table:
    """Rows as the first updates of a table, at a time."""
    made = in_table(table, rows.columns)
    for name, value in ((TIME, time), (DIFF, 1)):
        made = made.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), made.num_rows))
    return made


async def update(session: SqlSession, statement: ast.Update, parameters: Parameters) -> Response:
    table = writable(session, statement.table, Privilege.UPDATE)
    query, places = update_query(table, statement)

    async def changed() -> tuple[pa.Table, pa.Table]:
        types = [*(c.type for c in table.columns), *(table.columns[p].type for p in places)]
        plan = planned(session, query, parameters=parameters, target_types=types)
        found = await evaluated(session, plan)
        if statement.from_items is not None:
            found = _once_each(found, len(table.columns))
        old = in_table(table, found.columns[: len(table.columns)])
        columns = list(old.columns)
        for place, column in zip(places, found.columns[len(table.columns) :], strict=True):
            columns[place] = column
        return old, in_table(table, columns)

    for attempt in range(_TRIES):
        old, new = await changed()
        check_nulls(session, table, new)
        keep(session, table, old, -1, "UPDATE")
        keep(session, table, new, 1, "UPDATE")
        if await _has_landed(session, attempt):
            break
    return await _answer(session, table, statement, new, f"UPDATE {new.num_rows}")


async def delete(session: SqlSession, statement: ast.Delete, parameters: Parameters) -> Response:
    table = writable(session, statement.table, Privilege.DELETE)
    query = delete_query(statement)

    async def changed() -> pa.Table:
        plan = planned(session, query, parameters=parameters)
        return in_table(table, (await evaluated(session, plan)).columns)

    rows = await _read_then_write(session, table, changed, -1, "DELETE")
    return await _answer(session, table, statement, rows, f"DELETE {rows.num_rows}")


async def truncate(session: SqlSession, statement: ast.Truncate, _: Parameters) -> Response:
    for name in statement.tables:
        table = writable(session, name, Privilege.DELETE)
        written = ".".join(quote_ident(part) for part in name.parts)
        query = QueryText(f"SELECT * FROM {written}", 1)

        async def changed(table: Table = table, query: QueryText = query) -> pa.Table:
            plan = planned(session, query)
            return in_table(table, (await evaluated(session, plan)).columns)

        await _read_then_write(session, table, changed, -1, "TRUNCATE")
    return Done("TRUNCATE TABLE")


async def describe_change(
    session: SqlSession,
    statement: Change,
    types: Sequence[PgType | None],
) -> StatementDescription:
    """The types of the parameters: those of the columns that they go into, where that is said."""
    table = writable(session, statement.table, Privilege.SELECT)
    match statement:
        case ast.Insert(source=ValueRows(rows)):
            places = places_of(table, statement.columns)
            parameters = _value_parameters(session, table, places, rows, types)
        case ast.Insert(source=QueryText() as query):
            targets = [table.columns[p].type for p in places_of(table, statement.columns)]
            plan = planned(session, query, types=types, target_types=targets)
            parameters = plan.bound.parameters
        case ast.Update():
            query, places = update_query(table, statement)
            wanted = [
                *(c.type for c in table.columns),
                *(table.columns[place].type for place in places),
            ]
            parameters = planned(session, query, types=types, target_types=wanted).bound.parameters
        case ast.Delete():
            parameters = planned(session, delete_query(statement), types=types).bound.parameters
        case _:
            parameters = ()
    columns: tuple[ColumnDescription, ...] | None = None
    if statement.returning is not None:
        columns = described(planned(session, returning_query(statement, statement.returning)))
    return StatementDescription(parameters, columns)


def check_default(session: SqlSession, default: ExpressionText, wanted: PgType) -> None:
    """Raise what is wrong with a default."""
    planned(session, QueryText(f"SELECT {default.text}", default.position), target_types=[wanted])


def column_named(expression: ExpressionText) -> str | None:
    """The column that the expression is, if it is just one."""
    tokens = [token for token in lex(expression.text) if token.kind is not Kind.END]
    if len(tokens) == 1 and tokens[0].kind in (Kind.WORD, Kind.QUOTED):
        return tokens[0].value
    return None


# What to write


async def _valued(
    session: SqlSession,
    table: Relation,
    places: Sequence[int],
    values: Sequence[Sequence[ExpressionText | DefaultValue]],
    parameters: Parameters,
) -> pa.Table:
    """Constant rows, with defaults in the places that are not given."""
    rows = [full_row(table, places, row) for row in values]
    types = [column.type for column in table.columns]
    names = [column.name for column in table.columns]
    found = bind_values(
        rows, types, facts=session.facts(), parameters=parameters, target_names=names
    )
    if found is None:
        lines = ", ".join("(" + ", ".join(_text_of(value) for value in row) + ")" for row in rows)
        query = QueryText(f"VALUES {lines}", 1)
        plan = planned(session, query, parameters=parameters, target_types=types)
        found = await evaluated(session, plan)
    made = in_table(table, found.columns)
    check_nulls(session, table, made)
    return made


def full_row(
    table: Relation, places: Sequence[int], row: Sequence[ExpressionText | DefaultValue]
) -> list[ExpressionText]:
    if len(row) > len(places):
        raise Unsupported("INSERT has more expressions than target columns")
    given = dict(zip(places, row, strict=False))
    full = []
    for place, column in enumerate(table.columns):
        value = given.get(place)
        if value is None or isinstance(value, DefaultValue):
            value = ExpressionText(column.default or "NULL", 1)
        full.append(value)
    return full


def _text_of(value: ExpressionText) -> str:
    return value.text


async def _queried(
    session: SqlSession,
    table: Relation,
    places: Sequence[int],
    query: QueryText,
    parameters: Parameters,
) -> pa.Table:
    targets = [table.columns[place] for place in places]
    plan = planned(
        session,
        query,
        parameters=parameters,
        target_types=[column.type for column in targets],
        target_names=[column.name for column in targets],
    )
    found = await evaluated(session, plan)
    if found.num_columns > len(places):
        raise Unsupported("INSERT has more expressions than target columns")
    given = dict(zip(places, found.columns, strict=False))
    columns: list[Any] = []
    missing = [c for place, c in enumerate(table.columns) if place not in given]
    defaults = await default_values(session, missing)
    kinds = row_schema(table.schema)
    for place, column in enumerate(table.columns):
        if place in given:
            columns.append(given[place])
        else:
            kind = kinds.field(column.name).type
            columns.append(pa.repeat(pa.scalar(defaults[column.name], kind), found.num_rows))
    made = in_table(table, columns)
    check_nulls(session, table, made)
    return made


async def default_values(session: SqlSession, columns: Sequence[Column]) -> dict[str, object]:
    """The values of columns that an INSERT does not mention."""
    written = [ExpressionText(column.default or "NULL", 1) for column in columns]
    values = await constants(session, written, [column.type for column in columns])
    return {column.name: value.as_py() for column, value in zip(columns, values, strict=True)}


def update_query(table: Relation, statement: ast.Update) -> tuple[QueryText, list[int]]:
    """The old rows and the new values of the columns assigned, and which columns these are."""
    places: list[int] = []
    values: list[str] = []
    for assignment in statement.assignments:
        if isinstance(assignment, RowAssignment):
            raise Unsupported("assigning a row from a subquery is not supported")
        [place] = places_of(table, [assignment.column])
        if place in places:
            name = assignment.column.name
            raise DuplicateColumn(f'multiple assignments to same column "{name}"')
        places.append(place)
        value = assignment.value
        if isinstance(value, DefaultValue):
            values.append(f"({table.columns[place].default or 'NULL'})")
        else:
            values.append(f"({value.text})")
    name = statement.alias or statement.table.parts[-1]
    shown = ", ".join([f"{quote_ident(name)}.*", *values])
    return QueryText(_with(statement, f"SELECT {shown} FROM {_from(statement)}"), 1), places


def delete_query(statement: ast.Delete) -> QueryText:
    """The rows to delete, each as often as it is there."""
    if statement.using is None:
        name = statement.alias or statement.table.parts[-1]
        return QueryText(
            _with(statement, f"SELECT {quote_ident(name)}.* FROM {_from(statement)}"), 1
        )
    where = f" WHERE {statement.where.text}" if statement.where else ""
    inner = f"SELECT 1 FROM {statement.using.text}{where}"
    name = statement.alias or statement.table.parts[-1]
    text = f"SELECT {quote_ident(name)}.* FROM {_target(statement)} WHERE EXISTS ({inner})"
    ctes = f"{statement.ctes.text} " if statement.ctes else ""
    return QueryText(ctes + text, 1)


def _with(statement: ast.Update | ast.Delete, select: str) -> str:
    ctes = f"{statement.ctes.text} " if statement.ctes else ""
    where = f" WHERE {statement.where.text}" if statement.where else ""
    return f"{ctes}{select}{where}"


def _target(statement: Change) -> str:
    written = ".".join(quote_ident(part) for part in statement.table.parts)
    return written + (f" AS {quote_ident(statement.alias)}" if statement.alias else "")


def _from(statement: ast.Update | ast.Delete) -> str:
    more = statement.from_items if isinstance(statement, ast.Update) else None
    return _target(statement) + (f", {more.text}" if more else "")


def _once_each(found: pa.Table, width: int) -> pa.Table:
    """One of the rows that were found for each old row: the least, so that it is always the same.

    An old row that is there several times is told apart from one that found several partners only
    by counting, so this is right for rows that are there once.
    """
    seen: dict[tuple[object, ...], tuple[Any, ...]] = {}
    rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    chosen: dict[tuple[object, ...], int] = {}
    for place, row in enumerate(rows):
        key = tuple(map(repr, row[:width]))
        if key not in seen or repr(row[width:]) < repr(seen[key]):
            seen[key], chosen[key] = row[width:], place
    return found.take(pa.array(sorted(chosen.values()), pa.int64()))


# Writing it


async def _read_then_write(
    session: SqlSession,
    table: Relation,
    changed: Callable[[], Awaitable[pa.Table]],
    diff: int,
    what: str,
) -> pa.Table:
    """Do a change that depends on what it reads, again if that has changed meanwhile."""
    for attempt in range(_TRIES):
        rows = await changed()
        keep(session, table, rows, diff, what)
        if await _has_landed(session, attempt):
            break
    return rows


async def _has_landed(session: SqlSession, attempt: int) -> bool:
    """Commit, outside a block; False if it has to be done again."""
    if session.transaction.in_block or session.transaction.moment is None:
        return True
    try:
        await session.commit()
    except WriteConflict:
        if attempt == _TRIES - 1:
            raise
        return False
    return True


def keep(session: SqlSession, table: Relation, rows: pa.Table, diff: int, what: str) -> None:
    """Let the rows be written when the transaction ends; `what` is the statement, for the error."""
    require_writable(session, what)
    diffs = pa.array(np.full(rows.num_rows, diff), pa.int64())
    field = pa.field(DIFF, pa.int64(), nullable=False)
    session.transaction.write({table.id: rows.append_column(field, diffs)}, what)


def require_writable(session: SqlSession, what: str) -> None:
    """Raise if the transaction may only read."""
    always = session.settings.get("default_transaction_read_only") == "on"
    if session.transaction.read_only or (always and not session.transaction.in_block):
        raise ReadOnly(f"cannot execute {what} in a read-only transaction")


async def _answer(
    session: SqlSession, table: Relation, statement: Change, rows: pa.Table, tag: str
) -> Response:
    """The tag, or what RETURNING says of the rows that were changed."""
    if statement.returning is None:
        return Done(tag)
    plan = planned(session, returning_query(statement, statement.returning))
    simple = plan.bound.simple
    if simple is not None and not simple.count_star:
        shown = picked(rows, simple)
    else:
        shown = await session.front.reading.evaluate_over(
            plan.bound.sql, plan.inputs, {table.id: rows}
        )
    shown = shaped(shown, [column.type for column in plan.bound.columns])
    return Rows(described(plan), in_batches(shown), tag, counted=False)


def returning_query(statement: Change, returning: QueryText) -> QueryText:
    """What is returned, as a query over the table. Errors stand where the list was written."""
    text = f"{_SELECT}{returning.text} FROM {_target(statement)}"
    return QueryText(text, returning.position - len(_SELECT))


# Tables


def writable(session: SqlSession, name: ObjectName, privilege: Privilege) -> Table:
    """The table that the name means, if the role may change it so."""
    catalog = session.front.core.current
    found = catalog.relation(name_of(name.parts), session.scope)
    if not isinstance(found, Table):
        kind = found.kind
        raise WrongKind(f'cannot change {kind} "{found.name}"', detail="Only tables are written.")
    privileges.check(catalog, session.role.oid, found, privilege)
    return found


def places_of(table: Relation, columns: Sequence[Identifier] | None) -> list[int]:
    """Which columns are meant, all if none are named."""
    if columns is None:
        return list(range(len(table.columns)))
    known = {column.name: place for place, column in enumerate(table.columns)}
    places = []
    for column in columns:
        if column.name not in known:
            raise UnknownColumn(f'column "{column.name}" of relation "{table.name}" does not exist')
        if known[column.name] in places:
            raise DuplicateColumn(f'column "{column.name}" specified more than once')
        places.append(known[column.name])
    return places


def in_table(table: Relation, columns: Sequence[Any]) -> pa.Table:
    """Columns as the table's collection has them."""
    schema = loose_schema(table)
    cast = [column.cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(cast, schema=schema)


def loose_schema(table: Relation) -> pa.Schema:
    """The columns of the table's collection, all of them nullable until that is checked."""
    return pa.schema([field.with_nullable(True) for field in row_schema(table.schema)])


def check_nulls(session: SqlSession, table: Relation, rows: pa.Table) -> None:
    catalog = session.front.core.current
    for column in table.columns:
        if not column.nullable and rows[column.name].null_count:
            raise NotNullViolated(
                f'null value in column "{column.name}" of relation "{table.name}"'
                " violates not-null constraint",
                schema=catalog.get(table.namespace, Namespace).name,
                table=table.name,
                column=column.name,
            )


class NotNullViolated(ConstraintViolated):
    """A row has no value where it must have one."""

    sqlstate = "23502"


def _value_parameters(
    session: SqlSession,
    table: Relation,
    places: Sequence[int],
    rows: Sequence[Sequence[ExpressionText | DefaultValue]],
    types: Sequence[PgType | None],
) -> tuple[PgType, ...]:
    """The types of parameters in VALUES: a parameter alone has the type of its column."""
    full = [full_row(table, places, row) for row in rows]
    lines = ", ".join("(" + ", ".join(_text_of(v) for v in row) + ")" for row in full)
    plan = planned(
        session,
        QueryText(f"VALUES {lines}", 1),
        types=types,
        target_types=[column.type for column in table.columns],
    )
    parameters: tuple[PgType, ...] = plan.bound.parameters
    return parameters


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.Insert: insert,
    ast.Update: update,
    ast.Delete: delete,
    ast.Truncate: truncate,
}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Insert: describe_change,
    ast.Update: describe_change,
    ast.Delete: describe_change,
}
