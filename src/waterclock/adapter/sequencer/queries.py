"""SELECT, VALUES, TABLE and WITH.

A query goes one of three ways. Over the system's relations, or over none, it is answered by the
catalog's own engine. If it only picks rows of one collection, the rows are fetched and picked here.
Everything else is evaluated by Spark over the contents of what it reads. All three see the catalog,
and the collections, at one moment.

In a transaction that has written, what it wrote is seen too; but not AS OF a time, which is before.
"""

from __future__ import annotations

import asyncio
import datetime
import decimal
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from waterclock.adapter.api import (
    ColumnDescription,
    Response,
    Rows,
    StatementDescription,
)
from waterclock.adapter.errors import InvalidTime, NewerThanTransaction, Unsupported
from waterclock.adapter.own_writes import rows_with
from waterclock.adapter.picking import pick
from waterclock.adapter.planning import Plan, plan_query
from waterclock.adapter.reading import Moment, indexes_on
from waterclock.adapter.results import in_batches, shaped
from waterclock.adapter.timelines import common_timeline, require_of_tables
from waterclock.adapter.transaction import ReadOnly
from waterclock.catalog import privileges
from waterclock.catalog.errors import WrongKind
from waterclock.catalog.objects import MaterializedView, Privilege
from waterclock.catalog.system.answerer import CatalogResult
from waterclock.catalog.system.routing import Route
from waterclock.catalog.system.session import Cancellation as CatalogCancellation
from waterclock.compute.faults import OVERFLOW, EngineFault, out_of_range
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import TEXT, PgType
from waterclock.oracle.selection import AsOf, Isolation
from waterclock.persist.numerics import python_value
from waterclock.sql import ast
from waterclock.sql.ast.common import ExpressionText, QueryText
from waterclock.sql.binding import bind_values, filled
from waterclock.sql.binding.errors import UndefinedOperator
from waterclock.sql.errors import UnsupportedType

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

T = TypeVar("T")
Parameters = Sequence[pa.Scalar]
_SLEEP = "pg_sleep"
_UNKNOWN = ("42883", "42704")
"""The SQLSTATEs of a function, and of a type, that does not exist."""
_OBJECTS = re.compile(
    r"\b(to_)?reg(class|type|role|namespace|proc(edure)?|oper(ator)?)\b", re.IGNORECASE
)
"""The types whose values are objects of the catalog."""
_OF_OBJECTS = (Unsupported.sqlstate, "42P01", "42809")
"""What is said of such a value by whoever knows only relations of users."""
_CHANGES_BY_ITSELF = "Only tables stay as they are while a transaction lasts; read it without."
_NOT_UNDERSTOOD = ("42883", "42601", Unsupported.sqlstate)
"""Those of what the catalog's own engine can not tell about either."""


async def describe_query(
    session: SqlSession, statement: ast.Query, types: Sequence[PgType | None]
) -> StatementDescription:
    """The types of a query's parameters and columns."""
    asked = _asked_of_catalog(session, statement.query, types)
    if asked is not None:
        oids = [0 if each is None else each.oid for each in types]
        answerer = session.front.answerer
        with _preferring(asked.refusal):
            found = await asyncio.to_thread(
                answerer.describe, statement.query.text, oids, session.catalog_facts()
            )
        columns = tuple(ColumnDescription(c.name, c.type) for c in found.columns)
        return StatementDescription(found.parameters, columns)
    plan = planned(session, statement.query, types=types)
    return StatementDescription(plan.bound.parameters, described(plan))


async def run_query(session: SqlSession, statement: ast.Query, parameters: Parameters) -> Response:
    """Answer a query."""
    asked = _asked_of_catalog(session, statement.query, parameters=parameters)
    if asked is not None:
        return await _from_catalog(session, statement.query, parameters, asked)
    plan = _filled(session, statement.query, parameters) if parameters else None
    if plan is None:
        plan = planned(session, statement.query, parameters=parameters)
    table = await evaluated(session, plan, await as_of_time(session, statement.as_of))
    return Rows(described(plan), in_batches(table))


def _filled(session: SqlSession, query: QueryText, parameters: Parameters) -> Plan | None:
    """The plan of a query that only picks rows, made before the values were known."""
    try:
        plan = planned(session, query)
    except WaterclockError:  # the values may make sense of it, and else it is told with them
        return None
    if plan.bound.simple is None:
        return None
    simple = filled(plan.bound.simple, parameters)
    if simple is None:
        return None
    return replace(plan, bound=replace(plan.bound, sql="", simple=simple))


def planned(
    session: SqlSession,
    query: QueryText,
    *,
    types: Sequence[PgType | None] = (),
    parameters: Parameters | None = None,
    maintained: bool = False,
    for_all: bool = False,
    target_types: Sequence[PgType | None] = (),
    target_names: Sequence[str] = (),
    assigned: Sequence[int] | None = None,
) -> Plan:
    """The query's plan, if the session's role may read what it reads.

    What is planned `for_all` is a view, whose texts do not follow the session's settings.
    """
    catalog = session.front.core.current
    written = frozenset() if maintained else session.transaction.written

    def make(time: int | None = None) -> Plan:
        facts = session.facts().of_views() if for_all else session.facts()
        plan = plan_query(
            catalog,
            session.scope,
            replace(facts, mz_now=time),
            query.text,
            query.position,
            parameter_types=types,
            parameters=parameters,
            maintained=maintained,
            target_types=target_types,
            target_names=target_names,
            written=written,
            assigned=assigned,
        )
        privileges.check_read(catalog, session.role.oid, plan.named)
        return replace(plan, at=make) if plan.bound.uses_mz_now and time is None else plan

    values = None if parameters is None else tuple(parameters)
    places = None if assigned is None else tuple(assigned)
    goal = (maintained, for_all, tuple(target_types), tuple(target_names), places)
    what = (query, tuple(types), values, goal, written)
    return session.front.plans.plan((catalog.version, session.meaning(), what), make)


def described(plan: Plan) -> tuple[ColumnDescription, ...]:
    """The plan's columns as clients are told of them."""
    return tuple(
        ColumnDescription(c.name, c.type, c.table_oid, c.column_number) for c in plan.bound.columns
    )


async def evaluated(session: SqlSession, plan: Plan, as_of: AsOf | None = None) -> pa.Table:
    """The rows of a plan at the time of the session's transaction, in the declared types."""
    with _naming_overflow(plan):
        return await _evaluated(session, plan, as_of)


@contextmanager
def _naming_overflow(plan: Plan) -> Iterator[None]:
    """Say which type was too small: the engine does not, but often there is only one."""
    try:
        yield
    except EngineFault as fault:
        types = plan.bound.whole_results
        if str(fault) != OVERFLOW.message or len(types) != 1:
            raise
        raise EngineFault.of(out_of_range(types[0])) from None


async def _evaluated(session: SqlSession, plan: Plan, as_of: AsOf | None) -> pa.Table:
    if as_of is None and not plan.inputs and not plan.bound.uses_mz_now:
        return await _timeless(session, plan)
    moment = chosen(session, plan, as_of)
    try:
        if plan.at is not None:
            plan = plan.at(moment.time)
        table = await _rows(session, plan, moment)
    finally:
        if session.transaction.moment is not moment:
            moment.close()
    return shaped(table, [column.type for column in plan.bound.columns])


async def _timeless(session: SqlSession, plan: Plan) -> pa.Table:
    """The rows of a plan that reads nothing, and so has them at every time."""
    row = plan.bound.row
    if row is None:
        table = await session.front.reading.evaluate_over(plan.bound.sql, {}, {}, None)
    else:
        table = known_row(plan, row)
    return shaped(table, [column.type for column in plan.bound.columns])


def known_row(plan: Plan, row: Sequence[pa.Scalar]) -> pa.Table:
    """The only row of a plan, made of constants."""
    names = [column.name for column in plan.bound.columns]
    return pa.Table.from_arrays([pa.repeat(scalar, 1) for scalar in row], names=names)


def chosen(session: SqlSession, plan: Plan, as_of: AsOf | None) -> Moment:
    """The moment of a read: that of the transaction, unless AS OF names another one."""
    transaction = session.transaction
    reading = session.front.reading
    isolation = Isolation(session.settings.get("transaction_isolation"))
    if plan.bound.locks:
        _lock(session, plan, as_of)
    if not plan.inputs:  # constants are the same at any moment
        return reading.choose((), isolation, as_of)
    if as_of is not None or not transaction.in_block:
        among = indexes_on(session.front.core.current, plan.inputs)
        moment = reading.choose(list(plan.inputs), isolation, as_of, among=among)
        if as_of is None:
            transaction.close()
            transaction.moment = moment
            transaction.read(plan.tables)
        return moment
    core = session.front.core
    timeline = common_timeline(core, plan.inputs)
    if transaction.has_written:
        require_of_tables(timeline.id)
    if transaction.moment is None:
        everything = core.holds.known(timeline)
        transaction.moment = reading.choose(list(plan.inputs), isolation, among=everything)
    elif transaction.moment.selection.timeline != timeline.id:
        first = transaction.moment.selection.inputs
        common_timeline(core, [*(each.id for each in first), *plan.inputs])  # tells which
    elif not reading.extend(transaction.moment, list(plan.inputs)):
        raise NewerThanTransaction(
            "the query reads what was created after the time of the transaction",
            detail="All reads of a transaction are at the time of its first read.",
            hint="Commit first.",
        )
    transaction.read(plan.tables)
    return transaction.moment


def _lock(session: SqlSession, plan: Plan, as_of: AsOf | None) -> None:
    """Let a block end well only if what it reads stays as it is; outside of one that is so."""
    if session.transaction.read_only:
        raise ReadOnly("cannot execute SELECT FOR UPDATE in a read-only transaction")
    if as_of is not None or plan.has_sources:
        what = "AS OF" if as_of is not None else "what is read from sources"
        raise Unsupported(f"FOR UPDATE of {what} is not supported", hint=_CHANGES_BY_ITSELF)
    for relation in plan.named:
        if isinstance(relation, MaterializedView):
            raise WrongKind(f'cannot lock rows in materialized view "{relation.name}"')
        privileges.check(session.front.core.current, session.role.oid, relation, Privilege.UPDATE)
    session.transaction.has_locked |= session.transaction.in_block and bool(plan.tables)


async def _rows(session: SqlSession, plan: Plan, moment: Moment) -> pa.Table:
    reading = session.front.reading
    transaction = session.transaction
    own = transaction.changes_of(plan.inputs) if moment is transaction.moment else {}
    if own:
        return await rows_with(session, plan, moment, own)
    simple = plan.bound.simple
    if simple is None:
        return await reading.evaluate(moment, plan.bound.sql, plan.inputs, session.cancellation)
    await reading.complete(moment, [simple.source])
    await reading.check_errors(moment, [simple.source], session.cancellation)
    return await pick(session.front, moment, simple, plan.inputs[simple.source], session)


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query that the catalog's own engine answers.

    `refusal` is what the engine for users' queries says of it, if that was asked first.
    """

    refusal: WaterclockError | None = None


def is_for_catalog(session: SqlSession, query: QueryText) -> bool:
    """Whether the catalog's own engine answers the query."""
    return _asked_of_catalog(session, query) is not None


def _asked_of_catalog(
    session: SqlSession,
    query: QueryText,
    types: Sequence[PgType | None] = (),
    parameters: Parameters | None = None,
) -> _Asked | None:
    """How the catalog's own engine comes to answer the query; None if it does not.

    A query without any relation is the engine's, like those of users, so that a call means the same
    everywhere; only one that asks what the system alone knows goes to the catalog.
    """
    match session.front.plans.route(query.text):
        case Route.CATALOG:
            return _Asked()
        case Route.USER:
            return None
        case Route.CONSTANT:
            try:
                planned(session, query, types=types, parameters=parameters)
            except WaterclockError as fault:
                if _asks_the_system(fault, query):
                    return _Asked(fault)
                raise
            return None
        case Route.MIXED:
            raise Unsupported(
                "a query can not join the system's relations with others",
                hint="Read the system's relations in a query of their own.",
            )


def _asks_the_system(fault: WaterclockError, query: QueryText) -> bool:
    """Whether what is wrong with a query may be that only the system knows what it names."""
    if isinstance(fault, UnsupportedType):
        return True
    if fault.sqlstate in _OF_OBJECTS:
        return _OBJECTS.search(query.text) is not None
    return fault.sqlstate in _UNKNOWN and not isinstance(fault, UndefinedOperator)


@contextmanager
def _preferring(first: WaterclockError | None) -> Iterator[None]:
    """Say what was said first of something that the system does not know either."""
    try:
        yield
    except WaterclockError as second:
        same = ("42704",) if isinstance(first, UnsupportedType) else ()
        if first is None or second.sqlstate not in (*_NOT_UNDERSTOOD, *same, first.sqlstate):
            raise
        raise first from None


async def _from_catalog(
    session: SqlSession, query: QueryText, parameters: Parameters, asked: _Asked
) -> Response:
    with _preferring(asked.refusal):
        found = await answered(session, query.text, parameters)
    for change in found.settings:
        session.settings.set(change.name, change.value, local=change.local)
    columns = tuple(ColumnDescription(c.name, c.type) for c in found.columns)
    return Rows(columns, in_batches(found.rows))


async def answered(session: SqlSession, text: str, parameters: Parameters = ()) -> CatalogResult:
    """What the catalog's own engine says to a query over the system's relations, or over none."""
    answerer, facts = session.front.answerer, session.catalog_facts()
    known = answerer.known(text) if not parameters else None
    if known is not None:
        return known
    cancellation = CatalogCancellation()
    values = [python_value(each) for each in parameters]
    work = partial(answerer.execute, text, values, facts, (), cancellation)
    try:
        if _SLEEP in text.lower():
            return await _in_thread_of_its_own(work)
        return await asyncio.to_thread(work)
    except asyncio.CancelledError:
        cancellation.cancel()
        raise


async def _in_thread_of_its_own(work: Callable[[], T]) -> T:
    """Do what may take any time, so that the threads that all share stay free for others."""
    executor = ThreadPoolExecutor(1, "waterclock-sleep")
    try:
        return await asyncio.get_running_loop().run_in_executor(executor, work)
    finally:
        executor.shutdown(wait=False)


async def constants(
    session: SqlSession,
    written: Sequence[ExpressionText],
    types: Sequence[PgType],
    parameters: Parameters = (),
) -> tuple[pa.Scalar, ...]:
    """The values of constant expressions, converted to types as if they were assigned."""
    if not written:
        return ()
    table = bind_values([written], types, facts=session.facts(), parameters=parameters)
    if table is None:
        text = ", ".join(each.text for each in written)
        query = QueryText(f"SELECT {text}", written[0].position)
        plan = planned(session, query, parameters=parameters, target_types=types)
        table = await evaluated(session, plan)
    return tuple(column[0] for column in shaped(table, types).columns)


async def as_of_time(session: SqlSession, as_of: ast.queries.AsOf | None) -> AsOf | None:
    """The time that AS OF names."""
    if as_of is None:
        return None
    return AsOf(await time_of(session, as_of.time, "AS OF"), as_of.at_least)


async def time_of(session: SqlSession, written: ExpressionText, what: str) -> int:
    """The time that a constant expression stands for; `what` says where it was written."""
    found = await answered(session, f"SELECT ({written.text})")
    value = python_value(found.rows.column(0)[0]) if found.rows.num_rows == 1 else None
    return _millis(value, f"{what} {written.text}")


def _millis(value: object, text: str) -> int:
    """A time of the timeline: milliseconds, or a moment of the calendar."""
    match value:
        case int():
            return value
        case decimal.Decimal() if value == int(value):
            return int(value)
        case str() if value.strip().isdigit():
            return int(value)
        case datetime.datetime():
            zoned = value if value.tzinfo else value.replace(tzinfo=datetime.UTC)
            return int(zoned.timestamp() * 1000)
        case _:
            raise InvalidTime(f"{text} is not a time")


DEFAULT_PARAMETER = TEXT
RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Query: run_query}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Query: describe_query
}
