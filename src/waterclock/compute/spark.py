"""The Spark session, and every setting of it that Waterclock relies on.

Settings that decide what an expression means come first: they are the same for views that are
maintained and for queries that are evaluated once, so that both give the same answers. The others
only decide how fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

_MEANING = {
    # Overflow, division by zero and bad casts are errors, not nulls.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # It would add decimals up as floating-point numbers.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.DecimalAggregates"
    ),
}
_SPEED = {
    # A tick's plan is made once and run as it is; replanning it while it runs only costs.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}


def open_session(
    master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with our settings; those given are added, but can not change what things mean."""
    # Spark asks the environment, and no setting, which Python its workers are to run.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.Builder().master(master).appName("waterclock")
    for name, value in {**_SPEED, **_QUIET, **(settings or {}), **_MEANING}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()
