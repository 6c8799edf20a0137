"""How far views are with their first contents, as the system's relations show it.

Only values that change while something is computed are shown, so that a catalog in which all views
are up to date looks the same from one moment to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from waterclock.adapter.object_health import IN_ERROR, ObjectHealth
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import Index, MaterializedView
from waterclock.catalog.system.image import Hydration
from waterclock.compute.api import Status
from waterclock.model.ids import GlobalId


def hydration(
    catalog: Catalog,
    status_of: Callable[[GlobalId], Status],
    healths: Mapping[GlobalId, ObjectHealth],
) -> tuple[Hydration, ...]:
    """What is shown of everything that is maintained; `status_of` knows how it is doing, and
    `healths` which of it can not be read.
    """
    return tuple(_shown(catalog, status_of, healths))


def _shown(
    catalog: Catalog,
    status_of: Callable[[GlobalId], Status],
    healths: Mapping[GlobalId, ObjectHealth],
) -> Iterator[Hydration]:
    for item in catalog.items():
        if not isinstance(item, MaterializedView | Index):
            continue
        try:
            status = status_of(item.id)
        except KeyError:  # made or dropped at this moment
            continue
        progress = status.progress
        health = healths.get(item.id)
        error = health.error if health is not None and health.is_error else None
        yield Hydration(
            id=str(item.id),
            replica=None,
            hydrated=progress is None,
            status=status.health.value if error is None else IN_ERROR,
            rows_read=None if progress is None else progress.rows,
            tasks_done=None if progress is None else progress.tasks_done,
            tasks=None if progress is None else progress.tasks,
            error=status.problem if error is None else error.message,
            rebuilt=status.rebuilt,
        )
