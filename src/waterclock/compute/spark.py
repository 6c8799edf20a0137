"""The Spark session, and every setting of it that Waterclock relies on.

Settings that decide what an expression means come first: they are the same for views that are
maintained and for queries that are evaluated once, so that both give the same answers. The others
only decide how fast.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from waterclock.compute.catalyst.names import remember_names
from waterclock.compute.catalyst.now import register_now
from waterclock.compute.catalyst.rules import excluded_rules
from waterclock.compute.jvm.classes import EXTENSIONS
from waterclock.compute.jvm.classes import load as load_classes
from waterclock.errors import WaterclockError


class UnsupportedSession(WaterclockError):
    """The database can not run on a session of this kind."""

    sqlstate: ClassVar[str] = "0A000"


_LOG = logging.getLogger(__name__)
_JARS = "spark.jars"
_EXTENSIONS = "spark.sql.extensions"
"""Ours come first: the classes, and what they add to a session; then those of the user."""

_MEANING = {
    # Overflow, division by zero and bad casts are errors, not nulls.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    # Digits behind the point are never given up for digits before it: beyond 38 is an error.
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.optimizer.excludedRules": excluded_rules(),
    # It maps the columns of both sides by their names, of which several columns may have the same.
    "spark.sql.optimizer.replaceExceptWithFilter": "false",
    # What BETWEEN compares stays in the condition, where mz_now() must be.
    "spark.sql.alwaysInlineCommonExpr": "true",
}
_SPEED = {
    # A tick's plan is made once and run as it is; replanning it while it runs only costs.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.python.unix.domain.socket.enabled": "true",
    # Python's workers begin with all that they need.
    "spark.python.daemon.module": "waterclock.compute.worker_daemon",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "131072",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(32 << 20),
    # A text is parsed once. Else one with a colon or a question mark in it, be it in a constant, is
    # first parsed for parameters, which ours never has.
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
}
_HELD = {
    # Rows that are put into a plan when it runs are none while it is planned: not a constant.
    "spark.sql.execution.arrow.localRelationThreshold": "0",
}
_QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
_MORTAL = {
    # A task that runs out of memory fails, and the others go on. Threads of Spark itself that do
    # end the JVM (see Mortal.java), for nobody knows what they have left undone.
    "spark.executor.killOnFatalError.depth": "0",
}
_SPARING = {
    # Spark remembers what has run, with its plans, for a page that nobody looks at: a thousand
    # ticks would take hundreds of megabytes.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
    # What sorts, aggregates or joins takes memory by pages, and Spark's own of 64 MB are for large
    # data: a dozen queries over a hundred rows would take a gigabyte. So many rows as the quick map
    # of an aggregate has still fit in one of these.
    "spark.buffer.pageSize": "4m",
    # A task that runs out of memory fails, and what it had is free again: no reason for the JVM to
    # end, and for all other steps and queries with it.
    "spark.executor.killOnFatalError.depth": "0",
    # What the parser learns of SQL it keeps for ever, a hundred megabytes for so many states.
    "spark.sql.parser.parserDfaCacheFlushThreshold": "20000",
}


_CATALOGS = ("spark.sql.catalog", "spark.sql.warehouse")
"""Where tables are is the program's business."""
_WORKERS_PYTHON = "spark.sql.execution.pyspark.python"
_UNDEFINED = "<undefined>"
_THIS_MACHINE = "local[*]"
_LEAST_HEAP_MB = 1024
_MOST_HEAP_MB = 16 * 1024


def _heap() -> str:
    """The most that Java may take: a quarter of the memory there is. Python's workers, Arrow and
    the cache of the files that views are kept in want the rest.
    """
    machine_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20
    return f"{min(max(machine_mb // 4, _LEAST_HEAP_MB), _MOST_HEAP_MB)}m"


def with_room(master: str) -> tuple[str, dict[str, str]]:
    """A master that is all of this machine, with more places for tasks than it has processors.

    Large steps and queries are divided among as many tasks as there are processors. Beside two of
    those there is still a place for small steps, which must not wait until a large one is done.
    """
    if master != _THIS_MACHINE:
        return master, {}
    processors = os.cpu_count() or 1
    return f"local[{2 * processors + 2}]", {"spark.default.parallelism": str(processors)}


def open_session(
    master: str = _THIS_MACHINE, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with our settings; those given are added, but can not change what things mean."""
    # Spark asks the environment, and no setting, which Python its workers are to run.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    master, places = with_room(master)
    ours = {**_SPEED, **_QUIET, **_SPARING, **_MORTAL, **places, "spark.driver.memory": _heap()}
    asked = {**ours, **(settings or {}), **_MEANING}
    conf = SparkConf().setMaster(master).setAppName("waterclock").setAll(list(asked.items()))
    SparkContext._ensure_initialized(conf=conf)  # the JVM alone, with what it is to be told
    for name, added in ((_JARS, str(load_classes(SparkContext._jvm))), (_EXTENSIONS, EXTENSIONS)):
        conf.set(name, ",".join(filter(None, [added, asked.get(name)])))
    session = SparkSession.Builder().config(conf=conf).getOrCreate()
    jvm: Any = session.sparkContext._jvm
    jvm.waterclock.Mortal.install()
    remember_names(jvm)
    accumulators: Any = session.sparkContext._accumulatorServer
    accumulators.handle_error = _hung_up
    register_now(session)
    return session


def adopt_session(session: SparkSession) -> SparkSession:
    """A session of our own on the Spark that a program has started, beside the program's session.

    It shares the program's context and catalogs. It has our classes, functions and settings, and
    where the program has changed how SQL is read or computed, Spark's own settings. The program's
    session stays as it is: it gets none of these.

    Raises `UnsupportedSession` for a session of Spark Connect, whose JVM is out of reach.
    """
    if not isinstance(session, SparkSession) or not hasattr(session, "_jsparkSession"):
        raise UnsupportedSession(
            "a session of Spark Connect can not hold a database",
            detail="The database runs inside the session's JVM, which is on another machine.",
            hint="Give connect() an ordinary session, or none, or connect to a server.",
        )
    java: Any = session._jsparkSession
    context = session.sparkContext
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    jar = load_classes(jvm)
    settings = {**_defaults(session), **_SPEED, **_MEANING}
    if str(context.master).startswith("local"):
        # Spark's own choice is the first `python3` of the PATH, which need not have our packages.
        settings[_WORKERS_PYTHON] = sys.executable
    else:
        context._jsc.addJar(str(jar))  # executors elsewhere fetch it
    extensions = jvm.org.apache.spark.sql.SparkSessionExtensions()
    jvm.java.lang.Class.forName(
        EXTENSIONS, True, jvm.java.lang.Thread.currentThread().getContextClassLoader()
    ).getConstructor(gateway.new_array(jvm.java.lang.Class, 0)).newInstance(
        gateway.new_array(jvm.java.lang.Object, 0)
    ).apply(extensions)
    made = jvm.org.apache.spark.sql.classic.SparkSession(
        java.sparkContext(),
        jvm.scala.Option.apply(java.sharedState()),
        jvm.scala.Option.empty(),
        extensions,
        jvm.PythonUtils.toScalaMap(settings),
        jvm.PythonUtils.toScalaMap({}),
    )
    ours = with_meaning(SparkSession(context, made))
    register_now(ours)
    return ours


def _defaults(session: SparkSession) -> dict[str, str]:
    """Spark's own values for the settings of SQL that the program's context has changed."""
    jvm: Any = session.sparkContext._jvm
    entries = getattr(jvm.org.apache.spark.sql.internal, "SQLConf$").__getattr__("MODULE$")
    found: dict[str, str] = {}
    for name, _ in session.sparkContext.getConf().getAll():
        entry = entries.getConfigEntry(name)
        if entry is None or name.startswith(_CATALOGS) or not session.conf.isModifiable(name):
            continue
        if entry.defaultValueString() != _UNDEFINED:
            found[name] = entry.defaultValueString()
    return found


def _hung_up(*_: object) -> None:
    """PySpark's server for accumulators, which nobody uses here, has lost its JVM."""
    _LOG.debug("the JVM has hung up", exc_info=True)


def forget_spark() -> None:
    """Have PySpark be as before its first session, whose JVM is gone.

    It keeps the gateway, the context and the session in its classes, and would go on using them.
    """
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    with SparkContext._lock:
        SparkContext._active_spark_context = None
        SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if context is not None:
        context._jsc = None
        server: Any = getattr(context, "_accumulatorServer", None)
        if server is not None:
            server.shutdown()
    if gateway is not None:
        with suppress(Exception):  # it says good-bye to a JVM that does not listen
            gateway.shutdown()
        if gateway.proc is not None and gateway.proc.stdin is not None:
            gateway.proc.stdin.close()


def with_meaning(session: SparkSession) -> SparkSession:
    """The session, set so that expressions mean in it what they mean everywhere here."""
    return _set(session, {**_SPEED, **_MEANING})


def for_queries(session: SparkSession) -> SparkSession:
    """The session, set for queries whose plans are run again over other rows (`catalyst.held`)."""
    return _set(with_meaning(session), _HELD)


def _set(session: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        if session.conf.isModifiable(name):
            session.conf.set(name, value)
    return session
