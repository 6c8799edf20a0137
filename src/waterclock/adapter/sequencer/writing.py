"""What INSERT, UPDATE, DELETE and COPY have in common: tables, and rows on their way into them.

A change is rows with diffs, kept by the transaction until it ends. What reads first is planned as a
query, at the transaction's moment; outside a block it is done again if a table that it read has
changed before it could be written.

Tables have no keys: a row that is there twice is two rows, and both are changed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.adapter.api import (
    ColumnDescription,
    ConstraintViolated,
    Done,
    Response,
    Rows,
)
from waterclock.adapter.parts import evaluated_over
from waterclock.adapter.picking import picked
from waterclock.adapter.planning import Plan, name_of
from waterclock.adapter.results import in_batches, shaped
from waterclock.adapter.sequencer.query_plans import described, planned
from waterclock.adapter.tables import WriteConflict
from waterclock.adapter.transaction import ReadOnly
from waterclock.catalog import privileges
from waterclock.catalog.errors import UnknownRelation, WrongKind
from waterclock.catalog.objects import Namespace, Privilege, Relation, Table
from waterclock.errors import WaterclockError
from waterclock.model.errors import DuplicateColumn, UnknownColumn
from waterclock.model.pg_types import PgType
from waterclock.persist.rows import DIFF, row_schema
from waterclock.sql import ast
from waterclock.sql.ast.changes import Change
from waterclock.sql.ast.common import Identifier, ObjectName, QueryText
from waterclock.sql.binding.errors import located
from waterclock.sql.quoting import quote_ident

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
Returned = tuple[tuple[ColumnDescription, ...] | None, pa.Table | None]
"""The columns and rows of RETURNING, if there is one."""
TRIES = 10
_SELECT = "SELECT "
_SHOWN_BYTES = 64
"""Bytes of each value that an error shows."""


class NotNullViolated(ConstraintViolated):
    """A row has no value where it must have one."""

    sqlstate: ClassVar[str] = "23502"


class TooManyValues(WaterclockError):
    """There are more values than columns that they could go into."""

    sqlstate: ClassVar[str] = "42601"


# Tables


def writable(session: SqlSession, name: ObjectName, privilege: Privilege) -> Table:
    """The table that the name means, if the role may change it so."""
    catalog = session.front.core.current
    try:
        found = catalog.relation(name_of(name.parts), session.scope)
    except UnknownRelation as error:
        raise located(error, name.position) from None
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
            told = f'column "{column.name}" of relation "{table.name}" does not exist'
            raise located(UnknownColumn(told), column.position)
        if known[column.name] in places:
            told = f'column "{column.name}" specified more than once'
            raise located(DuplicateColumn(told), column.position)
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
                detail=_failing_row(session, table, rows, column.name),
            )


def _failing_row(session: SqlSession, table: Relation, rows: pa.Table, missing: str) -> str | None:
    """The first row without a value in the column, as an error shows it."""
    write = session.front.write_text
    if write is None:
        return None
    place = pc.index(pc.is_null(rows[missing]), True).as_py()
    shown = []
    for column in table.columns:
        value = rows[column.name].slice(place, 1).combine_chunks()
        (text,) = write(value, column.type, session.settings.manner).to_pylist()
        shown.append("null" if text is None else _clipped(text))
    return f"Failing row contains ({', '.join(shown)})."


def _clipped(text: str) -> str:
    """The text with as much of it as an error shows."""
    data = text.encode()
    if len(data) <= _SHOWN_BYTES:
        return text
    return data[:_SHOWN_BYTES].decode(errors="ignore") + "..."


# Writing


@dataclass(frozen=True, slots=True)
class Changed:
    """What a statement changes, before that is kept, and what it answers."""

    table: Relation
    what: str
    tag: str
    old: pa.Table | None = None
    new: pa.Table | None = None
    columns: tuple[ColumnDescription, ...] | None = None
    shown: pa.Table | None = None
    """What RETURNING shows, in these columns; None without it."""

    def keep(self, session: SqlSession) -> None:
        """Let it be written when the transaction ends."""
        for rows, diff in ((self.old, -1), (self.new, 1)):
            if rows is not None:
                keep(session, self.table, rows, diff, self.what)

    def response(self) -> Response:
        if self.shown is None or self.columns is None:
            return Done(self.tag)
        return Rows(self.columns, in_batches(self.shown), self.tag, counted=False)


async def read_then_write(
    session: SqlSession, changed: Callable[[], Awaitable[Changed]]
) -> Changed:
    """Do a change that depends on what it reads, again if that has changed meanwhile."""
    for attempt in range(TRIES):
        session.watch.require_wanted()
        found = await changed()
        found.keep(session)
        if await has_landed(session, attempt):
            break
    return found


async def has_landed(session: SqlSession, attempt: int) -> bool:
    """Commit, outside a block; False if it has to be done again."""
    if session.transaction.in_block or session.transaction.moment is None:
        return True
    try:
        await session.commit()
    except WriteConflict:
        if attempt == TRIES - 1:
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


# RETURNING


def returned(statement: Change, plan: Plan, found: pa.Table, start: int) -> Returned:
    """What RETURNING shows: the columns of the plan from a place on."""
    columns = described_shown(statement, plan, start)
    if columns is None:
        return None, None
    names = [f"c{place}" for place in range(len(columns))]
    return columns, pa.Table.from_arrays(found.columns[start:], names=names)


def described_shown(
    statement: Change, plan: Plan, start: int
) -> tuple[ColumnDescription, ...] | None:
    """The columns of what RETURNING shows, which begin at a place of the plan; None without it."""
    return None if statement.returning is None else described(plan)[start:]


async def returned_of(
    session: SqlSession,
    table: Relation,
    statement: ast.Insert,
    rows: pa.Table,
    parameters: Parameters,
) -> Returned:
    """What RETURNING says of the rows that are inserted."""
    plan = await returning_plan(session, statement, parameters=parameters)
    if plan is None:
        return None, None
    simple = plan.bound.simple
    if simple is not None and not simple.count_star:
        shown = picked(rows, simple)
    else:
        reading, time = session.front.reading, _time_of_change(session)
        shown = await evaluated_over(reading, plan.bound, plan.inputs, {table.id: rows}, time)
    return described(plan), shaped(shown, [column.type for column in plan.bound.columns])


def _time_of_change(session: SqlSession) -> int:
    """What `mz_now()` tells in RETURNING: when the rows were read, for they are not written yet."""
    moment = session.transaction.moment
    return session.front.core.oracle.read_ts() if moment is None else moment.time


async def returning_plan(
    session: SqlSession,
    statement: ast.Insert,
    *,
    types: Sequence[PgType | None] = (),
    parameters: Parameters | None = None,
) -> Plan | None:
    """What an INSERT returns, as a query over the table; None if it returns nothing.

    Errors stand where the list was written.
    """
    returning = statement.returning
    if returning is None:
        return None
    text = f"{_SELECT}{returning.text} FROM {target_of(statement)}"
    query = QueryText(text, returning.position - len(_SELECT))
    return await planned(session, query, types=types, parameters=parameters)


def target_of(statement: Change) -> str:
    written = ".".join(quote_ident(part) for part in statement.table.parts)
    return written + (f" AS {quote_ident(statement.alias)}" if statement.alias else "")
