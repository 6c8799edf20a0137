"""CREATE SOURCE.

A source is one commit: the source, its subsources and its progress in the catalog, and all their
collections in storage. A crash finds all of it or nothing; after it, the source runs.

How a connector's part of the statement is read is told by one function for each kind of connector,
entered in `_PLANNED_BY`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from waterclock.adapter.api import Done, Notice, Response
from waterclock.adapter.changes import Change
from waterclock.adapter.errors import Unsupported
from waterclock.adapter.planned_source import PlannedSource, catalog_columns
from waterclock.adapter.planning import name_of
from waterclock.adapter.retention import RETAIN, retained_ms
from waterclock.adapter.sequencer import (
    file_sources,
    kafka_sources,
    kinesis_sources,
    postgres_sources,
    pubnub_sources,
    s3_sources,
    webhook_sources,
)
from waterclock.adapter.sequencer.decode_errors import (
    max_errors,
    refuse_decode_errors,
    skips_errors,
)
from waterclock.adapter.sequencer.messages import (
    SOURCE_OPTIONS,
    declared_columns,
    own_timeline,
)
from waterclock.adapter.sequencer.naming import full_name
from waterclock.adapter.sources import KeptSource, description_of
from waterclock.catalog import privileges
from waterclock.catalog.draft import Draft
from waterclock.catalog.durable import Creation
from waterclock.catalog.errors import CatalogChanged
from waterclock.catalog.items import Site
from waterclock.catalog.objects import Column, Privilege
from waterclock.catalog.sources import (
    NewSource,
    SourceDefinition,
    SubsourceDefinition,
    create_source,
)
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import MZ_TIMESTAMP
from waterclock.model.schema import Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.errors import Fenced, Unavailable
from waterclock.persist.rows import TIME
from waterclock.sql import ast, options
from waterclock.sql.ast.common import Identifier, ObjectName, Option
from waterclock.sql.ast.sources import (
    AllTables,
    ExternalConnector,
    FileConnector,
    LoadGenerator,
    TablesOfSchemas,
    TheseTables,
    WebhookConnector,
)
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.printing import create_text
from waterclock.storage.api import ERROR_ROWS, Description, Writers
from waterclock.storage.sources.api import STATE_ROWS
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.generators import connector as load_generators
from waterclock.storage.sources.generators.api import Options
from waterclock.storage.sources.skipped import skipped_schema

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

Parameters = Sequence[pa.Scalar]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Beside:
    """The collections beside the outputs of a source."""

    errors: Mapping[str, GlobalId]
    notes: GlobalId | None
    skipped_columns: tuple[Column, ...] | None = None
    """The columns of the relation of what is skipped, if there is to be one."""

    @property
    def schemas(self) -> dict[GlobalId, Schema]:
        found = dict.fromkeys(self.errors.values(), ERROR_ROWS)
        return found if self.notes is None else found | {self.notes: STATE_ROWS}


async def create(session: SqlSession, statement: ast.CreateSource, _: Parameters) -> Response:
    """Plan the source, which may change something upstream, and commit it, as one change."""
    changes = session.front.changes
    notices: list[Notice] = []

    async def work(change: Change[None]) -> None:
        planned = await _planned(session, statement)
        try:
            made = await _commit(session, change, statement, planned, notices)
        except (Fenced, Unavailable):
            raise  # nobody knows whether there is a source now
        except BaseException:
            await _undone(session, planned)
            raise
        if made is None:
            await _undone(session, planned)
            return
        core = session.front.core
        notices.extend(Notice(told) for told in planned.notices)
        if made.source.is_webhook:
            return
        description = description_of(core.current, made.source)
        change.succeed(None)
        await changes.follow_up([partial(core.sources.add, description)])

    await session.watch.outcome_of(changes.begin(work))
    for told in notices:
        session.notify(told)
    return Done("CREATE SOURCE")


async def _undone(session: SqlSession, planned: PlannedSource) -> None:
    """Nothing is left outside of a source that is not created."""
    if planned.undo is not None:
        with suppress(TransientFault):
            await session.front.changes.in_thread(planned.undo)


async def _commit(
    session: SqlSession,
    change: Change[None],
    statement: ast.CreateSource,
    planned: PlannedSource,
    notices: list[Notice],
) -> NewSource | None:
    """The source, durably; None if there is one of that name already and that is no error."""
    core, changes = session.front.core, session.front.changes
    async with changes.drafting() as draft:
        site = _site(session, draft, statement.name)
        if statement.if_not_exists and _is_taken(session, draft, site):
            told = f'relation "{site.name}" already exists, skipping'
            notices.append(Notice(told, sqlstate="42P07"))
            return None
        if not all(draft.catalog.try_item(each) for each in planned.connections):
            raise CatalogChanged(
                "a connection of the source was dropped by another statement",
                hint="Try the statement again.",
            )
        made, beside = _made(session, draft, site, statement, planned)
        start = EPOCH_MILLIS.frontier(max(core.oracle.read_ts(), core.runtime.wall_ms()))
        own = own_timeline(statement)
        writers = Writers.CREATOR if made.source.is_written_here else Writers.STORAGE
        on_own = set() if own is None else {made.source.id, *beside.errors.values()}
        creations = [
            Creation(collection, Description(schema, writers), start)
            if own is None or collection not in on_own
            else Creation(collection, Description(schema, Writers.STORAGE, own), own.start())
            for collection, schema in (_collections(made, planned) | beside.schemas).items()
        ]
        changes.hand_on(draft)
        await changes.carry_out(change, draft, creations)
    return made


def _collections(made: NewSource, planned: PlannedSource) -> dict[GlobalId, Schema]:
    """What storage has to make."""
    found: dict[GlobalId, Schema] = {}
    if planned.progress is not None:
        assert made.remap is not None
        found[made.remap] = planned.progress.schema
    relations = made.subsources if planned.is_split else (made.source,)
    beside = () if made.skipped is None else (made.skipped,)
    return found | {relation.id: relation.schema for relation in (*relations, *beside)}


def _made(
    session: SqlSession,
    draft: Draft,
    site: Site,
    statement: ast.CreateSource,
    planned: PlannedSource,
) -> tuple[NewSource, Beside]:
    """The source and its parts, in the draft."""
    cluster = session.settings.get("cluster") if statement.cluster is None else None
    named = cluster if statement.cluster is None else statement.cluster.name
    assert named is not None
    subsources = _subsources(session, draft, site, statement, planned)
    columns: tuple[Column, ...] = ()
    if not planned.is_split:
        [(output, rows)] = planned.outputs.items()
        shown = planned.columns.get(output) or catalog_columns(rows.columns)
        columns = _renamed(shown, _names(statement))
    elif statement.columns is not None:
        raise Unsupported("names of columns can not be given to a source of several tables")
    wanted = [s.upstream for s in subsources] if planned.is_split else list(planned.outputs)
    beside = Beside(
        {name: draft.numbers.id() for name in wanted if planned.is_fallible},
        draft.numbers.id() if planned.takes_notes else None,
        _skipped_columns(statement, planned),
    )
    definition = SourceDefinition(
        planned.shown_as or planned.kind,
        create_text(_complete(draft, site, statement, planned)),
        columns,
        planned.definition
        if planned.progress is None
        else _kept(statement, planned, beside).encoded(),
        planned.connections,
        planned.envelope,
        planned.key_format,
        planned.value_format,
        tuple(beside.schemas),
        retained_ms(tuple(each for each in statement.options if each.name == RETAIN)),
    )
    made = create_source(
        draft,
        site,
        definition,
        draft.catalog.cluster(named).oid,
        progress_columns=_progress_columns(planned),
        progress_name=_name_beside(session, draft, site, statement.progress, "progress"),
        subsources=subsources,
        skipped_columns=beside.skipped_columns,
        skipped_name=_name_beside(session, draft, site, statement.errors, "errors"),
    )
    return made, beside


def _skipped_columns(
    statement: ast.CreateSource, planned: PlannedSource
) -> tuple[Column, ...] | None:
    """The columns of the relation of what can not be read, if that is skipped."""
    if planned.progress is None or not skips_errors(statement):
        return None
    return catalog_columns(skipped_schema(planned.progress, tells_output=planned.is_split).columns)


def _progress_columns(planned: PlannedSource) -> tuple[Column, ...] | None:
    if planned.progress is None:
        return None
    time = Column(TIME, MZ_TIMESTAMP, nullable=False)
    return (time, *catalog_columns(planned.progress.schema.columns))


def _kept(statement: ast.CreateSource, planned: PlannedSource, beside: Beside) -> KeptSource:
    asked = options.by_name(statement.options, SOURCE_OPTIONS)
    interval = asked.get("timestamp interval")
    output = None if planned.is_split else next(iter(planned.outputs))
    millis = None if interval is None else max(1, round(_positive_ms(interval)))
    return KeptSource(
        connector=planned.definition,
        output=output,
        interval_ms=millis,
        errors={name: str(collection) for name, collection in beside.errors.items()},
        notes=None if beside.notes is None else str(beside.notes),
        kind=None if planned.shown_as is None else planned.kind,
        max_errors=max_errors(statement),
    )


def _complete(
    draft: Draft, site: Site, statement: ast.CreateSource, planned: PlannedSource
) -> ast.CreateSource:
    """The statement with names that mean the same everywhere."""
    name = full_name(draft.catalog, site.namespace, site.name)
    connector = planned.connector or statement.connector
    return replace(statement, name=name, connector=connector, if_not_exists=False)


def _names(statement: ast.CreateSource) -> tuple[Identifier, ...] | None:
    """Other names for columns, if names alone are given."""
    names = tuple(c for c in statement.columns or () if isinstance(c, Identifier))
    return names or None


def _renamed(
    columns: tuple[Column, ...], names: tuple[Identifier, ...] | None
) -> tuple[Column, ...]:
    if names is None:
        return columns
    if len(names) != len(columns):
        raise SyntaxFault(
            f"there are {len(columns)} columns and {len(names)} names for them",
            names[0].position if names else None,
        )
    pairs = zip(names, columns, strict=True)
    return tuple(Column(name.name, c.type, c.nullable) for name, c in pairs)


# Names


def _site(session: SqlSession, draft: Draft, name: ObjectName) -> Site:
    namespace = draft.catalog.target(name_of(name.parts), session.scope)
    privileges.check(draft.catalog, session.role.oid, namespace, Privilege.CREATE)
    return Site(namespace.oid, name.parts[-1], session.role.oid)


def _is_taken(session: SqlSession, draft: Draft, site: Site) -> bool:
    name = full_name(draft.catalog, site.namespace, site.name)
    return draft.catalog.find(name_of(name.parts), session.scope) is not None


def _name_beside(
    session: SqlSession, draft: Draft, site: Site, name: ObjectName | None, what: str
) -> str | None:
    """The name asked for, which is in the source's schema."""
    if name is None:
        return None
    if len(name.parts) > 1:
        namespace = draft.catalog.target(name_of(name.parts), session.scope)
        if namespace.oid != site.namespace:
            raise Unsupported(
                f"the {what} of a source can not be in another schema than the source",
                hint="Give the name without a schema.",
            )
    return name.parts[-1]


def _subsources(
    session: SqlSession,
    draft: Draft,
    site: Site,
    statement: ast.CreateSource,
    planned: PlannedSource,
) -> list[SubsourceDefinition]:
    """The outputs that are wanted as subsources, and under which names."""
    if not planned.is_split:
        if statement.subsources is not None:
            raise Unsupported("FOR TABLES is not supported for a source of one table")
        return []
    sites: dict[str, Site] = {}
    if planned.local_names is not None:
        for output, local in planned.local_names.items():
            place = _site(session, draft, local) if len(local.parts) > 1 else site
            sites[output] = replace(place, name=local.parts[-1])
        return _defined(sites, planned)
    match statement.subsources:
        case AllTables():
            sites = {name: Site(site.namespace, name, site.owner) for name in planned.outputs}
        case TheseTables(tables):
            for table in tables:
                local = table.local or ObjectName((table.upstream.parts[-1],))
                place = _site(session, draft, local) if len(local.parts) > 1 else site
                sites[table.upstream.parts[-1]] = replace(place, name=local.parts[-1])
        case TablesOfSchemas():
            raise Unsupported("FOR SCHEMAS is not supported for this source")
        case None:
            raise SyntaxFault(
                "a source of several tables needs FOR ALL TABLES or FOR TABLES",
                hint=f"Its tables are {', '.join(planned.outputs)}.",
            )
    for name in sites:
        if name not in planned.outputs:
            raise Unsupported(
                f'there is no table "{name}" upstream',
                hint=f"There are {', '.join(planned.outputs)}.",
            )
    return _defined(sites, planned)


def _defined(sites: Mapping[str, Site], planned: PlannedSource) -> list[SubsourceDefinition]:
    found = []
    for output, place in sites.items():
        columns = planned.columns.get(output) or catalog_columns(planned.outputs[output].columns)
        found.append(SubsourceDefinition(place, output, columns))
    return found


# Connectors


async def _planned(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    connector = statement.connector
    plan = _PLANNED_BY.get(type(connector))
    if isinstance(connector, ExternalConnector):
        plan = _EXTERNALLY_PLANNED_BY.get(connector.kind)
    if plan is None:
        raise Unsupported("this kind of source is not supported")
    declares = isinstance(statement.subsources, TheseTables) and any(
        table.columns for table in statement.subsources.tables
    )
    if declares and plan is not kafka_sources.planned:
        raise Unsupported("columns of tables can be declared for Kafka sources only")
    if not isinstance(connector, LoadGenerator):  # others are asked, and may take long to answer
        return await session.front.changes.in_thread(plan, session, statement)
    return plan(session, statement)


_DEFAULT_TICK_MS = {"bank": 3.0}
"""Where it is not a second: 20,000 transfers in a minute."""
_GENERATOR_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "counter": ("tick interval", "max", "max cardinality", "seed"),
    "auction": ("tick interval", "max", "seed"),
    "bank": ("tick interval", "max", "seed"),
    "tpch": ("tick interval", "max", "scale factor", "seed"),
}


def _load_generator(session: SqlSession, statement: ast.CreateSource) -> PlannedSource:
    connector = statement.connector
    assert isinstance(connector, LoadGenerator)
    for clause, given in (
        ("FORMAT", statement.formats),
        ("INCLUDE", statement.include),
        ("ENVELOPE", statement.envelope),
    ):
        if given:
            raise Unsupported(f"{clause} is not supported for load generators")
    refuse_decode_errors(statement, "load generators", "Nothing of what they make is decoded.")
    if declared_columns(statement) is not None:
        raise Unsupported("columns of load generators can be named, but have their types")
    known = _GENERATOR_OPTIONS.get(connector.kind, ("tick interval",))
    asked = options.by_name(connector.options, known)
    wanted = Options(
        kind=connector.kind,
        tick_ms=_of(asked, "tick interval", _positive_ms)
        or _DEFAULT_TICK_MS.get(connector.kind, 1000.0),
        created_ms=session.front.core.runtime.wall_ms(),
        seed=_of(asked, "seed", options.integer) or 0,
        maximum=_of(asked, "max", options.integer),
        cardinality=_of(asked, "max cardinality", options.integer),
        scale=_or(_of(asked, "scale factor", _number), 0.01),
    )
    generator = load_generators.generator_of(wanted)
    return PlannedSource(
        load_generators.NAME,
        load_generators.encoded(wanted),
        generator.outputs,
        generator.is_split,
        load_generators.KIND.progress,
    )


_PLANNED_BY: Mapping[type[Any], Callable[[SqlSession, ast.CreateSource], PlannedSource]] = {
    LoadGenerator: _load_generator,
    FileConnector: file_sources.planned,
    WebhookConnector: webhook_sources.planned,
}
_EXTERNALLY_PLANNED_BY: Mapping[str, Callable[[SqlSession, ast.CreateSource], PlannedSource]] = {
    kafka_sources.KIND: kafka_sources.planned,
    kinesis_sources.KIND: kinesis_sources.planned,
    postgres_sources.KIND: postgres_sources.planned,
    pubnub_sources.KIND: pubnub_sources.planned,
    s3_sources.KIND: s3_sources.planned,
}


# Options


def _of(asked: Mapping[str, Option], name: str, read: Callable[[Option], T]) -> T | None:
    return read(asked[name]) if name in asked else None


def _or(value: T | None, default: T) -> T:
    return default if value is None else value


def _number(option: Option) -> float:
    try:
        return float(options.text(option))
    except ValueError:
        raise SyntaxFault(f"{option.name} requires a numeric value", option.position) from None


def _positive_ms(option: Option) -> float:
    millis = options.milliseconds(option)
    if not millis:
        raise SyntaxFault(f"{option.name} requires a positive length of time", option.position)
    return millis


RUN: dict[type[Any], Callable[..., Awaitable[Response]]] = {ast.CreateSource: create}
