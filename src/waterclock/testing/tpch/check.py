"""All queries maintained under changes, and compared at every time with an evaluation from scratch.

DuckDB evaluates every time; Spark, which is slower but has the very same decimals, some of them.
Against DuckDB, values agree exactly except in columns that come of a division: there both sides are
compared as floating-point numbers, up to 1e-6 relative and absolute, which is what Spark's scale of
six digits leaves. Against Spark everything is exact.

What a batch gave is compared in a thread of its own, while the next one is computed.
"""

from __future__ import annotations

import math
import time as clock
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute.dataflow.dataflow import WIDE_ROWS
from waterclock.testing.brief_spark import TINY
from waterclock.testing.tpch.duck import DuckTables
from waterclock.testing.tpch.generate import generate
from waterclock.testing.tpch.queries import queries
from waterclock.testing.tpch.refresh import Changes, Refresh, Row, rows_of
from waterclock.testing.tpch.tables import TABLES
from waterclock.testing.tpch.views import Contents, Views, deltas, stamped

_CLOSE = 1e-6


class Disagreement(AssertionError):
    """A maintained view is not what it should be at a time."""


@dataclass(slots=True)
class Report:
    """What a check did, and how long its parts took, in seconds."""

    times: int = 0
    comparisons: int = 0
    spark_times: int = 0
    changed_rows: int = 0
    output_changes: Counter[int] = field(default_factory=Counter)
    """For each query, how many changes its output had after the load."""
    planning_s: float = 0.0
    loading_s: float = 0.0
    steps_s: list[float] = field(default_factory=list)
    oracle_s: float = 0.0
    spark_s: float = 0.0

    def lines(self) -> list[str]:
        steps = sorted(self.steps_s)
        middle = steps[len(steps) // 2] if steps else 0.0
        changes = ", ".join(f"Q{n}: {c}" for n, c in sorted(self.output_changes.items()))
        return [
            f"{self.times} times in {len(steps)} batches, {self.changed_rows} changed rows,"
            f" {self.comparisons} comparisons, {self.spark_times} times also by Spark",
            f"planning {self.planning_s:.1f} s, loading {self.loading_s:.1f} s,"
            f" batches {sum(steps):.1f} s (median {middle:.2f} s),"
            f" DuckDB {self.oracle_s:.1f} s, Spark {self.spark_s:.1f} s",
            f"changes of the outputs: {changes}",
        ]


class Check:
    """One run: views over tables, which are changed batch by batch."""

    def __init__(
        self,
        spark: SparkSession,
        folder: Path,
        scale: float,
        groups: Sequence[Sequence[int]] | None = None,
        seed: int = 1,
        *,
        wide_rows: int = WIDE_ROWS,
    ) -> None:
        self._spark = spark
        self._queries = queries(scale)
        self.report = Report()
        began = clock.monotonic()
        chosen = groups if groups is not None else [list(self._queries)]
        self._views = Views(spark, folder, self._queries, chosen, wide_rows)
        self.report.planning_s = clock.monotonic() - began
        self._contents = {number: Contents() for group in chosen for number in group}
        self._judge = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self._judged: Future[None] | None = None
        """What becomes of the last batch."""
        tables = generate(scale, seed)
        self._refresh = Refresh(tables, scale, seed)
        self._duck = DuckTables(tables)
        began = clock.monotonic()
        told = self._views.advance(1, {name: stamped(t, 0, 1) for name, t in tables.items()})
        self.report.loading_s = clock.monotonic() - began
        for number, changes in told.items():
            self._contents[number].receive(changes)
        self._compare(0)

    def batch(self, times: int, *, spark: bool = False) -> None:
        """One step of the views over that many times, which will be compared at each.

        Raises `Disagreement` if an earlier batch was wrong; of the last one, `close` tells.
        """
        lower = self._views.upper
        steps: dict[int, Changes] = {}
        for time in range(lower, lower + times):
            steps[time] = self._refresh.next()
            self.report.changed_rows += steps[time].rows
        began = clock.monotonic()
        told = self._views.advance(lower + times, deltas(steps))
        self.report.steps_s.append(clock.monotonic() - began)
        self._await_judge()
        self._judged = self._judge.submit(self._compare_all, told, steps)
        if spark:
            self._await_judge()
            self._compare_with_spark(lower + times - 1)

    def close(self) -> None:
        """Wait for the last comparison; raises `Disagreement`."""
        try:
            self._await_judge()
        finally:
            self._judge.shutdown()
            self._duck.close()

    def _await_judge(self) -> None:
        judged, self._judged = self._judged, None
        if judged is not None:
            judged.result()

    def _compare_all(self, told: Mapping[int, pa.Table], steps: Mapping[int, Changes]) -> None:
        """Compare at each time of a batch, in which the views have told these changes."""
        for number, changes in told.items():
            self.report.output_changes[number] += changes.num_rows
            self._contents[number].receive(changes)
        for time, changed in steps.items():
            self._duck.apply(changed)
            self._compare(time)
        for number, contents in self._contents.items():
            if contents.unapplied:
                raise Disagreement(f"query {number} changes at {contents.unapplied}")

    def _compare(self, time: int) -> None:
        began = clock.monotonic()
        self.report.times += 1
        for number, contents in self._contents.items():
            contents.advance(time)
            right = self._duck.answer(self._queries[number])
            self.report.comparisons += 1
            _expect(number, time, contents.rows, right, _agree)
        self.report.oracle_s += clock.monotonic() - began

    def _compare_with_spark(self, time: int) -> None:
        began = clock.monotonic()
        session = self._spark.newSession()
        for name, value in TINY.items():
            session.conf.set(name, value)
        for name, table in TABLES.items():
            frame = session.createDataFrame(self._duck.table(name), from_arrow_schema(table.schema))
            frame.createOrReplaceTempView(name)
        for number, contents in self._contents.items():
            right = rows_of(session.sql(self._queries[number]).toArrow())
            _expect(number, time, contents.rows, right, lambda one, other: one == other)
        self.report.spark_times += 1
        self.report.spark_s += clock.monotonic() - began


def _expect(
    number: int,
    time: int,
    held: Mapping[Row, int],
    right: Sequence[Row],
    agree: Callable[[Any, Any], bool],
) -> None:
    if any(count < 0 for count in held.values()):
        raise Disagreement(f"query {number} holds a row less than no times at {time}")
    ones = sorted((row for row, count in held.items() for _ in range(count)), key=_order)
    others = sorted(right, key=_order)
    same = len(ones) == len(others) and all(
        agree(one, other)
        for left, row in zip(ones, others, strict=True)
        for one, other in zip(left, row, strict=True)
    )
    if not same:
        extra = [row for row in ones if row not in others][:3]
        missing = [row for row in others if row not in ones][:3]
        raise Disagreement(
            f"query {number} at {time}: {len(ones)} rows instead of {len(others)};"
            f" has {extra}, lacks {missing}"
        )


def _order(row: Row) -> tuple[Any, ...]:
    """By everything but rounded numbers first, since those may differ in the last digits."""
    exact = tuple(str(value) for value in row if not isinstance(value, float | Decimal))
    return exact, tuple(round(float(v), 4) for v in row if isinstance(v, float | Decimal))


def _agree(one: Any, other: Any) -> bool:
    if isinstance(one, Decimal) and isinstance(other, float):
        return math.isclose(float(one), other, rel_tol=_CLOSE, abs_tol=_CLOSE)
    if isinstance(one, Decimal) and isinstance(other, Decimal) and one != other:
        # Averages, which DuckDB computes as floating-point numbers before they are rounded.
        return one.as_tuple().exponent == -6 and abs(one - other) <= Decimal("0.000001")
    return bool(one == other)
