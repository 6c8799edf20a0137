"""Making a source together with what comes and goes with it.

A source fills one collection or several (subsources), and how far it has read is a relation in the
same schema: under the name that was asked for, or the first free one after the source's own. All of
them are made in one draft, so there is never a source without its progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from waterclock.catalog.draft import Draft
from waterclock.catalog.items import (
    Site,
    free_name,
    placed,
    placed_with_rows,
    relation_parts,
)
from waterclock.catalog.objects import Column, Oid, Source, SourceProgress, Subsource
from waterclock.model.ids import GlobalId

SKIPPED = ""
"""What the relation of a source's messages that could not be read is called upstream."""


@dataclass(frozen=True, slots=True)
class SourceDefinition:
    """What a source reads. `definition` is known to the connector alone."""

    connector: str
    sql: str
    columns: tuple[Column, ...]
    definition: bytes = b""
    connections: tuple[GlobalId, ...] = ()
    envelope: str | None = None
    key_format: str | None = None
    value_format: str | None = None
    collections: tuple[GlobalId, ...] = ()
    """Those that come and go with it besides its remap."""
    retain_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SubsourceDefinition:
    """One of the collections of a source: its own name, and what is upstream."""

    site: Site
    upstream: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class NewSource:
    """A source and its parts. `remap` is the id of the collection of its bindings, if it has one.

    Storage knows the bindings by `remap`; the progress relation has an id that it does not know.
    """

    source: Source
    subsources: tuple[Subsource, ...]
    progress: SourceProgress | None
    remap: GlobalId | None
    skipped: Subsource | None = None
    """What could not be read of it, if that is skipped."""


def create_source(
    draft: Draft,
    site: Site,
    defined: SourceDefinition,
    cluster: Oid,
    *,
    progress_columns: Sequence[Column] | None = None,
    progress_name: str | None = None,
    subsources: Sequence[SubsourceDefinition] = (),
    skipped_columns: Sequence[Column] | None = None,
    skipped_name: str | None = None,
) -> NewSource:
    """A new source. Without `progress_columns` it has no progress: it can not be reclocked. With
    `skipped_columns` it has a relation of what can not be read.
    """
    remap = draft.numbers.id() if progress_columns is not None else None
    source = Source(
        **relation_parts(draft, site, defined.columns),
        connector=defined.connector,
        sql=defined.sql,
        definition=defined.definition,
        connections=defined.connections,
        cluster=cluster,
        envelope=defined.envelope,
        key_format=defined.key_format,
        value_format=defined.value_format,
        collections=(() if remap is None else (remap,)) + defined.collections,
        retain_ms=defined.retain_ms,
    )
    placed_with_rows(draft, source)
    made = tuple(create_subsource(draft, source, each) for each in subsources)
    progress = None
    if progress_columns is not None:
        progress = _progress(draft, site, source, progress_columns, progress_name)
    skipped = None
    if skipped_columns is not None:
        name = skipped_name or free_name(draft, site.namespace, f"{site.name}_errors")
        place = Site(site.namespace, name, site.owner)
        defined_as = SubsourceDefinition(place, SKIPPED, tuple(skipped_columns))
        skipped = create_subsource(draft, source, defined_as)
    return NewSource(source, made, progress, remap, skipped)


def create_subsource(
    draft: Draft,
    source: Source,
    defined: SubsourceDefinition,
    collection: GlobalId | None = None,
) -> Subsource:
    """A new part of a source. `collection` is the id of one that has been filled for it; else it
    gets a new one.
    """
    parts = relation_parts(draft, defined.site, defined.columns)
    if collection is not None:
        parts["id"] = collection
    subsource = Subsource(**parts, source=source.id, upstream=defined.upstream)
    return placed_with_rows(draft, subsource)


def supersede(draft: Draft, old: Source, new: Source, name: str, upstream: str) -> Subsource:
    """Give a source other columns, and another id. What it was goes on under the name, as a part of
    it that has the old id and belongs to the same role with the same grants.
    """
    site = Site(old.namespace, name, old.owner)
    parts = relation_parts(draft, site, old.columns)
    parts["id"] = old.id
    former = Subsource(**parts, source=new.id, upstream=upstream, grants=old.grants)
    draft.supersede(old, new, former)
    return former


def _progress(
    draft: Draft, site: Site, source: Source, columns: Sequence[Column], name: str | None
) -> SourceProgress:
    if name is None:
        name = free_name(draft, site.namespace, f"{site.name}_progress")
    parts = relation_parts(draft, Site(site.namespace, name, site.owner), columns)
    return placed(draft, SourceProgress(**parts, source=source.id))
