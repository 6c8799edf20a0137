"""How a connection of the catalog becomes one to PostgreSQL, and which errors end a source."""

from __future__ import annotations

import stat
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.errors import InvalidSource, SourceFault, TransientFault
from waterclock.storage.sources.postgres.connecting import (
    connect,
    connect_raw,
    conninfo_of,
    fault,
    telling,
)
from waterclock.testing.services import free_port

OPTIONS = {
    "host": "127.0.0.1",
    "port": "5433",
    "database": "d b",
    "user": "u",
    "password": "p'w \\",
    "ssl mode": "verify-full",
    "ssl certificate authority": "AUTHORITY",
    "ssl key": "KEY",
}
SETTINGS = ConnectionSettings("pg", "postgres", OPTIONS)


def test_the_options_of_a_connection() -> None:
    with conninfo_of(SETTINGS, replication=True) as conninfo:
        given = conninfo_to_dict(conninfo)
        key = Path(str(given["sslkey"]))
        assert key.read_text() == "KEY"
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
        assert Path(str(given["sslrootcert"])).read_text() == "AUTHORITY"
    assert not key.exists()
    assert (given["host"], given["port"], given["dbname"]) == ("127.0.0.1", "5433", "d b")
    assert (given["user"], given["password"], given["sslmode"]) == ("u", "p'w \\", "verify-full")
    assert given["replication"] == "database"
    for setting in ("timezone=UTC", "intervalstyle=postgres", "row_security=off"):
        assert f"-c {setting}" in str(given["options"])
    with conninfo_of(SETTINGS, replication=False) as conninfo:
        assert "replication" not in conninfo_to_dict(conninfo)


def test_secrets_are_not_shown() -> None:
    assert "p'w" not in repr(SETTINGS)


def test_a_connection_to_something_else() -> None:
    kafka = ConnectionSettings("k", "kafka", {})
    with (
        pytest.raises(InvalidSource, match='"k" is not one to PostgreSQL'),
        conninfo_of(kafka, replication=False),
    ):
        pass


def test_nobody_there() -> None:
    nobody = ConnectionSettings(
        "pg", "postgres", {"host": "127.0.0.1", "port": str(free_port()), "database": "d"}
    )
    for attempt in (connect, connect_raw):
        with pytest.raises(TransientFault, match="could not read from PostgreSQL at 127") as told:
            attempt(nobody)
        assert "Connection refused" in told.value.message or "refused" in told.value.message


@pytest.mark.parametrize(
    ("sqlstate", "expected"),
    [
        ("42704", SourceFault),  # there is no such slot, or publication
        ("58P01", SourceFault),  # the log was removed
        ("55000", SourceFault),  # the slot was invalidated
        ("55006", TransientFault),  # the slot is in use
        ("57P01", TransientFault),  # the server is stopped
        ("28P01", TransientFault),  # the password may be put right
        ("53300", TransientFault),  # there are too many connections
        ("XX000", TransientFault),
    ],
)
def test_which_errors_are_definite(sqlstate: str, expected: type[Exception]) -> None:
    assert type(fault(SETTINGS, sqlstate, "message")) is expected


def test_errors_of_psycopg_are_told() -> None:
    with pytest.raises(TransientFault), telling(SETTINGS):
        raise psycopg.OperationalError("the connection is lost")
    with pytest.raises(SourceFault, match="PostgreSQL: "), telling(SETTINGS):
        raise psycopg.errors.UndefinedObject('publication "p" does not exist')
