"""Which way to connect: to a directory, or to a server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from waterclock.client.api import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REMEDY = "Close the database and open it again, in a new Spark session."
_DSN = re.compile(r"postgres(?:ql)?://|\s*\w+\s*=")
_ADDRESS = re.compile(r"([\w.-]+|\[[0-9a-fA-F:.]+\]):(\d{1,5})")
"""`host:port`, which is a server for everybody who does not have such a folder."""


def connect(
    path_or_dsn: str | Path,
    spark: SparkSession | None = None,
    *,
    log: str | None = None,
    blobs: str | None = None,
) -> Connection:
    """Open the database in a directory, made if it is missing, or connect to a server.

    A server is given as libpq has it: `host=127.0.0.1 port=6875 user=waterclock`, or a URL that
    begins with `postgresql://`; or as `host:port`, for the default role there. Anything else is the
    path of a directory, which no server may be using; the database then runs inside this program,
    on the Spark session given or on one of its own. Should that session end, what needs it fails,
    until the database is opened again; nothing that was acknowledged is lost. `spark` is also where
    DataFrames of results are made. `log` and `blobs` are where a database of this program's own
    keeps its data if not in the directory, as
    `waterclock serve` has them.
    """
    if isinstance(path_or_dsn, str) and _DSN.match(path_or_dsn):
        from waterclock.client.remote import RemoteConnection

        return RemoteConnection(path_or_dsn, spark)
    address = _ADDRESS.fullmatch(path_or_dsn) if isinstance(path_or_dsn, str) else None
    if address is not None and not Path(path_or_dsn).exists():
        from waterclock.client.remote import RemoteConnection

        where = f"host={address[1].strip('[]')} port={address[2]}"
        return RemoteConnection(f"{where} user=waterclock dbname=waterclock", spark)
    return _embedded(Path(path_or_dsn), spark, log, blobs)


def _embedded(
    path: Path, spark: SparkSession | None, log: str | None, blobs: str | None
) -> Connection:
    from waterclock.client.embedded import EmbeddedConnection
    from waterclock.compute.live_session import LiveSession
    from waterclock.compute.spark import adopt_session
    from waterclock.persist.places import Places
    from waterclock.server.data import Data
    from waterclock.server.engine_keeper import EngineKeeper
    from waterclock.server.engine_process import SparkProcess
    from waterclock.server.loop import LoopThread
    from waterclock.server.spark import start_spark
    from waterclock.server.wiring import Database

    data = Data(path, Places(log, blobs))
    live = LiveSession(_REMEDY)
    keeper: EngineKeeper | None = None
    try:
        process = (
            start_spark("local[*]", {}, path.absolute() / "spark" / "own").result()
            if spark is None
            else SparkProcess(spark)
        )
        session = process.spark
        process.spark = adopt_session(session)
        keeper = EngineKeeper(live, process, None)
        database = Database(data, live)
    except BaseException:
        data.close()
        raise
    keeper.begin()

    def closed() -> None:
        database.close()
        keeper.close(ends_engine=spark is None)

    try:
        return EmbeddedConnection(database.front, LoopThread(), session, closed)
    except BaseException:
        closed()
        raise
