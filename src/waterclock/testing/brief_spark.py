"""A Spark session for tests, whose JVM is up soon and does not live long.

It means the same as any other session here. Its JVM takes Spark's classes as set-up has kept them,
as that of a server does, and compiles quickly rather than well: most of what a test run asks of it
runs a few times only, and the time of a thorough compiler would be lost. It collects garbage in one
thread, which takes the least of a processor that others wait for. Nothing that is measured should
run in it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from pyspark.sql import SparkSession

from waterclock.compute.spark import open_session
from waterclock.server.classes import class_options
from waterclock.server.java import find_java

BRIEFLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def brief_session(
    master: str = "local[2]", settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Opens the session of this process; the settings are added to ours."""
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    ours = {"spark.driver.extraJavaOptions": brief_options()}
    return open_session(master, {**ours, **(settings or {})})


def brief_options() -> str:
    """What to tell any JVM of Spark's that belongs to a test."""
    return f"{class_options(find_java(os.environ))} {BRIEFLY}".strip()
