"""Waterclock: a streaming SQL database whose answers are exact at a named time.

`waterclock.connect` opens a database inside a program, or connects to a server.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from waterclock.client.api import Connection

__all__ = ["connect"]


def connect(path_or_dsn: str | Path, spark: SparkSession | None = None) -> Connection:
    """See `waterclock.client.connecting.connect`. Nothing is imported before it is called."""
    from waterclock.client.connecting import connect as connect_now

    return connect_now(path_or_dsn, spark)
