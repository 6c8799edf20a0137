"""Which way to connect: to a directory, or to a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.client.api import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DSN = re.compile(r"postgres(?:ql)?://|\s*\w+\s*=")


def connect(
    path_or_dsn: str | Path,
    spark: SparkSession | None = None,
    *,
    log: str | None = None,
    blobs: str | None = None,
) -> Connection:
    """Open the database in a directory, made if it is missing, or connect to a server.

    A server is given as libpq has it: `host=127.0.0.1 port=6875 user=waterclock`, or a URL that
    begins with `postgresql://`. Anything else is the path of a directory, which no server may be
    using; the database then runs inside this program, on the Spark session given or on one of its
    own. `spark` is also where DataFrames of results are made. `log` and `blobs` are where a
    database of this program's own keeps its data if not in the directory, as `waterclock serve` has
    them.
    """
    if isinstance(path_or_dsn, str) and _DSN.match(path_or_dsn):
        from waterclock.client.remote import RemoteConnection

        return RemoteConnection(path_or_dsn, spark)
    return _embedded(Path(path_or_dsn), spark, log, blobs)


def _embedded(
    path: Path, spark: SparkSession | None, log: str | None, blobs: str | None
) -> Connection:
    from waterclock.client.embedded import EmbeddedConnection
    from waterclock.persist.places import Places
    from waterclock.server.data import Data
    from waterclock.server.loop import LoopThread
    from waterclock.server.spark import adopted, start_spark
    from waterclock.server.wiring import Database

    data = Data(path, Places(log, blobs))
    try:
        session = spark or start_spark("local[*]", {}, path.absolute() / "spark" / "own").result()
        database = Database(data, adopted(session))
    except BaseException:
        data.close()
        raise

    def closed() -> None:
        database.close()
        if spark is None:
            session.stop()

    try:
        return EmbeddedConnection(database.front, LoopThread(), session, closed)
    except BaseException:
        closed()
        raise
