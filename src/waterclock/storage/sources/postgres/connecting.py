"""Connections to the server upstream, and what its errors mean for a source.

An error is definite only if trying again can not help: the slot or the publication is gone, or the
log that is needed has been removed. Everything else, also a wrong password, may be put right by
somebody, so the source waits.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from waterclock.errors import WaterclockError
from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.errors import InvalidSource, SourceFault, TransientFault
from waterclock.storage.sources.postgres.texts import SETTINGS

_CONNECT_SECONDS = 10
_NETWORK = {
    "connect_timeout": str(_CONNECT_SECONDS),
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
_SERVER_SIDE = {
    "tcp_keepalives_idle": "30",
    "tcp_keepalives_interval": "10",
    "tcp_keepalives_count": "3",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
_WAL_SENDER = {"wal_sender_timeout": "300000"}
"""A source that looks upstream rarely shall not be taken for dead."""
_OPTIONS = {
    "host": "host",
    "port": "port",
    "database": "dbname",
    "user": "user",
    "password": "password",
    "ssl mode": "sslmode",
}
_FILES = {
    "ssl key": "sslkey",
    "ssl certificate": "sslcert",
    "ssl certificate authority": "sslrootcert",
}
"""Options whose value is the contents of what libpq wants as a file."""
_DEFINITE = {
    "3D000": "The database does not exist any more.",
    "42704": "What the source reads was dropped upstream.",
    "55000": "What the source needs of the server's log is not there any more.",
    "58P01": "What the source needs of the server's log has been removed.",
}
_HINT = "Drop the source and create it again to read what is upstream now."


@contextmanager
def conninfo_of(settings: ConnectionSettings, *, replication: bool) -> Iterator[str]:
    """How libpq connects; the files that it names are there within the block.

    Raises `InvalidSource` if the settings are not those of PostgreSQL.
    """
    if settings.kind != "postgres":
        raise InvalidSource(f'connection "{settings.name}" is not one to PostgreSQL')
    with tempfile.TemporaryDirectory(prefix="waterclock-tls-") as folder:
        yield _conninfo(settings, Path(folder), replication=replication)


def _conninfo(settings: ConnectionSettings, folder: Path, *, replication: bool) -> str:
    given: dict[str, str] = {}
    for name, value in settings.options.items():
        assert isinstance(value, str), "options of PostgreSQL are not lists"
        if name in _FILES:
            path = folder / _FILES[name]
            path.touch(0o600)
            path.write_text(value)
            given[_FILES[name]] = str(path)
        else:
            given[_OPTIONS[name]] = value
    asked = SETTINGS | _SERVER_SIDE | (_WAL_SENDER if replication else {})
    more: dict[str, str] = {"replication": "database"} if replication else {}
    return make_conninfo(
        **_NETWORK, **given, **more, options=_options(asked), application_name="waterclock"
    )


def _options(asked: Mapping[str, str]) -> str:
    return " ".join(f"-c {name}={value}" for name, value in asked.items())


def connect(settings: ConnectionSettings) -> psycopg.Connection[Any]:
    """A connection for queries, each a transaction of its own. Raises `TransientFault`."""
    with telling(settings), conninfo_of(settings, replication=False) as conninfo:
        return psycopg.connect(conninfo, autocommit=True)


def connect_raw(settings: ConnectionSettings) -> pq.abc.PGconn:
    """A connection that speaks the replication protocol. Raises `TransientFault`."""
    with conninfo_of(settings, replication=True) as conninfo:
        raw = pq.PGconn.connect(conninfo.encode())
    if raw.status != pq.ConnStatus.OK:
        told = raw.get_error_message() or "no reason was given"
        raw.finish()
        raise unreachable(settings, told)
    return raw


@contextmanager
def telling(settings: ConnectionSettings) -> Iterator[None]:
    """Errors of psycopg as those of a source."""
    try:
        yield
    except psycopg.Error as error:
        message = error.diag.message_primary or str(error)
        if error.sqlstate is None or isinstance(error, psycopg.OperationalError):
            raise unreachable(settings, message) from error
        raise fault(settings, error.sqlstate, message) from error


def unreachable(settings: ConnectionSettings, reason: str) -> TransientFault:
    """The server does not answer, or refuses us."""
    where = f"{settings.options.get('host')}:{settings.options.get('port', '5432')}"
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return TransientFault(
        f"could not read from PostgreSQL at {where}: {lines[0] if lines else 'connection lost'}",
        hint=f'See that the server runs and that connection "{settings.name}" is right.',
    )


def fault(settings: ConnectionSettings, sqlstate: str, message: str) -> WaterclockError:
    """The error of the source that an error of the server is."""
    detail = _DEFINITE.get(sqlstate)
    if detail is None:
        return unreachable(settings, message)
    return SourceFault(f"PostgreSQL: {message}", detail=detail, hint=_HINT)
