"""A small view and a query, planned and run before anybody waits for one.

The first job of a JVM takes many times as long as the next ones: classes are loaded, code is
generated and compiled, the Python workers come up. Whoever starts a server can have that done in
the background. Nothing is left of it, and nobody notices if it fails: then the first view pays.
"""

from __future__ import annotations

import logging
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.evaluate import Evaluator
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.compute.spark import with_meaning
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.rows import row_schema, updates

_LEFT, _RIGHT = GlobalId.user(1), GlobalId.user(2)
_COLUMNS = Schema((Column("k", Int(64)), Column("v", Text())))
_VIEW = (
    f"SELECT l.v, COUNT(*) AS n, SUM(r.k) AS s FROM {_LEFT} l JOIN {_RIGHT} r ON l.k = r.k"
    " WHERE r.v LIKE 'a%' GROUP BY l.v"
)
_QUERY = f"SELECT v, COUNT(*) AS n FROM {_LEFT} WHERE k > 0 GROUP BY v ORDER BY v"

_log = logging.getLogger(__name__)


def rehearse(spark: SparkSession, evaluator: Evaluator, folder: Path) -> None:
    """Run a step of a view and a query. `folder` is where state of views may lie."""
    scratch = folder / f"rehearsal-{uuid.uuid4().hex}"
    try:
        _step(with_meaning(spark.newSession()), scratch)
        rows = pa.Table.from_batches([pa.record_batch([[1], ["a"]], schema=row_schema(_COLUMNS))])
        evaluator.evaluate(_QUERY, {_LEFT: _COLUMNS}, {_LEFT: rows}, scratch.name)
    except Exception:  # the server may be stopping, which ends Spark below us
        _log.info("the rehearsal was cut short")
        _log.debug("why the rehearsal was cut short", exc_info=True)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


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
