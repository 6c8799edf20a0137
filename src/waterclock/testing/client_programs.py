"""Where the tests find programs of others that speak to a server: psql, Java with pgjdbc, dbt.

Set-up provides them. Nothing is downloaded here: where one is missing, the error names the remedy.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from waterclock.server.java import find_java
from waterclock.testing.services import ServiceMissing, find_postgres_binaries

_SHARED = Path(sys.prefix) / "share" / "waterclock"
_DEBIAN_JDBC = Path("/usr/share/java/postgresql.jar")
_REMEDY = "Run `make setup-test`."


def find_psql() -> Path:
    """The psql on the path, or the one that is beside the server programs of PostgreSQL."""
    beside = find_postgres_binaries() / "psql"
    found = shutil.which("psql") or (str(beside) if beside.is_file() else None)
    if found is None:
        raise ServiceMissing("psql is not installed", hint=_REMEDY)
    return Path(found)


def find_java_program() -> Path:
    """A Java that runs a program from its source."""
    return find_java(os.environ).home / "bin" / "java"


def find_jdbc() -> Path:
    """The jar of pgjdbc: ours, or the system's."""
    ours = sorted((_SHARED / "jdbc").glob("*postgresql*.jar"))
    for jar in (*ours, _DEBIAN_JDBC):
        if jar.is_file():
            return jar
    raise ServiceMissing("the JDBC driver of PostgreSQL is not installed", hint=_REMEDY)


def find_dbt_python() -> Path:
    """The Python of the environment where dbt lives, with the adapter for Materialize."""
    folder = _SHARED / "dbt" / "bin"
    if not (folder / "dbt").is_file():
        raise ServiceMissing("dbt is not installed", hint=_REMEDY)
    return folder / "python"
