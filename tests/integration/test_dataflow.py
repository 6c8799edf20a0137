"""Views maintained on Spark against the same SQL evaluated from scratch, at every single time."""

from __future__ import annotations

import datetime
import decimal
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType, DecimalType, LongType, StringType, StructType

from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.catalyst.types import arrow_schema
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.nodes import Node
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.model.ids import GlobalId
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.from_scratch import FromScratch, Wrong, evaluated

pytestmark = pytest.mark.slow

U1, U2 = GlobalId.user(1), GlobalId.user(2)
SCHEMAS = {
    U1: StructType()
    .add("k", LongType())
    .add("v", LongType())
    .add("s", StringType())
    .add("d", DateType()),
    U2: StructType().add("k", LongType()).add("w", DecimalType(10, 2)).add("t", StringType()),
}
Row = tuple[Any, ...]
Updates = list[tuple[Row, int, int]]

VIEWS = {
    "projection and filter": "SELECT k, v * 2 AS w FROM u1 WHERE v > 3",
    "lazy filter": "SELECT k, 10 DIV v AS q FROM u1 WHERE v <> 0",
    "constant rows": "SELECT 1 AS one, k FROM u1 UNION ALL VALUES (7, 8L)",
    "inner join": "SELECT u1.k, v, w FROM u1 JOIN u2 ON u1.k = u2.k",
    "cross join": "SELECT v, w FROM u1 CROSS JOIN u2",
    "self join, null-safe": ("SELECT a.k, b.v FROM u1 a JOIN u1 b ON a.v = b.k AND a.s <=> b.s"),
    "one column in two keys": (
        "SELECT a.k, a.v FROM u1 a JOIN u1 b ON a.v = b.k AND a.k <=> b.k AND a.k = b.v"
    ),
    "join and aggregate": (
        "SELECT u1.k, sum(w * v), count(*) FROM u1 JOIN u2 ON u1.k = u2.k AND u1.v < u2.w"
        " GROUP BY u1.k"
    ),
    "left join": "SELECT u1.k, w, s FROM u1 LEFT JOIN u2 ON u1.k = u2.k",
    "right join": "SELECT u1.k, w, s FROM u1 RIGHT JOIN u2 ON u1.k = u2.k AND s = t",
    "full join with a residual": (
        "SELECT u1.k, w, s FROM u1 FULL JOIN u2 ON u1.k = u2.k AND v < w"
    ),
    "in": "SELECT * FROM u1 WHERE k IN (SELECT k FROM u2)",
    "not in, with nulls": "SELECT k, v FROM u1 WHERE k NOT IN (SELECT k FROM u2 WHERE w > 6)",
    "not exists": (
        "SELECT * FROM u1 WHERE NOT EXISTS (SELECT 1 FROM u2 WHERE u1.k = u2.k AND u2.w > u1.v)"
    ),
    "exists under or": (
        "SELECT k, EXISTS (SELECT 1 FROM u2 WHERE u2.k = u1.k) OR v > 3 AS e FROM u1"
    ),
    "scalar subquery": "SELECT * FROM u1 WHERE v > (SELECT avg(w) FROM u2)",
    "correlated subquery": (
        "SELECT k, v FROM u1 WHERE v > (SELECT avg(w) FROM u2 WHERE u2.k = u1.k)"
    ),
    "every aggregate with a kernel": (
        "SELECT s, count(*), count(v), sum(v), avg(v), min(d), max(v), min(v),"
        " count(DISTINCT k), sum(DISTINCT v) FROM u1 GROUP BY s"
    ),
    "aggregates of what looks alike": (
        f"SELECT s, sum(greatest({'v, ' * 26}1L)), sum(greatest({'v, ' * 26}5L)),"
        f" min(greatest({'v, ' * 26}2L)), min(greatest({'v, ' * 26}3L)) FROM u1 GROUP BY s"
    ),
    "decimals": "SELECT t, sum(w), avg(w), max(w) FROM u2 GROUP BY t",
    "global aggregate": "SELECT count(*), sum(v), min(s) FROM u1 WHERE v > 2",
    "filter and having": (
        "SELECT s, max(v) FILTER (WHERE k > 1), count(*) FILTER (WHERE d IS NULL) FROM u1"
        " GROUP BY s HAVING count(*) > 1"
    ),
    "rollup, several distinct": (
        "SELECT k, s, count(DISTINCT v), count(DISTINCT d) FROM u1 GROUP BY ROLLUP (k, s)"
    ),
    "grouping by an expression": "SELECT upper(s), avg(v) + 1 FROM u1 GROUP BY upper(s)",
    "distinct": "SELECT DISTINCT k, s FROM u1",
    "union": "SELECT k FROM u1 UNION SELECT k FROM u2",
    "intersect": "SELECT k FROM u1 INTERSECT SELECT k FROM u2",
    "except": "SELECT k, s FROM u1 EXCEPT SELECT k, t FROM u2",
    "top rows": "SELECT k, v, s FROM u1 ORDER BY v DESC, k, s, d LIMIT 3 OFFSET 1",
    "window functions": (
        "SELECT k, v, s, rank() OVER (PARTITION BY s ORDER BY v),"
        " sum(v) OVER (PARTITION BY s ORDER BY v, k, d),"
        " row_number() OVER (PARTITION BY s ORDER BY v DESC, k, d) FROM u1"
    ),
    "window without groups": "SELECT k, v, dense_rank() OVER (ORDER BY v) FROM u1",
    "windows over two partitionings": (
        "SELECT k, v, count(*) OVER (PARTITION BY s), max(v) OVER (PARTITION BY k) FROM u1"
    ),
    "aggregates without a kernel": (
        "SELECT s, sum(CAST(v AS DOUBLE)), sort_array(collect_set(k)), percentile(v, 0.5),"
        " count(*), max_by(k, v) FILTER (WHERE v IS NOT NULL AND k IS NULL), sum(v) FROM u1"
        " GROUP BY s"
    ),
    "global aggregates without a kernel": (
        "SELECT stddev(CAST(v AS DOUBLE)), sort_array(collect_list(k)), count(*) + 1 FROM u1"
        " WHERE v > 6"
    ),
    "sums and comparisons": (
        "SELECT s, sum(v * 2 + k - 1), count(*) FROM u1 JOIN u2 USING (k)"
        " WHERE (v + 1 > 2 OR s = 'b' OR v IS NULL) AND NOT (t <= s AND v >= k) GROUP BY s"
    ),
    "explode": "SELECT k, e FROM u1 LATERAL VIEW explode(sequence(1, v)) t AS e WHERE v > 0",
    "explode, outer, twice": (
        "SELECT k, e, p, f FROM u1 LATERAL VIEW OUTER explode(split(s, 'x')) t AS e"
        " LATERAL VIEW posexplode(array(v, k, 3L)) r AS p, f WHERE f IS NOT NULL AND e <> 'b'"
    ),
    "inline and stack": (
        "SELECT k, a, b, c FROM u1 LATERAL VIEW"
        " inline(array(named_struct('a', v, 'b', s), named_struct('a', k, 'b', s))) t"
        " AS a, b LATERAL VIEW stack(2, 'one', 'two') r AS c"
    ),
    "explode a map": "SELECT explode(map('a', v, 'b', k)) FROM u1",
    "aggregate over a join of aggregates": (
        "WITH a AS (SELECT k, sum(v) AS x FROM u1 GROUP BY k)"
        " SELECT a.k, x, w FROM a JOIN u2 USING (k) WHERE x > (SELECT avg(x) FROM a)"
    ),
}


@pytest.fixture(scope="module")
def builder(spark: SparkSession) -> Builder:
    return Builder(spark.sparkContext._jvm)


@pytest.fixture(scope="module")
def translation(spark: SparkSession, builder: Builder) -> Translation:
    relations = Relations(spark)
    for collection, schema in SCHEMAS.items():
        relations.add(collection, schema)
    return Translation(builder, relations)


@pytest.fixture(scope="module")
def scratch(spark: SparkSession) -> FromScratch:
    return FromScratch(spark)


def planned(spark: SparkSession, translation: Translation, sql: str) -> Node:
    optimized = spark.sql(sql)._jdf.queryExecution().optimizedPlan()
    return translation.translate(Logical(optimized))


class History:
    """Random changes of both inputs, in steps that span several times."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._live: dict[GlobalId, Counter[Row]] = {U1: Counter(), U2: Counter()}
        self.updates: dict[GlobalId, Updates] = {U1: [], U2: []}

    def step(self, lower: int, upper: int) -> dict[GlobalId, pa.Table]:
        return {
            collection: _table(collection, self._changes(collection, lower, upper))
            for collection in SCHEMAS
        }

    def _changes(self, collection: GlobalId, lower: int, upper: int) -> Updates:
        live, changes = self._live[collection], []
        for time in range(lower, upper):
            for _ in range(self._random.randrange(6)):
                if live and self._random.random() < 0.4:
                    row = self._random.choice(list(live))
                    changes.append((row, time, -1))
                    live[row] -= 1
                    live += Counter()
                else:
                    row = self._row(collection)
                    changes.append((row, time, 1))
                    live[row] += 1
        self.updates[collection] += changes
        return changes

    def _row(self, collection: GlobalId) -> Row:
        pick = self._random
        first: list[Any] = [pick.randrange(5)]
        if collection == U1:
            day = datetime.date(2020, 1, pick.randrange(1, 5))
            first += [pick.randrange(-3, 8), pick.choice("abx"), day]
        else:
            first += [decimal.Decimal(pick.randrange(-500, 900)) / 100, pick.choice("abx")]
        return tuple(None if pick.random() < 0.15 else value for value in first)

    def at(self, collection: GlobalId, time: int) -> list[Row]:
        counts: Counter[Row] = Counter()
        for row, when, diff in self.updates[collection]:
            if when <= time:
                counts[row] += diff
        return list(counts.elements())


def _table(collection: GlobalId, changes: Updates) -> pa.Table:
    schema = arrow_schema(SCHEMAS[collection])
    columns = [
        pa.array([row[place] for row, _, _ in changes], field.type)
        for place, field in enumerate(schema)
    ]
    columns += [pa.array([t for _, t, _ in changes], pa.int64())]
    columns += [pa.array([d for _, _, d in changes], pa.int64())]
    return pa.table(columns, names=[*schema.names, TIME, DIFF])


def _comparable(row: Row) -> Row:
    """Numbers by how they print, so that scale and sign count too."""
    return tuple(str(v) if isinstance(v, float | decimal.Decimal | list) else v for v in row)


def accumulated(outputs: list[pa.Table], time: int) -> Counter[Row]:
    counts: Counter[Row] = Counter()
    for table in outputs:
        for *row, when, diff in zip(*(c.to_pylist() for c in table.columns), strict=True):
            if when <= time:
                counts[_comparable(tuple(row))] += diff
    return Counter({row: count for row, count in counts.items() if count})


def from_scratch(
    scratch: FromScratch, sql: str, history: History, times: Iterable[int]
) -> dict[int, Counter[Row]]:
    """What Spark gives for the inputs at each of the times."""
    frames = {}
    for time in times:
        for collection, schema in SCHEMAS.items():
            scratch.put(str(collection), schema, history.at(collection, time))
        frames[time] = scratch.query(sql)
    found = {}
    for time, answer in evaluated(frames).items():
        assert not isinstance(answer, Wrong), f"at {time}: {answer.reason}"
        rows = zip(*(column.to_pylist() for column in answer.columns), strict=True)
        found[time] = Counter(map(_comparable, rows))
    return found


@pytest.mark.semantics(44, 112)
@pytest.mark.parametrize("name", VIEWS)
def test_a_maintained_view_is_its_sql_at_every_time(
    name: str,
    spark: SparkSession,
    builder: Builder,
    translation: Translation,
    scratch: FromScratch,
    tmp_path: Path,
) -> None:
    sql = VIEWS[name]
    choose = random.Random(name)
    history = History(choose.randrange(2**32))
    program = Program()
    program.add(planned(spark, translation, sql))
    dataflow = Dataflow(spark, builder, program, tmp_path)
    outputs: list[pa.Table] = []
    for step in range(4):
        lower, upper = dataflow.upper, dataflow.upper + choose.randrange(1, 4)
        deltas = history.step(lower, upper)
        if step == 2:  # a crash after computing: the step is lost, and done again
            dataflow.compute(upper, deltas)
            kept = dataflow.kept_after()
            dataflow = Dataflow(spark, builder, program, tmp_path, upper=lower, kept=kept)
        ticked = dataflow.compute(upper, deltas)
        assert ticked.errors.num_rows == 0
        outputs += ticked.outputs
        dataflow.commit(upper, ticked)
        dataflow.merge()
    for time, expected in from_scratch(scratch, sql, history, range(dataflow.upper)).items():
        assert accumulated(outputs, time) == expected, f"at {time}"


WIDE = (
    "join and aggregate",
    "full join with a residual",
    "not in, with nulls",
    "every aggregate with a kernel",
    "window functions",
    "global aggregates without a kernel",
    "explode, outer, twice",
    "sums and comparisons",
    "top rows",
    "constant rows",
)


@pytest.mark.semantics(44)
def test_a_step_that_is_spread_over_tasks_gives_the_same(
    spark: SparkSession,
    builder: Builder,
    translation: Translation,
    scratch: FromScratch,
    tmp_path: Path,
) -> None:
    """Steps in one task, in many and in more take turns over the same state, for all views."""
    history = History(11)
    program = Program()
    for number, name in enumerate(WIDE):
        program.add(planned(spark, translation, VIEWS[name]), f"v{number}")
    outputs: list[list[pa.Table]] = [[] for _ in WIDE]
    upper, kept = 0, None
    for wide_rows, spread in ((0, 1), (None, 1), (10**9, 1), (0, 4)):
        if wide_rows is not None:  # else the same job once more
            dataflow = Dataflow(
                spark, builder, program, tmp_path, upper=upper, kept=kept, wide_rows=wide_rows
            )
        deltas = history.step(upper, upper + 3)
        ticked = dataflow.compute(upper + 3, deltas, spread=spread)
        assert ticked.errors.num_rows == 0
        upper += 3
        dataflow.commit(upper, ticked)
        dataflow.merge()
        kept = dataflow.kept_after()
        for gathered, table in zip(outputs, ticked.outputs, strict=True):
            gathered.append(table)
    for name, gathered in zip(WIDE, outputs, strict=True):
        expectations = from_scratch(scratch, VIEWS[name], history, (2, 4, 5, 8, 11))
        for time, expected in expectations.items():
            assert accumulated(gathered, time) == expected, f"{name} at {time}"


def test_views_share_what_they_have_in_common(
    spark: SparkSession,
    builder: Builder,
    translation: Translation,
    scratch: FromScratch,
    tmp_path: Path,
) -> None:
    """Several outputs in one program: one job, and an operator they share exists once."""
    joined = planned(spark, translation, VIEWS["inner join"])
    program = Program()
    program.add(joined)
    program.add(joined)
    program.add(planned(spark, translation, VIEWS["distinct"]))
    assert len(program.operators) == 2
    assert program.levels == 0, "what needs nothing from Catalyst runs where the inputs are read"
    assert program.spread().levels == 1
    history = History(7)
    dataflow = Dataflow(spark, builder, program, tmp_path)
    ticked = dataflow.compute(5, history.step(0, 5))
    first, second, third = ticked.outputs
    assert accumulated([first], 4) == accumulated([second], 4)
    for output, name in ((first, "inner join"), (third, "distinct")):
        assert {4: accumulated([output], 4)} == from_scratch(scratch, VIEWS[name], history, [4])


@pytest.mark.semantics(45)
def test_errors_of_a_group_are_data_and_heal(
    spark: SparkSession, builder: Builder, translation: Translation, tmp_path: Path
) -> None:
    program = Program()
    program.add(planned(spark, translation, "SELECT s, sum(v) FROM u1 GROUP BY s"))
    dataflow = Dataflow(spark, builder, program, tmp_path)
    huge = 2**63 - 1
    changes: Updates = [
        ((1, huge, "a", None), 0, 1),
        ((2, huge, "a", None), 1, 1),
        ((2, huge, "a", None), 2, -1),
    ]
    ticked = dataflow.compute(3, {U1: _table(U1, changes)})
    errors = ticked.errors.to_pylist()
    assert sorted((e[TIME], e[DIFF]) for e in errors) == [(1, 1), (2, -1)]
    assert accumulated(list(ticked.outputs), 0) == Counter({("a", huge): 1})
    assert accumulated(list(ticked.outputs), 1) == Counter()
    assert accumulated(list(ticked.outputs), 2) == Counter({("a", huge): 1})


@pytest.mark.semantics(45)
def test_rows_that_can_not_be_computed_are_data_and_heal(
    spark: SparkSession, builder: Builder, translation: Translation, tmp_path: Path
) -> None:
    program = Program()
    program.add(planned(spark, translation, "SELECT k, 10 DIV v AS q FROM u1 WHERE k > 0"))
    program.add(planned(spark, translation, "SELECT CAST(s AS BIGINT) + v FROM u1"))
    dataflow = Dataflow(spark, builder, program, tmp_path)
    changes: Updates = [
        ((1, 5, "7", None), 0, 1),
        ((2, 0, "8", None), 1, 1),
        ((0, 0, "9", None), 1, 1),
        ((2, 0, "8", None), 2, -1),
        ((3, 2**63 - 1, "1", None), 3, 1),
        ((4, 1, "x", None), 4, 1),
    ]
    ticked = dataflow.compute(6, {U1: _table(U1, changes)})
    errors = {(e["message"], e[TIME], e[DIFF]) for e in ticked.errors.to_pylist()}
    assert {(m[:5], t, d) for m, t, d in errors} == {
        ("22012", 1, 1),
        ("22012", 2, -1),
        ("22003", 3, 1),
        ("22P02", 4, 1),
    }
    assert any(message == "22012 division by zero" for message, _, _ in errors)
    first, second = ticked.outputs
    assert accumulated([first], 1) == Counter({(1, 2): 1})
    assert accumulated([first], 5) == Counter({(1, 2): 1, (3, 0): 1, (4, 10): 1})
    assert accumulated([second], 5) == Counter({(12,): 1, (9,): 1})


@pytest.mark.semantics(45)
@pytest.mark.parametrize(
    ("computed", "bad", "two", "five"),
    [("10 DIV b.v", 0, 5, 2), ("b.v * 2 - 1", 2**62, 3, 9), ("b.v + 1", 2**63 - 1, 3, 6)],
)
def test_an_error_of_work_that_was_spread_heals_in_one_task(
    computed: str,
    bad: int,
    two: int,
    five: int,
    spark: SparkSession,
    builder: Builder,
    translation: Translation,
    tmp_path: Path,
) -> None:
    """An error tells of the columns that are read, whoever finds it and whatever else there is.

    What Python computes itself where rows are many, Catalyst computes if it does not fit.
    """
    program = Program()
    sql = f"SELECT a.s, count(*), sum({computed}) FROM u1 a JOIN u1 b ON a.k = b.k GROUP BY a.s"
    program.add(planned(spark, translation, sql))
    rows = [((1, bad, "a", None), 1), ((1, 2, "b", None), 1), ((2, 5, "a", None), 1)]
    kept, outputs, errors = None, [], []
    steps = ((0, rows), (10**9, [(rows[0][0], -1)]), (0, rows[:1]))
    for upper, (wide_rows, changes) in enumerate(steps):
        dataflow = Dataflow(
            spark, builder, program, tmp_path, upper=upper, kept=kept, wide_rows=wide_rows
        )
        delta = _table(U1, [(row, upper, diff) for row, diff in changes])
        ticked = dataflow.compute(upper + 1, {U1: delta})
        dataflow.commit(upper + 1, ticked)
        kept = dataflow.kept_after()
        outputs += ticked.outputs
        errors.append(Counter({e["key"]: e[DIFF] for e in ticked.errors.to_pylist()}))
    first, healed, again = errors
    assert first.total() == 2  # its own row and the one beside it meet the bad one
    assert healed == Counter({key: -count for key, count in first.items()})
    assert again == first
    assert accumulated(outputs, 0) == Counter({("a", 2, two + five): 1, ("b", 1, two): 1})
    assert accumulated(outputs, 1) == Counter({("a", 1, five): 1, ("b", 1, two): 1})
    assert accumulated(outputs, 2) == accumulated(outputs, 0)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT json_tuple(s, 'a') FROM u1", "json_tuple"),
        (
            "WITH RECURSIVE r AS (SELECT k FROM u1 UNION ALL SELECT k + 1 FROM r WHERE k < 9)"
            " SELECT k FROM r",
            "recursive queries",
        ),
    ],
)
def test_what_can_not_be_maintained_yet_is_refused_by_name(
    sql: str,
    reason: str,
    spark: SparkSession,
    builder: Builder,
    translation: Translation,
    tmp_path: Path,
) -> None:
    def maintain() -> None:
        program = Program()
        program.add(planned(spark, translation, sql))
        Dataflow(spark, builder, program, tmp_path)

    with pytest.raises(NotMaintainable, match=reason):
        maintain()
