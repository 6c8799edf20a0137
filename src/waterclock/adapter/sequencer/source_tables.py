"""ALTER SOURCE ... ADD TABLE and DROP TABLE: what a source reads, changed while it runs.

A table that is added is read by a companion of the source (`storage.sources.companion`) while the
source goes on. The statement returns when the table can be read: one commit makes the relation, and
from then on the source fills it with the others, at the same times. Until then nothing is there for
anybody to see, and a statement that is cancelled, or a crash, leaves things as they were.

A table that the source reads already can be added again, under another name. The new relation has
the columns that the table has now; the old one stays as it is, and so do the views over it.

Only PostgreSQL sources have tables that can come and go. What a Kafka source was before it got more
columns (`source_columns`) can be dropped in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.changes import Adopted, Change
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planning import name_of
from waterclock.adapter.sequencer import postgres_sources
from waterclock.adapter.sequencer.naming import full_name, name_in_full
from waterclock.adapter.sequencer.objects import MISSING, commit_drop, say, tell_cascade
from waterclock.adapter.sources import KeptSource, description_of
from waterclock.catalog import dropping, privileges
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import (
    CatalogChanged,
    DependentsExist,
    DuplicateRelation,
    UnknownRelation,
)
from waterclock.catalog.items import Site
from waterclock.catalog.objects import (
    AnyItem,
    Item,
    Namespace,
    Privilege,
    Source,
    Subsource,
)
from waterclock.catalog.sources import SKIPPED, SubsourceDefinition, create_subsource
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.persist.errors import Fenced, Unavailable
from waterclock.sql import ast
from waterclock.sql.ast.common import ObjectName
from waterclock.sql.ast.objects import AddTables, DropTables
from waterclock.sql.ast.sources import TheseTables, UpstreamTable
from waterclock.sql.parser import parse_statements
from waterclock.sql.printing import create_text
from waterclock.storage import riders
from waterclock.storage.api import ERROR_ROWS, ReadCapability
from waterclock.storage.sources.api import SourceDescription
from waterclock.storage.sources.companion import Companion
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kafka import connector as kafka
from waterclock.storage.sources.kafka.definition import decoded
from waterclock.storage.sources.postgres import connector as postgres
from waterclock.storage.sources.postgres import publications
from waterclock.storage.sources.postgres.definition import PostgresDefinition, definition_of

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


async def alter(session: SqlSession, statement: ast.Alter) -> Response:
    """Carry out ADD TABLE or DROP TABLE, which is the only action of its statement."""
    [action, *others] = statement.actions
    if others:
        raise Unsupported("ADD TABLE and DROP TABLE cannot be combined with other actions")
    try:
        source = _source(session, session.front.core.current, statement.name)
    except WaterclockError as error:
        if not statement.if_exists or error.sqlstate not in MISSING:
            raise
        session.notify(Notice(f"{error.message}, skipping"))
        return Done("ALTER SOURCE")
    match action:
        case AddTables():
            await _add(session, source, action)
        case DropTables():
            await _drop(session, source, action)
        case _:
            raise AssertionError(f"{action} is not about tables of a source")
    return Done("ALTER SOURCE")


def _source(session: SqlSession, catalog: Catalog, name: ObjectName) -> Source:
    """The source of that name, if its tables can be altered."""
    found = catalog.named(Source, name_of(name.parts), session.scope)
    privileges.check_owner(catalog, session.role.oid, found)
    if found.connector not in (postgres.NAME, kafka.NAME):
        raise Unsupported(
            f"the tables of {catalog.described(found)} cannot be altered",
            detail="Only PostgreSQL sources have tables that can be added and dropped.",
        )
    return found


# ADD TABLE


@dataclass(frozen=True, slots=True)
class _Addition:
    """Tables that are to join a source, and the companion's description until they have."""

    more: postgres_sources.MoreTables
    description: SourceDescription
    schemas: dict[GlobalId, Schema]


async def _add(session: SqlSession, source: Source, action: AddTables) -> None:
    core, changes = session.front.core, session.front.changes
    if source.connector != postgres.NAME:
        raise Unsupported(
            f"tables cannot be added to source {source.name}",
            detail="Only PostgreSQL sources have tables that can be added.",
        )
    _ = _local_sites(session, core.current, source, action.tables)  # fail before work is done
    notices: list[str] = []

    async def work(change: Change[None]) -> None:
        more = await changes.in_thread(postgres_sources.more_tables, session, source, action)
        try:
            notices.extend(more.found.notices)
            addition = _addition(session, source, more)
            make = partial(Companion, core.storage, core.store, core.sources)
            companion = await changes.in_thread(make, addition.description, addition.schemas)
        except (Fenced, Unavailable):
            raise
        except BaseException:
            await _undone(session, more)
            raise
        change.stop_with(companion.stop)
        try:
            await changes.in_thread(companion.join, source.id)
            await _take_over(session, change, source, action, addition, companion)
        except (Fenced, Unavailable):
            raise  # nobody knows whether they have joined
        except BaseException:
            await _finished(session, companion, has_joined=False)
            await _undone(session, more)
            raise
        change.succeed(None)
        await _finished(session, companion, has_joined=True)

    await session.watch.outcome_of(changes.begin(work))
    for told in notices:
        session.notify(Notice(told))


async def _finished(session: SqlSession, companion: Companion, *, has_joined: bool) -> None:
    with suppress(TransientFault):  # what it has upstream is removed at the next start
        await session.front.changes.in_thread(companion.finish, has_joined=has_joined)


async def _undone(session: SqlSession, more: postgres_sources.MoreTables) -> None:
    """Nothing is left upstream of tables that do not join."""
    with suppress(TransientFault):
        await session.front.changes.in_thread(more.undo)


def _addition(session: SqlSession, source: Source, more: postgres_sources.MoreTables) -> _Addition:
    """New ids for everything that a companion fills."""
    number = session.front.core.catalog.draft().numbers.id
    tables = more.found.chosen
    outputs = {table.output: number() for table in tables}
    errors = {table.output: number() for table in tables}
    remap = number()
    schemas: dict[GlobalId, Schema] = {remap: postgres.KIND.progress.schema}
    schemas |= {outputs[table.output]: table.rows for table in tables}
    schemas |= dict.fromkeys(errors.values(), ERROR_ROWS)
    description = SourceDescription(
        number(),
        source.name,
        postgres.NAME,
        more.found.definition.encoded(),
        remap,
        outputs,
        interval_ms=None,
        errors=errors,
    )
    return _Addition(more, description, schemas)


async def _take_over(
    session: SqlSession,
    change: Change[None],
    source: Source,
    action: AddTables,
    addition: _Addition,
    companion: Companion,
) -> None:
    """Make the outputs those of the source, which is paused and goes on with them."""
    core, changes = session.front.core, session.front.changes
    described: SourceDescription | None = None
    try:
        async with changes.drafting() as draft:
            made = _altered(session, draft, source, action, addition)
            described = description_of(draft.catalog, made)
            adopted = _adopted(companion.readers, addition)
            changes.hand_on(draft)
            await changes.carry_out(change, draft, adopted=adopted)
    except BaseException:
        described = None
        raise
    finally:
        await changes.in_thread(core.sources.resume, source.id, described)


def _adopted(readers: Mapping[GlobalId, ReadCapability], addition: _Addition) -> Adopted:
    """The rights that the catalog keeps from now on."""
    remap = addition.description.remap
    return {each: (reader, None) for each, reader in readers.items() if each != remap}


def require_same_source(draft: Draft, source: Source) -> Source:
    """The source in the draft, if it is still what a change of it was prepared for. Raises
    `CatalogChanged`.
    """
    found = draft.catalog.try_item(source.id)
    if not isinstance(found, Source) or found.definition != source.definition:
        raise CatalogChanged(
            f'source "{source.name}" was changed by another statement',
            hint="Try the statement again.",
        )
    return found


def _altered(
    session: SqlSession, draft: Draft, source: Source, action: AddTables, addition: _Addition
) -> Source:
    """The source with more tables, in the draft."""
    found = require_same_source(draft, source)
    altered = _with_more(found, addition)
    draft.change(found, altered)
    sites = _local_sites(session, draft.catalog, found, action.tables)
    for table, site in zip(addition.more.found.chosen, sites, strict=True):
        columns = postgres_sources.columns_of(table)
        defined = SubsourceDefinition(site, table.output, columns)
        create_subsource(draft, altered, defined, addition.description.outputs[table.output])
    return _with_text(draft, altered)


def _local_sites(
    session: SqlSession, catalog: Catalog, source: Source, tables: Sequence[UpstreamTable]
) -> list[Site]:
    """Where the relations of the tables go; beside the source, unless the names say otherwise."""
    sites = []
    for table in tables:
        if table.columns:
            raise Unsupported("columns of tables can be declared for Kafka sources only")
        local = table.local or ObjectName((table.upstream.parts[-1],))
        namespace = catalog.get(source.namespace, Namespace)
        if len(local.parts) > 1:
            namespace = catalog.target(name_of(local.parts), session.scope)
        privileges.check(catalog, session.role.oid, namespace, Privilege.CREATE)
        site = Site(namespace.oid, local.parts[-1], session.role.oid)
        name = full_name(catalog, site.namespace, site.name)
        taken = catalog.find(name_of(name.parts), session.scope)
        if taken is not None:
            raise _taken(taken, source)
        sites.append(site)
    return sites


def _taken(taken: AnyItem, source: Source) -> WaterclockError:
    hint = None
    if taken.part_of == source.id:
        hint = (
            "The source fills it. To read the table with the columns that it has now, give the new"
            " relation another name: ADD TABLE ... AS name."
        )
    return DuplicateRelation(f'relation "{taken.name}" already exists', hint=hint)


# DROP TABLE


async def _drop(session: SqlSession, source: Source, action: DropTables) -> None:
    core, changes = session.front.core, session.front.changes
    warnings: list[Notice] = []
    resume = partial(core.sources.resume, source.id)
    is_committing = False
    await changes.in_thread(core.sources.pause, source.id)
    try:
        async with session.changing() as draft:
            found = _source(session, draft.catalog, name_in_full(draft.catalog, source))
            targets = _parts(session, draft.catalog, found, action)
            if not targets:
                return
            ids, altered = _without(draft, found, targets)
            dropped = dropping.drop(draft, targets, cascade=action.cascade, leaves_whole=True)
            described = description_of(draft.catalog, _with_text(draft, altered))
            unpublish = partial(_unpublish, session, found, altered)
            is_committing = True
            warnings += await commit_drop(
                session,
                draft,
                [each for each in dropped.everything if isinstance(each, Item)],
                alongside=[riders.release_own_writers(ids)],
                follow_ups=[
                    partial(core.sources.resume, source.id, described),
                    partial(say, unpublish, warnings),
                ],
                undo=resume,
            )
    finally:
        if not is_committing:
            await changes.in_thread(resume)
    if dropped.cascaded:
        tell_cascade(session, draft.base, dropped.cascaded)
    for told in warnings:
        session.notify(told)


def _parts(
    session: SqlSession, catalog: Catalog, source: Source, action: DropTables
) -> list[Subsource]:
    """The relations that are named, which the source fills."""
    found: list[Subsource] = []
    for name in action.names:
        item = catalog.find(name_of(name.parts), session.scope)
        if item is None and action.if_exists:
            session.notify(Notice(f'relation "{name.parts[-1]}" does not exist, skipping'))
        elif (
            not isinstance(item, Subsource) or item.source != source.id or item.upstream == SKIPPED
        ):
            raise UnknownRelation(f'source "{source.name}" has no table "{name.parts[-1]}"')
        elif item not in found:
            found.append(item)
    return found


def _without(
    draft: Draft, source: Source, targets: Sequence[Subsource]
) -> tuple[list[GlobalId], Source]:
    """The collections that go with these parts, and the source without them, in the draft."""
    gone = {each.upstream for each in targets}
    kept = msgspec.msgpack.decode(source.definition, type=KeptSource)
    errors = [GlobalId.parse(each) for name, each in kept.errors.items() if name in gone]
    definition = msgspec.structs.replace(
        kept,
        connector=_reduced(source, kept, gone),
        errors={name: each for name, each in kept.errors.items() if name not in gone},
    )
    altered = msgspec.structs.replace(
        source,
        definition=definition.encoded(),
        collections=tuple(each for each in source.collections if each not in errors),
    )
    draft.change(source, altered)
    return [*(each.id for each in targets), *errors], altered


def _reduced(source: Source, kept: KeptSource, gone: Set[str]) -> bytes:
    """What the connector reads without some of its outputs."""
    if source.connector == kafka.NAME:
        topic = decoded(kept.connector)
        editions = {name: each for name, each in topic.by_output.items() if name not in gone}
        return msgspec.structs.replace(topic, editions=editions).encoded()
    known = definition_of(kept.connector)
    tables = tuple(table for table in known.tables if table.output not in gone)
    if not tables:
        raise DependentsExist(
            f"cannot drop the last table of source {source.name}",
            hint=f"Drop the source: DROP SOURCE {source.name}.",
        )
    return msgspec.structs.replace(known, tables=tables).encoded()


def _unpublish(session: SqlSession, before: Source, after: Source) -> None:
    """Take what is not read any more out of a publication that is the source's own."""
    if before.connector != postgres.NAME:
        return
    old, new = _connector_of(before), _connector_of(after)
    if old.owns_publication:
        kept = {(table.schema, table.name) for table in new.tables}
        gone = [(t.schema, t.name) for t in old.tables if (t.schema, t.name) not in kept]
        settings = session.front.core.connection_settings(old.connection_id)
        publications.remove(settings, old.publication, gone)


# The source's definition


def _connector_of(source: Source) -> PostgresDefinition:
    kept = msgspec.msgpack.decode(source.definition, type=KeptSource)
    return definition_of(kept.connector)


def _with_more(source: Source, addition: _Addition) -> Source:
    """The source, which reads the tables that join as well."""
    kept = msgspec.msgpack.decode(source.definition, type=KeptSource)
    known = definition_of(kept.connector)
    tables = (*known.tables, *addition.more.found.chosen)
    errors = addition.description.errors
    definition = msgspec.structs.replace(
        kept,
        connector=msgspec.structs.replace(known, tables=tables, own_scales=True).encoded(),
        errors=kept.errors | {name: str(each) for name, each in errors.items()},
    )
    return msgspec.structs.replace(
        source,
        definition=definition.encoded(),
        collections=(*source.collections, *errors.values()),
    )


def _with_text(draft: Draft, source: Source) -> Source:
    """The source, whose statement names the tables that it has now, in the draft."""
    if source.connector != postgres.NAME:
        return source
    catalog = draft.catalog
    [made] = parse_statements(source.sql)
    assert isinstance(made.statement, ast.CreateSource)
    upstream = {t.output: ObjectName((t.schema, t.name)) for t in _connector_of(source).tables}
    tables = tuple(
        UpstreamTable(upstream[part.upstream], name_in_full(catalog, part))
        for user in sorted(catalog.users.get(source.id, ()))
        if isinstance(part := catalog.item(user), Subsource) and part.upstream in upstream
    )
    said = replace(made.statement, subsources=TheseTables(tables))
    altered = msgspec.structs.replace(source, sql=create_text(said))
    draft.change(source, altered)
    return altered
