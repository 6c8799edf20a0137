"""The right answers: the same SQL, evaluated by Spark over the contents at each time.

It has a session of its own, with the same meaning of SQL, but tuned for tiny data. All times of a
query are one Spark job, their results joined by UNION ALL under the query, which itself is left as
it is. If that fails, each time is evaluated alone, so that errors are known by time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import StructType

from waterclock.compute.catalyst.types import arrow_schema
from waterclock.testing.fuzz.case import NOW, Case
from waterclock.testing.fuzz.histories import Row, contents
from waterclock.testing.fuzz.schemas import struct_of

_TUNED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    # As in our sessions, but for a rule that makes constants of local relations: it is quick.
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.DecimalAggregates"
    ),
    "spark.sql.leafNodeDefaultParallelism": "1",
}
_TIME = "the time"


@dataclass(frozen=True, slots=True)
class Wrong:
    """The query has no value at a time, and why."""

    reason: str


Answer: TypeAlias = "pa.Table | Wrong"


class Oracle:
    """Evaluates queries of cases from scratch."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark.newSession()
        for name, value in _TUNED.items():
            self._spark.conf.set(name, value)
        assert self._spark.conf.get("spark.sql.ansi.enabled") == "true"

    def rejected(self, case: Case) -> dict[int, str]:
        """The queries that Spark does not take, by number, and why."""
        reasons: dict[int, str] = {}
        try:
            self._set(case, None)
        except PySparkException as error:
            return dict.fromkeys(range(len(case.queries)), _reason(error))
        for number, asked in enumerate(case.queries):
            try:
                self._spark.sql(_at(asked.sql, 0))
            except PySparkException as error:
                reasons[number] = _reason(error)
        return reasons

    def answers(self, case: Case, times: Sequence[int]) -> list[dict[int, Answer]]:
        """For each query what it gives at each time."""
        frames: list[dict[int, DataFrame]] = [{} for _ in case.queries]
        for time in times:
            self._set(case, time)
            for number, asked in enumerate(case.queries):
                frames[number][time] = self._spark.sql(_at(asked.sql, time))
        return [_evaluated(each) for each in frames]

    def _set(self, case: Case, time: int | None) -> None:
        """Have the relations hold what they hold at a time."""
        for name, fields in case.relations.items():
            rows = [] if time is None else contents(case.lives, name, time)
            struct = struct_of(fields)
            self._spark.createDataFrame(_table(struct, rows), struct).createOrReplaceTempView(name)
        for name, view in case.views.items():
            self._spark.sql(_at(view.text, time or 0)).createOrReplaceTempView(name)


def _at(sql: str, time: int) -> str:
    """The query as it is at a time."""
    return sql.replace(NOW, f"{time}L")


def _table(struct: StructType, rows: Sequence[Row]) -> pa.Table:
    """Rows in Arrow, which Spark takes as a local relation: the quickest for few rows."""
    schema = arrow_schema(struct)
    columns = [pa.array([row[n] for row in rows], each.type) for n, each in enumerate(schema)]
    return pa.table(columns, names=schema.names)


def _evaluated(frames: dict[int, DataFrame]) -> dict[int, Answer]:
    stamped = [_named(frame).withColumn(_TIME, f.lit(time)) for time, frame in frames.items()]
    together = stamped[0]
    for frame in stamped[1:]:
        together = together.unionAll(frame)
    try:
        table = together.toArrow()
    except PySparkException:
        return {time: _alone(frame) for time, frame in frames.items()}
    when = table[_TIME].to_numpy()
    rows = table.drop_columns([_TIME])
    return {time: rows.filter(pa.array(when == time)) for time in frames}


def _alone(frame: DataFrame) -> Answer:
    try:
        return _named(frame).toArrow()
    except PySparkException as error:
        return Wrong(_reason(error))


def _named(frame: DataFrame) -> DataFrame:
    return frame.toDF(*(f"c{place}" for place in range(len(frame.columns))))


def _reason(error: PySparkException) -> str:
    condition = error.getCondition()
    return condition or str(error).splitlines()[0][:200]
