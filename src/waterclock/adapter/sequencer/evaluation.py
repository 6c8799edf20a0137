"""The rows of plans, at one moment.

The moment is that of the session's transaction, chosen by its first read, unless AS OF names
another. A recent read asks the sources behind it first (`adapter.recency`). Rows that only need
picking are picked here; all others come from Spark. In a transaction that has written, what it
wrote is seen too; but not AS OF a time, which is before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.adapter.errors import NewerThanTransaction, Unsupported
from waterclock.adapter.holds import Holder
from waterclock.adapter.own_writes import rows_over, rows_with
from waterclock.adapter.picking import pick
from waterclock.adapter.planning import Plan
from waterclock.adapter.reading import Moment, indexes_on
from waterclock.adapter.recency import Asking, Recent
from waterclock.adapter.results import shaped
from waterclock.adapter.sequencer.query_plans import Parameters, planned
from waterclock.adapter.settings import milliseconds
from waterclock.adapter.timelines import common_timeline, require_of_tables
from waterclock.adapter.transaction import ReadOnly
from waterclock.catalog import privileges
from waterclock.catalog.errors import WrongKind
from waterclock.catalog.objects import MaterializedView, Privilege
from waterclock.compute.faults import OVERFLOW, EngineFault, out_of_range
from waterclock.model.pg_types import PgType
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.oracle.selection import AsOf
from waterclock.sql.ast.common import ExpressionText, QueryText
from waterclock.sql.binding import bind_values
from waterclock.storage.sources.recency import NotLinearizable

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_CHANGES_BY_ITSELF = "Only tables stay as they are while a transaction lasts; read it without."


async def evaluated(
    session: SqlSession, plan: Plan, as_of: AsOf | None = None, *, is_recent: bool = False
) -> pa.Table:
    """The rows of a plan at the time of the session's transaction, in the declared types.

    With `is_recent` it is a recent read whatever the settings say.
    """
    with _naming_overflow(plan):
        return await _evaluated(session, plan, as_of, is_recent)


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


async def _evaluated(
    session: SqlSession, plan: Plan, as_of: AsOf | None, is_recent: bool
) -> pa.Table:
    if as_of is None and not plan.inputs and not plan.bound.uses_mz_now:
        return await _timeless(session, plan)
    asking = asked_of_sources(session, plan, as_of, is_recent=is_recent)
    moment, recent = await _moment_of(session, plan, as_of, asking)
    try:
        if asking is not None and recent is not None:
            await asking.reach(recent, moment.time)
            # From now on everybody reads at this time or later, and shall not wait for tables.
            await asyncio.to_thread(session.front.core.tables.advance, moment.time)
        if plan.at is not None:
            planned_at = partial(plan.at, moment.time)
            plan = await session.front.offload.run(planned_at, len(plan.query.sql))
        table = await _rows(session, plan, moment)
    finally:
        if session.transaction.moment is not moment:
            moment.close()
    return shaped(table, [column.type for column in plan.bound.columns])


async def _moment_of(
    session: SqlSession, plan: Plan, as_of: AsOf | None, asking: Asking | None
) -> tuple[Moment, Recent | None]:
    """The moment of a read, and what the sources behind it have found for it."""
    if asking is None:
        return chosen(session, plan, as_of), None
    transaction = session.transaction
    is_first = not transaction.in_block or transaction.moment is None
    recent = await _recent(session, plan, asking)
    moment = chosen(session, plan, as_of, recent)
    while is_first and recent is not None and recent.is_joint and moment.time > recent.time:
        at_least = moment.time
        transaction.let_go(moment)
        recent = await heads_of(session, asking, plan, at_least)
        moment = chosen(session, plan, as_of, recent)
    if transaction.in_block and recent is not None:
        transaction.recent_sources |= recent.bounds
    return moment, recent


async def _timeless(session: SqlSession, plan: Plan) -> pa.Table:
    """The rows of a plan that reads nothing, and so has them at every time."""
    row = plan.bound.row
    if row is None:
        table = await rows_over(session, plan, {}, None)
    else:
        table = known_row(plan, row)
    return shaped(table, [column.type for column in plan.bound.columns])


def known_row(plan: Plan, row: Sequence[pa.Scalar]) -> pa.Table:
    """The only row of a plan, made of constants."""
    names = [column.name for column in plan.bound.columns]
    return pa.Table.from_arrays([pa.repeat(scalar, 1) for scalar in row], names=names)


def asked_of_sources(
    session: SqlSession, plan: Plan, as_of: AsOf | None, *, is_recent: bool
) -> Asking | None:
    """Who asks the sources behind a recent read; None if it is none, or has no sources.

    Raises `NotLinearizable` for a source whose times are its own.
    """
    wanted = is_recent or session.settings.wants_recency
    if not wanted or not plan.sources or (as_of is not None and not as_of.at_least):
        return None
    core = session.front.core
    if common_timeline(core, plan.inputs) != EPOCH_MILLIS:
        shown = ", ".join(core.current.described(core.current.item(s)) for s in plan.sources)
        raise NotLinearizable(
            f"recent reads of {shown} are not possible",
            detail="Its messages bring times of their own, and are seen when these are complete.",
            hint="SET real_time_recency = off to read what is complete.",
        )
    return Asking(core, milliseconds(session.settings.get("real_time_recency_timeout")))


async def heads_of(session: SqlSession, asking: Asking, plan: Plan, at_least: int = 0) -> Recent:
    """What the sources behind a plan find, at a time that suits the tables read with it too: in a
    block these may be any.
    """
    in_block = session.transaction.in_block
    tables = session.front.core.tables.written if in_block else plan.tables
    if tables:
        return await asking.heads_with(plan.sources, tables, at_least)
    return await asking.heads(plan.sources, at_least)


async def _recent(session: SqlSession, plan: Plan, asking: Asking) -> Recent | None:
    """What the sources behind a recent read have found; None if that is known in this block.

    Raises `NewerThanTransaction` if the transaction's time is before what is upstream now.
    """
    transaction = session.transaction
    moment = transaction.moment if transaction.in_block else None
    if moment is None:
        return await heads_of(session, asking, plan)
    known = transaction.recent_sources
    new = plan.sources - known.keys()
    if not new:
        return None
    recent = await asking.heads(new, moment.time)
    is_newer = any(each.finding.bound_at > moment.time for each in recent.sources)
    groups = session.front.core.sources.groups(known.keys() | new)
    places = [{(known | recent.bounds)[each] for each in group} for group in groups]
    if is_newer or any(len(each) > 1 for each in places):
        raise NewerThanTransaction(
            "there is data upstream that is newer than the time of the transaction",
            detail="All reads of a transaction are at the time of its first read, and that did not"
            " ask all sources that are read now.",
            hint="Let the first query of the transaction read from all of them, or commit first.",
        )
    return recent


def chosen(
    session: SqlSession, plan: Plan, as_of: AsOf | None, recent: Recent | None = None
) -> Moment:
    """The moment of a read: that of the transaction, unless AS OF names another one. It is not
    before the time of a recent read.
    """
    transaction = session.transaction
    isolation, staleness_ms = session.settings.isolation
    choose = partial(
        session.front.reading.choose,
        isolation=isolation,
        recency=None if recent is None else recent.time,
        read_ts=None if recent is None else recent.read_ts,
        staleness_ms=staleness_ms,
    )
    if plan.bound.locks:
        _lock(session, plan, as_of)
    if not plan.inputs:  # constants are the same at any moment
        return choose((), as_of=as_of)
    if as_of is None:
        session.quieten(plan.of_sources)
    if as_of is not None or not transaction.in_block:
        among = indexes_on(session.front.core.current, plan.inputs)
        moment = choose(list(plan.inputs), as_of=as_of, among=among)
        moment.hold.holder = _reader(session)
        if as_of is None:
            transaction.close()
            transaction.moment = moment
            transaction.read(plan.tables, plan.of_sources)
        return moment
    core = session.front.core
    timeline = common_timeline(core, plan.inputs)
    if transaction.has_written:
        require_of_tables(timeline.id)
    if transaction.moment is None:
        everything = core.holds.known(timeline)
        transaction.moment = choose(list(plan.inputs), among=everything)
        transaction.moment.hold.holder = _reader(session)
    elif transaction.moment.selection.timeline != timeline.id:
        first = transaction.moment.selection.inputs
        common_timeline(core, [*(each.id for each in first), *plan.inputs])  # tells which
    elif not session.front.reading.extend(transaction.moment, list(plan.inputs)):
        raise NewerThanTransaction(
            "the query reads what was created after the time of the transaction",
            detail="All reads of a transaction are at the time of its first read.",
            hint="Commit first.",
        )
    transaction.read(plan.tables, plan.of_sources)
    return transaction.moment


def _reader(session: SqlSession) -> Holder:
    return Holder("transaction", str(session.startup.process_id))


def _lock(session: SqlSession, plan: Plan, as_of: AsOf | None) -> None:
    """Let a block end well only if what it reads stays as it is; outside of one that is so."""
    if session.transaction.read_only:
        raise ReadOnly("cannot execute SELECT FOR UPDATE in a read-only transaction")
    if as_of is not None or plan.sources:
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
    if own or plan.given or plan.bound.parts:
        return await rows_with(session, plan, moment, own)
    simple = plan.bound.simple
    if simple is None:
        return await reading.evaluate(moment, plan.bound.sql, plan.inputs, session.cancellation)
    await reading.complete(moment, [simple.source], session.cancellation)
    await reading.check_errors(moment, [simple.source], session.cancellation)
    return await pick(session.front, moment, simple, plan.inputs[simple.source], session)


async def constants(
    session: SqlSession,
    written: Sequence[ExpressionText],
    types: Sequence[PgType],
    parameters: Parameters = (),
) -> tuple[pa.Scalar, ...]:
    """The values of constant expressions, converted to types as if they were assigned."""
    if not written:
        return ()
    size = sum(len(each.text) for each in written)
    bind = partial(bind_values, [written], types, facts=session.facts(), parameters=parameters)
    table = await session.front.offload.run(lambda meter: bind(meter=meter), size)
    if table is None:
        text = ", ".join(each.text for each in written)
        query = QueryText(f"SELECT {text}", written[0].position)
        plan = await planned(session, query, parameters=parameters, target_types=types)
        table = await evaluated(session, plan)
    return tuple(column[0] for column in shaped(table, types).columns)
