"""Queries that the catalog's own engine answers.

Those over the system's relations; and of those over none, which are the other engine's like any
query of users, the ones that ask what the system alone knows. When neither engine understands a
query, what the first said of it is told.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.sequencer.query_plans import Parameters, planned
from waterclock.catalog.system.answerer import CatalogResult
from waterclock.catalog.system.routing import Route
from waterclock.catalog.system.session import Cancellation as CatalogCancellation
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType
from waterclock.persist.numerics import python_value
from waterclock.sql.ast.common import QueryText
from waterclock.sql.binding.errors import UndefinedOperator
from waterclock.sql.errors import UnsupportedType

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_UNKNOWN = ("42883", "42704")
"""The SQLSTATEs of a function, and of a type, that does not exist."""
_OBJECTS = re.compile(
    r"\b(to_)?reg(class|type|role|namespace|proc(edure)?|oper(ator)?)\b", re.IGNORECASE
)
"""The types whose values are objects of the catalog."""
_OF_OBJECTS = (Unsupported.sqlstate, "42P01", "42809")
"""What is said of such a value by whoever knows only relations of users."""
_NOT_UNDERSTOOD = ("42883", "42601", Unsupported.sqlstate)
"""Those of what the catalog's own engine can not tell about either."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A query that the catalog's own engine answers.

    `refusal` is what the engine for users' queries says of it, if that was asked first.
    """

    refusal: WaterclockError | None = None


async def is_for_catalog(session: SqlSession, query: QueryText) -> bool:
    """Whether the catalog's own engine answers the query."""
    return await asked_of_catalog(session, query) is not None


async def asked_of_catalog(
    session: SqlSession,
    query: QueryText,
    types: Sequence[PgType | None] = (),
    parameters: Parameters | None = None,
) -> Asked | None:
    """How the catalog's own engine comes to answer the query; None if it does not.

    A query without any relation is the engine's, like those of users, so that a call means the same
    everywhere; only one that asks what the system alone knows goes to the catalog.
    """
    match await route_of(session, query):
        case Route.CATALOG:
            return Asked()
        case Route.USER:
            return None
        case Route.CONSTANT:
            try:
                await planned(session, query, types=types, parameters=parameters)
            except WaterclockError as fault:
                if _asks_the_system(fault, query):
                    return Asked(fault)
                raise
            return None
        case Route.MIXED:
            raise Unsupported(
                "a query can not join the system's relations with others",
                hint="Read the system's relations in a query of their own.",
            )


async def route_of(session: SqlSession, query: QueryText) -> Route:
    """Where the query goes."""
    plans, text = session.front.plans, query.text
    found = plans.kept_route(text)
    if found is not None:
        return found
    return await session.front.offload.run(lambda meter: plans.route(text, meter), len(text))


def _asks_the_system(fault: WaterclockError, query: QueryText) -> bool:
    """Whether what is wrong with a query may be that only the system knows what it names."""
    if isinstance(fault, UnsupportedType):
        return True
    if fault.sqlstate in _OF_OBJECTS:
        return _OBJECTS.search(query.text) is not None
    return fault.sqlstate in _UNKNOWN and not isinstance(fault, UndefinedOperator)


@contextmanager
def preferring(first: WaterclockError | None) -> Iterator[None]:
    """Say what was said first of something that the system does not know either."""
    try:
        yield
    except WaterclockError as second:
        same = ("42704",) if isinstance(first, UnsupportedType) else ()
        if first is None or second.sqlstate not in (*_NOT_UNDERSTOOD, *same, first.sqlstate):
            raise
        raise first from None


async def answered(session: SqlSession, text: str, parameters: Parameters = ()) -> CatalogResult:
    """What the catalog's own engine says to a query over the system's relations, or over none."""
    answerer, facts = session.front.answerer, session.catalog_facts()
    known = answerer.known(text) if not parameters else None
    if known is not None:
        return known
    cancellation = CatalogCancellation(session.front.core.runtime)
    values = [python_value(each) for each in parameters]
    work = partial(answerer.execute, text, values, facts, (), cancellation)
    try:
        return await session.front.offload.run_long(work)
    except asyncio.CancelledError:
        cancellation.cancel()
        raise
