"""The queries as maintained views: one program, or several, over the eight tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute.catalyst.optimized import optimized
from waterclock.compute.catalyst.trees import Builder
from waterclock.compute.dataflow.dataflow import WIDE_ROWS, Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.tpch.duck import table_of
from waterclock.testing.tpch.refresh import Changes, Row
from waterclock.testing.tpch.tables import TABLES

Delta = dict[str, list[pa.Table]]


class Views:
    """Maintains queries in dataflows that advance together, one for each group of queries."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        queries: Mapping[int, str],
        groups: Sequence[Sequence[int]],
        wide_rows: int = WIDE_ROWS,
    ) -> None:
        """Raises `NotMaintainable` with the reason if one of them can not be."""
        builder = Builder(spark.sparkContext._jvm)
        relations = Relations(spark)
        for name, table in TABLES.items():
            relations.add(table.id, from_arrow_schema(table.schema))
            spark.table(str(table.id)).createOrReplaceTempView(name)
        translation = Translation(builder, relations)
        self._groups = [tuple(group) for group in groups]
        self._dataflows = []
        for number, group in enumerate(self._groups):
            program = Program()
            for query in group:
                execution = spark.sql(queries[query])._jdf.queryExecution()
                [plan] = translation.planned([optimized(spark, builder, execution)])
                program.add(plan)
            place = folder / f"group_{number}"
            self._dataflows.append(Dataflow(spark, builder, program, place, wide_rows=wide_rows))

    @property
    def upper(self) -> int:
        return self._dataflows[0].upper

    @property
    def rows(self) -> int:
        """How many updates the state holds."""
        return sum(dataflow.rows for dataflow in self._dataflows)

    def advance(self, upper: int, deltas: Mapping[str, pa.Table]) -> dict[int, pa.Table]:
        """The changes of each query up to `upper`, given those of the tables."""
        given = {TABLES[name].id: table for name, table in deltas.items()}
        told: dict[int, pa.Table] = {}
        for group, dataflow in zip(self._groups, self._dataflows, strict=True):
            ticked = dataflow.compute(upper, given)
            assert ticked.errors.num_rows == 0, ticked.errors.to_pylist()
            told.update(zip(group, ticked.outputs, strict=True))
            dataflow.commit(upper, ticked)
            dataflow.merge()
        return told


class Contents:
    """The rows of a view, brought from time to time by its changes."""

    def __init__(self) -> None:
        self.rows: Counter[Row] = Counter()
        self._later: dict[int, list[tuple[Row, int]]] = {}

    def receive(self, changes: pa.Table) -> None:
        """Take in changes at times that are yet to come."""
        *columns, times, diffs = (column.to_pylist() for column in changes.columns)
        assert changes.column_names[-2:] == [TIME, DIFF]
        for row, time, diff in zip(zip(*columns, strict=True), times, diffs, strict=True):
            self._later.setdefault(time, []).append((row, diff))

    def advance(self, time: int) -> None:
        """Apply the changes at a time."""
        for row, diff in self._later.pop(time, ()):
            self.rows[row] += diff
            if self.rows[row] == 0:
                del self.rows[row]

    @property
    def unapplied(self) -> list[int]:
        """Times of changes that were never reached."""
        return sorted(self._later)


def deltas(steps: Mapping[int, Changes]) -> dict[str, pa.Table]:
    """The changes of all tables at some times, as a dataflow takes them."""
    parts: Delta = {}
    for time, changes in steps.items():
        for side, diff in ((changes.gone, -1), (changes.come, 1)):
            for name, rows in side.items():
                if rows:
                    parts.setdefault(name, []).append(stamped(table_of(name, rows), time, diff))
    return {name: pa.concat_tables(tables) for name, tables in parts.items()}


def stamped(table: pa.Table, time: int, diff: int) -> pa.Table:
    """Rows as updates, all at one time."""
    table = table.append_column(TIME, pa.array([time] * table.num_rows, pa.int64()))
    return table.append_column(DIFF, pa.array([diff] * table.num_rows, pa.int64()))
