"""For whom a query over the system's relations runs.

DuckDB calls back on the thread that runs the query, with nothing but values; so what else there is
to know is kept for that thread, from just before the query to just after it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from waterclock.catalog.system.directory import Directory
from waterclock.catalog.system.session import Cancellation, SessionFacts
from waterclock.catalog.system.snapshot import Snapshot
from waterclock.errors import WaterclockError


@dataclass(frozen=True, slots=True)
class SettingChange:
    """What set_config did: `local` to the transaction, or for the session."""

    name: str
    value: str
    local: bool


@dataclass(slots=True)
class Context:
    """For whom a query runs."""

    snapshot: Snapshot
    session: SessionFacts
    cancellation: Cancellation
    path: list[int]
    failure: WaterclockError | None = None
    changes: list[SettingChange] = field(default_factory=list)


class Contexts:
    """The context of each thread."""

    def __init__(self) -> None:
        self._local = threading.local()

    def enter(self, context: Context) -> None:
        self._local.context = context

    def leave(self) -> None:
        self._local.context = None

    @property
    def current(self) -> Context:
        context = self._local.context
        assert isinstance(context, Context), "a call outside a query"
        return context

    @property
    def directory(self) -> Directory:
        return self.current.snapshot.directory
