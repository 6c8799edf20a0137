"""What SQL gives over the contents at each of many times, evaluated from scratch by Spark.

It has a session of its own, with the same meaning of SQL as everywhere, but tuned for tiny data:
nothing is compiled, and rows are local relations. All times of a query are one Spark job, their
results joined by UNION ALL over the query, which itself is left as it is. If that fails, each time
is evaluated alone, so that errors are known by time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from waterclock.compute.catalyst.types import arrow_schema, loosened
from waterclock.compute.faults import ENGINE_ERRORS
from waterclock.testing.brief_spark import TINY

_TUNED = {
    **TINY,
    # As in our sessions, but for a rule that makes constants of local relations: it is quick. And
    # what is joined with nothing is computed nevertheless, so that its errors are seen.
    "spark.sql.optimizer.excludedRules": ",".join(
        f"org.apache.spark.sql.catalyst.optimizer.{rule}"
        for rule in ("DecimalAggregates", "PropagateEmptyRelation")
    ),
}
_TIME = "the time"


@dataclass(frozen=True, slots=True)
class Wrong:
    """The query has no value at a time, and why."""

    reason: str


Answer: TypeAlias = "pa.Table | Wrong"


class FromScratch:
    """A session for queries that are run once over few rows."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark.newSession()
        for name, value in _TUNED.items():
            self.session.conf.set(name, value)
        assert self.session.conf.get("spark.sql.ansi.enabled") == "true"

    def put(self, name: str, struct: StructType, rows: Sequence[Sequence[Any]]) -> None:
        """Have the name mean these rows, in the queries that are made from now on."""
        frame = self.session.createDataFrame(_table(struct, rows), struct)
        frame.createOrReplaceTempView(name)

    def query(self, sql: str) -> DataFrame:
        """The query over what the names mean now."""
        return self.session.sql(sql)


def evaluated(frames: Mapping[int, DataFrame]) -> dict[int, Answer]:
    """What each of the frames gives, which are those of one query at different times."""
    stamped = [_named(frame).withColumn(_TIME, f.lit(time)) for time, frame in frames.items()]
    together = stamped[0]
    for frame in stamped[1:]:
        together = together.unionAll(frame)
    try:
        table = together.toArrow()
    except ENGINE_ERRORS:
        return {time: _alone(frame) for time, frame in frames.items()}
    when = table[_TIME].to_numpy()
    rows = table.drop_columns([_TIME])
    return {time: rows.filter(pa.array(when == time)) for time in frames}


def reason(error: Exception) -> str:
    """Why Spark does not give an answer, in short."""
    if isinstance(error, PySparkException) and (condition := error.getCondition()):
        return condition
    named = re.search(r"Exception: \[([A-Z_.]+)\]", str(error))
    return named[1] if named else str(error).splitlines()[0][:200]


def _table(struct: StructType, rows: Sequence[Sequence[Any]]) -> pa.Table:
    """Rows in Arrow, which Spark takes as a local relation: the quickest for few rows."""
    schema = arrow_schema(struct)
    columns = [pa.array([row[n] for row in rows], each.type) for n, each in enumerate(schema)]
    return pa.table(columns, names=schema.names)


def _alone(frame: DataFrame) -> Answer:
    try:
        return _named(frame).toArrow()
    except ENGINE_ERRORS as error:
        return Wrong(reason(error))


def _named(frame: DataFrame) -> DataFrame:
    return loosened(frame.toDF(*(f"c{place}" for place in range(len(frame.columns)))))
