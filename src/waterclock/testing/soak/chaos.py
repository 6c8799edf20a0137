"""What goes wrong around the server, one thing after the other, and how long recovery may take.

Everything here is done to processes that this run has started.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer
from waterclock.testing.soak.processes import JAVA, SERVER, WORKER, process_tree
from waterclock.testing.soak.weather import Weather

RECOVERY_S = 180.0
"""How long the server may take to be ready again after anything."""


class Chaos:
    """Breaks things until it is stopped. Uses a thread of its own."""

    def __init__(
        self,
        server: ServerProcess,
        kafka: KafkaBroker,
        postgres: PostgresServer,
        weather: Weather,
        disk: Path | None,
        seed: int,
    ) -> None:
        """With `disk`, a file system of its own on which the data are, that is filled up too."""
        self._server = server
        self._kafka = kafka
        self._postgres = postgres
        self._weather = weather
        self._disk = disk
        self._random = Random(f"{seed}/chaos")
        self._stopping = threading.Event()
        self._is_calm = threading.Event()
        self._released = threading.Event()
        self._actions: list[tuple[int, Callable[[], None]]] = [
            (3, self._kill_server),
            (2, self._restart_server),
            (3, self._kill_engine),
            (3, self._kill_worker),
            (2, lambda: self._stand_still(SERVER)),
            (2, lambda: self._stand_still(JAVA)),
            (2, lambda: self._stand_still(WORKER)),
            (2, self._kill_broker),
            (2, self._kill_database),
        ]
        if disk is not None:
            self._actions.append((2, self._fill_disk))
        self.thread = threading.Thread(target=self._run, name="chaos", daemon=True)

    def stop(self) -> None:
        """Return when all that was broken works again.

        The thread stays until `release`, since the servers it has started end with it.
        """
        self._stopping.set()
        self._is_calm.wait()

    def release(self) -> None:
        """Nobody needs the servers any more."""
        self._released.set()

    def _run(self) -> None:
        weights = [weight for weight, _ in self._actions]
        while not self._stopping.wait(self._random.uniform(10, 40)):
            [(_, action)] = self._random.choices(self._actions, weights)
            try:
                action()
            except Exception as fault:
                self._weather.finding("chaos", f"{fault!r}")
        self._is_calm.set()
        self._released.wait()

    def _processes(self, role: str) -> list[int]:
        return [pid for pid, found in process_tree(self._server.pid).items() if found == role]

    def _await_ready(self) -> None:
        began = time.monotonic()
        while not self._server.is_ready():
            if time.monotonic() - began > RECOVERY_S:
                self._weather.finding("chaos", f"the server is not ready after {RECOVERY_S:.0f} s")
                self._server.kill()
                self._server.start()
                return
            time.sleep(0.1)
        self._weather.tell(f"  ready again after {time.monotonic() - began:.1f} s")

    def _kill_server(self) -> None:
        with self._weather.disturbed("server", "kill -9 of the server"):
            self._server.kill()
            self._server.start()
            self._weather.tell(f"  started in {self._server.started_in_s:.1f} s")

    def _restart_server(self) -> None:
        with self._weather.disturbed("server", "a stop and a start of the server"):
            code = self._server.stop()
            if code:
                self._weather.finding("chaos", f"the server has stopped with {code}")
            self._server.start()

    def _kill_engine(self) -> None:
        with self._weather.disturbed("engine", "kill -9 of the engine"):
            for pid in self._processes(JAVA):
                os.kill(pid, signal.SIGKILL)
            time.sleep(1.5)  # by then it must have been noticed
            if self._server.is_ready():
                self._weather.tell("  ready 1.5 s after the engine was killed")
            self._await_ready()

    def _kill_worker(self) -> None:
        workers = self._processes(WORKER)
        if workers:
            with self._weather.disturbed("worker", "kill -9 of a Python worker"):
                with suppress(ProcessLookupError):
                    os.kill(self._random.choice(workers), signal.SIGKILL)
                time.sleep(1)
                self._await_ready()

    def _stand_still(self, role: str) -> None:
        found = self._processes(role)
        if not found:
            return
        pid, seconds = self._random.choice(found), self._random.choice((0.5, 3.0, 12.0))
        with self._weather.disturbed("pause", f"{role} stands still"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
            time.sleep(seconds)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self._await_ready()

    def _kill_broker(self) -> None:
        with self._weather.disturbed("upstream", "kill -9 of the Kafka broker"):
            self._kafka.stop(immediate=True)
            time.sleep(self._random.uniform(0, 8))
            self._kafka.start()

    def _kill_database(self) -> None:
        with self._weather.disturbed("upstream", "kill of the PostgreSQL upstream"):
            self._postgres.stop(immediate=True)
            time.sleep(self._random.uniform(0, 8))
            self._postgres.start()

    def _fill_disk(self) -> None:
        assert self._disk is not None
        filler = self._disk / "filler"
        with self._weather.disturbed("disk", "a full disk"):
            with suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(1 << 20))
            with suppress(OSError), filler.open("ab", buffering=0) as file:
                while True:
                    file.write(bytes(512))
            time.sleep(self._random.uniform(1, 10))
            filler.unlink()
            self._await_ready()
