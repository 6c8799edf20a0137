"""The life of a server process: start, serve, stop.

Start: the data directory is locked and the ports are bound, so that a second server is refused at
once; the data is recovered while Spark's JVM comes up beside it; HTTP answers about health; when
Spark is there the views are taken up, and connections that have queued up meanwhile are served.
Whatever fails on the way ends the start, and lets go of everything.

Stop, on SIGINT or SIGTERM: clients are told (57P01), statements end, what was asked for is
finished, and the data is closed. The same happens, with an error in the end, if the engine dies
again and again. A second signal ends the process at once; nothing that was
acknowledged is lost by that, for opening is recovery.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import logging
import os
import resource
import shutil
import signal
import socket
import sys
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TextIO

from waterclock.errors import WaterclockError
from waterclock.persist.lock import DirectoryLock
from waterclock.runtime import SYSTEM
from waterclock.server.banner import banner
from waterclock.server.configuration import Configuration, is_loopback
from waterclock.server.listening import listen, port_of, require_password
from waterclock.server.spark import launch_spark, remove_others, start_spark

if TYPE_CHECKING:
    from waterclock.adapter.api import Front
    from waterclock.adapter.attempts import Attempts
    from waterclock.adapter.credentials import ScramVerifier
    from waterclock.http.metrics import Metrics, ServerFacts
    from waterclock.http.server import CertificateFiles, HttpServer
    from waterclock.pgwire.limits import Limits
    from waterclock.pgwire.server import PgServer
    from waterclock.pgwire.tls import TlsIdentity
    from waterclock.server.data import Data
    from waterclock.server.engine_keeper import EngineKeeper
    from waterclock.server.engine_process import SparkProcess
    from waterclock.server.wiring import Database

_log = logging.getLogger(__name__)
_NEEDED_WITH_SPARK = ("waterclock.server.wiring", "waterclock.pgwire.server")
"""Modules that take a second to import, so that it is not spent when Spark is there."""
_MANY_FILES = 65_536
_SETTLING_S = 30.0
"""Time that a stopping server waits for durable changes under way."""
_GIVING_UP_S = 20.0
"""Time limit for closing connections after the log has failed."""
_AT_ONCE = 130
"""The exit code after a second signal."""


class BadCertificate(WaterclockError):
    """The certificate and its key can not be used."""

    sqlstate: ClassVar[str] = "F0000"


class EngineLost(WaterclockError):
    """The engine dies again and again."""

    sqlstate: ClassVar[str] = "58000"


@dataclass(frozen=True, slots=True)
class _Tls:
    identity: TlsIdentity
    files: CertificateFiles


class Server:
    """One server, from `start` to `stop`. All methods belong to one event loop."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self._missing: str | None = "the server is starting"
        self._lock: DirectoryLock | None = None
        self._sockets: list[socket.socket] = []
        self._data: Data | None = None
        self._database: Database | None = None
        self._metered: Front | None = None
        self._http: HttpServer | None = None
        self._pg: PgServer | None = None
        self._spark: Future[SparkProcess] | None = None
        self._keeper: EngineKeeper | None = None
        self._attempts: Attempts | None = None
        """The wrong passwords that have come, by whatever protocol."""
        self._scratch = configuration.data / "spark" / uuid.uuid4().hex
        self.pg_port = 0
        self.http_port = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failed = asyncio.Event()
        """Set when the server can not go on: nothing can be written any more, and nobody knows what
        was; or the engine dies again and again."""
        self.failure: BaseException | None = None

    async def start(self) -> None:
        """Return when queries are answered. Raises why they can not be, and leaves nothing open."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        conf = self._configuration
        self._lock = lock = DirectoryLock(conf.data)
        pg_socket = self._listen(conf.pg_port, "--pg-port")
        http_socket = self._listen(conf.http_port, "--http-port")
        self._spark = start_spark(
            conf.spark_master, _spark_settings(conf), self._scratch.absolute()
        )
        data = self._data = await asyncio.to_thread(_open_data, conf, lock)
        self._loop = asyncio.get_running_loop()
        data.store.on_failure = self._note_failure
        await asyncio.to_thread(remove_others, self._scratch)
        if not is_loopback(conf.host):
            require_password(conf.host, await asyncio.to_thread(data.has_password))
        tls = _tls(conf)
        self.pg_port, self.http_port = port_of(pg_socket), port_of(http_socket)
        metrics = await self._start_http(http_socket, tls)
        self._missing = "Spark is starting"
        for name in _NEEDED_WITH_SPARK:  # Java starts meanwhile
            await asyncio.to_thread(importlib.import_module, name)
        keeper = self._keeper = self._kept(await asyncio.wrap_future(self._spark))
        self._missing = "views are being taken up"
        database = self._database = await asyncio.to_thread(
            _open_database, data, keeper, conf, metrics.tick
        )
        keeper.examine = partial(database.core.compute.end_hung_steps, conf.step_timeout / 1000)
        keeper.begin()
        await self._start_pg(database, metrics, pg_socket, tls)
        self._missing = None
        database.rehearse()
        if tls is None and not is_loopback(conf.host):
            _log.warning("passwords sent to the HTTP port are not encrypted; use --tls")

    def _kept(self, first: SparkProcess) -> EngineKeeper:
        """What looks after the engine from now on."""
        from waterclock.compute.live_session import LiveSession
        from waterclock.server.engine_keeper import EngineKeeper
        from waterclock.server.engine_life import Policy

        conf = self._configuration
        folder = self._scratch.absolute().parent

        def launch() -> SparkProcess:
            return launch_spark(conf.spark_master, _spark_settings(conf), folder / uuid.uuid4().hex)

        def give_up(why: str) -> None:
            self._note_failure(EngineLost(why))

        return EngineKeeper(
            LiveSession(),
            first,
            launch,
            Policy(conf.engine_deaths, silence_s=conf.engine_silence / 1000),
            given_up=give_up,
        )

    def _listen(self, port: int, flag: str) -> socket.socket:
        listening = listen(self._configuration.host, port, flag)
        self._sockets.append(listening)
        return listening

    async def _start_http(self, listening: socket.socket, tls: _Tls | None) -> Metrics:
        from waterclock.adapter.attempts import Attempts
        from waterclock.http.app import Api
        from waterclock.http.metrics import Metrics
        from waterclock.http.server import HttpLimits, HttpServer
        from waterclock.server.texts import PgTexts

        self._attempts = Attempts(SYSTEM.monotonic_s)
        metrics = Metrics(self._facts)
        api = Api(
            self._front,
            _Later(self),
            lambda: self.missing,
            metrics,
            PgTexts(),
            self._attempts,
            lambda: self.unready,
            lambda: self.database.front.webhooks,
        )
        conf = self._configuration
        limits = HttpLimits(
            conf.max_unauthenticated_connections,
            conf.max_unauthenticated_connections_per_address,
            conf.authentication_timeout / 1000,
        )
        self._http = HttpServer(api.app(), tls.files if tls else None, limits)
        await self._http.start(listening)
        return metrics

    async def _start_pg(
        self, database: Database, metrics: Metrics, listening: socket.socket, tls: _Tls | None
    ) -> None:
        from waterclock.pgwire.server import PgServer
        from waterclock.server.metering import MeteredFront

        self._metered = MeteredFront(database.front, metrics)
        self._pg = PgServer(
            self._metered,
            database.front,
            tls=tls.identity if tls else None,
            limits=_pg_limits(self._configuration),
            attempts=self._attempts,
        )
        await self._pg.listen_on(listening)

    @property
    def unready(self) -> str | None:
        """What keeps queries from being answered; None if nothing does."""
        if self.missing is None and self._keeper is not None:
            return self._keeper.problem
        return self.missing

    @property
    def missing(self) -> str | None:
        """What keeps statements from being taken; None if nothing does."""
        if self._missing is None and self._data is not None and self._data.store.has_failed:
            return "the data can not be written any more"
        return self._missing

    def _note_failure(self, error: BaseException) -> None:
        """Called by whichever thread has met it."""
        self.failure = error
        assert self._loop is not None, "the data was opened in a loop"
        self._loop.call_soon_threadsafe(self.failed.set)

    def _front(self) -> Front:
        assert self._metered is not None, "nobody asks before the server is ready"
        return self._metered

    @property
    def database(self) -> Database:
        assert self._database is not None, "nobody asks before the server is ready"
        return self._database

    def _facts(self) -> ServerFacts:
        from waterclock.http.metrics import ServerFacts
        from waterclock.server.facts import facts_of

        if self.missing is not None or self._database is None:
            return ServerFacts(is_ready=False, connections=0)
        assert self._keeper is not None, "a database has an engine"
        facts = facts_of(self._database.core, self._database.front.sessions)
        return replace(
            facts,
            is_ready=facts.is_ready and self.unready is None,
            engine_starts=self._keeper.starts,
            engine_deaths=self._keeper.deaths,
            hung_steps=self._database.core.compute.hung_steps,
        )

    async def stop(self) -> None:
        """Tell the clients, finish, close. Idempotent."""
        self._missing = "the server is stopping"
        pg, self._pg = self._pg, None
        if pg is not None:
            await pg.close()
        http, self._http = self._http, None
        if http is not None:
            await http.close()
        for listening in self._sockets:
            listening.close()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.stop_restarting()
        database, self._database = self._database, None
        data, self._data = self._data, None
        if database is not None:
            with suppress(TimeoutError):
                await asyncio.wait_for(database.front.settle(), _SETTLING_S)
            await asyncio.to_thread(database.close)
        elif data is not None:
            await asyncio.to_thread(data.close)
        elif self._lock is not None:
            self._lock.release()
        spark, self._spark = self._spark, None
        if keeper is not None:
            await asyncio.to_thread(keeper.close)
        elif spark is not None and spark.done() and spark.exception() is None:
            await asyncio.to_thread(spark.result().stop)
        await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)


class _Later:
    """Implements `api.Authenticator` by that of a server that may still be starting."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def requires_password(self, client_address: str | None) -> bool:
        return self._server.database.front.requires_password(client_address)

    def verifier(self, user: str) -> ScramVerifier | None:
        return self._server.database.front.verifier(user)


def _open_data(configuration: Configuration, lock: DirectoryLock) -> Data:
    from waterclock.persist.places import Places
    from waterclock.server.data import Data

    return Data(configuration.data, Places(configuration.log, configuration.blobs), lock)


def _open_database(
    data: Data, keeper: EngineKeeper, configuration: Configuration, ticked: Callable[[float], None]
) -> Database:
    from waterclock.adapter.backpressure import Bounds
    from waterclock.adapter.budgets import Budgets
    from waterclock.adapter.coordinator import Pace
    from waterclock.compute.planners import Planners
    from waterclock.persist.cutting import Limit
    from waterclock.server.wiring import Database

    budgets = Budgets(
        result_bytes=configuration.max_result_bytes,
        connections=configuration.max_connections,
        statement=configuration.budget,
        webhook_body_bytes=configuration.max_webhook_body_bytes,
        webhook_requests=configuration.max_webhook_requests,
        catalog_memory_mb=configuration.max_catalog_memory,
        step=Limit(configuration.max_step_rows, configuration.max_step_bytes),
        backlog=Bounds(
            configuration.max_backlog_rows,
            configuration.max_backlog_bytes,
            configuration.max_backlog_age,
            configuration.max_write_delay / 1000,
        ),
    )
    pace = Pace(tick_ms=configuration.tick, engine_wait_s=configuration.engine_wait / 1000)
    planners = Planners(configuration.plan_timeout / 1000, keeper.condemn)
    return Database(data, keeper.live, pace, ticked, budgets, planners)


def _spark_settings(configuration: Configuration) -> dict[str, str]:
    """What Spark is told: the user's settings, and the budgets that our functions there keep."""
    return {
        **configuration.spark,
        "spark.waterclock.maxValueBytes": str(configuration.max_value_bytes),
        "spark.waterclock.maxPatternSteps": str(configuration.max_pattern_steps),
    }


def _pg_limits(configuration: Configuration) -> Limits:
    from waterclock.pgwire.limits import Limits

    return Limits(
        connections=configuration.max_connections,
        connections_of_address=configuration.max_connections_per_address,
        connecting=configuration.max_unauthenticated_connections,
        connecting_of_address=configuration.max_unauthenticated_connections_per_address,
        authentication_s=configuration.authentication_timeout / 1000,
    )


def _tls(configuration: Configuration) -> _Tls | None:
    if not configuration.uses_tls:
        return None
    from waterclock.http.server import CertificateFiles
    from waterclock.pgwire.tls import load_identity, self_made_identity

    certificate, key = configuration.tls_cert, configuration.tls_key
    if certificate is None or key is None:
        folder = configuration.data / "tls"
        identity = self_made_identity(folder, configuration.host)
        return _Tls(identity, CertificateFiles(folder / "server.crt", folder / "server.key"))
    try:
        return _Tls(load_identity(certificate, key), CertificateFiles(certificate, key))
    except (OSError, ValueError) as error:
        raise BadCertificate(
            f'could not use certificate "{certificate}" with key "{key}": {error}',
            hint="Give PEM files with --tls-cert and --tls-key, or only --tls.",
        ) from error


async def serve(configuration: Configuration, out: TextIO) -> None:
    """Run a server until the process is told to stop."""
    began = time.monotonic()
    _allow_many_files()
    stopping = _signals()
    server = Server(configuration)
    starting = asyncio.ensure_future(server.start())
    told = asyncio.ensure_future(stopping.wait())
    await asyncio.wait({starting, told}, return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        _log.info("stopped before the start was complete")
        logging.shutdown()
        os._exit(0)  # a start can not be interrupted, and has acknowledged nothing
    starting.result()
    gc.collect()
    gc.freeze()  # what is there now stays: no need to look at it again and again
    print(
        banner(configuration, server.pg_port, server.http_port, time.monotonic() - began),
        file=out,
        flush=True,
    )
    failed = asyncio.ensure_future(server.failed.wait())
    await asyncio.wait({told, failed}, return_when=asyncio.FIRST_COMPLETED)
    if not told.done():
        await _give_up(server)
    _log.info("stopping")
    await server.stop()
    gc.unfreeze()  # let what is there be taken down in order
    _log.info("stopped")


async def _give_up(server: Server) -> None:
    """End the process with an error: it does not know any more what is durable, or has no engine.

    The next start finds out; nothing that was acknowledged is lost.
    """
    reason = str(server.failure)
    if not isinstance(server.failure, EngineLost):
        reason = f"the data can not be written any more: {reason}"
    _log.critical("the server ends: %s", reason)
    try:
        await asyncio.wait_for(server.stop(), _GIVING_UP_S)
    except Exception:  # what can not be stopped ends with the process
        _log.exception("could not stop in order")
    print(f"ERROR: {reason}", file=sys.stderr, flush=True)
    logging.shutdown()
    os._exit(1)


def _allow_many_files() -> None:
    """Have as many files and connections open as the system lets this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY or soft < hard:
        most = _MANY_FILES if hard == resource.RLIM_INFINITY else min(hard, _MANY_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))


def _signals() -> asyncio.Event:
    """Set by the first signal to stop; the second one ends the process."""
    stopping = asyncio.Event()

    def on_signal() -> None:
        if stopping.is_set():
            os._exit(_AT_ONCE)
        stopping.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    return stopping
