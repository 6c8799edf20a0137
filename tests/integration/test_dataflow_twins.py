"""Views that compute the same share the work and the files of the state, and each can leave."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.dataflow.stage import Stage
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.model.ids import GlobalId
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.rows import DIFF, TIME

pytestmark = pytest.mark.slow

U1, U2 = GlobalId.user(1), GlobalId.user(2)
JOINED = "SELECT u1.k, sum(u1.v * {}) FROM u1 JOIN u2 ON u1.k = u2.k WHERE u1.v <> 7 GROUP BY u1.k"
QUOTIENT = "SELECT k, 12 DIV v FROM u1"
TOTALS = ("twice", "again", "thrice")
VIEWS = {
    "twice": JOINED.format(2),
    "again": JOINED.format(2),
    "thrice": JOINED.format(3),
    "quotients": QUOTIENT,
    "others": QUOTIENT,
}
SIDES = {
    "by_key": "SELECT u1.v, u2.v AS w FROM u1 JOIN u2 ON u1.k = u2.k",
    "by_value": "SELECT u2.k, u1.v FROM u2 JOIN u1 ON u2.v = u1.k",
}
"""Two joins of which one has on the left what the other has on the right."""
FACTORS = {"twice": 2, "again": 2, "thrice": 3}
Row = tuple[int, ...]
Updates = list[tuple[Row, int, int]]
Deltas = dict[GlobalId, pa.Table]


class Tables:
    """Two tables of two numbers each, with what happens to them."""

    def __init__(self) -> None:
        self._random = random.Random(5)
        self.updates: dict[GlobalId, Updates] = {U1: [], U2: []}

    def change(self, time: int) -> Deltas:
        """Some rows come and some go at the time."""
        return {collection: _table(self._changes(collection, time)) for collection in (U1, U2)}

    def _changes(self, collection: GlobalId, time: int) -> Updates:
        live = list(self.at(collection, time).elements())
        gone = [(row, time, -1) for row in self._random.sample(live, len(live) // 3)]
        come = [((self._random.randrange(4), self._random.randrange(9)), time, 1) for _ in range(6)]
        self.updates[collection] += [*gone, *come]
        return [*gone, *come]

    def at(self, collection: GlobalId, time: int) -> Counter[Row]:
        counts: Counter[Row] = Counter()
        for row, when, diff in self.updates[collection]:
            if when <= time:
                counts[row] += diff
        return counts

    def contents(self, time: int) -> Deltas:
        """Everything there is, as if it had come at the time."""
        return {
            each: _table([(row, time, n) for row, n in self.at(each, time).items() if n])
            for each in (U1, U2)
        }

    def expected(self, name: str, time: int) -> Counter[Row]:
        """What the view is then, where it is made of rows that can be computed."""
        if name in SIDES:
            return self._sides(name, time)
        if name not in FACTORS:
            return self._quotients(time)
        sums: dict[int, int] = {}
        for (k, v), n in self.at(U1, time).items():
            for (key, _), m in self.at(U2, time).items():
                if k == key and v != 7 and n * m:
                    sums[k] = sums.get(k, 0) + FACTORS[name] * v * n * m
        return Counter(dict.fromkeys(sums.items(), 1))

    def _quotients(self, time: int) -> Counter[Row]:
        quotients: Counter[Row] = Counter()
        for (k, v), n in self.at(U1, time).items():
            if v:
                quotients[k, 12 // v] += n
        return quotients

    def _sides(self, name: str, time: int) -> Counter[Row]:
        joined: Counter[Row] = Counter()
        for (k, v), n in self.at(U1, time).items():
            for (key, value), m in self.at(U2, time).items():
                if k == (key if name == "by_key" else value):
                    joined[(v, value) if name == "by_key" else (key, v)] += n * m
        return joined

    def wrong(self, time: int) -> int:
        """How many rows can not be divided by."""
        return sum(n for (_, v), n in self.at(U1, time).items() if not v)


def _table(changes: Updates) -> pa.Table:
    rows = [(*row, time, diff) for row, time, diff in changes]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    names = ["k", "v", TIME, DIFF]
    return pa.table([pa.array(c, pa.int64()) for c in columns], names=names)


class Maintained:
    """Dataflows of some views over one folder of state, and all they have put out."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder
        self._builder = Builder(spark.sparkContext._jvm)
        self._relations = Relations(spark)
        for collection in (U1, U2):
            schema = StructType().add("k", LongType()).add("v", LongType())
            self._relations.add(collection, schema)
        self.outputs: dict[str, list[pa.Table]] = {name: [] for name in VIEWS | SIDES}
        self.errors: dict[str, list[pa.Table]] = {name: [] for name in VIEWS | SIDES}

    def program(self, names: Iterable[str]) -> Program:
        program = Program()
        for name in names:
            optimized = self._spark.sql((VIEWS | SIDES)[name])._jdf.queryExecution().optimizedPlan()
            translation = Translation(self._builder, self._relations)
            program.add(translation.translate(Logical(optimized)), name)
        return program

    def new(self, names: Iterable[str], upper: int) -> Dataflow:
        return Dataflow(self._spark, self._builder, self.program(names), self._folder, upper=upper)

    def taken_over(self, names: Iterable[str], others: Sequence[Dataflow]) -> Dataflow:
        opened = {name: each for other in others for name, each in other.arrangements.items()}
        return Dataflow(
            self._spark,
            self._builder,
            self.program(names),
            self._folder,
            upper=others[0].upper,
            opened=opened,
        )

    def step(self, dataflow: Dataflow, names: Sequence[str], upper: int, deltas: Deltas) -> None:
        ticked = dataflow.compute(upper, deltas)
        dataflow.commit(upper, ticked)
        dataflow.merge()
        for name, output, errors in zip(names, ticked.outputs, ticked.errors_of, strict=True):
            self.outputs[name].append(output)
            self.errors[name].append(errors)

    def has(self, name: str, time: int) -> Counter[Row]:
        return _accumulated(self.outputs[name], time)


def _accumulated(tables: Iterable[pa.Table], time: int) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for table in tables:
        for *row, when, diff in zip(*(c.to_pylist() for c in table.columns), strict=True):
            if when <= time:
                counts[tuple(row)] += diff
    return Counter({row: count for row, count in counts.items() if count})


def _files(arrangement: Arrangement) -> set[int]:
    with arrangement.trace() as trace:
        return {run.file for run in trace.runs}


@pytest.fixture
def running(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, int]:
    """How many operators of each kind are run."""
    kinds: Counter[str] = Counter()
    make = Stage.__init__

    def counted(self: Stage, *arguments: object) -> None:
        make(self, *arguments)  # type: ignore[arg-type]
        for step in self.operators:
            kinds[type(getattr(step, "operator", step)).__name__] += 1

    monkeypatch.setattr(Stage, "__init__", counted)
    return kinds


@pytest.mark.semantics(44, 45)
def test_views_that_compute_the_same_share_the_work(
    spark: SparkSession, tmp_path: Path, running: Mapping[str, int]
) -> None:
    maintained, tables = Maintained(spark, tmp_path), Tables()
    names = list(VIEWS)
    together = maintained.new(names, 0)
    assert (running["JoinOperator"], running["ReduceOperator"]) == (1, 2)
    assert len(together.arrangements) == 9, "each view has its own state"
    for time in (0, 1):
        maintained.step(together, names, time + 1, tables.change(time))
    shared = [together.arrangements[f"{name}_op0_0"] for name in TOTALS]
    [runs] = {tuple(cover.name for cover in each.trace().covers) for each in shared}
    files = {(each.folder / runs[-1]).stat().st_ino for each in shared}
    assert len(files) == 1, "one file with three names"

    # One view goes on alone, and then all of them are together again.
    alone = maintained.taken_over(["again"], [together])
    rest = [name for name in names if name != "again"]
    others = maintained.taken_over(rest, [together])
    changed = tables.change(2)
    maintained.step(alone, ["again"], 3, changed)
    maintained.step(others, rest, 3, changed)
    together = maintained.taken_over(names, [alone, others])
    maintained.step(together, names, 4, tables.change(3))

    for time in range(4):
        for name in names:
            assert maintained.has(name, time) == tables.expected(name, time), (name, time)
        for name in ("quotients", "others"):
            wrong = _accumulated(maintained.errors[name], time)
            assert wrong.total() == tables.wrong(time), "errors are those of both views"
        assert not _accumulated(maintained.errors["twice"], time)
    assert tables.wrong(3), "there was something that can not be computed"


@pytest.mark.parametrize("is_quiet", [False, True])
def test_those_that_began_at_different_times_come_to_have_one_state(
    spark: SparkSession, tmp_path: Path, is_quiet: bool
) -> None:
    """Their runs do not end at the same time at first, and never do if nothing happens."""
    maintained, tables = Maintained(spark, tmp_path), Tables()
    first = maintained.new(["twice"], 0)
    maintained.step(first, ["twice"], 1, tables.change(0))
    first.commit(3, first.unchanged())
    late = maintained.new(["again"], 2)
    maintained.step(late, ["again"], 3, tables.contents(2))
    names = ["twice", "again"]
    together = maintained.taken_over(names, [first, late])
    tips = {together.arrangements[f"{name}_op0_0"].extent.tip for name in names}
    assert tips == {1, 3}
    assert together.bring_together(), "what is remembered of the state has changed"
    if is_quiet:
        together.commit(5, together.unchanged())
        together.merge()
    else:
        maintained.step(together, names, 4, tables.change(3))
        maintained.step(together, names, 5, tables.change(4))
    for place in ("op0_0", "op0_1", "op1_0"):
        one, other = (_files(together.arrangements[f"{name}_{place}"]) for name in names)
        assert one == other, "the files are the same, under the names of both"
    kept = together.kept_after()
    for name in names:
        alone = Dataflow(
            spark,
            Builder(spark.sparkContext._jvm),
            maintained.program([name]),
            tmp_path,
            upper=5,
            kept={name: kept[name]},
        )
        alone.check_state()
        for time in (3, 4):
            assert maintained.has(name, time) == tables.expected(name, time), (name, time)


def test_joins_of_different_tables_share_the_side_that_is_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    maintained, tables = Maintained(spark, tmp_path), Tables()
    names = list(SIDES)
    together = maintained.new(names, 0)
    for time in range(6):
        maintained.step(together, names, time + 1, tables.change(time))
        for name in names:
            assert maintained.has(name, time) == tables.expected(name, time), (name, time)
    state = {name: _files(each) for name, each in together.arrangements.items()}
    assert state["by_key_op0_0"] == state["by_value_op0_1"], "also after it was merged"
    assert state["by_key_op0_1"].isdisjoint(state["by_value_op0_0"])
