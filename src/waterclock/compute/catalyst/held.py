"""Rows that a planned query reads, held in the JVM and exchanged between its runs.

A leaf of a plan is an RDD of one partition, and the rows are part of that partition: Spark sends it
along with the task, as it is when a job begins. So other rows can be put there without planning
anything, and no Python worker has to hand them over. That is for rows that are few: they pass
through the driver, and all of them go to one task.

Nobody may exchange the rows while a job reads them. The session must be one `for_queries`, in which
rows that are given are no constants.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from waterclock.compute.catalyst.trees import Builder


class HeldRows:
    """A DataFrame whose rows can be exchanged; it has none at first."""

    def __init__(self, session: SparkSession, columns: StructType) -> None:
        jvm: Any = session._jvm
        self._sequence = jvm.PythonUtils.toSeq
        self._schema = to_arrow_schema(columns, timezone="UTC")
        utilities = jvm.org.apache.spark.sql.api.python.PythonSQLUtils
        nothing = pa.RecordBatch.from_pylist([], schema=self._schema)
        read = utilities.toDataFrame(
            self._batches([nothing]).iterator(), columns.json(), session._jsparkSession
        )
        [self._partition] = read.logicalPlan().rdd().partitions()
        self.frame = Builder(jvm).frame(_leaf(jvm, session, read.logicalPlan()), session)

    def put(self, rows: pa.Table) -> None:
        """Have jobs that begin from now on read these rows."""
        # Spark takes a batch without rows for the end of them.
        batches = [batch for batch in rows.cast(self._schema).to_batches() if batch.num_rows]
        self._set(self._batches(batches))

    def clear(self) -> None:
        """Let go of the rows."""
        self._set(self._batches([]))

    def _batches(self, batches: list[pa.RecordBatch]) -> Any:
        return self._sequence([batch.serialize().to_pybytes() for batch in batches])

    def _set(self, batches: Any) -> None:
        getattr(self._partition, "values_$eq")(batches)


def _leaf(jvm: Any, session: SparkSession, read: Any) -> Any:
    """The plan's leaf, of which Catalyst knows that it is small, and in one place: then rows need
    not be moved to meet each other.
    """
    none = getattr(jvm.scala, "None$").__getattr__("MODULE$")
    physical = jvm.org.apache.spark.sql.catalyst.plans.physical
    one_place = getattr(physical, "SinglePartition$").__getattr__("MODULE$")
    small = jvm.org.apache.spark.sql.catalyst.plans.logical.OneRowRelation().stats()
    return read.copy(
        read.output(),
        read.rdd(),
        one_place,
        read.outputOrdering(),
        False,
        none,
        session._jsparkSession,
        jvm.scala.Some(small),
        none,
        False,
    )
