"""Sources of the catalog as storage runs them.

The catalog keeps for each source what its connector has to know, wrapped in what whoever runs it
has to know: which of the connector's outputs the source itself is, and how often to look upstream.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping

import msgspec

from waterclock.adapter.object_health import ObjectHealth
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import Index, MaterializedView, Source, Subsource, View
from waterclock.catalog.sources import SKIPPED
from waterclock.catalog.system.image import SourceStatistics, SourceStatus
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.sources.api import Skipping, SourceDescription
from waterclock.storage.sources.status import Health, SourceReport, Status


class KeptSource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is in the catalog besides the names. `output` is None if there are subsources.

    `errors` has the id of the collection of errors for outputs that have one, `notes` that of what
    the envelopes note. `kind` is what storage runs it as, if the catalog calls it otherwise.
    `max_errors` is how many messages may be skipped.
    """

    connector: bytes
    output: str | None = None
    interval_ms: int | None = None
    errors: dict[str, str] = {}
    notes: str | None = None
    kind: str | None = None
    max_errors: int | None = None

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)


def description_of(catalog: Catalog, source: Source) -> SourceDescription:
    """The source as it is to be run."""
    kept = msgspec.msgpack.decode(source.definition, type=KeptSource)
    remap = source.collections[0]
    outputs: dict[str, GlobalId] = {}
    skipped: GlobalId | None = None
    if kept.output is not None:
        outputs[kept.output] = source.id
    for user in sorted(catalog.users.get(source.id, ())):
        part = catalog.item(user)
        if isinstance(part, Subsource) and part.upstream == SKIPPED:
            skipped = part.id
        elif isinstance(part, Subsource):
            outputs[part.upstream] = part.id
    return SourceDescription(
        source.id,
        source.name,
        kept.kind or source.connector,
        kept.connector,
        remap,
        outputs,
        kept.interval_ms,
        {name: GlobalId.parse(c) for name, c in kept.errors.items() if name in outputs},
        None if kept.notes is None else GlobalId.parse(kept.notes),
        None if skipped is None else Skipping(skipped, kept.max_errors, kept.output is None),
    )


def all_sources(catalog: Catalog) -> list[SourceDescription]:
    """Every source that is read from elsewhere, the oldest first."""
    sources = (i for i in catalog.items() if isinstance(i, Source) and not i.is_webhook)
    found = sorted(sources, key=lambda s: s.id)
    return [description_of(catalog, source) for source in found]


def origins(catalog: Catalog, collection: GlobalId) -> tuple[GlobalId, ...]:
    """The outputs of sources that a collection is made from; itself, if it is one."""
    found: dict[GlobalId, None] = {}
    seen = {collection}
    ahead = [collection]
    while ahead:
        item = catalog.try_item(ahead.pop())
        if isinstance(item, Subsource) and item.upstream == SKIPPED:
            continue  # it is there although the source may not be
        if isinstance(item, Source | Subsource):
            found[item.id] = None
        elif isinstance(item, View | MaterializedView | Index):
            ahead += [each for each in item.uses if each not in seen]
            seen.update(item.uses)
    return tuple(found)


def statuses(
    catalog: Catalog, reports: Iterable[SourceReport], healths: Mapping[GlobalId, ObjectHealth]
) -> tuple[SourceStatus, ...]:
    """What is shown of sources, and of those of their tables that are in error or have failed
    alone; what has been dropped meanwhile is left out.
    """
    found = []
    for report in reports:
        shown = {report.id: report.status, **report.failed}
        parts = (catalog.try_item(each) for each in catalog.users.get(report.id, ()))
        outputs = [each.id for each in parts if isinstance(each, Subsource)]
        for identity in (report.id, *outputs):
            status, health = shown.get(identity), healths.get(identity)
            is_wrong = health is not None and health.is_error and health.blamed == identity
            if health is not None and is_wrong and (status is None or is_going_on(status)):
                found.append(_shown(identity, health.status, health.error, health.since_ms))
            elif status is not None and catalog.try_item(identity) is not None:
                found.append(
                    _shown(
                        identity, status.health.value, status.error, status.since_ms, status.warning
                    )
                )
    return tuple(found)


def is_going_on(status: Status) -> bool:
    """Whether nothing keeps a source from going on, so that errors in its data are all there is."""
    return status.health in (Health.STARTING, Health.RUNNING, Health.FINISHED)


def _shown(
    identity: GlobalId,
    health: str,
    error: WaterclockError | None,
    since_ms: int,
    warning: WaterclockError | None = None,
) -> SourceStatus:
    since = datetime.datetime.fromtimestamp(since_ms / 1000, datetime.UTC)
    message = None if error is None else error.message
    return SourceStatus(str(identity), health, message, details_of(error, warning), since)


def statistics(catalog: Catalog, reports: Iterable[SourceReport]) -> tuple[SourceStatistics, ...]:
    """What sources have done; one that has been dropped meanwhile is left out."""
    found = []
    for report in reports:
        done = report.statistics
        if catalog.try_item(report.id) is not None:
            found.append(
                SourceStatistics(
                    str(report.id),
                    done.messages,
                    done.bytes,
                    done.updates,
                    done.first_rows_known,
                    done.first_rows_read,
                    done.offsets_known,
                    done.offsets_committed,
                    done.lag_ms,
                    done.undecodable,
                    done.skipped,
                )
            )
    return tuple(found)


def details_of(error: WaterclockError | None, warning: WaterclockError | None = None) -> str | None:
    """What is known of an error besides its message, and all of a warning, as JSON."""
    told: dict[str, str | None] = {}
    if warning is not None:
        told = {"warning": warning.message, **_told(warning)}
    if error is not None:
        told |= _told(error)
    known = {key: value for key, value in told.items() if value}
    return msgspec.json.encode(known).decode() if known else None


def _told(error: WaterclockError) -> dict[str, str | None]:
    return {"detail": error.detail, "hint": error.hint}
