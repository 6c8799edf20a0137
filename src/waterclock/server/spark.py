"""Spark as the server runs it: which Java, which folders, who may reach it; started apart.

On this machine (`local[...]`) the driver listens on loopback only, and its temporary files are in a
folder of the data directory that the next server empties if this one is killed.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.server.classes import class_options
from waterclock.server.engine_process import NOTED, WORKERS, SparkProcess
from waterclock.server.java import JavaRuntime, find_java

_STACK = "-Xss64m"
"""Catalyst recurses into expressions. Only what is used of a stack takes memory."""
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"


class SparkFailed(WaterclockError):
    """Spark did not start."""

    sqlstate: ClassVar[str] = "58000"


def start_spark(master: str, settings: Mapping[str, str], scratch: Path) -> Future[SparkProcess]:
    """Have Spark come up in a thread of its own, for that takes seconds."""
    future: Future[SparkProcess] = Future()

    def work() -> None:
        try:
            future.set_result(launch_spark(master, settings, scratch))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="waterclock-spark", daemon=True).start()
    return future


def launch_spark(master: str, settings: Mapping[str, str], scratch: Path) -> SparkProcess:
    """Start Spark, with temporary files in the folder. Raises `SparkFailed`, and leaves nothing."""
    from waterclock.compute.spark import forget_spark, open_session

    try:
        java = find_java(os.environ)
        os.environ["JAVA_HOME"] = str(java.home)
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        scratch.mkdir(parents=True, exist_ok=True)
        session = open_session(master, spark_settings(java, master, settings, scratch))
        return SparkProcess(session, scratch)
    except WaterclockError:
        raise
    except Exception as error:
        forget_spark()
        raise SparkFailed(
            f'could not start Spark with master "{master}"',
            detail=str(error).strip().partition("\n")[0],
            hint="See what Java said above; choose the master with --spark-master.",
        ) from error


def spark_settings(
    java: JavaRuntime, master: str, settings: Mapping[str, str], scratch: Path
) -> dict[str, str]:
    """What Spark is told about its surroundings, together with what the user wants."""
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    ours = {"spark.sql.warehouse.dir": str(scratch / "warehouse")}
    if master.startswith("local"):
        # Nobody else need reach the driver, and whoever could would not be asked for a password.
        ours["spark.driver.host"] = ours["spark.driver.bindAddress"] = "127.0.0.1"
        # Elsewhere there may be no such folder.
        ours["spark.local.dir"] = str(scratch)
        ours[f"spark.executorEnv.{WORKERS}"] = str(scratch / NOTED)
    given = settings.get(_JAVA_OPTIONS, "")
    stack = "" if "-Xss" in given else _STACK
    options = f"-Dlog4j2.configurationFile={log4j} {class_options(java)} {stack} {given}".split()
    return {**ours, **settings, _JAVA_OPTIONS: " ".join(options)}


def remove_others(scratch: Path) -> None:
    """Remove what Spark left when earlier servers were killed. Only for the owner of the data."""
    for folder in scratch.parent.iterdir() if scratch.parent.is_dir() else ():
        if folder != scratch:
            shutil.rmtree(folder, ignore_errors=True)
