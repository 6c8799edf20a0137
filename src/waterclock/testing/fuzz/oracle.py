"""The right answers: the same SQL, evaluated by Spark over the contents at each time."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from waterclock.testing.from_scratch import Answer, FromScratch, evaluated, reason
from waterclock.testing.fuzz.case import NOW, Case
from waterclock.testing.fuzz.histories import contents
from waterclock.testing.fuzz.schemas import struct_of


class Oracle:
    """Evaluates queries of cases from scratch."""

    def __init__(self, spark: SparkSession) -> None:
        self._scratch = FromScratch(spark)

    def rejected(self, case: Case) -> dict[int, str]:
        """The queries that Spark does not take, by number, and why."""
        reasons: dict[int, str] = {}
        try:
            self._set(case, None)
        except PySparkException as error:
            return dict.fromkeys(range(len(case.queries)), reason(error))
        for number, asked in enumerate(case.queries):
            try:
                self._scratch.query(_at(asked.sql, 0))
            except PySparkException as error:
                reasons[number] = reason(error)
        return reasons

    def answers(self, case: Case, times: Sequence[int]) -> list[dict[int, Answer]]:
        """For each query what it gives at each time."""
        frames: list[dict[int, DataFrame]] = [{} for _ in case.queries]
        for time in times:
            self._set(case, time)
            for number, asked in enumerate(case.queries):
                frames[number][time] = self._scratch.query(_at(asked.sql, time))
        return [evaluated(each) for each in frames]

    def _set(self, case: Case, time: int | None) -> None:
        """Have the relations hold what they hold at a time."""
        for name, fields in case.relations.items():
            rows = [] if time is None else contents(case.lives, name, time)
            self._scratch.put(name, struct_of(fields), rows)
        for name, view in case.views.items():
            self._scratch.query(_at(view.text, time or 0)).createOrReplaceTempView(name)


def _at(sql: str, time: int) -> str:
    """The query as it is at a time."""
    return sql.replace(NOW, f"{time}L")
