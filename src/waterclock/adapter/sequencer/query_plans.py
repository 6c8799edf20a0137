"""Queries, planned for a session: what they mean to it, if its role may read what they read.

A plan that was made before serves again, unless the catalog has changed since or the session means
something else by the text now: see `plans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.adapter.api import ColumnDescription
from waterclock.adapter.offload import SMALL_TEXT
from waterclock.adapter.planning import NOTHING_GIVEN, AllGiven, Plan, plan_query
from waterclock.catalog import privileges
from waterclock.model.pg_types import PgType
from waterclock.sql.ast.common import QueryText
from waterclock.sql.budget import Meter, TooMuchHere

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_TRIES = 5
"""Attempts to plan a query while the catalog changes."""
Parameters = Sequence[pa.Scalar]
"""The values of `$1`, `$2` and so on."""


async def planned(
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
    given: AllGiven = NOTHING_GIVEN,
    is_run: bool = True,
) -> Plan:
    """The query's plan, if the session's role may read what it reads.

    Made where it delays nobody: see `offload`.

    What is planned `for_all` is a view, whose texts do not follow the session's settings. A plan
    with rows that are `given` serves once. One that is not run has no SQL, only columns and names.
    """
    tries = _TRIES
    while True:
        job = _Job(
            session,
            query,
            tuple(types),
            None if parameters is None else tuple(parameters),
            maintained,
            for_all,
            tuple(target_types),
            tuple(target_names),
            None if assigned is None else tuple(assigned),
            given,
            is_run,
        )
        found = session.front.plans.kept(job.key)
        if found is not None:
            return found
        plan = await session.front.offload.run(job.make, len(query.text))
        session.front.plans.keep(job.key, plan)
        tries -= 1
        if session.front.core.current is job.catalog or not tries:
            return plan  # else the catalog has changed while a thread was planning


def planned_at_once(session: SqlSession, query: QueryText) -> Plan:
    """The plan of a small query, without parameters' values; `TooMuchHere` if it is not small."""
    job = _Job(session, query)
    found = session.front.plans.kept(job.key)
    if found is None:
        if len(query.text) > SMALL_TEXT:
            raise TooMuchHere
        found = session.front.offload.at_once(job.make)
        session.front.plans.keep(job.key, found)
    return found


class _Job:
    """Making one plan: what it is made from is taken down at once, for it may run in a thread."""

    def __init__(
        self,
        session: SqlSession,
        query: QueryText,
        types: tuple[PgType | None, ...] = (),
        values: tuple[pa.Scalar, ...] | None = None,
        maintained: bool = False,
        for_all: bool = False,
        target_types: tuple[PgType | None, ...] = (),
        target_names: tuple[str, ...] = (),
        assigned: tuple[int, ...] | None = None,
        given: AllGiven = NOTHING_GIVEN,
        is_run: bool = True,
    ) -> None:
        self.catalog = session.front.core.current
        self._role = session.role.oid
        self._scope = session.scope
        facts = session.facts()
        self._facts = facts.of_views() if for_all else facts
        self._query = query
        written = frozenset() if maintained else session.transaction.written
        goal = (maintained, for_all, target_types, target_names, assigned, is_run)
        what = (query, types, values, goal, written)
        self.key = None if given else (self.catalog.version, session.meaning(), what)
        """Under which the plan is kept; one with rows that are given serves once."""
        self._plan = partial(
            plan_query,
            parameter_types=types,
            parameters=values,
            maintained=maintained,
            target_types=target_types,
            target_names=target_names,
            written=written,
            assigned=assigned,
            given=given,
            is_run=is_run,
        )

    def make(self, meter: Meter) -> Plan:
        plan = self._at(None, meter)
        return replace(plan, at=self._at) if plan.bound.uses_mz_now else plan

    def _at(self, time: int | None, meter: Meter) -> Plan:
        """The plan; if `mz_now()` is asked for, at a time."""
        facts = replace(self._facts, mz_now=time)
        text, position = self._query.text, self._query.position
        plan = self._plan(self.catalog, self._scope, facts, text, position, meter=meter)
        privileges.check_read(self.catalog, self._role, plan.named)
        return plan


def described(plan: Plan) -> tuple[ColumnDescription, ...]:
    """The plan's columns as clients are told of them."""
    return tuple(
        ColumnDescription(c.name, c.type, c.table_oid, c.column_number) for c in plan.bound.columns
    )
