"""The history curve: a step over a join of three inputs and an aggregate, at growing history.

    python bench/history.py [--rows 100000 1000000] [--change 1000] [--steps 20]

The cost of keeping a view fresh must follow the change, not the history. Beside it, the same view
evaluated from scratch, on the same rows in a Parquet file, by Spark and by DuckDB: each reads the
file and computes everything anew each time, once to warm up and then `SCRATCHES` times. Every
maintained answer is checked against both. The Python workers together must not take more than
1.5 GB meanwhile, however large the state is.

Code that runs for the first time is slow, and the first size would pay for all. So a small history
is stepped and thrown away before the sizes that count, and each of them takes some steps first.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType
from report import Report
from workers import WorkerMemory

from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.compute.spark import open_session
from waterclock.model.ids import GlobalId
from waterclock.persist.rows import DIFF, TIME
from waterclock.server.java import find_java

ORDERS, CUSTOMERS, NATIONS = (GlobalId.user(n) for n in (1, 2, 3))
COLUMNS = {
    ORDERS: ("order_id", "customer_id", "amount"),
    CUSTOMERS: ("customer_id", "nation_id"),
    NATIONS: ("nation_id", "region"),
}
VIEW = """
SELECT n.region, count(*) AS orders, sum(o.amount * 2) AS total
FROM {u1} o JOIN {u2} c ON o.customer_id = c.customer_id JOIN {u3} n ON c.nation_id = n.nation_id
GROUP BY n.region
"""
NATION_COUNT = 25
WARM_ROWS, WARM_STEPS = 100_000, 20
"""The history that is thrown away, and its steps."""
SETTLING_STEPS = 5
"""The steps of each history that do not count."""
SCRATCHES = 3

Contents = Counter[tuple[int, ...]]


def rows_of(collection: GlobalId, count: int, first: int, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    customers = 100_000
    if collection == ORDERS:
        ids = np.arange(first, first + count)
        return [ids, random.integers(0, customers, count), random.integers(1, 1000, count)]
    if collection == CUSTOMERS:
        return [np.arange(customers), random.integers(0, NATION_COUNT, customers)]
    return [np.arange(NATION_COUNT), np.arange(NATION_COUNT) % 5]


def delta(columns: list[np.ndarray], when: int, diffs: np.ndarray | None = None) -> pa.Table:
    length = len(columns[0])
    diffs = np.ones(length, dtype=np.int64) if diffs is None else diffs
    arrays = [*columns, np.full(length, when), diffs]
    names = [*(f"c{i}" for i in range(len(columns))), TIME, DIFF]
    return pa.table([pa.array(a, pa.int64()) for a in arrays], names=names)


class Case:
    """The view over a history of some size."""

    def __init__(self, spark: SparkSession, folder: Path, history: int) -> None:
        self.spark = spark
        builder = Builder(spark.sparkContext._jvm)
        relations = Relations(spark)
        for collection, names in COLUMNS.items():
            schema = StructType()
            for name in names:
                schema = schema.add(name, LongType())
            relations.add(collection, schema)
        sql = VIEW.format(u1="u1", u2="u2", u3="u3")
        plan = Logical(spark.sql(sql)._jdf.queryExecution().optimizedPlan())
        program = Program()
        program.add(Translation(builder, relations).translate(plan))
        self.dataflow = Dataflow(spark, builder, program, folder)
        self.inputs = {c: rows_of(c, history, 0, 1) for c in COLUMNS}
        self.outputs: list[pa.Table] = []
        self.step({c: delta(rows, 0) for c, rows in self.inputs.items()})
        self.dataflow.merge()

    def step(self, deltas: dict[GlobalId, pa.Table]) -> float:
        upper = self.dataflow.upper + 1
        began = time.perf_counter()
        ticked = self.dataflow.compute(upper, deltas)
        self.dataflow.commit(upper, ticked)
        took = time.perf_counter() - began
        self.outputs += ticked.outputs
        return took

    def refresh(self, change: int, number: int) -> float:
        """Half of the change are new orders, half are deletions of old ones."""
        half = change // 2
        orders = self.inputs[ORDERS]
        added = rows_of(ORDERS, half, 10**9 + number * half, 100 + number)
        place = number * half
        removed = [column[place : place + half] for column in orders]
        columns = [np.concatenate(pair) for pair in zip(added, removed, strict=True)]
        diffs = np.repeat([1, -1], half)
        self.inputs[ORDERS] = [
            np.concatenate((o[:place], np.full(half, -1), o[place + half :], a))
            for o, a in zip(orders, added, strict=True)
        ]
        took = self.step({ORDERS: delta(columns, self.dataflow.upper, diffs)})
        self.dataflow.merge()
        return took

    def store(self, folder: Path) -> dict[str, Path]:
        """The rows of now as a file for each input, by its name in the view."""
        files = {}
        for number, (collection, columns) in enumerate(self.inputs.items(), start=1):
            live = columns[0] >= 0
            table = pa.table([c[live] for c in columns], names=list(COLUMNS[collection]))
            files[f"u{number}"] = path = folder / f"now_{number}.parquet"
            pq.write_table(table, path)
        return files

    def maintained(self) -> Contents:
        counts: Contents = Counter()
        for table in self.outputs:
            for *row, _, diff in zip(*(c.to_pylist() for c in table.columns), strict=True):
                counts[tuple(row)] += diff
        return Counter({row: count for row, count in counts.items() if count})


def by_spark(spark: SparkSession, files: dict[str, Path]) -> Contents:
    """The view, from the files. A plan of its own, or Spark would reuse what it shuffled before."""
    query = VIEW.format(**{name: f"parquet.`{path}`" for name, path in files.items()})
    return Counter(tuple(row) for row in spark.sql(query).collect())


def by_duckdb(files: dict[str, Path]) -> Contents:
    """The same in DuckDB, which remembers nothing of it."""
    query = VIEW.format(**{name: f"read_parquet('{path}')" for name, path in files.items()})
    with duckdb.connect() as connection:
        rows = connection.execute(query).fetchall()
    return Counter(tuple(map(int, row)) for row in rows)


def from_scratch(evaluate: Callable[[], Contents], expected: Contents) -> float:
    """How long it takes to compute the view anew, in the middle of some times."""
    times = []
    for _ in range(1 + SCRATCHES):
        began = time.perf_counter()
        found = evaluate()
        times.append(time.perf_counter() - began)
        assert found == expected, "the maintained view is not the view"
    return statistics.median(times[1:])


def measured(spark: SparkSession, report: Report, history: int, change: int, steps: int) -> float:
    """The time of a step over a history of this size; all figures go to the report."""
    folder = Path(tempfile.mkdtemp(prefix="waterclock-bench-", dir="/var/tmp"))
    size = f"{history:,} rows"
    try:
        began = time.perf_counter()
        case = Case(spark, folder, history)
        report.figure(f"{size}: first contents", time.perf_counter() - began, "s")
        settling = SETTLING_STEPS + steps
        with WorkerMemory() as memory:  # to look at it takes time: these steps are not timed
            for number in range(settling):
                case.refresh(change, number)
        median = statistics.median(case.refresh(change, settling + n) for n in range(steps))
        report.figure(f"{size}: a step", 1e3 * median, "ms")
        report.limit(f"{size}: Python workers", memory.peak / 1e6, 1500, "MB")
        files, expected = case.store(folder), case.maintained()
        seconds = from_scratch(lambda: by_spark(spark, files), expected)
        report.figure(f"{size}: Spark from scratch", 1e3 * seconds, "ms")
        seconds = from_scratch(lambda: by_duckdb(files), expected)
        report.figure(f"{size}: DuckDB from scratch", 1e3 * seconds, "ms")
    finally:
        shutil.rmtree(folder)
    return median


def warm_up(spark: SparkSession, change: int) -> None:
    folder = Path(tempfile.mkdtemp(prefix="waterclock-bench-", dir="/var/tmp"))
    try:
        case = Case(spark, folder, WARM_ROWS)
        for number in range(WARM_STEPS):
            case.refresh(change, number)
    finally:
        shutil.rmtree(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--change", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    spark = open_session("local[*]", {"spark.driver.memory": "6g"})
    report = Report(f"History curve: {arguments.change:,} changed rows, 3-way join + aggregate")
    warm_up(spark, arguments.change)
    medians = [
        measured(spark, report, history, arguments.change, arguments.steps)
        for history in arguments.rows
    ]
    report.limit(
        "a step at the longest history against the shortest", medians[-1] / medians[0], 1.5, "x"
    )
    report.exit()


if __name__ == "__main__":
    main()
