"""CREATE, ALTER and DROP READ HOLD.

Whoever may read some relations may hold them: at the time at which a SELECT would read them now, at
an earlier one that can still be read, or as early as possible. What is held is everything that a
read of the relations may go to: the collections behind views, indexes on them, and what tells of
their errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.changes import Change
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.read_holds import (
    DEFAULT_LEASE_MS,
    LEAST_LEASE_MS,
    LONGEST_LEASE_MS,
)
from waterclock.adapter.reading import Moment as ReadMoment
from waterclock.adapter.reading import indexes_on
from waterclock.adapter.sequencer.catalog_queries import is_for_catalog
from waterclock.adapter.sequencer.query_plans import planned
from waterclock.adapter.sequencer.times import as_of_time, time_of
from waterclock.model.ids import GlobalId
from waterclock.oracle.selection import AsOf
from waterclock.sql import ast, options
from waterclock.sql.ast.common import ObjectName, Option, QueryText
from waterclock.sql.ast.queries import Moment
from waterclock.sql.errors import InvalidParameter
from waterclock.sql.quoting import quote_name

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
Behind = dict[GlobalId, list[GlobalId]]
_LEASE = "lease"


async def create(session: SqlSession, statement: ast.CreateReadHold, _: Parameters) -> Response:
    name, front = statement.name.name, session.front
    lease_ms = _lease_ms(statement.options)
    if statement.if_not_exists and front.core.read_holds.exists(name):
        session.notify(Notice(f'read hold "{name}" already exists, skipping', sqlstate="42710"))
        return Done("CREATE READ HOLD")
    behind = await _behind(session, statement.relations)
    moment = await _moment(session, statement, behind)
    try:
        keep = partial(
            front.core.read_holds.create,
            name,
            session.role.oid,
            {relation: _readable(session, moment, found) for relation, found in behind.items()},
            moment.hold,
            moment.time,
            lease_ms,
        )
        await _changed(session, keep)
    except BaseException:
        moment.close()
        raise
    return Done("CREATE READ HOLD")


async def _behind(session: SqlSession, names: Sequence[ObjectName]) -> Behind:
    """The collections that a read of each relation goes to; raises unless the role may read it."""
    found: Behind = {}
    for name in names:
        query = QueryText(f"SELECT * FROM {quote_name(name.parts)}", name.position)
        if await is_for_catalog(session, query):
            raise Unsupported(
                "relations of the system have no history to hold",
                hint="Hold tables, sources and views.",
            )
        plans = [await planned(session, query), await planned(session, query, maintained=True)]
        [relation] = {each.id for plan in plans for each in plan.named}
        found[relation] = list(dict.fromkeys(each for plan in plans for each in plan.inputs))
    return found


def _readable(
    session: SqlSession, moment: ReadMoment, inputs: Sequence[GlobalId]
) -> list[GlobalId]:
    """All that a read of the inputs may go to at the moment; an index may begin only later."""
    core = session.front.core
    served = [*inputs, *indexes_on(core.current, inputs)]
    beside = [errors for each in served for errors in core.errors_of(each)]
    return [c for c in dict.fromkeys([*served, *beside]) if moment.hold.times[c] <= moment.time]


async def _moment(session: SqlSession, statement: ast.CreateReadHold, behind: Behind) -> ReadMoment:
    """The time at which all of it is held, and the hold on it."""
    reading = session.front.reading
    needed = list(dict.fromkeys(c for found in behind.values() for c in found))
    among = indexes_on(session.front.core.current, needed)
    isolation, staleness_ms = session.settings.isolation
    if statement.as_of is Moment.EARLIEST:
        with reading.hold_earliest(needed) as earliest:
            as_of: AsOf | None = AsOf(max(earliest.times.values(), default=0))
            return reading.choose(needed, isolation, as_of, among=among)
    as_of = await as_of_time(session, statement.as_of)
    return reading.choose(needed, isolation, as_of, among=among, staleness_ms=staleness_ms)


def _lease_ms(given: tuple[Option, ...]) -> int:
    asked = options.by_name(given, (_LEASE,)).get(_LEASE)
    millis = DEFAULT_LEASE_MS if asked is None else round(options.milliseconds(asked))
    if not LEAST_LEASE_MS <= millis <= LONGEST_LEASE_MS:
        shown = (options.shown_duration(each) for each in (LEAST_LEASE_MS, LONGEST_LEASE_MS))
        raise InvalidParameter(
            f"a lease of {options.shown_duration(millis)} is not possible",
            None if asked is None else asked.position,
            hint="A lease lasts {} to {}. Renew it to hold for longer.".format(*shown),
        )
    return millis


async def alter(session: SqlSession, statement: ast.AlterReadHold, _: Parameters) -> Response:
    name, core = statement.name.name, session.front.core
    if statement.if_exists and not core.read_holds.exists(name):
        _skip(session, name)
        return Done("ALTER READ HOLD")
    to = None
    if statement.advance_to is not None:
        to = await time_of(session, statement.advance_to, "ADVANCE TO")
    await _changed(
        session, partial(core.read_holds.renew, core.current, session.role.oid, name, to)
    )
    return Done("ALTER READ HOLD")


async def drop(session: SqlSession, statement: ast.DropReadHold, _: Parameters) -> Response:
    core = session.front.core
    for identifier in statement.names:
        if statement.if_exists and not core.read_holds.exists(identifier.name):
            _skip(session, identifier.name)
            continue
        role = session.role.oid
        await _changed(session, partial(core.read_holds.drop, core.current, role, identifier.name))
    return Done("DROP READ HOLD")


def _skip(session: SqlSession, name: str) -> None:
    session.notify(Notice(f'read hold "{name}" does not exist, skipping'))


async def _changed(session: SqlSession, step: Callable[[], None]) -> None:
    """Make a durable change, to its end."""
    changes = session.front.changes

    async def work(change: Change[None]) -> None:
        change.pass_point_of_no_return()
        await changes.in_thread(step)

    await session.watch.outcome_of(changes.begin(work))


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {
    ast.CreateReadHold: create,
    ast.AlterReadHold: alter,
    ast.DropReadHold: drop,
}
