"""What is under test: the queries of a case, maintained step by step in one dataflow."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import SparkRuntimeException
from pyspark.sql import SparkSession

from waterclock.compute.catalyst.evaluation import FEW_ROWS
from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.catalyst.types import arrow_schema
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.kept import Kept
from waterclock.compute.dataflow.program import Program
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.determinism import refuse_nondeterministic
from waterclock.compute.plan.nodes import Node
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.model.ids import GlobalId
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.fuzz.case import Case
from waterclock.testing.fuzz.histories import updates
from waterclock.testing.fuzz.schemas import struct_of

_COMPILED = 3
"""One run of so many is compiled, although its rows are few."""


@dataclass(slots=True)
class Changes:
    """What a dataflow said of one query: changes of its rows, and of its errors."""

    windows: list[tuple[int, int]] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    errors: list[pa.Table] = field(default_factory=list)


class Raised(Exception):
    """Planning or a step raised an error, instead of refusing the query or telling it as data."""

    def __init__(self, doing: str, error: Exception) -> None:
        super().__init__(f"{doing} raised {type(error).__name__}: {str(error)[:2000]}")


class Maintainer:
    """Maintains queries of cases in a Spark session, with state in a folder."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._builder = Builder(spark.sparkContext._jvm)
        self._runs = 0
        self._planned_before: dict[str, Node] = {}

    def refused(self, case: Case) -> dict[int, str]:
        """The queries that can not be maintained, by number, and why."""
        reasons: dict[int, str] = {}
        self._planned_before = {}
        translation = self._translation(case)
        for number, asked in enumerate(case.queries):
            try:
                plan = self._planned(translation, asked.sql)
                self._planned_before[asked.sql] = plan
            except NotMaintainable as error:
                reasons[number] = str(error)
            except SparkRuntimeException:
                reasons[number] = "a constant in it can not be computed"
            except Exception:  # told when it is maintained
                continue
        return reasons

    def maintain(self, case: Case) -> list[Changes]:
        """Run all steps of the case, in one dataflow for all of its queries.

        Raises `NotMaintainable`, or `Raised` if a step did.
        """
        self._runs += 1
        folder = self._folder / f"run_{self._runs}"
        told = [Changes() for _ in case.queries]
        doing, lower = "planning", 0
        try:
            dataflow = self._opened(case, folder, 0, None)
            for step, upper in enumerate(case.steps.uppers):
                doing = f"step {step}"
                if step in case.steps.restarts:
                    dataflow = self._opened(case, folder, lower, dataflow.kept_after())
                deltas = self._deltas(case, lower, upper)
                if step in case.steps.crashes:
                    kept = dataflow.kept_after() if step else None
                    dataflow.compute(upper, deltas)
                    dataflow = self._opened(case, folder, lower, kept)
                ticked = dataflow.compute(upper, deltas)
                dataflow.commit(upper, ticked)
                dataflow.merge()
                for number, changes in enumerate(told):
                    changes.windows.append((lower, upper))
                    changes.rows.append(ticked.outputs[number])
                    changes.errors.append(ticked.errors_of[number])
                lower = upper
        except NotMaintainable:
            raise
        except Exception as error:
            raise Raised(doing, error) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return told

    def _opened(
        self, case: Case, folder: Path, upper: int, kept: Mapping[str, Kept] | None
    ) -> Dataflow:
        """The dataflow of the case; once it has begun, planned anew as after a restart."""
        translation = self._translation(case)
        program = Program()
        for asked in case.queries:
            known = None if kept is not None else self._planned_before.get(asked.sql)
            program.add(known or self._planned(translation, asked.sql))
        few = FEW_ROWS if self._runs % _COMPILED else 0
        return Dataflow(
            self._spark, self._builder, program, folder, upper=upper, kept=kept, few_rows=few
        )

    def _translation(self, case: Case) -> Translation:
        relations = Relations(self._spark)
        for name, fields in case.relations.items():
            relations.add(GlobalId.parse(name), struct_of(fields))
        for name, view in case.views.items():
            self._spark.sql(view.text).createOrReplaceTempView(name)
        return Translation(self._builder, relations)

    def _planned(self, translation: Translation, sql: str) -> Node:
        execution = self._spark.sql(sql)._jdf.queryExecution()
        refuse_nondeterministic(Logical(execution.analyzed()))
        [plan] = translation.planned([Logical(execution.optimizedPlan())])
        return plan

    def _deltas(self, case: Case, lower: int, upper: int) -> dict[GlobalId, pa.Table]:
        deltas = {}
        for name, fields in case.relations.items():
            schema = arrow_schema(struct_of(fields))
            changes = updates(case.lives, name, lower, upper)
            if changes:
                deltas[GlobalId.parse(name)] = _table(schema, changes)
        return deltas


def _table(schema: pa.Schema, changes: Sequence[tuple[Any, int, int]]) -> pa.Table:
    columns = [
        pa.array([row[place] for row, _, _ in changes], column.type)
        for place, column in enumerate(schema)
    ]
    columns += [pa.array([time for _, time, _ in changes], pa.int64())]
    columns += [pa.array([diff for _, _, diff in changes], pa.int64())]
    return pa.table(columns, names=[*schema.names, TIME, DIFF])
