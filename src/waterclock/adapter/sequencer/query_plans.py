"""Queries, planned for a session: what they mean to it, if its role may read what they read.

A plan that was made before serves again, unless the catalog has changed since or the session means
something else by the text now: see `plans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.adapter.api import ColumnDescription
from waterclock.adapter.planning import NOTHING_GIVEN, AllGiven, Plan, plan_query
from waterclock.catalog import privileges
from waterclock.model.pg_types import PgType
from waterclock.sql.ast.common import QueryText

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
"""The values of `$1`, `$2` and so on."""


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
    given: AllGiven = NOTHING_GIVEN,
) -> Plan:
    """The query's plan, if the session's role may read what it reads.

    What is planned `for_all` is a view, whose texts do not follow the session's settings. A plan
    with rows that are `given` serves once.
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
            given=given,
        )
        privileges.check_read(catalog, session.role.oid, plan.named)
        return replace(plan, at=make) if plan.bound.uses_mz_now and time is None else plan

    if given:
        return make()
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
