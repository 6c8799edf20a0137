"""Our side: calls are bound, and run by the engine over all rows in one job.

Each call is computed under `TryEval`, so that a row that fails gives null in place of its struct.
Such rows, and only they, are computed again one by one in the engine's driver, to learn which
error it was; that takes no job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute.catalyst.trees import Builder, Expression, Logical, items
from waterclock.compute.faults import ENGINE_ERRORS, fault_of
from waterclock.compute.spark import with_meaning
from waterclock.errors import WaterclockError
from waterclock.model.pg_types import PgType, column_type
from waterclock.persist.rows import arrow_type
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.text_out import encode_text
from waterclock.pgwire.values.zones import UTC_ZONE, zone_named
from waterclock.sql.binding import BoundQuery, bind_query
from waterclock.sql.types import parse_type_name
from waterclock.testing.brief_spark import TINY
from waterclock.testing.relations import KnownRelations, session_facts
from waterclock.testing.sql_oracle.arguments import Row
from waterclock.testing.sql_oracle.oracle import Outcome
from waterclock.testing.sql_oracle.telling import Telling


def tuned(spark: SparkSession) -> SparkSession:
    """A session for many small queries, of whose errors PySpark gives no account in the log."""
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    session = with_meaning(spark.newSession())
    for name, value in TINY.items():
        session.conf.set(name, value)
    return session


def _without_optimizer(spark: SparkSession) -> SparkSession:
    """A session like it that runs plans as they are, since they have been optimised."""
    session = tuned(spark)
    batches = spark._jsparkSession.sessionState().optimizer().defaultBatches()
    rules = [rule.ruleName() for batch in items(batches) for rule in items(batch.rules())]
    session.conf.set("spark.sql.optimizer.excludedRules", ",".join(dict.fromkeys(rules)))
    return session


SOME_ERROR = "!"
"""An error of which nobody has asked which one it is."""
_TOLD = 4
"""Of how many rows of a call that is asked: it takes some milliseconds each."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A call that is not supported, or wrong, whatever the rows."""

    sqlstate: str
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gives on each row, and its type. `tell` says which error a row gives."""

    outcomes: Mapping[int, Outcome]
    type: PgType
    tell: Callable[[int], Outcome]


class Engine:
    """A Spark session with relations of arguments."""

    def __init__(self, spark: SparkSession, timezone: str = "UTC") -> None:
        self._spark = spark
        self._as_it_is = _without_optimizer(spark)
        self._builder = Builder(spark.sparkContext._jvm)
        self._telling = Telling(spark)
        self._zone = zone_named(timezone)
        self._facts = session_facts(timezone)
        self._declared: dict[str, dict[str, str]] = {}
        self._relations: KnownRelations | None = None
        """What is declared, as the binder asks for it; made anew when something was declared."""

    def create(self, name: str, types: Sequence[str], rows: Sequence[Row]) -> None:
        """A relation of arguments, as `Oracle.create` makes it."""
        self.create_named(name, {f"a{n}": kind for n, kind in enumerate(types)}, rows)

    def create_named(self, name: str, types: Mapping[str, str], rows: Sequence[Row]) -> None:
        """A relation, which may take the place of one with the same name."""
        kinds = [parse_type_name(each) for each in types.values()]
        columns = [pa.array(range(len(rows)), pa.int32())]
        columns += [
            decode_text(pa.array([row[n] for row in rows], pa.string()), kind, UTC_ZONE)
            for n, kind in enumerate(kinds)
        ]
        data = pa.Table.from_arrays(columns, names=["id", *types])
        self._declared[name] = {"id": "int", **types}
        self._relations = None
        frame = self._spark.createDataFrame(data, from_arrow_schema(data.schema))
        frame.createOrReplaceTempView(f"u{[*self._declared].index(name) + 1}")

    def bind(self, query: str) -> BoundQuery | Refusal:
        if self._relations is None:
            self._relations = KnownRelations(self._declared)
        try:
            return bind_query(query, 1, self._relations, facts=self._facts)
        except WaterclockError as error:
            return Refusal(error.sqlstate, str(error))

    def rows(self, query: str) -> tuple[list[PgType], list[Row]] | str:
        """The columns' types and the rows of a query, or the SQLSTATE of its error behind `!`."""
        bound = self.bind(query)
        if isinstance(bound, Refusal):
            return f"!{bound.sqlstate}"
        try:
            table = self._spark.sql(bound.sql).toArrow()
        except ENGINE_ERRORS as error:
            return f"!{fault_of(error).sqlstate}"
        types = [column.type for column in bound.columns]
        texts = [
            self._texts(column, declared)
            for column, declared in zip(table.columns, types, strict=True)
        ]
        return types, list(zip(*texts, strict=True))

    def _texts(self, column: pa.ChunkedArray, declared: PgType) -> list[str | None]:
        kind = arrow_type(column_type(declared))
        chunks = [encode_text(chunk.cast(kind), declared, self._zone) for chunk in column.chunks]
        return [text for chunk in chunks for text in chunk.to_pylist()]

    def answers(self, relation: str, calls: Sequence[str]) -> list[Answer | Refusal]:
        """All calls over one relation, in one job."""
        found: list[Answer | Refusal] = []
        good: list[int] = []
        for number, call in enumerate(calls):
            bound = self.bind(f"SELECT {call} AS c FROM {relation}")
            if isinstance(bound, Refusal):
                found.append(bound)
            else:
                found.append(Refusal("XX000", "it has not been run"))
                good.append(number)
        answers = self._together(relation, [calls[number] for number in good])
        for number, answer in zip(good, answers, strict=True):
            found[number] = answer
        return found

    def _together(self, relation: str, calls: Sequence[str]) -> list[Answer | Refusal]:
        """In one job; if the job fails as a whole, in halves."""
        if not calls:
            return []
        wanted = ", ".join(f"{call} AS c{number}" for number, call in enumerate(calls))
        bound = self.bind(f"SELECT id AS id, {wanted} FROM {relation}")
        assert isinstance(bound, BoundQuery), bound
        try:
            return [*self._run(bound)]
        except (*ENGINE_ERRORS, pa.ArrowException) as error:
            if len(calls) == 1:
                return [Refusal("XX000", f"{str(error)[:300]} {bound.sql}")]
            half = len(calls) // 2
            return [
                *self._together(relation, calls[:half]),
                *self._together(relation, calls[half:]),
            ]

    def _run(self, bound: BoundQuery) -> list[Answer]:
        plan = Logical(self._spark.sql(bound.sql)._jdf.queryExecution().optimizedPlan())
        assert plan.kind == "Project", f"the calls are at the top: {plan}"
        [below] = plan.children
        key, *values = [Expression(each) for each in plan.field("projectList")]
        build = self._builder
        tried = [
            build.alias(
                build.call("TryEval", build.struct({"v": _value(each)})), each.name, build.new_id()
            )
            for each in values
        ]
        table = build.frame(build.project([key, *tried], below), self._as_it_is).toArrow()
        ids = table.column(0).to_pylist()
        answers = []
        for n, (column, value) in enumerate(zip(bound.columns[1:], values, strict=True)):
            outcomes, wrong = self._outcomes(ids, table.column(n + 1), column.type)
            tell = self._telling.of(_value(value), below) if wrong else _no_error
            outcomes |= {row: tell(row) for row in wrong[:_TOLD]}
            answers.append(Answer(outcomes, column.type, tell))
        return answers

    def _outcomes(
        self, ids: list[int], column: pa.ChunkedArray, declared: PgType
    ) -> tuple[dict[int, Outcome], list[int]]:
        """The values, and the rows that failed, of which nothing more is known."""
        structs = column.combine_chunks()
        if isinstance(structs, pa.ChunkedArray):
            structs = structs.chunk(0)
        held = structs.flatten()[0].cast(arrow_type(column_type(declared)))
        texts = encode_text(held, declared, self._zone).to_pylist()
        failed = structs.is_null().to_pylist()
        outcomes: dict[int, Outcome] = {
            row: None if text is None else f"={text}" for row, text in zip(ids, texts, strict=True)
        }
        wrong = [row for row, has_failed in zip(ids, failed, strict=True) if has_failed]
        outcomes |= dict.fromkeys(wrong, SOME_ERROR)
        return outcomes, wrong


def _no_error(row: int) -> Outcome:
    raise AssertionError(f"no row has failed, nor has {row}")


def _value(column: Expression) -> Expression:
    return column.children[0] if column.kind == "Alias" else column
