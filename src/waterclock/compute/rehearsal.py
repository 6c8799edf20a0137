"""A small view and a query, planned and run before anybody waits for one.

The first job of a JVM takes many times as long as the next ones: classes are loaded, code is
generated and compiled, the Python workers come up. Whoever starts a server can have that done in
the background. Nothing is left of it, and nobody notices if it fails: then the first view pays.

It ends before Spark does, for a job whose engine is taken away complains in many voices.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.evaluate import Evaluator
from waterclock.compute.live_session import Incarnation
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.compute.spark import with_meaning
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.rows import row_schema, updates
from waterclock.runtime import SYSTEM, Runtime, Thread

_LEFT, _RIGHT = GlobalId.user(1), GlobalId.user(2)
_COLUMNS = Schema((Column("k", Int(64)), Column("v", Text())))
_VIEW = (
    f"SELECT l.v, COUNT(*) AS n, SUM(r.k) AS s FROM {_LEFT} l JOIN {_RIGHT} r ON l.k = r.k"
    " WHERE r.v LIKE 'a%' GROUP BY l.v"
)
_QUERY = f"SELECT v, COUNT(*) AS n FROM {_LEFT} WHERE k > 0 GROUP BY v ORDER BY v"

_TAG = "rehearsal"
_LOOK_S = 0.1
_PATIENCE_S = 10.0

_log = logging.getLogger(__name__)


class Rehearsal:
    """A step of a view and a query, run in a thread of its own from `start` on."""

    def __init__(
        self,
        incarnation: Incarnation,
        evaluator: Evaluator,
        folder: Path,
        runtime: Runtime = SYSTEM,
    ) -> None:
        """For one life of the engine. `folder` is where state of views may lie."""
        self._spark = incarnation.spark
        self._evaluator = evaluator
        self._scratch = folder / f"rehearsal-{uuid.uuid4().hex}"
        self._runtime = runtime
        self._is_over = runtime.event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin, and return at once."""
        self._thread = self._runtime.start_thread(self._run, "rehearsal")

    def stop(self) -> None:
        """Cut it short, and wait until nothing of it is running, but not for ever."""
        self._is_over.set()
        if self._thread is None:
            return
        deadline = self._runtime.monotonic_s() + _PATIENCE_S
        while self._thread.is_alive() and self._runtime.monotonic_s() < deadline:
            with suppress(Exception):  # Spark may have gone, and then so has the job
                # Again and again: a job that was being planned starts after that.
                self._spark.sparkContext.cancelJobsWithTag(_TAG)
            self._thread.join(_LOOK_S)

    def _run(self) -> None:
        try:
            self._spark.sparkContext.addJobTag(_TAG)  # of this thread's jobs only
            _step(with_meaning(self._spark.newSession()), self._scratch)
            if not self._is_over.is_set():
                self._query()
        except Exception:
            _log.info("the rehearsal was cut short")
            _log.debug("why the rehearsal was cut short", exc_info=True)
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _query(self) -> None:
        rows = pa.Table.from_batches([pa.record_batch([[1], ["a"]], schema=row_schema(_COLUMNS))])
        self._evaluator.evaluate(_QUERY, {_LEFT: _COLUMNS}, {_LEFT: rows}, self._scratch.name)


def _step(session: SparkSession, folder: Path) -> None:
    relations = Relations(session)
    for collection in (_LEFT, _RIGHT):
        relations.add(collection, from_arrow_schema(row_schema(_COLUMNS)))
    builder = Builder(session.sparkContext._jvm)
    plan = Logical(session.sql(_VIEW)._jdf.queryExecution().optimizedPlan())
    program = Program()
    program.add(Translation(builder, relations).translate(plan))
    dataflow = Dataflow(session, builder, program, folder)
    try:
        rows = pa.Table.from_batches([updates(_COLUMNS, [((1, "a"), 0, 1)])])
        dataflow.compute(1, {_LEFT: rows, _RIGHT: rows})
    finally:
        dataflow.close()
