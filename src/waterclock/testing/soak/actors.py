"""An actor: a thread with a connection of its own that does one thing after the other.

It connects anew when its connection is gone. What an error means is decided in one place: excused
by the weather, expected by the actor, or a finding.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import psycopg

from waterclock.testing.server_process import ServerProcess
from waterclock.testing.soak.weather import Weather

Row = tuple[Any, ...]
PATIENCE_S = 240.0
"""How long a statement may take before that is a finding."""


@dataclass(slots=True)
class World:
    """What all actors share."""

    server: ServerProcess
    weather: Weather
    stopping: threading.Event = field(default_factory=threading.Event)
    gate: threading.RLock = field(default_factory=threading.RLock)
    """Held by who wants everybody else to stand still between two acts."""


class Interrupted(Exception):
    """The act ended early for an excused reason; what it did is in doubt."""


class Actor(ABC):
    """Acts again and again until the world stops."""

    expected = frozenset[str]()
    """SQLSTATEs that its statements may always have."""

    def __init__(self, world: World, name: str, seed: int) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{seed}/{name}")
        self.acts = 0
        self.may_lose_connection = False
        """Set by who cuts the connection from this side; a new connection resets it."""
        self._connection: psycopg.Connection[Any] | None = None
        self._turn = threading.Lock()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def act(self) -> None:
        """One thing, a second or so long. May raise `Interrupted`."""

    def at_rest(self) -> threading.Lock:
        """A lock that is free between two acts."""
        return self._turn

    def pause_s(self) -> float:
        return self.random.expovariate(20)

    # For acts

    @property
    def connection(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            with self.judged("connect"):
                self._connection = self.world.server.connect(connect_timeout=20)
            self.may_lose_connection = False
        assert self._connection is not None
        return self._connection

    def disconnect(self) -> None:
        """Hang up."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def run(self, sql: str, *parameters: object) -> list[Row]:
        """Carry out a statement; its rows, if it has some."""
        connection = self.connection
        with self.judged(sql):
            cursor = connection.execute(sql.encode(), parameters or None)
            return cursor.fetchall() if cursor.description is not None else []

    @contextmanager
    def judged(self, what: str) -> Iterator[None]:
        """What an error in the block means; raises `Interrupted` after each."""
        began = time.monotonic()
        try:
            yield
        except psycopg.Error as error:
            self._judge(error, what, began)
            raise Interrupted from error
        took = time.monotonic() - began
        if took > PATIENCE_S:
            self.finding(f"{what[:120]} took {took:.0f} s")

    def _judge(self, error: psycopg.Error, what: str, began: float) -> None:
        state = error.sqlstate or "connection lost"
        self.world.weather.counts[f"error {state}"] += 1
        if state in self.expected or self.world.weather.is_excused(error, began):
            return
        if error.sqlstate is None and self.may_lose_connection:
            return
        lines = " / ".join(str(error).split("\n")[:3])
        self.finding(f"{state}: {lines[:400]} in {what[:160]}")

    def finding(self, text: str) -> None:
        self.world.weather.finding(self.name, text)

    # The thread

    def _run(self) -> None:
        while not self.world.stopping.wait(self.pause_s()):
            with self.world.gate:
                pass
            with self._turn:
                try:
                    self.act()
                    self.acts += 1
                except Interrupted:
                    self._recover()
                except Exception as fault:
                    self.finding(f"the actor itself failed: {fault!r}")
                    self._recover()
        self.disconnect()

    def _recover(self) -> None:
        connection = self._connection
        if connection is not None and not connection.closed:
            try:
                connection.rollback()
            except psycopg.Error:
                self.disconnect()
