"""What a step costs: beside an empty Spark job, with many views, and when the change is large.

    python bench/steps.py [--change 100] [--large 10000000] [--steps 60] [--beside 1000000]
        [--pathway PYTHON]

Four claims. A small step of a view with one join and one aggregate takes at most three times an
empty job with one Python stage. Ten views over one changed input take at most three times what one
takes, because they share a job; it is measured for views that have their join in common, which is
computed once for all, and for views that filter first, each in its own way, and so have nothing in
common but what they read. A large change runs at not less than 0.3 of the speed at which Spark SQL
computes the same from scratch, and faster than Pathway takes it in. The large answer is checked. It
is measured for orders of few different amounts, many of which are added up early, and for orders of
so many that hardly two are alike; both sides are run equally often, and the best of each counts.

Pathway lives in an environment of its own, because its dependencies are others: make one with
`python -m venv peer && peer/bin/pip install pathway pandas`, and name its Python with `--pathway`
or in WATERCLOCK_BENCH_PATHWAY. Without one the comparison is left out, and the report says so. It
is made with fewer rows, the same for both, because Pathway needs minutes for millions.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np
import pyarrow as pa
from history import COLUMNS, CUSTOMERS, ORDERS, delta, rows_of
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import LongType, StructType
from report import Report

from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.compute.spark import open_session
from waterclock.model.ids import GlobalId
from waterclock.server.java import find_java

VIEW = """
SELECT c.nation_id, count(*) AS orders, sum(o.amount * {factor}) AS total
FROM {u1} o JOIN {u2} c ON o.customer_id = c.customer_id GROUP BY c.nation_id
"""
APART = """
SELECT c.nation_id, count(*) AS orders, sum(o.amount) AS total
FROM {u1} o JOIN {u2} c ON o.customer_id = c.customer_id AND o.amount <> {factor}
GROUP BY c.nation_id
"""

FEW_AMOUNTS, MANY_AMOUNTS = 1000, 10**9
TRIES = 3
PATHWAY_S = 300
"""How long Pathway may take."""
PAUSE_S = 0.05
"""Before each small step and each empty job, so that Spark has cleaned up after the one before."""


def passed_on(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


class Bench:
    """A session, and folders that go when it is over."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.builder = Builder(spark.sparkContext._jvm)
        self.relations = Relations(spark)
        self.root = Path(tempfile.mkdtemp(prefix="waterclock-bench-", dir="/var/tmp"))
        for collection, names in COLUMNS.items():
            schema = StructType()
            for name in names:
                schema = schema.add(name, LongType())
            self.relations.add(collection, schema)

    def dataflow(self, name: str, factors: Sequence[int], view: str = VIEW) -> Dataflow:
        """The views with these factors, in one program."""
        program = Program()
        for factor in factors:
            sql = view.format(u1="u1", u2="u2", factor=factor)
            plan = Logical(self.spark.sql(sql)._jdf.queryExecution().optimizedPlan())
            node = Translation(self.builder, self.relations).translate(plan)
            program.add(node, f"{name}{factor}")
        return Dataflow(self.spark, self.builder, program, self.root / name)

    def empty_job(self) -> DataFrame:
        """The least that a step could be: a prepared job of one task with one Python stage."""
        schema = StructType().add("id", LongType())
        return self.spark.range(1).coalesce(1).mapInArrow(passed_on, schema)


def step(dataflow: Dataflow, deltas: Mapping[GlobalId, pa.Table]) -> tuple[float, list[pa.Table]]:
    upper = dataflow.upper + 1
    began = time.perf_counter()
    ticked = dataflow.compute(upper, deltas)
    dataflow.commit(upper, ticked)
    took = time.perf_counter() - began
    dataflow.merge()
    return took, list(ticked.outputs)


def loaded(
    bench: Bench, name: str, factors: Sequence[int], history: int, view: str = VIEW
) -> Dataflow:
    dataflow = bench.dataflow(name, factors, view)
    first = {c: delta(rows_of(c, history, 0, 1), 0) for c in (ORDERS, CUSTOMERS)}
    step(dataflow, first)
    return dataflow


def changes(number: int, count: int, when: int) -> pa.Table:
    return delta(rows_of(ORDERS, count, 10**9 + number * count, 100 + number), when)


def small_steps(bench: Bench, report: Report, change: int, steps: int) -> None:
    many = list(range(2, 12))
    dataflows = {
        "one": loaded(bench, "one", [2], 100_000),
        "ten": loaded(bench, "ten", many, 100_000),
        "one apart": loaded(bench, "one_apart", [2], 100_000, APART),
        "ten apart": loaded(bench, "ten_apart", many, 100_000, APART),
    }
    empty = bench.empty_job()
    took: dict[str, list[float]] = {name: [] for name in ("empty", *dataflows)}
    for number in range(steps):
        time.sleep(PAUSE_S)
        began = time.perf_counter()
        empty.toArrow()
        took["empty"].append(time.perf_counter() - began)
        for name, dataflow in dataflows.items():
            changed = changes(number, change, dataflow.upper)
            time.sleep(PAUSE_S)
            took[name].append(step(dataflow, {ORDERS: changed})[0])
    settled = {name: times[len(times) // 3 :] for name, times in took.items()}
    medians = {name: statistics.median(times) for name, times in settled.items()}
    report.figure("empty job with one Python stage, p50", 1e3 * medians["empty"], "ms")
    report.figure(f"one view, {change} rows changed, p50", 1e3 * medians["one"], "ms")
    report.figure("the same, p99", 1e3 * float(np.quantile(settled["one"], 0.99)), "ms")
    report.figure(f"ten views, {change} rows changed, p50", 1e3 * medians["ten"], "ms")
    report.figure("one view that filters first, p50", 1e3 * medians["one apart"], "ms")
    report.figure("ten of those, p50", 1e3 * medians["ten apart"], "ms")
    report.limit("a small step against the empty job", medians["one"] / medians["empty"], 3, "x")
    report.limit("ten views against one", medians["ten"] / medians["one"], 3, "x")
    apart = medians["ten apart"] / medians["one apart"]
    report.limit("ten views that have nothing in common against one", apart, 3, "x")


def large_step(bench: Bench, report: Report, rows: int, amounts: int) -> None:
    """A change of so many orders, which have so many different amounts."""
    orders = large_orders(rows, amounts)
    tries = [timed(bench, f"large{amounts}_{n}", orders) for n in range(TRIES)]
    took, output = min(tries, key=itemgetter(0))
    table = pa.table([pa.array(c) for c in orders], names=list(COLUMNS[ORDERS]))
    customers = rows_of(CUSTOMERS, 0, 0, 1)
    bench.spark.createDataFrame(table).createOrReplaceTempView("large_orders")
    bench.spark.createDataFrame(
        pa.table([pa.array(c) for c in customers], names=list(COLUMNS[CUSTOMERS]))
    ).createOrReplaceTempView("large_customers")
    scratch, gained = min((from_scratch(bench) for _ in range(TRIES)), key=itemgetter(0))
    shown: Counter[int] = Counter()
    for *row, _, diff in zip(*(c.to_pylist() for c in output.columns), strict=True):
        shown[row[0]] += diff * row[1]
    assert shown == gained, "the change of the view is not the change of its inputs"
    cores = bench.spark.sparkContext.defaultParallelism
    report.figure(f"{rows:,} rows of {amounts:,} amounts", rows / took / cores, "rows/s per core")
    report.figure("Spark SQL from scratch", rows / scratch / cores, "rows/s per core")
    report.bar("a large step against Spark SQL", scratch / took, 0.3)


def from_scratch(bench: Bench) -> tuple[float, Counter[int]]:
    """How long Spark takes for the view, and its counts.

    By a plan of its own, or Spark would reuse what it shuffled before. The best of some times
    counts: in the first ones Java still compiles.
    """
    query = bench.spark.sql(VIEW.format(u1="large_orders", u2="large_customers", factor=2))
    began = time.perf_counter()
    found = query.collect()
    return time.perf_counter() - began, Counter({row[0]: row[1] for row in found})


def large_orders(rows: int, amounts: int) -> list[np.ndarray]:
    ids, customers, _ = rows_of(ORDERS, rows, 10**9, 7)
    return [ids, customers, np.random.default_rng(8).integers(1, amounts, rows)]


def timed(bench: Bench, name: str, orders: list[np.ndarray]) -> tuple[float, pa.Table]:
    """How long a new view takes for these orders after its first contents, and its change."""
    dataflow = loaded(bench, name, [2], 1000)
    took, [output] = step(dataflow, {ORDERS: delta(orders, dataflow.upper)})
    return took, output


def beside_pathway(bench: Bench, report: Report, python: str | None, rows: int) -> None:
    """One change, here and in Pathway: of as many rows as that can take in within the time."""
    if python is None:
        print("  Pathway is left out: no Python that has it was named", flush=True)
        return
    script = Path(__file__).parent / "peers" / "pathway_change.py"
    command = [python, str(script), str(rows)]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=PATHWAY_S
        )
    except subprocess.TimeoutExpired:
        print(f"  Pathway did not take {rows:,} rows in within {PATHWAY_S} s", flush=True)
        return
    if ran.returncode:
        print(f"  Pathway is left out: {ran.stderr.strip().splitlines()[-1]}", flush=True)
        return
    theirs = float(ran.stdout.rpartition("seconds ")[2])
    ours, _ = timed(bench, "beside", large_orders(rows, FEW_AMOUNTS))
    cores = os.cpu_count() or 1
    report.figure(f"{rows:,} rows changed", rows / ours / cores, "rows/s per core")
    report.figure("Pathway", rows / theirs / cores, "rows/s per core")
    report.bar("a large step against Pathway", theirs / ours, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--change", type=int, default=100)
    parser.add_argument("--large", type=int, default=10_000_000)
    parser.add_argument("--beside", type=int, default=1_000_000)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--pathway", default=os.environ.get("WATERCLOCK_BENCH_PATHWAY"))
    arguments = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    spark = open_session("local[*]", {"spark.driver.memory": "6g"})
    report = Report("Steps: small, many views, large")
    bench = Bench(spark)
    try:
        small_steps(bench, report, arguments.change, arguments.steps)
        for amounts in (FEW_AMOUNTS, MANY_AMOUNTS):
            large_step(bench, report, arguments.large, amounts)
        beside_pathway(bench, report, arguments.pathway, arguments.beside)
    finally:
        shutil.rmtree(bench.root)
    report.exit()


if __name__ == "__main__":
    main()
