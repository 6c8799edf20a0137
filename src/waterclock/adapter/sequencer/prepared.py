"""Statements that need long preparation before they change the catalog.

Planning for the engine or evaluating a query would keep the turn from everybody else. So it is done
before the turn, for what the names mean then. In the turn the names are resolved again, which is
quick unless the catalog has changed, and what they mean now must be what was prepared; else the
turn is given up and the preparation done anew. So the catalog that is replaced is the one against
which all was decided.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from waterclock.adapter.planning import Plan
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import CatalogChanged

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

V = TypeVar("V")
TRIES = 10


@asynccontextmanager
async def prepared(
    session: SqlSession,
    resolve: Callable[[], Awaitable[V]],
    prepare: Callable[[V], Awaitable[None]],
) -> AsyncIterator[tuple[Draft, V]]:
    """A draft, and what `resolve` finds in it, for which `prepare` has been called before the turn.

    Raises what both raise, and `CatalogChanged` if that changes again and again.
    """
    for _attempt in range(TRIES):
        wanted = await resolve()
        await prepare(wanted)
        async with session.changing() as draft:
            if (found := await resolve()) == wanted:
                yield draft, found
                return
    raise changed_too_often()


def changed_too_often() -> CatalogChanged:
    """What to raise when it does not help to try again."""
    return CatalogChanged(
        "what the statement reads was changed by other statements",
        detail=f"It was tried {TRIES} times.",
        hint="Try the statement again.",
    )


def meaning(plan: Plan) -> object:
    """What the names in a query mean; the same for two plans that read the same."""
    return plan.query, plan.bound.columns, tuple(plan.inputs.items())
