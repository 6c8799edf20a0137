"""What a read waits for, told to whoever waits: in a notice, and when it is given up.

A read waits for inputs that are not complete yet at its time. Most do so for a moment, and nothing
is said. After two seconds the client gets one notice, which names the input that is late, and why:
most often a source that has stalled. An error that ends the statement tells the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from waterclock.adapter.api import Notice
from waterclock.adapter.sources import origins
from waterclock.catalog.objects import Index, MaterializedView, Source
from waterclock.compute.api import Health as ViewHealth
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.sources.status import Health, SourceReport

if TYPE_CHECKING:
    from waterclock.adapter.coordinator import Coordinator

NOTICE_AFTER_S = 2.0
"""How long a read waits before it says so."""
REMEDY = "To read what is complete instead of waiting: SET transaction_isolation = serializable."


class Waiting:
    """One read that waits."""

    def __init__(
        self,
        core: Coordinator,
        wanted: Sequence[GlobalId],
        is_late: Callable[[GlobalId], bool],
        notify: Callable[[Notice], None],
    ) -> None:
        """`wanted` is what is read; `is_late` tells whether a collection is not complete yet."""
        self._core = core
        self._wanted = wanted
        self._is_late = is_late
        self._notify = notify
        self._began_s = core.runtime.monotonic_s()
        self._has_told = False

    def tell(self) -> None:
        """Say what is waited for, once, if that takes long."""
        waited_s = self._core.runtime.monotonic_s() - self._began_s
        if self._has_told or waited_s < NOTICE_AFTER_S:
            return
        self._has_told = True
        late, reason = self.reason()
        self._notify(Notice(f"the read waits for {late}", detail=reason, hint=REMEDY))

    def reason(self) -> tuple[str, str]:
        """The input that is late, by its name, and why it is."""
        core = self._core
        catalog = core.current
        late = [each for each in self._wanted if self._may_be_late(each)] or list(self._wanted)
        reports = {each.id: each for each in core.sources.reports()}
        sources = [o for each in late for o in origins(catalog, each)]
        behind = [self._report_of(o, reports) for o in sources]
        worst = min((r for r in behind if r is not None), key=_rank, default=None)
        if worst is not None and _rank(worst) < _FINE:
            item = catalog.try_item(worst.id)
            name = str(worst.id) if item is None else catalog.described(item)
            return name, _told(name, worst)
        for each in late:
            item = catalog.try_item(each)
            if item is None:
                continue
            return catalog.described(item), self._reason_of(each)
        return "its inputs", "They are not complete yet at the time of the read."

    def _may_be_late(self, collection: GlobalId) -> bool:
        try:
            return self._is_late(collection)
        except WaterclockError:  # it is just being dropped
            return True

    def _report_of(
        self, output: GlobalId, reports: dict[GlobalId, SourceReport]
    ) -> SourceReport | None:
        item = self._core.current.try_item(output)
        if item is None:
            return None
        return reports.get(item.id if isinstance(item, Source) else item.part_of or item.id)

    def _reason_of(self, collection: GlobalId) -> str:
        """Why a relation is late whose sources are not."""
        catalog = self._core.current
        item = catalog.try_item(collection)
        name = str(collection) if item is None else catalog.described(item)
        if isinstance(item, MaterializedView | Index):
            try:
                status = self._core.compute.status(item.id)
            except KeyError:
                return f"{name} is not complete yet at the time of the read."
            if status.problem is not None:
                return f"{name} is {status.health.value}: {status.problem.rstrip('.')}."
            if status.health is not ViewHealth.RUNNING:
                return f"{name} is {status.health.value}."
        return f"{name} is not complete yet at the time of the read."


_FINE = 2


def _rank(report: SourceReport) -> int:
    """How good a reason to wait the source is: the lower the better."""
    match report.status.health:
        case Health.STALLED:
            return 0
        case Health.STARTING:
            return 1
        case _:
            return _FINE


def _told(name: str, report: SourceReport) -> str:
    status = report.status
    why = "" if status.error is None else f": {status.error.message.rstrip('.')}"
    return f"{name} is {status.health.value}{why}."
