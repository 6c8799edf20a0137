"""The coordinator: the one place where the layers below meet, and the loop that keeps them moving.

It owns the catalog, the oracle, the right to write tables, the holds on everything, the sources,
compute and the evaluator of queries. Sessions ask it; it knows nothing of sessions. One thread
ticks: it lets tables be complete up to now, lets views advance, moves holds, and is woken by every
write, so that a view is fresh one step after a write and not one period after it.

What happens at a start: the log is recovered, the catalog read, what no object refers to let go,
and every view and source taken up where its output ends.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from waterclock.adapter.backpressure import Backpressure
from waterclock.adapter.budgets import Budgets
from waterclock.adapter.connections import open_secret, settings_of
from waterclock.adapter.errors import SourceFailed
from waterclock.adapter.health import HealthMonitor
from waterclock.adapter.holds import Holder, Holds
from waterclock.adapter.read_holds import ReadHolds
from waterclock.adapter.results import Spool
from waterclock.adapter.retention import kept_longer
from waterclock.adapter.secrets import SecretBox
from waterclock.adapter.sources import all_sources, origins
from waterclock.adapter.tables import TableWriter
from waterclock.adapter.timelines import compaction
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.durable import DurableCatalog
from waterclock.catalog.objects import Relation
from waterclock.compute.engine import OpenEngine, engine_on
from waterclock.compute.live_session import LiveSession
from waterclock.model.ids import GlobalId
from waterclock.oracle.oracle import PREFIX as ORACLE_PREFIX
from waterclock.oracle.oracle import Oracle
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store
from waterclock.storage.controller import Storage
from waterclock.storage.sources.api import ConnectionSettings, Surroundings
from waterclock.storage.sources.executors import OnSpark
from waterclock.storage.sources.loop import Ingestions
from waterclock.storage.sources.registry import all_kinds

_LOG = logging.getLogger(__name__)
VIEW_PREFIX = "view/"
SOURCES = "sources"
"""The folder of what sources keep on disk."""
_OBSERVE_S = 0.2
"""Interval between two looks at how far views are behind."""
_REST_S = 0.05
"""Least time between two ticks when nobody waits for a view."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often things happen by themselves."""

    tick_ms: int = 1000
    """How often tables are made complete up to now while nobody writes."""
    retain_ms: int = 5000
    """How long past contents stay readable."""
    engine_wait_s: float = 60.0
    """How long a statement that needs the engine waits for one that is being restarted."""
    patience_s: float = 0.2
    """How long a tick waits for slow views before it looks after the others again."""


class Coordinator:
    """Everything behind the sessions of one server. Thread-safe."""

    def __init__(
        self,
        storage: Storage,
        store: Store,
        live: LiveSession | None,
        folder: Path,
        pace: Pace,
        *,
        secrets: SecretBox | None = None,
        engine: OpenEngine | None = None,
        ticked: Callable[[float], None] | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        """`folder` holds what can be made again: the state of views, and scratch space.

        The engine is that of the live session, unless another one is given. Without a box for
        secrets, none can be made. `ticked` is told how many seconds each tick took.
        """
        self.budgets = budgets = budgets or Budgets()
        if engine is None:
            assert live is not None, "there is an engine or a session to make one of"
            engine = engine_on(live, folder, budgets.result_bytes, budgets.step)
        self.storage = storage
        self.store = store
        self.runtime = store.runtime
        self.spool = Spool(folder / "queries" / "sent", budgets.result_bytes)
        """Where large results wait for their readers."""
        self.pace = pace
        self.secrets = secrets
        self._bell = self.runtime.event()
        self._urgent = self.runtime.event()
        self._closing = False
        self._advanced = 0.0
        self._ticked = ticked
        self.table_commits = 0
        """How many commits have changed tables since the start."""
        self.catalog = DurableCatalog(store)
        self.oracle = Oracle(
            Notes(store, ORACLE_PREFIX), self.runtime.wall_ms, runtime=self.runtime
        )
        self.oracle.read_ts(
            at_least=self.runtime.wall_ms()
        )  # new data is not read as it was in 1970
        self.holds = Holds(storage)
        self.tables = TableWriter(storage, self.oracle, self.runtime.wall_ms, self._written)
        self.catalog.release_unreferenced()
        opened = engine(storage, Notes(store, VIEW_PREFIX))
        self.compute = opened.compute
        self.evaluator = opened.evaluator
        self.engine = opened.availability
        self.follow(self.current, self.current.collections(), frozenset())
        self.catalog.follow = self.follow
        self.read_holds = ReadHolds(storage, store, self.holds)
        self.tables.advance()
        self.backpressure = Backpressure(budgets.backlog, self.runtime.monotonic_s)
        self._observed = -math.inf
        executors = None if live is None else OnSpark(live, folder / "reads")
        self._forget_engine = self.engine.watch(self.wake)
        self.sources = Ingestions(
            storage,
            store,
            all_kinds(),
            Surroundings(
                self.runtime.wall_ms,
                executors,
                self.connection_settings,
                large_bytes=0 if executors is None else executors.worth_bytes,
                state_folder=folder / SOURCES / "state",
                secret=self.secret_value,
                runtime=self.runtime,
            ),
            partial(self.holds.take, holder=Holder("source")),
            interval_ms=pace.tick_ms,
            changed=self._ingested,
            delay_s=self.backpressure.delay_s,
        )
        self.tables.sources = self.sources
        for source in all_sources(self.catalog.current):
            self.sources.add(source)
        self.sources.remove_strays()
        self.health = HealthMonitor(self)
        self._thread = self.runtime.start_thread(self._run, "waterclock-ticks")

    def follow(self, catalog: Catalog, made: Set[GlobalId], gone: Set[GlobalId]) -> None:
        """Hold and write what is new in the catalog, and forget what is not in it any more.

        Called before others see what is new and after they saw what is gone, so that nobody who
        looks at the catalog meets a collection without it.
        """
        for collection in sorted(made):
            reader, writer = self.catalog.capabilities(collection)
            if reader is not None:
                self.holds.adopt(reader)
            item = catalog.try_item(collection)
            if writer is not None and isinstance(item, Relation) and item.is_written_here:
                self.tables.add(writer)
        for collection in gone:
            self.tables.remove(collection)
            self.holds.forget(collection)

    def connection_settings(self, connection: GlobalId) -> ConnectionSettings:
        """How to reach what the connection leads to, as it is defined now."""
        return settings_of(self.current, connection, self.secrets)

    def secret_value(self, secret: GlobalId) -> str:
        """The value of a secret that a source uses, as it is now."""
        return open_secret(self.current, secret, self.secrets)

    def errors_of(self, collection: GlobalId) -> tuple[GlobalId, ...]:
        """The collections that must be empty at a time for this one to have a value then."""
        beside = map(self.sources.errors_beside, origins(self.current, collection))
        found = [errors for errors in beside if errors is not None]
        return (*self.compute.errors_of(collection), *found)

    def require_sources(self, collections: Sequence[GlobalId]) -> None:
        """Raise `SourceFailed` if one of the collections is of a source that has failed."""
        failed = self.sources.failed(collections) if collections else None
        if failed is not None:
            raise SourceFailed.of(failed)

    def wake(self) -> None:
        """Somebody waits for a view or a source."""
        self.wake_views()
        self.sources.wake()

    def wake_views(self) -> None:
        """Somebody waits for a view whose sources are complete."""
        self._urgent.set()
        self._bell.set()

    def _written(self) -> None:
        self.table_commits += 1
        self._bell.set()

    def _ingested(self, time: int) -> None:
        """Let all reads from now on see what sources brought at the time. Reads of tables are at it
        too, so these are complete then.
        """
        self.tables.advance(time)
        self.oracle.apply_write(time)
        self._bell.set()

    @property
    def current(self) -> Catalog:
        """The catalog as it is now."""
        return self.catalog.current

    def close(self) -> None:
        """Stop. Everything acknowledged is durable already."""
        self._forget_engine()
        self.sources.close()
        self._closing = True
        self._urgent.set()
        self._bell.set()
        self._thread.join()
        self.tables.close()
        self.compute.close()
        self.oracle.close()

    def _run(self) -> None:
        ended = 0.0
        while not self._closing:
            self._bell.wait(self.pace.tick_ms / 1000)
            if (rest := ended + _REST_S - self.runtime.precise_s()) > 0:
                self._urgent.wait(rest)  # one tick can follow all that is written meanwhile
            self._bell.clear()
            self._urgent.clear()
            began = self.runtime.precise_s()
            try:
                self._tick()
            except Exception:
                if self.store.has_failed:
                    _LOG.critical("the store has failed; nothing can be written any more")
                    return
                _LOG.exception("a tick failed")
            ended = self.runtime.precise_s()
            if self._ticked is not None:
                self._ticked(ended - began)

    def _tick(self) -> None:
        now = self.runtime.monotonic_s()
        is_due = now - self._advanced >= self.pace.tick_ms / 1000
        if is_due:
            self._advanced = now
            self.tables.advance()
            self.oracle.renew()
            self.read_holds.prune(self.current)
            behind = self.pace.retain_ms
            # The times first: what is made from here on is later than they are, and stays.
            usual, elsewhere = self.runtime.wall_ms() - behind, compaction(self, behind)
            longer = kept_longer(self.current, self.errors_of, behind)
            self.holds.allow_compaction(usual, elsewhere, longer)
        while not self._closing and self.compute.tick(self.pace.patience_s):
            self._observe_backlogs()
        self._observe_backlogs()
        if is_due and not self._closing:
            self.health.look()

    def _observe_backlogs(self) -> None:
        """Have writes wait if views are too far behind; looked at a few times a second."""
        now = self.runtime.monotonic_s()
        if now - self._observed >= _OBSERVE_S:
            self._observed = now
            self.backpressure.observe(self.compute.backlogs())
