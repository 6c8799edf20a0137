"""What the server says when it is ready: lines to paste."""

from __future__ import annotations

from importlib.metadata import version

from waterclock.server.configuration import Configuration
from waterclock.server.listening import reachable


def banner(configuration: Configuration, pg_port: int, http_port: int, seconds: float) -> str:
    """How to connect, to whatever ports the server has got."""
    host = reachable(configuration.host)
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if configuration.uses_tls else "http"
    return f"""\
Waterclock {version("waterclock")} is ready after {seconds:.1f} s. Connect with

    {psql_line(configuration, pg_port)}

SQL as JSON   POST {scheme}://{shown}:{http_port}/api/sql
health        {scheme}://{shown}:{http_port}/ready  and  /metrics
data          {configuration.data.absolute()}
Ctrl-C stops it; what was acknowledged stays.
"""


def psql_line(configuration: Configuration, pg_port: int) -> str:
    """The command that connects with psql."""
    tls = " sslmode=require" if configuration.uses_tls else ""
    target = f"host={reachable(configuration.host)} port={pg_port}"
    return f'psql "{target} user=waterclock dbname=waterclock{tls}"'
