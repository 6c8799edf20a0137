"""The adapter as protocol layers see it: connecting, and who has to prove who they are."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from ipaddress import ip_address

import pyarrow as pa

from waterclock.adapter.advisory_locks import AdvisoryLocks
from waterclock.adapter.api import (
    Notice,
    RefusedRole,
    SessionEnded,
    Startup,
    TooManyConnections,
    UnknownDatabase,
)
from waterclock.adapter.changes import Changes
from waterclock.adapter.coordinator import Coordinator
from waterclock.adapter.credentials import ScramVerifier, parse_verifier
from waterclock.adapter.health import object_statuses
from waterclock.adapter.hydration import hydration
from waterclock.adapter.offload import Offload
from waterclock.adapter.plans import Plans
from waterclock.adapter.pumps import Pumps
from waterclock.adapter.reading import Reading
from waterclock.adapter.session import SqlSession
from waterclock.adapter.settings import DEFINITIONS, Settings, is_known
from waterclock.adapter.sources import statistics, statuses
from waterclock.adapter.webhooks.receiving import Webhooks
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.image import image_of
from waterclock.catalog.system.answerer import DuckDbAnswerer
from waterclock.catalog.system.image import (
    CatalogImage,
    Hydration,
    ObjectStatus,
    Setting,
    SourceStatistics,
    SourceStatus,
)
from waterclock.model.manner import Manner
from waterclock.model.pg_types import PgType
from waterclock.sql.printing.defaults import shown_default

_CHANGE_THREADS = 16
"""For steps of durable changes, some of which wait for other systems or for the engine."""
SETTINGS = tuple(Setting(each.name, each.default) for each in DEFINITIONS)
"""The parameters that there are, for pg_settings."""
_COUNT_AGAIN_S = 1.0
"""How old the statistics of sources may be: whenever they change, the image is made anew."""

MadeOf = tuple[
    int,
    tuple[SourceStatus, ...],
    tuple[SourceStatistics, ...],
    tuple[Hydration, ...],
    tuple[ObjectStatus, ...],
]
ReadText = Callable[[str, PgType, Manner], pa.Scalar]
"""A value from its text and its type, in the manner of a session."""
WriteText = Callable[[pa.Array, PgType, Manner], pa.Array]
"""The texts of a column of a type, in the manner of a session."""


class SqlFront:
    """Implements `api.Front` and `api.Authenticator` over a coordinator."""

    def __init__(
        self,
        core: Coordinator,
        read_text: ReadText | None = None,
        write_text: WriteText | None = None,
    ) -> None:
        """`read_text` reads constants of types whose text form only the protocol knows.

        `write_text` writes the values that an error shows.
        """
        self.core = core
        self.read_text = read_text
        self.write_text = write_text
        self.offload = Offload(core.budgets.statement, core.runtime.pool)
        self.reading = Reading(core)
        self.pumps = Pumps(core)
        self.webhooks = Webhooks(core)
        self._shown: CatalogImage | None = None
        self._made_of: MadeOf = (0, (), (), (), ())
        self._counts: tuple[SourceStatistics, ...] = ()
        self._counted_s = -_COUNT_AGAIN_S
        self._images = 0
        self._imaging = core.runtime.lock()
        self.answerer = DuckDbAnswerer(self._image, core.budgets.catalog_memory_mb, core.runtime)
        self.plans = Plans(self.answerer.is_system_relation)
        self.started = core.runtime.now()
        self.locks = AdvisoryLocks(core.runtime)
        self.changes = Changes(
            core.catalog,
            committing=core.runtime.pool(1, "waterclock-catalog"),
            others=core.runtime.pool(_CHANGE_THREADS, "waterclock-changes"),
        )
        self._lock = threading.Lock()
        self._sessions: set[SqlSession] = set()

    async def connect(self, startup: Startup, notify: Callable[[Notice], None]) -> SqlSession:
        catalog = self.core.current
        role = catalog.try_role(startup.user)
        if role is None:
            raise RefusedRole(f'role "{startup.user}" does not exist')
        if not role.login:
            raise RefusedRole(f'role "{startup.user}" is not permitted to log in')
        database = catalog.try_database(startup.database)
        if database is None:
            raise UnknownDatabase(f'database "{startup.database}" does not exist')
        settings = self._settings(catalog, startup, notify)
        session = SqlSession(self, startup, role, settings, notify)
        with self._lock:
            if len(self._sessions) >= self.core.budgets.connections:
                raise TooManyConnections(
                    "sorry, too many clients already",
                    hint="Close connections, use a pool, or raise the server's setting"
                    " max_connections.",
                )
            self._sessions.add(session)
        return session

    async def settle(self) -> None:
        """Return when every durable change that was begun has ended. For the end of a server."""
        await self.changes.settle()

    def _image(self) -> CatalogImage:
        """The catalog as the system's relations show it; made once for each version of it, and
        once for each change of how sources and views are.
        """
        with self._imaging:
            current = self.core.current
            reports = [*self.core.sources.reports(), *self.webhooks.reports()]
            healths = self.core.health.current()
            sources = statuses(current, reports, healths)
            objects = object_statuses(current, healths)
            now_s = self.core.runtime.monotonic_s()
            if now_s > self._counted_s + _COUNT_AGAIN_S:
                self._counted_s = now_s
                self._counts = statistics(current, reports)
            views = hydration(current, self.core.compute.status, healths)
            made_of = (current.version, sources, self._counts, views, objects)
            if self._shown is None or self._made_of != made_of:
                is_same = self._shown is not None and self._made_of[0] == current.version
                image = self._shown if is_same else image_of(current, SETTINGS, shown_default)
                assert image is not None
                self._made_of = made_of
                self._images += 1
                self._shown = replace(
                    image,
                    version=self._images,
                    source_statuses=sources,
                    source_statistics=self._counts,
                    hydration=views,
                    object_statuses=objects,
                )
            return self._shown

    def ended(self, session: SqlSession) -> None:
        """The session is over."""
        with self._lock:
            self._sessions.discard(session)

    def all_sessions(self) -> list[SqlSession]:
        """The sessions that there are. From any thread."""
        with self._lock:
            return list(self._sessions)

    @property
    def sessions(self) -> int:
        """How many sessions there are."""
        return len(self._sessions)

    def uses(self, *, role: str | None = None, database: str | None = None) -> bool:
        """Whether a session logged in or acts as the role, or is connected to the database."""
        return any(
            each.startup.database == database or role in (each.startup.user, each.role.name)
            for each in self.all_sessions()
        )

    def is_system(self, schema: str | None, name: str) -> bool:
        """Whether a name in a query means one of the system's relations."""
        return self.answerer.is_system_relation(schema, name)

    def requires_password(self, client_address: str | None) -> bool:
        """Only those on this machine need none, unless the default role has been given one."""
        if client_address is None:
            return False
        return not ip_address(client_address).is_loopback

    def verifier(self, user: str) -> ScramVerifier | None:
        role = self.core.current.try_role(user)
        if role is None or role.verifier is None:
            return None
        return parse_verifier(role.verifier)

    def _settings(
        self, catalog: Catalog, startup: Startup, notify: Callable[[Notice], None]
    ) -> Settings:
        role = catalog.role(startup.user)
        database = catalog.database(startup.database)
        first = {
            **catalog.settings_for(role.oid, database.oid),
            "session_authorization": role.name,
            "is_superuser": "on" if role.superuser else "off",
            "database": database.name,
            "max_connections": str(self.core.budgets.connections),
        }
        settings = Settings(first)
        for name, value in startup.settings.items():
            if not is_known(name):
                notify(Notice(f'unrecognized configuration parameter "{name}"', "WARNING", "42704"))
                continue
            settings.begin_with(name, value)
        return settings


__all__ = ["SessionEnded", "SqlFront"]
