"""Views whose rows come and go as time passes, against a from-scratch evaluation at every time."""

from __future__ import annotations

import datetime
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from test_compute import Server, at, contents

from waterclock.compute.api import ERROR_ROWS, Result, View
from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.catalyst.types import arrow_schema
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.kept import Kept
from waterclock.compute.dataflow.program import Program
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.nodes import Node, Temporal, walk
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.rows import DIFF, TIME, updates
from waterclock.storage.api import Description, Progress, Write

pytestmark = pytest.mark.slow

U1, U2, U3, U4 = map(GlobalId.user, (1, 2, 3, 4))
SCHEMAS = {
    U1: StructType().add("k", "long").add("ts", "long").add("v", "long"),
    U2: StructType().add("k", "long").add("w", "long"),
    U3: StructType()
    .add("k", "long")
    .add("ts", "long")
    .add("v", "long")
    .add("i", "integer")
    .add("d", "decimal(20,3)")
    .add("wide", "decimal(38,0)")
    .add("fine", "decimal(38,18)")
    .add("at", "timestamp")
    .add("local", "timestamp_ntz")
    .add("day", "date"),
}
Row = tuple[Any, ...]
Update = tuple[Row, int, int]


@pytest.fixture(scope="module")
def builder(spark: SparkSession) -> Builder:
    return Builder(spark.sparkContext._jvm)


@pytest.fixture(scope="module")
def plan(spark: SparkSession, builder: Builder) -> Callable[[str], Node]:
    """From SQL to the plan of a view."""
    relations = Relations(spark)
    for collection, schema in SCHEMAS.items():
        relations.add(collection, schema)
    translation = Translation(builder, relations)

    def planned(sql: str) -> Node:
        optimized = spark.sql(sql)._jdf.queryExecution().optimizedPlan()
        return translation.translate(Logical(optimized))

    return planned


def table(collection: GlobalId, changes: list[Update]) -> pa.Table:
    schema = arrow_schema(SCHEMAS[collection])
    columns = [
        pa.array([row[place] for row, _, _ in changes], each.type)
        for place, each in enumerate(schema)
    ]
    columns += [pa.array([change[n] for change in changes], pa.int64()) for n in (1, 2)]
    return pa.table(columns, names=[*schema.names, TIME, DIFF])


def listed(output: pa.Table) -> list[Update]:
    values = zip(*(column.to_pylist() for column in output.columns), strict=True)
    return [(tuple(row), time, diff) for *row, time, diff in values]


def held(changes: list[Update], time: int) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for row, when, diff in changes:
        if when <= time:
            counts[row] += diff
    return Counter({row: count for row, count in counts.items() if count})


@dataclass
class Maintained:
    """A program that is stepped along, with all that its outputs did."""

    dataflow: Dataflow
    outputs: list[list[Update]]
    again: Callable[[int, dict[str, Kept] | None], Dataflow]
    history: dict[GlobalId, list[Update]] = field(default_factory=dict)

    def step(self, upper: int, changes: dict[GlobalId, list[Update]] | None = None) -> None:
        changes = changes or {}
        for collection, more in changes.items():
            self.history.setdefault(collection, []).extend(more)
        deltas = {collection: table(collection, more) for collection, more in changes.items()}
        ticked = self.dataflow.compute(upper, deltas)
        assert ticked.errors.num_rows == 0, ticked.errors.to_pylist()
        for output, found in zip(self.outputs, ticked.outputs, strict=True):
            output += listed(found)
        self.dataflow.commit(upper, ticked)
        self.dataflow.merge()

    def crash(self, upper: int, changes: dict[GlobalId, list[Update]]) -> None:
        """Compute a step, and die before it counts."""
        self.dataflow.compute(upper, {c: table(c, more) for c, more in changes.items()})
        self.restart()

    def restart(self) -> None:
        begun = self.dataflow.has_begun
        kept = self.dataflow.kept_after() if begun else None
        self.dataflow = self.again(self.dataflow.upper, kept)


@pytest.fixture
def maintain(
    spark: SparkSession, builder: Builder, plan: Callable[[str], Node], tmp_path: Path
) -> Callable[..., Maintained]:
    def maintained(*views: str) -> Maintained:
        def opened(upper: int, kept: dict[str, Kept] | None = None) -> Dataflow:
            program = Program()
            for sql in views:
                program.add(plan(sql))
            return Dataflow(spark, builder, program, tmp_path, upper=upper, kept=kept)

        return Maintained(opened(0), [[] for _ in views], opened)

    return maintained


def changes_of(pick: random.Random, live: Counter[Row], window: range, row: Any) -> list[Update]:
    changes: list[Update] = []
    for time in window:
        for _ in range(pick.randrange(3)):
            if live and pick.random() < 0.4:
                gone = pick.choice(list(live))
                changes.append((gone, time, -1))
                live[gone] -= 1
                live += Counter()
            else:
                new = row()
                changes.append((new, time, 1))
                live[new] += 1
    return changes


@pytest.mark.semantics(44)
def test_rows_vanish_by_themselves(maintain: Callable[..., Maintained]) -> None:
    """Every millisecond of two seconds, with input changes in the first 60 ms only."""
    maintained = maintain("SELECT k, v FROM u1 WHERE mz_now() < ts + 1000")
    pick = random.Random(5)
    live: Counter[Row] = Counter()

    def row() -> Row:
        ts = pick.choice([None, pick.randrange(-1100, 700)])
        return (pick.randrange(3), ts, pick.randrange(2))

    for number, upper in enumerate((1, 7, 30, 31, 60)):
        window = range(maintained.dataflow.upper, upper)
        changes = {U1: changes_of(pick, live, window, row)}
        if number == 2:
            maintained.crash(upper, changes)
        maintained.step(upper, changes)
    maintained.restart()
    for upper in (500, 501, 1100, 1700, 1701, 2000):
        maintained.step(upper)
    assert maintained.dataflow.last_due() is None
    [output] = maintained.outputs
    assert max(time for _, time, _ in output) > 1060, "something vanished long after all changes"
    for now in range(2000):
        expected: Counter[Row] = Counter()
        for (k, ts, v), count in held(maintained.history[U1], now).items():
            if ts is not None and now < ts + 1000:
                expected[k, v] += count
        assert held(output, now) == expected, f"at {now}"


VIEWS = {
    "window": "SELECT * FROM u1 WHERE mz_now() BETWEEN ts AND ts + 10 AND v > 0",
    "under a join": (
        "SELECT u1.k, ts, w FROM u1 JOIN u2 ON u1.k = u2.k"
        " WHERE mz_now() >= ts AND mz_now() < ts + w"
    ),
    "in a join condition, on one side": (
        "SELECT u1.k, ts, w FROM u1 LEFT JOIN u2 ON u1.k = u2.k AND mz_now() < ts"
    ),
    "in a join condition, over both sides": (
        "SELECT u1.k, ts, w FROM u1 LEFT JOIN u2 ON u1.k = u2.k AND mz_now() <= ts + w"
    ),
    "instead of a join key": "SELECT u1.k, ts, w FROM u1 JOIN u2 ON ts = mz_now() - w",
    "under an aggregate": (
        "SELECT k, count(*), sum(v), max(ts) FROM u1 WHERE mz_now() - 8 < ts GROUP BY k"
    ),
    "above an aggregate": (
        "SELECT k, max(ts) AS m, count(*) FROM u1 GROUP BY k HAVING max(ts) > mz_now() - 5"
    ),
    "global aggregate over a join": (
        "SELECT count(*), min(w) FROM u1 JOIN u2 ON u1.k = u2.k WHERE mz_now() < ts + 3"
    ),
    "in a subquery": (
        "SELECT k, v FROM u1 WHERE k IN (SELECT k FROM u2 WHERE mz_now() < w * 4)"
        " AND NOT EXISTS (SELECT 1 FROM u2 WHERE u2.k = u1.k AND mz_now() = w + ts)"
    ),
    "against a subquery": "SELECT k, v FROM u1 WHERE mz_now() < (SELECT max(w) FROM u2) * 5",
    "twice": (
        "SELECT k, count(*) FROM (SELECT k, min(ts) AS ts FROM u1 WHERE mz_now() >= ts"
        " GROUP BY k, v) AS g WHERE mz_now() < ts + 6 GROUP BY k"
    ),
    "union": ("SELECT k FROM u1 WHERE mz_now() < ts UNION ALL SELECT k FROM u2 WHERE mz_now() > w"),
    "constant rows": (
        "WITH t(x) AS (VALUES (5), (9), (70))"
        " SELECT x FROM t WHERE mz_now() >= x AND mz_now() < x + 10"
    ),
    "no columns compared": "SELECT k FROM u1 WHERE mz_now() > 10 AND 20 >= mz_now()",
}


class Oracle:
    """The same SQL in SQLite, over the collections at one time."""

    def __init__(self, history: dict[GlobalId, list[Update]]) -> None:
        self._history = history

    def at(self, sql: str, now: int) -> Counter[Row]:
        database = sqlite3.connect(":memory:")
        database.create_function("mz_now", 0, lambda: now)
        for collection in (U1, U2):
            names = SCHEMAS[collection].names
            database.execute(f"CREATE TABLE {collection} ({', '.join(names)})")
            rows = held(self._history[collection], now).elements()
            marks = ", ".join("?" * len(names))
            database.executemany(f"INSERT INTO {collection} VALUES ({marks})", rows)
        found = Counter(database.execute(sql).fetchall())
        database.close()
        return found


@pytest.mark.semantics(44, 112)
def test_temporal_filters_inside_larger_views(maintain: Callable[..., Maintained]) -> None:
    maintained = maintain(*VIEWS.values())
    pick = random.Random(11)
    live: dict[GlobalId, Counter[Row]] = {U1: Counter(), U2: Counter()}

    def small(least: int, most: int) -> int | None:
        return None if pick.random() < 0.1 else pick.randrange(least, most)

    rows = {
        U1: lambda: (small(0, 4), small(-5, 50), small(-2, 3)),
        U2: lambda: (small(0, 4), small(0, 12)),
    }
    for upper in (3, 4, 15, 22, 40):
        window = range(maintained.dataflow.upper, upper)
        changes = {c: changes_of(pick, live[c], window, rows[c]) for c in (U1, U2)}
        if upper == 15:
            maintained.crash(upper, changes)
        maintained.step(upper, changes)
    maintained.restart()
    for upper in (41, 55, 90):
        maintained.step(upper)
    oracle = Oracle(maintained.history)
    for (name, sql), output in zip(VIEWS.items(), maintained.outputs, strict=True):
        for now in range(90):
            assert held(output, now) == oracle.at(sql, now), f"{name} at {now}"


FORMS = [
    "mz_now() < ts",
    "mz_now() <= ts",
    "mz_now() > ts",
    "mz_now() >= ts",
    "mz_now() = ts",
    "mz_now() <=> ts",
    "NOT mz_now() < ts",
    "ts + 3 > mz_now() + v",
    "ts - mz_now() >= v",
    "-mz_now() < -ts",
    "mz_now() < i",
    "mz_now() + i <= ts",
    "mz_now() BETWEEN ts AND ts + 7",
    "ts BETWEEN mz_now() - 7 AND mz_now() + 2",
    "mz_now() < 20 AND mz_now() > 10.5",
    "mz_now() < d",
    "mz_now() <= d",
    "mz_now() > d",
    "mz_now() >= d",
    "mz_now() = d",
    "mz_now() + 0.25 < d",
    "mz_now() - v <= d AND mz_now() > d - 1.5",
    "mz_now() < wide",
    "mz_now() - v > wide",
    "mz_now() < fine",
    "mz_now() - 5 >= fine",
    "cast(mz_now() AS decimal(38, 10)) = fine",
    "timestamp_millis(mz_now()) < at",
    "timestamp_millis(mz_now()) <= at",
    "timestamp_millis(mz_now()) > at",
    "timestamp_millis(mz_now()) >= at",
    "timestamp_millis(mz_now()) = at",
    "timestamp_millis(mz_now() - 3) < at + INTERVAL '2' SECOND",
    "timestamp_millis(mz_now()) - INTERVAL '1 00:00:01.5' DAY TO SECOND <= at",
    "timestamp_millis(mz_now()) < local",
    "cast(timestamp_millis(mz_now()) AS timestamp_ntz) - INTERVAL '3' MINUTE > local",
    "timestamp_millis(mz_now()) >= day",
    "timestamp_micros(mz_now()) > at",
    "timestamp_seconds(mz_now()) <= at",
    "cast(mz_now() AS timestamp) < at",
    "cast(timestamp_millis(mz_now()) AS date) < day",
    "cast(timestamp_millis(mz_now()) AS date) <= day",
    "cast(timestamp_millis(mz_now()) AS date) > day",
    "cast(timestamp_millis(mz_now()) AS date) >= day",
    "cast(timestamp_millis(mz_now()) AS date) = day",
    "date_add(cast(timestamp_millis(mz_now()) AS date), 1) = day",
    "cast(timestamp_millis(mz_now() + 500) AS date) - 1 < day",
]
DAY = 86_400_000


def a_row(pick: random.Random, k: int) -> Row:
    start = datetime.datetime(1970, 1, 1)

    def moment() -> datetime.datetime:
        micros = pick.choice([pick.randrange(60_000), pick.randrange(3 * DAY * 1000)])
        return start + datetime.timedelta(microseconds=pick.choice([micros, micros // 1000 * 1000]))

    row = (
        pick.randrange(-3, 40),
        pick.randrange(-3, 9),
        pick.randrange(-3, 40),
        Decimal(pick.choice([pick.randrange(-2000, 40_000), pick.randrange(40) * 1000])) / 1000,
        pick.choice([Decimal(pick.randrange(40)), Decimal(10) ** 37, -(Decimal(10) ** 37)]),
        Decimal(pick.choice(["12", "12.000000000000000001", "11.999999999999999999", "-1"])),
        moment().replace(tzinfo=datetime.UTC),
        moment(),
        start.date() + datetime.timedelta(days=pick.randrange(-1, 4)),
    )
    return (k, *(None if pick.random() < 0.1 else value for value in row))


def truths(
    spark: SparkSession, rows: list[Row], times: list[int]
) -> Iterator[tuple[int, int, tuple[bool, ...]]]:
    """For each time and row, by Catalyst from scratch, which of the forms are true."""
    spark.createDataFrame(rows, SCHEMAS[U3]).createOrReplaceTempView("now_rows")
    spark.createDataFrame([(t,) for t in times], "now long").createOrReplaceTempView("now_times")
    asked = ", ".join(
        f"coalesce({form.replace('mz_now()', 'now')}, false) AS c{n}"
        for n, form in enumerate(FORMS)
    )
    for now, k, *found in spark.sql(f"SELECT now, k, {asked} FROM now_rows, now_times").collect():
        yield now, k, tuple(found)


@pytest.mark.semantics(44)
def test_every_form_of_comparison(spark: SparkSession, maintain: Callable[..., Maintained]) -> None:
    """At each of the first 60 ms, and around every time at which any row comes or goes."""
    maintained = maintain(*(f"SELECT k FROM u3 WHERE {form}" for form in FORMS))
    pick = random.Random(3)
    rows = [a_row(pick, k) for k in range(30)]
    maintained.step(1, {U3: [(row, 0, 1) for row in rows[:20]]})
    maintained.step(20, {U3: [(row, 1, 1) for row in rows[20:]]})
    for upper in (60, DAY, 5 * DAY):
        maintained.step(upper)
    changed = {time for output in maintained.outputs for _, time, _ in output}
    near = {time + by for time in changed for by in (-1, 0, 1)} | {*range(60), DAY, 5 * DAY - 1}
    expected: dict[tuple[int, int], Counter[Row]] = {}
    for now, k, found in truths(spark, rows, sorted(t for t in near if t >= 1)):
        for form, holds in enumerate(found):
            counts = expected.setdefault((form, now), Counter())
            if holds:
                counts[k,] += 1
    assert len({now for _, now in expected}) > 100
    for (form, now), counts in expected.items():
        assert held(maintained.outputs[form], now) == counts, f"{FORMS[form]} at {now}"


def test_bounds_beyond_all_times_are_never_reached(maintain: Callable[..., Maintained]) -> None:
    maintained = maintain(
        "SELECT k FROM u1 WHERE mz_now() <= ts",
        "SELECT k FROM u1 WHERE mz_now() > ts",
        "SELECT k FROM u1 WHERE mz_now() - v <= ts",
        "SELECT k FROM u1 WHERE ts < mz_now() - v",
        "SELECT k FROM u1 WHERE ts - v > mz_now()",
    )
    last, first = 2**63 - 1, -(2**63)
    maintained.step(5, {U1: [((1, last, 0), 0, 1), ((2, first, 0), 0, 1), ((3, last, last), 0, 1)]})
    maintained.step(10**15)
    assert [held(output, 10**14) for output in maintained.outputs] == [
        Counter({(1,): 1, (3,): 1}),
        Counter({(2,): 1}),
        Counter({(1,): 1, (3,): 1}),
        Counter({(2,): 1}),
        Counter({(1,): 1}),
    ]
    assert maintained.dataflow.last_due() is None


def test_what_is_due_is_known_without_a_job(
    maintain: Callable[..., Maintained], monkeypatch: pytest.MonkeyPatch
) -> None:
    maintained = maintain(
        "SELECT k, count(*) FROM u1 WHERE mz_now() < ts GROUP BY k",
        "SELECT DISTINCT k FROM u1",
    )
    rows: list[Update] = [((1, 100, 0), 2, 1), ((2, 5000, 0), 2, 1), ((3, 300, 0), 2, 1)]
    maintained.step(10, {U1: rows})
    maintained.step(11, {U1: [((3, 300, 0), 10, -1)]})

    def no_job(*_: object) -> None:
        raise AssertionError("a job was run")

    def due(*uppers: int) -> list[bool]:
        with monkeypatch.context() as patched:
            patched.setattr(maintained.dataflow._job, "run", no_job)
            return [maintained.dataflow.due_before(upper) for upper in uppers]

    assert due(0, 11, 100, 101, 5000) == [False, False, False, True, True]
    assert maintained.dataflow.last_due() == 5000
    maintained.step(101)
    assert due(300, 301, 5000, 5001) == [False, False, False, True], "the row of 300 was retracted"
    maintained.restart()
    assert due(300, 5000, 5001) == [False, False, True]
    maintained.step(6000)
    assert due(2**62) == [False]
    assert maintained.dataflow.last_due() is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT mz_now() AS t, k FROM u1",
        "SELECT k FROM (SELECT mz_now() AS t, * FROM u1) WHERE t < ts",
        "SELECT k, mz_now() < ts FROM u1",
        "SELECT k FROM u1 WHERE mz_now() < ts OR v > 3",
        "SELECT k FROM u1 WHERE mz_now() <> ts",
        "SELECT k FROM u1 WHERE mz_now() IN (ts, v)",
        "SELECT k FROM u1 WHERE mz_now() < mz_now() + ts",
        "SELECT k FROM u1 WHERE mz_now() * 2 < ts",
        "SELECT k FROM u1 WHERE mz_now() / 1000 < ts",
        "SELECT k FROM u1 WHERE cast(mz_now() AS double) < ts",
        "SELECT k FROM u1 WHERE cast(mz_now() AS int) < ts",
        "SELECT k FROM u1 WHERE cast(mz_now() AS string) < 'x'",
        "SELECT k FROM u3 WHERE timestamp_millis(mz_now()) - INTERVAL '1' MONTH < at",
        "SELECT k FROM u3 WHERE date_trunc('day', timestamp_millis(mz_now())) < at",
        "SELECT k, sum(mz_now() - ts) FROM u1 GROUP BY k",
        "SELECT k, count(*) FILTER (WHERE mz_now() < ts) FROM u1 GROUP BY k",
        "SELECT count(*) FROM u1 GROUP BY mz_now() - ts",
        "SELECT k, row_number() OVER (ORDER BY ts - mz_now()) FROM u1",
        "SELECT k FROM u1 ORDER BY ts - mz_now() LIMIT 1",
        "SELECT u1.k FROM u1 LEFT JOIN u2 ON u1.k = u2.k AND (mz_now() < ts OR w > 3)",
        "SELECT k, explode(sequence(mz_now(), ts)) FROM u1",
    ],
)
def test_other_uses_are_refused_with_those_that_are_not(
    plan: Callable[[str], Node], sql: str
) -> None:
    with pytest.raises(NotMaintainable, match=r"mz_now\(\)") as refused:
        plan(sql)
    assert "mz_now()" in (refused.value.detail or "")
    assert "BETWEEN" in (refused.value.hint or "")


def test_the_optimizer_does_not_look_into_it(
    spark: SparkSession, plan: Callable[[str], Node]
) -> None:
    """Constant rows are not filtered early, and an outer join stays one unless it is null-proof."""
    rows = plan("SELECT x FROM VALUES (1L), (5L) AS t(x) WHERE mz_now() < x")
    assert any(isinstance(node, Temporal) for node in walk(rows))
    outer = "SELECT u1.k FROM u1 LEFT JOIN u2 ON u1.k = u2.k WHERE mz_now() {} coalesce(w, 3)"
    for operator in ("<", ">="):
        optimized = spark.sql(outer.format(operator))._jdf.queryExecution().optimizedPlan()
        assert "LeftOuter" in optimized.toString()


def test_other_conditions_come_first(maintain: Callable[..., Maintained]) -> None:
    """A bound is not computed for a row that another condition leaves out."""
    maintained = maintain("SELECT k FROM u1 WHERE v <> 0 AND mz_now() < ts DIV v")
    maintained.step(5, {U1: [((1, 60, 2), 0, 1), ((2, 60, 0), 0, 1)]})
    maintained.step(50)
    assert [held(maintained.outputs[0], now) for now in (29, 30)] == [Counter({(1,): 1}), Counter()]


EVENTS, RECENT, ERRORS = map(GlobalId.user, (11, 12, 13))
EVENT = Schema((Column("id", Int(64)), Column("ts", Int(64))))


@pytest.mark.semantics(41, 75)
def test_a_view_over_storage_that_time_alone_changes(tmp_path: Path, spark: SparkSession) -> None:
    server = Server(tmp_path, spark)
    storage = server.storage
    source, events = storage.create(EVENTS, Description(EVENT))
    rows = [((1, 10), 5, 1), ((2, 30), 6, 1), ((3, 400), 6, 1)]
    [events] = storage.append(Write(events, updates(EVENT, rows), at(8)))
    created, output = storage.create(RECENT, Description(EVENT))
    _, errors = storage.create(ERRORS, Description(ERROR_ROWS))
    sql = f"SELECT * FROM {EVENTS} WHERE mz_now() < ts + 100"
    view = View({EVENTS: EVENT}, (Result(sql, EVENT),))
    [read] = server.compute.maintain_view([source], view, [output], errors)
    storage.drop_capability(created)
    assert server.compute.tick()
    [events] = storage.append(Write(events, None, at(120)))
    assert server.compute.tick()
    assert contents(storage, read, 109) == Counter({(1, 10): 1, (2, 30): 1, (3, 400): 1})
    assert contents(storage, read, 110) == Counter({(2, 30): 1, (3, 400): 1})
    server.restart()
    storage = server.storage
    [events] = storage.append(Write(events, None, at(200)))
    assert server.compute.tick()
    assert contents(storage, read, 130) == Counter({(3, 400): 1})
    storage.append(Write(events, None, EPOCH_MILLIS.empty()))
    assert server.compute.tick()
    assert contents(storage, read, 499) == Counter({(3, 400): 1})
    assert contents(storage, read, 500) == Counter()
    messages = list(storage.subscribe_at(read, as_of=at(500), snapshot=False))
    assert messages == [Progress(EPOCH_MILLIS.empty())]
    server.restart()
    assert not server.compute.tick()
    server.stop()
