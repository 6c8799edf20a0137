"""What a running database says of itself when somebody asks for its metrics.

Only values that are at hand are read: no commit, no Spark job, no lock that is held for long.
"""

from __future__ import annotations

from collections.abc import Iterator

from waterclock.adapter.coordinator import Coordinator
from waterclock.adapter.object_health import FAILED
from waterclock.adapter.timelines import common_timeline
from waterclock.catalog.image import qualified
from waterclock.catalog.objects import Index, MaterializedView, Source, Subsource, View
from waterclock.compute.api import Health
from waterclock.http.metrics import ServerFacts, SourceFacts, ViewFacts
from waterclock.model.timeline import EPOCH_MILLIS


def facts_of(core: Coordinator, connections: int) -> ServerFacts:
    """The numbers of this moment."""
    return ServerFacts(
        is_ready=not core.store.has_failed,
        connections=connections,
        views=tuple(_views(core)),
        sources=tuple(_sources(core)),
        errors=tuple(_in_error(core)),
        table_commits=core.table_commits,
        pressure=core.backpressure.pressure,
        delayed_writes=core.backpressure.delayed_writes,
        delayed_s=core.backpressure.delayed_s,
        oracle_read_ms=core.oracle.read_ts(),
        log_position=core.store.read(lambda state: state.position),
    )


def _views(core: Coordinator) -> Iterator[ViewFacts]:
    now = core.runtime.wall_ms()
    catalog, healths = core.current, core.health.known
    for item in catalog.items():
        if not isinstance(item, MaterializedView | Index):
            continue
        try:
            status = core.compute.status(item.id)
        except KeyError:  # made or dropped at this moment
            continue
        finished = status.health is Health.FINISHED
        on_clock = common_timeline(core, [item.id]) == EPOCH_MILLIS
        late_ms = max(0, now - (status.upper - 1)) if on_clock else None
        lag_ms = 0 if finished else late_ms
        backlog_rows = core.backpressure.rows_behind(item.id)
        known = healths.get(item.id)
        health = known.status if known is not None and known.is_error else status.health.value
        yield ViewFacts(qualified(catalog, item), health, lag_ms, status.rows, backlog_rows)


def _sources(core: Coordinator) -> Iterator[SourceFacts]:
    catalog, healths = core.current, core.health.known
    for report in core.sources.reports():
        item = catalog.try_item(report.id)
        if not isinstance(item, Source):
            continue
        known, done = healths.get(report.id), report.statistics
        is_wrong = known is not None and known.is_error
        yield SourceFacts(
            qualified(catalog, item),
            known.status if known is not None and is_wrong else report.status.health.value,
            done.lag_ms,
            done.messages,
            done.undecodable,
            done.skipped,
        )


def _in_error(core: Coordinator) -> Iterator[tuple[str, str]]:
    catalog = core.current
    for identity, health in core.health.known.items():
        item = catalog.try_item(identity)
        if not isinstance(item, Source | Subsource | View | MaterializedView | Index):
            continue
        if health.is_error or health.status == FAILED:
            yield qualified(catalog, item), item.kind
