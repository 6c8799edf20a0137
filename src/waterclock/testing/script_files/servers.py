"""The two servers: a database of PostgreSQL for each script, and one server of Waterclock."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg

from waterclock.testing.script_files.sessions import Session
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer, find_postgres_binaries

_TEMPLATE = "before_scripts"


class Servers:
    """Opens sessions. Both servers are running."""

    def __init__(
        self, postgres: PostgresServer, server: ServerProcess, limit_seconds: float
    ) -> None:
        self._postgres = postgres
        self._server = server
        self._limit_seconds = limit_seconds
        self._numbers = itertools.count(1)
        postgres.create_database(_TEMPLATE)

    def prepare(self, scripts: Sequence[Path]) -> list[str]:
        """Have psql run the scripts in what all databases begin with; its messages of errors."""
        psql = find_postgres_binaries() / "psql"
        errors: list[str] = []
        for script in scripts:
            done = subprocess.run(
                [psql, "-X", "-q", "-d", self._postgres.conninfo(_TEMPLATE), "-f", script],
                capture_output=True,
                check=False,
                env=dict(os.environ),
            )
            lines = done.stderr.decode(errors="replace").splitlines()
            errors += [line for line in lines if "ERROR:" in line or "FATAL:" in line]
        return errors

    def open_theirs(self) -> Session:
        """A session in a new database."""
        name = f"script_{next(self._numbers)}"
        with contextlib.closing(
            psycopg.connect(self._postgres.conninfo(), autocommit=True)
        ) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}".encode())
        connection = psycopg.connect(self._postgres.conninfo(name), autocommit=True)
        return Session(connection, self._limit_seconds)

    def open_ours(self) -> Session:
        """A session with Waterclock, which is started again if it has ended."""
        if self._server.exit_code is not None:
            self._server.start()
        return Session(self._server.connect(), self._limit_seconds)

    @property
    def complaints(self) -> list[str]:
        """What Waterclock's log tells of something gone wrong inside."""
        return self._server.complaints
