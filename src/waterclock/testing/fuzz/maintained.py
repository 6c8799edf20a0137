"""What is under test: the queries of a case, maintained step by step in one dataflow.

Each is a view of its own, and some come later than others or go before them.
"""

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
from waterclock.compute.catalyst.optimized import optimized
from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.catalyst.types import arrow_schema
from waterclock.compute.dataflow.dataflow import WIDE_ROWS, Dataflow
from waterclock.compute.dataflow.kept import Kept
from waterclock.compute.dataflow.program import Program
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.determinism import refuse_nondeterministic
from waterclock.compute.plan.nodes import Node
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.model.ids import GlobalId
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.fuzz.case import Case
from waterclock.testing.fuzz.histories import Updates, contents, updates
from waterclock.testing.fuzz.schemas import struct_of

_COMPILED = 3
"""One run of so many is compiled, although its rows are few."""


@dataclass(slots=True)
class Changes:
    """What a dataflow said of one query: changes of its rows, and of its errors."""

    windows: list[tuple[int, int]] = field(default_factory=list)
    rows: list[pa.Table] = field(default_factory=list)
    errors: list[pa.Table] = field(default_factory=list)
    kept: Kept | None = None
    """What was remembered of its state with the last of them."""


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
        """Run all steps of the case, in one dataflow for all of its queries that are there.

        Raises `NotMaintainable`, or `Raised` if a step did.
        """
        self._runs += 1
        folder = self._folder / f"run_{self._runs}"
        told = [Changes() for _ in case.queries]
        doing, lower = "planning", 0
        flow: Dataflow | None = None
        try:
            for step, upper in enumerate(case.steps.uppers):
                doing = f"step {step}"
                there = case.there(step)
                if step == 0 or there != case.there(step - 1):
                    flow = self._regrouped(case, folder, there, lower, flow, told)
                if flow is not None:
                    if step in case.steps.restarts:
                        flow = self._opened(case, there, folder, lower, kept=_kept(told, there))
                    deltas = _deltas(case, lower, upper)
                    if step in case.steps.crashes:
                        flow.compute(upper, deltas)
                        flow = self._opened(case, there, folder, lower, kept=_kept(told, there))
                    _step(flow, upper, deltas, {number: told[number] for number in there})
                lower = upper
        except NotMaintainable:
            raise
        except Exception as error:
            raise Raised(doing, error) from error
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return told

    def _regrouped(
        self,
        case: Case,
        folder: Path,
        there: Sequence[int],
        upper: int,
        before: Dataflow | None,
        told: Sequence[Changes],
    ) -> Dataflow | None:
        """A dataflow for those that are there: some go on as they were, others have just come.

        Who comes later begins alone, from the contents of the inputs, and then joins the others.
        The state of who has gone is removed.
        """
        if upper == 0:
            return self._opened(case, there, folder, 0) if there else None
        opened = {} if before is None else dict(before.arrangements)
        for number in range(len(told)):
            if number not in there:
                _remove_state(folder, number)
            elif not told[number].windows:
                alone = self._opened(case, [number], folder, upper - 1)
                _step(alone, upper, _contents(case, upper - 1), {number: told[number]})
                opened |= alone.arrangements
        if not there:
            return None
        together = self._opened(case, there, folder, upper, opened=opened)
        together.bring_together()
        return together

    def _opened(
        self,
        case: Case,
        there: Sequence[int],
        folder: Path,
        upper: int,
        *,
        kept: Mapping[str, Kept] | None = None,
        opened: Mapping[str, Arrangement] | None = None,
    ) -> Dataflow:
        """The dataflow of some queries; one that goes on is planned anew, as after a restart."""
        translation = self._translation(case)
        program = Program()
        for number in there:
            sql = case.queries[number].sql
            plan = None if kept else self._planned_before.get(sql)
            program.add(plan or self._planned(translation, sql), _owner(number))
        return Dataflow(
            self._spark,
            self._builder,
            program,
            folder,
            upper=upper,
            kept=kept,
            opened=opened,
            few_rows=FEW_ROWS if self._runs % _COMPILED else 0,
            wide_rows=case.steps.wide_rows or WIDE_ROWS,
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
        [plan] = translation.planned([optimized(self._spark, self._builder, execution)])
        return plan


def _owner(number: int) -> str:
    """What the state of a query is filed under."""
    return f"q{number}"


def _remove_state(folder: Path, number: int) -> None:
    for state in (folder / "state").glob(f"{_owner(number)}_op*"):
        shutil.rmtree(state)


def _kept(told: Sequence[Changes], there: Sequence[int]) -> dict[str, Kept] | None:
    """What was remembered of the state of these queries, if they have begun."""
    known = {_owner(number): told[number].kept for number in there}
    return {owner: kept for owner, kept in known.items() if kept is not None} or None


def _step(
    dataflow: Dataflow, upper: int, deltas: Mapping[GlobalId, pa.Table], told: Mapping[int, Changes]
) -> None:
    """One step, committed, and what it told of each query."""
    lower = dataflow.upper
    ticked = dataflow.compute(upper, deltas)
    dataflow.commit(upper, ticked)
    kept = dataflow.kept_after()
    for place, (number, changes) in enumerate(told.items()):
        changes.windows.append((lower, upper))
        changes.rows.append(ticked.outputs[place])
        changes.errors.append(ticked.errors_of[place])
        changes.kept = kept[_owner(number)]
    dataflow.merge()


def _deltas(case: Case, lower: int, upper: int) -> dict[GlobalId, pa.Table]:
    """What the inputs did from one time up to another."""
    changes = {name: updates(case.lives, name, lower, upper) for name in case.relations}
    return _tables(case, changes)


def _contents(case: Case, time: int) -> dict[GlobalId, pa.Table]:
    """What the inputs hold at a time, as if it had come just then."""
    held = {name: contents(case.lives, name, time) for name in case.relations}
    return _tables(case, {name: [(row, time, 1) for row in rows] for name, rows in held.items()})


def _tables(case: Case, changes: Mapping[str, Updates]) -> dict[GlobalId, pa.Table]:
    return {
        GlobalId.parse(name): _table(arrow_schema(struct_of(case.relations[name])), each)
        for name, each in changes.items()
        if each
    }


def _table(schema: pa.Schema, changes: Sequence[tuple[Any, int, int]]) -> pa.Table:
    columns = [
        pa.array([row[place] for row, _, _ in changes], column.type)
        for place, column in enumerate(schema)
    ]
    columns += [pa.array([time for _, time, _ in changes], pa.int64())]
    columns += [pa.array([diff for _, _, diff in changes], pa.int64())]
    return pa.table(columns, names=[*schema.names, TIME, DIFF])
