"""A Spark session for tests, whose JVM is up soon and does not live long.

It means the same as any other session here. Its JVM takes Spark's classes as set-up has kept them,
as that of a server does, and compiles quickly rather than well: most of what a test run asks of it
runs a few times only, and the time of a thorough compiler would be lost. It collects garbage in one
thread, which takes the least of a processor that others wait for, and seldom: most of it are plans,
of which few are still in use if there is room for many. Nothing that is measured should run in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from waterclock.compute.spark import open_session
from waterclock.server.classes import class_options
from waterclock.server.java import find_java

BRIEFLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""With room for all that is compiled: a JVM that compiles only quickly has little by itself, which
Catalyst fills in a minute, and from then on the same is compiled again and again.
"""
ROOM = "-Xms1g -Xmn640m"
"""For a driver. Its heap is never smaller."""
TINY = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    # How Spark describes each plan that it runs, for a page that nobody looks at.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.debug.maxToStringFields": "0",
}
"""For queries that are run once over tiny data: to compile code for one, and to describe it, takes
longer than to run it.
"""


def brief_session(
    master: str = "local[2]", settings: Mapping[str, str] | None = None, room: str = ROOM
) -> SparkSession:
    """Opens the session of this process; the settings are added to ours."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ours = {"spark.driver.extraJavaOptions": f"{brief_options()} {room}".strip()}
    return open_session(master, {**ours, **(settings or {})})


def brief_options() -> str:
    """What to tell any JVM of Spark's that belongs to a test."""
    return f"{class_options(find_java(os.environ))} {BRIEFLY}".strip()
