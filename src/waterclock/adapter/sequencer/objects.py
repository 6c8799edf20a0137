"""DROP, and how statements name objects that exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.changes import Step
from waterclock.adapter.errors import ObjectInUse, Unsupported
from waterclock.adapter.planning import name_of
from waterclock.adapter.sequencer import roles
from waterclock.catalog import dropping, privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.objects import (
    AnyOwned,
    Connection,
    Database,
    Index,
    Item,
    MaterializedView,
    Secret,
    Source,
    Table,
    View,
)
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.persist.store import Plan
from waterclock.sql import ast
from waterclock.sql.ast.common import ObjectKind, ObjectName

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]

ITEM_KINDS: dict[ObjectKind, type[Item]] = {
    ObjectKind.TABLE: Table,
    ObjectKind.VIEW: View,
    ObjectKind.MATERIALIZED_VIEW: MaterializedView,
    ObjectKind.INDEX: Index,
    ObjectKind.SOURCE: Source,
    ObjectKind.CONNECTION: Connection,
    ObjectKind.SECRET: Secret,
}
MISSING = ("42P01", "42704", "3F000", "3D000")


async def drop(session: SqlSession, statement: ast.Drop, _: Parameters) -> Response:
    if statement.kind is ObjectKind.ROLE:
        return await roles.drop_roles(session, statement)
    async with session.changing() as draft:
        targets = []
        for name in statement.names:
            found = _droppable(session, draft.catalog, statement, name)
            if found is not None:
                _require_unused(session, found)
                privileges.check_owner(draft.catalog, session.role.oid, found)
                targets.append(found)
        if not targets:
            return Done(f"DROP {statement.kind.value}")
        # A database always goes with all that is in it.
        whole = statement.cascade or statement.kind is ObjectKind.DATABASE
        dropped = dropping.drop(draft, targets, cascade=whole)
        gone = [each for each in dropped.everything if isinstance(each, Item)]
        warnings = await commit_drop(session, draft, gone)
    if dropped.cascaded and statement.cascade:
        tell_cascade(session, draft.base, dropped.cascaded)
    for told in warnings:
        session.notify(told)
    return Done(f"DROP {statement.kind.value}")


async def commit_drop(
    session: SqlSession,
    draft: Draft,
    gone: Sequence[Item],
    *,
    alongside: Sequence[Plan[Any]] = (),
    follow_ups: Sequence[Step] = (),
    undo: Step | None = None,
) -> list[Notice]:
    """Commit the end of these items, and let compute and sources forget them.

    The rest is as in `Changes.commit`. Returns what could not be removed upstream; that is tried
    again at the next start.
    """
    core = session.front.core
    maintained = [each.id for each in gone if isinstance(each, MaterializedView | Index)]
    sources = [each.id for each in gone if isinstance(each, Source)]
    warnings: list[Notice] = []
    farewells = [partial(say, farewell, warnings) for farewell in _farewells(core, sources)]
    ends = [core.compute.removal(each) for each in maintained]
    ends += [core.sources.removal(sources), *alongside]
    for each in maintained:
        core.compute.leave(each)

    def resume() -> None:
        for each in maintained:
            core.compute.resume(each)
        if undo is not None:
            undo()

    await session.commit_draft(
        draft,
        alongside=lambda _given: ends,
        follow_ups=[
            *(partial(core.sources.remove, each) for each in sources),
            *(partial(core.compute.end, each) for each in maintained),
            *farewells,
            *follow_ups,
        ],
        undo=resume,
    )
    return warnings


def _farewells(core: Coordinator, sources: Sequence[GlobalId]) -> list[Callable[[], None]]:
    """What is to be removed upstream when sources are gone."""
    found: list[Callable[[], None]] = []
    for each in sources:
        try:
            farewell = core.sources.farewell(each)
        except WaterclockError as error:
            farewell = partial(_raise, error)
        if farewell is not None:
            found.append(farewell)
    return found


def _raise(error: WaterclockError) -> None:
    raise error


def say(farewell: Callable[[], None], warnings: list[Notice]) -> None:
    """Remove something upstream, or tell why that was not possible."""
    try:
        farewell()
    except WaterclockError as error:
        warnings.append(Notice(error.message, "WARNING", "01000", error.detail, error.hint))


def _droppable(
    session: SqlSession, catalog: Catalog, statement: ast.Drop, name: ObjectName
) -> AnyOwned | None:
    """What the name means; None, with a notice, if nothing does and that is no error."""
    try:
        return named(session, catalog, statement.kind, name)
    except WaterclockError as error:
        if not statement.if_exists or error.sqlstate not in MISSING:
            raise
        session.notify(Notice(f"{error.message}, skipping"))
        return None


def _require_unused(session: SqlSession, found: AnyOwned) -> None:
    if isinstance(found, Database):
        if found.name == session.startup.database:
            raise ObjectInUse("cannot drop the currently open database")
        if session.front.uses(database=found.name):
            raise ObjectInUse(f'database "{found.name}" is being accessed by other users')


def named(session: SqlSession, catalog: Catalog, kind: ObjectKind, name: ObjectName) -> AnyOwned:
    """The object of the kind that the name means."""
    if kind in ITEM_KINDS:
        found: AnyOwned = catalog.named(ITEM_KINDS[kind], name_of(name.parts), session.scope)  # type: ignore[assignment]
        return found
    match kind:
        case ObjectKind.DATABASE:
            return catalog.database(name.parts[-1])
        case ObjectKind.SCHEMA:
            outer = name.parts[-2] if len(name.parts) > 1 else session.startup.database
            return catalog.namespace(outer, name.parts[-1])
        case ObjectKind.CLUSTER:
            return catalog.cluster(name.parts[-1])
        case _:
            raise Unsupported(f"{kind.value} is not supported")


def tell_cascade(session: SqlSession, catalog: Catalog, gone: Sequence[AnyOwned]) -> None:
    """Tell what has been dropped although it was not named."""
    described = [catalog.described(each) for each in gone]
    if len(described) == 1:
        session.notify(Notice(f"drop cascades to {described[0]}"))
    else:
        detail = "\n".join(f"drop cascades to {each}" for each in described)
        session.notify(Notice(f"drop cascades to {len(gone)} other objects", detail=detail))


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.Drop: drop}
