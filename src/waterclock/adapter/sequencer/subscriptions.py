"""SUBSCRIBE: the contents of a relation at a time, then every change of it, as they become known.

What only picks columns and rows of a table, a source or a materialized view is followed where it is
stored, and all subscribers of it share the reading. Anything else is maintained as a view that
nobody else sees, for as long as somebody subscribes to it.

A subscription has no end, so `statement_timeout` does not apply to it: it ends when it is
cancelled, when UP TO is reached, when what it reads is dropped, or when that has no value any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import pyarrow as pa

from waterclock.adapter.api import Response, Rows, StatementDescription
from waterclock.adapter.envelopes import Shape
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.feeds import Feed
from waterclock.adapter.following import gone
from waterclock.adapter.holds import Holder
from waterclock.adapter.planning import Plan, column_named
from waterclock.adapter.pumps import Followed
from waterclock.adapter.reading import Moment as ReadMoment
from waterclock.adapter.sequencer.catalog_queries import is_for_catalog
from waterclock.adapter.sequencer.query_plans import described, planned
from waterclock.adapter.sequencer.times import as_of_time, time_of
from waterclock.adapter.settings import milliseconds
from waterclock.adapter.transient import Transient
from waterclock.catalog import privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.errors import PermissionDenied
from waterclock.catalog.objects import AnyRelation, Oid
from waterclock.errors import WaterclockError
from waterclock.model.errors import DuplicateColumn, UnknownColumn
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import PgType
from waterclock.model.schema import Schema
from waterclock.oracle.selection import AsOf
from waterclock.persist.rows import DIFF, row_schema
from waterclock.sql import ast, options
from waterclock.sql.ast.common import ExpressionText, ObjectName, QueryText, SortKey
from waterclock.sql.ast.queries import Moment, SubscribeForm
from waterclock.sql.quoting import quote_name

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]


class InvalidRange(WaterclockError):
    """The subscription would end before it begins."""

    sqlstate: ClassVar[str] = "22023"


async def describe_subscribe(
    session: SqlSession, statement: ast.Subscribe, types: Sequence[PgType | None]
) -> StatementDescription:
    plan = await _planned(session, statement, types=types)
    return StatementDescription(plan.bound.parameters, _shape(statement, plan).described)


async def subscribe(
    session: SqlSession, statement: ast.Subscribe, parameters: Parameters
) -> Response:
    """Begin a subscription; its rows come as long as somebody asks for them."""
    session.transaction.require_unwritten("SUBSCRIBE")
    asked = options.by_name(statement.options, ("snapshot", "progress"))
    plan = await _planned(session, statement, parameters=parameters)
    shape = _shape(statement, plan)
    up_to: int | Literal[Moment.LATEST] | None = None
    match statement.up_to:
        case ExpressionText() as written:
            up_to = await time_of(session, written, "UP TO")
        case latest:
            up_to = latest
    wants_contents = "snapshot" not in asked or options.truth(asked["snapshot"])
    with ExitStack() as held:
        if statement.as_of is Moment.EARLIEST:
            earliest = held.enter_context(session.front.reading.hold_earliest(plan.inputs))
            as_of: AsOf | None = AsOf(max(earliest.times.values()))
        else:
            as_of = await as_of_time(session, statement.as_of)
        source = await _opened(session, plan, as_of)
        try:
            session.watch.require_wanted()
            feed = await _feed(session, plan, source, shape, as_of, up_to, wants_contents)
        except BaseException:
            await source.close()
            raise
    session.watch.stop_clock()
    return Rows(shape.described, feed, "SUBSCRIBE")


class _Source:
    """The collection that is followed, and what to do when it is not any more."""

    def __init__(
        self, collection: GlobalId, schema: Schema, close: Callable[[], Awaitable[None]] | None
    ) -> None:
        self.collection = collection
        self.schema = schema
        self._close = close

    async def close(self) -> None:
        if self._close is not None:
            await self._close()


async def _opened(session: SqlSession, plan: Plan, as_of: AsOf | None) -> _Source:
    simple = plan.bound.simple
    if simple is not None and _only_picks(plan):
        return _Source(simple.source, plan.inputs[simple.source], None)
    view = Transient(session.front.core, session.front.changes, plan)
    read = session.transaction.moment
    wanted = as_of.time if as_of is not None else read.time if read is not None else None
    await session.watch.outcome_of(view.begin(wanted))
    return _Source(view.output, view.schema, view.end)


async def _feed(
    session: SqlSession,
    plan: Plan,
    source: _Source,
    shape: Shape,
    as_of: AsOf | None,
    ends: int | Literal[Moment.LATEST] | None,
    wants_contents: bool,
) -> Feed:
    moment = _chosen(session, source.collection, as_of)
    moment.hold.holder = Holder("subscription", str(session.startup.process_id))
    try:
        up_to = ends
        if isinstance(up_to, Moment):
            up_to = 1 + (moment.time if as_of is None else _latest(session, source, moment))
        if up_to is not None and up_to < moment.time:
            raise InvalidRange(
                f"UP TO {up_to} is before the time at which the subscription begins, {moment.time}"
            )
        reading, cancelled = session.front.reading, session.cancellation
        await reading.complete(moment, [source.collection], cancelled)
        await reading.check_errors(moment, [source.collection], cancelled)
        columns = source.schema.project(shape.needed)
        contents = None
        if wants_contents and up_to != moment.time:
            contents = await reading.contents(moment, source.collection, columns, cancelled)
    except BaseException:
        moment.close()
        raise
    followed = Followed(source.collection, row_schema(columns))
    front = session.front
    role, named = session.role.oid, plan.named
    feed = Feed(
        front.core,
        front.pumps,
        followed,
        shape,
        moment,
        up_to,
        source.close,
        lambda catalog: _require_right(catalog, role, named, source.collection),
        milliseconds(session.settings.get("subscription_lease")) or None,
    )
    try:
        await feed.begin(contents)
    except BaseException:
        moment.close()
        raise
    return feed


def _require_right(
    catalog: Catalog, role: Oid, named: Sequence[AnyRelation], followed: GlobalId
) -> None:
    """Raise unless the role may still read the relations, as the catalog has them now.

    That what is followed itself was dropped is noticed where it is read, after its last changes.
    """
    if role not in catalog.objects:
        raise PermissionDenied("the role that has subscribed was dropped")
    for each in named:
        found = catalog.try_item(each.id)
        if isinstance(found, AnyRelation):
            privileges.check_read(catalog, role, [found])
        elif each.id != followed:
            raise gone()


def _chosen(session: SqlSession, collection: GlobalId, as_of: AsOf | None) -> ReadMoment:
    """The moment at which it begins: that of the transaction, if that has read already."""
    isolation, staleness_ms = session.settings.isolation
    read = session.transaction.moment
    if as_of is None and read is not None and collection in read.hold.times:
        as_of = AsOf(read.time)
    choose = session.front.reading.choose
    return choose([collection], isolation, as_of, staleness_ms=staleness_ms)


def _latest(session: SqlSession, source: _Source, begun: ReadMoment) -> int:
    """The time at which the collection would be read now, but not one before the beginning."""
    with closing(_chosen(session, source.collection, None)) as latest:
        return max(latest.time, begun.time)


async def _planned(
    session: SqlSession,
    statement: ast.Subscribe,
    *,
    types: Sequence[PgType | None] = (),
    parameters: Parameters | None = None,
) -> Plan:
    target = statement.target
    query = target if isinstance(target, QueryText) else _everything(target)
    if await is_for_catalog(session, query):
        raise Unsupported("SUBSCRIBE to relations of the system, or to none, is not supported")
    return await planned(session, query, types=types, parameters=parameters, maintained=True)


def _everything(name: ObjectName) -> QueryText:
    return QueryText(f"SELECT * FROM {quote_name(name.parts)}", name.position)


def _only_picks(plan: Plan) -> bool:
    simple = plan.bound.simple
    assert simple is not None
    whole = simple.limit is None and simple.offset is None
    return whole and not simple.order and not simple.count_star


def _shape(statement: ast.Subscribe, plan: Plan) -> Shape:
    asked = options.by_name(statement.options, ("snapshot", "progress"))
    columns = described(plan)
    names = [column.name for column in columns]
    form, key = statement.envelope.form, statement.envelope.key
    if statement.order_by and form is not SubscribeForm.DIFFS:
        raise Unsupported("WITHIN TIMESTAMP ORDER BY with an ENVELOPE is not supported")
    simple = plan.bound.simple
    picks = simple is not None and _only_picks(plan)
    return Shape(
        columns,
        simple.columns if simple is not None and picks else Transient.names(plan),
        simple.conditions if simple is not None and picks else (),
        "progress" in asked and options.truth(asked["progress"]),
        form,
        _key(names, [identifier.name for identifier in key]),
        tuple(_sort_key(names, each) for each in statement.order_by),
    )


def _key(names: Sequence[str], written: Sequence[str]) -> tuple[int, ...]:
    """The places of the key's columns, each of which there must be once."""
    for name in written:
        if names.count(name) > 1 or written.count(name) > 1:
            raise DuplicateColumn(f'column "{name}" specified more than once')
    return tuple(_place(names, name) for name in written)


def _place(names: Sequence[str], name: str) -> int:
    if name not in names:
        raise UnknownColumn(f'column "{name}" does not exist')
    return names.index(name)


def _sort_key(names: Sequence[str], key: SortKey) -> tuple[int | None, bool, bool]:
    name = column_named(key.expression)
    if name is None:
        raise Unsupported(
            "WITHIN TIMESTAMP ORDER BY an expression is not supported",
            hint="Order by columns of the relation, or by mz_diff.",
        )
    place = None if name == DIFF else _place(names, name)
    nulls_first = key.descending if key.nulls_first is None else key.nulls_first
    return place, key.descending, nulls_first


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Subscribe: subscribe}
DESCRIBE: dict[type[Any], Callable[..., Awaitable[StatementDescription]]] = {
    ast.Subscribe: describe_subscribe
}
