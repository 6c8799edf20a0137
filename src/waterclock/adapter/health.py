"""The health of all sources, views and indexes, looked at each second and when somebody asks.

An object is in error when something is wrong with its data or with that of anything it is made
from, or when a source behind it has failed. Errors stand in collections beside views and sources.
These are empty as a rule, which costs nothing to see; one that is not is read again only when it
has changed, and not too often while it is large.

Each change from and to an error is one line of the log.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.adapter.data_errors import explained
from waterclock.adapter.errors import SourceFailed
from waterclock.adapter.object_health import FAILED, IN_ERROR, Cause, Known, ObjectHealth, decide
from waterclock.adapter.sources import details_of, origins
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import (
    AnyItem,
    Index,
    MaterializedView,
    Source,
    Subsource,
    View,
)
from waterclock.catalog.system.image import ObjectStatus
from waterclock.compute.snapshot import contents_at
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.rows import TIME, row_schema
from waterclock.storage.api import ERROR_ROWS, ReadCapability, Updates
from waterclock.storage.contents import Made
from waterclock.storage.errors import CapabilityInvalid, SubscriptionCancelled
from waterclock.storage.sources.status import Health, SourceReport

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator

_FRESH = 10
"""What is told may be so many times as old as it takes to look."""
_REST = 20
"""What took long to find out is taken for true for so many times as long."""
_ROWS = row_schema(ERROR_ROWS)
_log = logging.getLogger(__name__)
_FEW_ROWS = 1000
"""More errors than that are read in the background only."""
Batches = tuple[Made, ...]


@dataclass(frozen=True, slots=True)
class _Errors:
    """What is in a collection of errors, as far as it was looked at."""

    batches: Batches = ()
    first: tuple[str, str] | None = None
    """The message and the row of one of them; None if there are none."""
    since_ms: int = 0
    rests_until_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _Path:
    """The collections that must be empty for an object to have a value, and the outputs of sources
    that it is made from.
    """

    errors: tuple[GlobalId, ...] = ()
    origins: tuple[GlobalId, ...] = ()


_NO_PATH = _Path()


class HealthMonitor:
    """Thread-safe."""

    def __init__(self, core: Coordinator) -> None:
        self._core = core
        self._lock = core.runtime.lock()
        self._errors: dict[GlobalId, _Errors] = {}
        self.known: Mapping[GlobalId, ObjectHealth] = {}
        """The health of everything as it was looked at last, at most about a second ago."""
        self._fresh_until_s = float("-inf")
        self._paths: Mapping[GlobalId, _Path] = {}
        self._paths_of: Catalog | None = None
        self._paths_until_s = float("-inf")

    def current(self) -> Mapping[GlobalId, ObjectHealth]:
        """The health of everything that can be read and is not a table, now or a moment ago."""
        is_old = self._core.runtime.monotonic_s() > self._fresh_until_s
        if is_old and self._lock.acquire(blocking=False):
            try:
                self._look(_FEW_ROWS)
            finally:
                self._lock.release()
        return self.known

    def look(self) -> None:
        """Find out how everything is, and log what has changed."""
        with self._lock:
            self._look(None)

    def _look(self, most_rows: int | None) -> None:
        """The same for the holder of the lock; reads so many errors of one object at most."""
        began_s = self._core.runtime.monotonic_s()
        catalog = self._core.current
        items = [i for i in catalog.items() if isinstance(i, Source | Subsource | _VIEWS)]
        paths = self._known_paths(catalog, items, began_s)
        errors = {each for path in paths.values() for each in path.errors}
        self._look_at_errors(errors, most_rows)
        reports = {each.id: each for each in self._core.sources.reports()}
        now = self._core.runtime.wall_ms()
        found: dict[GlobalId, ObjectHealth] = {}
        for item in items:
            path = paths.get(item.id, _NO_PATH)
            wrong = self._first_wrong(path.errors)
            known = self._known_of(catalog, item, path, reports, wrong)
            status, cause = decide(item.id, known)
            found[item.id] = self._dated(item, status, cause, wrong, now)
        self._log(catalog, found)
        self.known = found
        ended_s = self._core.runtime.monotonic_s()
        self._fresh_until_s = ended_s + _FRESH * (ended_s - began_s)

    def _known_paths(
        self, catalog: Catalog, items: Iterable[AnyItem], now_s: float
    ) -> Mapping[GlobalId, _Path]:
        """What stands between each object and its data. It changes with the catalog, and soon after
        that when a view is installed; so it is not found out anew each time, if that takes long.
        """
        if self._paths_of is catalog and now_s < self._paths_until_s:
            return self._paths
        self._paths = {
            item.id: _Path(
                self._core.errors_of(item.id),
                () if isinstance(item, Source) else tuple(origins(catalog, item.id)),
            )
            for item in items
        }
        ended_s = self._core.runtime.monotonic_s()
        self._paths_of, self._paths_until_s = catalog, ended_s + _REST * (ended_s - now_s)
        return self._paths

    def _known_of(
        self,
        catalog: Catalog,
        item: AnyItem,
        path: _Path,
        reports: Mapping[GlobalId, SourceReport],
        wrong: GlobalId | None,
    ) -> Known:
        status, problem = self._own(item, reports)
        failed, stalled = [], []
        for output in path.origins:
            report = _report_of(catalog, output, reports)
            if report is None or report.status.error is None:
                continue
            if report.status.health is Health.FAILED:
                failed.append(Cause(report.id, SourceFailed.of(report)))
            elif report.status.health is Health.STALLED:
                stalled.append(Cause(report.id, report.status.error))
        cause = None if wrong is None else self._cause(item, wrong)
        return Known(status, problem, cause, failed, stalled)

    def _own(
        self, item: AnyItem, reports: Mapping[GlobalId, SourceReport]
    ) -> tuple[str, WaterclockError | None]:
        """What a source or a view says of itself."""
        if isinstance(item, Source) and item.id in reports:
            status = reports[item.id].status
            return status.health.value, status.error
        if isinstance(item, Subsource) and item.source in reports:
            failed = reports[item.source].failed.get(item.id)
            return ("running", None) if failed is None else (FAILED, failed.error)
        if isinstance(item, MaterializedView | Index):
            try:
                view = self._core.compute.status(item.id)
            except KeyError:  # made or dropped at this moment
                return "running", None
            problem = None if view.problem is None else WaterclockError(view.problem)
            return view.health.value, problem
        return "running", None

    # Errors in data

    def _first_wrong(self, errors: Iterable[GlobalId]) -> GlobalId | None:
        """The first of the collections that is not empty."""
        for each in errors:
            known = self._errors.get(each)
            if known is not None and known.first is not None:
                return each
        return None

    def _cause(self, item: AnyItem, errors: GlobalId) -> Cause:
        first = self._errors[errors].first
        assert first is not None, "it is not empty"
        error = explained(self._core, errors, *first)
        return Cause(error.owner or item.id, error)

    def _look_at_errors(self, wanted: set[GlobalId], most_rows: int | None) -> None:
        now_s = self._core.runtime.monotonic_s()
        found = self._core.holds.batches(wanted)
        for gone in self._errors.keys() - wanted:
            del self._errors[gone]
        for collection, batches in found.items():
            known = self._errors.get(collection, _Errors())
            if batches == known.batches or now_s < known.rests_until_s:
                continue
            if most_rows is not None and sum(each.rows for each in batches) > most_rows:
                continue
            self._errors[collection] = self._looked(collection, batches, known)

    def _looked(self, collection: GlobalId, batches: Batches, known: _Errors) -> _Errors:
        """What is in a collection that has changed; as it was if it can not be read now."""
        if not batches:
            return _Errors()
        core = self._core
        began_s = core.runtime.monotonic_s()
        try:
            since, upper = core.holds.frontiers([collection])[collection]
            first, end = since.only(), upper.only()
            time = core.runtime.wall_ms() if end is None else end - 1
            if first is not None and time < first:
                return known  # nothing is complete yet
            capability = core.holds.capability(collection)
            rows = self._rows(capability, time, batches)
        except (WaterclockError, CapabilityInvalid, SubscriptionCancelled):
            return known  # it was moved or dropped at this moment
        ended_s = core.runtime.monotonic_s()
        rests_until_s = ended_s + _REST * (ended_s - began_s)
        if not rows.num_rows:
            return _Errors(batches, None, 0, rests_until_s)
        first_row = (rows["message"][0].as_py(), rows["key"][0].as_py())
        since_ms = known.since_ms
        if known.first is None:
            times = [batch.min_time for batch in batches if batch not in known.batches]
            since_ms = min(times, default=0) if upper.timeline == EPOCH_MILLIS else 0
        return _Errors(batches, first_row, since_ms, rests_until_s)

    def _rows(self, capability: ReadCapability, time: int, batches: Batches) -> pa.Table:
        """The errors at a complete time; one is enough, if none can cancel another."""
        storage = self._core.storage
        if any(each.signed for each in batches):
            return contents_at(storage, capability, time, _ROWS)
        subscription = storage.subscribe_at(
            capability, as_of=capability.frontier.timeline.frontier(time)
        )
        try:
            for message in subscription:
                if not isinstance(message, Updates):
                    break
                here = message.batch.filter(pc.less_equal(message.batch.column(TIME), time))
                if here.num_rows:
                    return pa.Table.from_batches([here])
        finally:
            subscription.close()
        return _ROWS.empty_table()

    # What is told

    def _dated(
        self,
        item: AnyItem,
        status: str,
        cause: Cause | None,
        wrong: GlobalId | None,
        now: int,
    ) -> ObjectHealth:
        """The health with the moment since when it is so."""
        error, blamed = (None, None) if cause is None else (cause.error, cause.blamed)
        new = ObjectHealth(status, now, error, blamed)
        before = self.known.get(item.id)
        if before is not None and before.status == status and before.blamed == blamed:
            return ObjectHealth(status, before.since_ms, error, blamed)
        if status == IN_ERROR and wrong is not None:
            since_ms = self._errors[wrong].since_ms
            if 0 < since_ms <= now:
                return ObjectHealth(status, since_ms, error, blamed)
        return new

    def _log(self, catalog: Catalog, found: Mapping[GlobalId, ObjectHealth]) -> None:
        for identity, health in found.items():
            before = self.known.get(identity)
            if health.is_error and (before is None or not before.is_error):
                item = catalog.item(identity)
                blamed = None if health.blamed is None else catalog.try_item(health.blamed)
                because = ""
                if blamed is not None and blamed.id != identity:
                    because = f" (in {catalog.described(blamed)})"
                told = "" if health.error is None else health.error.message
                _log.warning("%s is in error: %s%s", catalog.described(item), told, because)
            elif before is not None and before.is_error and not health.is_error:
                item = catalog.item(identity)
                _log.info("%s is in error no longer", catalog.described(item))


_VIEWS = View | MaterializedView | Index


def _report_of(
    catalog: Catalog, output: GlobalId, reports: Mapping[GlobalId, SourceReport]
) -> SourceReport | None:
    item = catalog.try_item(output)
    return reports.get(item.source if isinstance(item, Subsource) else output)


def object_statuses(
    catalog: Catalog, healths: Mapping[GlobalId, ObjectHealth]
) -> tuple[ObjectStatus, ...]:
    """The health of all objects, as the system's relations show it."""
    return tuple(_shown(catalog, healths))


def _shown(catalog: Catalog, healths: Mapping[GlobalId, ObjectHealth]) -> Iterator[ObjectStatus]:
    for identity, health in healths.items():
        if catalog.try_item(identity) is None:
            continue
        error = health.error
        yield ObjectStatus(
            id=str(identity),
            status=health.status,
            error=None if error is None else error.message,
            details=details_of(error),
            last_change=datetime.datetime.fromtimestamp(health.since_ms / 1000, datetime.UTC),
            blamed=None if health.blamed is None else str(health.blamed),
        )
