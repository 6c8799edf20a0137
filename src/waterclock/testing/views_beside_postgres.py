"""Maintained views beside PostgreSQL: through a history of changes, the same rows at every time.

The tables fill from nothing, shrink, become empty, fill again and change, some of that in one step
and some in several. At each time PostgreSQL computes the query over the contents of that time; what
the view has become must be the same rows, as text, and an error must hold just where PostgreSQL
raises one. Many views are maintained by one dataflow, so that a view costs little.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from waterclock.compute.catalyst.optimized import optimized
from waterclock.compute.catalyst.trees import Builder, Logical
from waterclock.compute.catalyst.types import arrow_schema
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.program import Program
from waterclock.compute.faults import ENGINE_ERRORS
from waterclock.compute.plan.determinism import refuse_nondeterministic
from waterclock.compute.plan.nodes import Node
from waterclock.compute.plan.translate import Translation
from waterclock.compute.relations import Relations
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.persist.rows import DIFF, TIME
from waterclock.pgwire.values.text_in import decode_text
from waterclock.pgwire.values.zones import UTC_ZONE
from waterclock.sql.binding import BoundQuery, bind_query
from waterclock.sql.types import parse_type_name
from waterclock.testing.beside_postgres import Row, TestTable, row_texts
from waterclock.testing.relations import KnownRelations, session_facts

_STEPS = ((0, 1), (1, 2), (2, 4), (4, 7), (7, 8))
_TOGETHER = 20
"""How many views one dataflow maintains."""


def _history(rows: Sequence[Row]) -> list[list[Row]]:
    """A table's rows at each time."""
    every, half, rest = list(rows), list(rows[::2]), list(rows[1::2])
    return [[], every, half, [], every, [], rest, [*every, *half]]


@dataclass
class _View:
    """A view, and what it has told so far."""

    query: str
    bound: BoundQuery
    plan: Node
    held: Counter[Row] = field(default_factory=Counter)
    errors: int = 0


class ViewsBesidePostgres:
    """The same tables in both systems, changing alike."""

    def __init__(
        self,
        spark: SparkSession,
        connection: psycopg.Connection,
        tables: Mapping[str, TestTable],
        folder: Path,
    ) -> None:
        """`spark` is a session whose relations may be replaced, `connection` to a new database."""
        self._spark = spark
        self._connection = connection
        self._tables = tables
        self._folder = folder
        self._facts = session_facts()
        self._relations = KnownRelations({name: t.columns for name, t in tables.items()})
        self._builder = Builder(spark.sparkContext._jvm)
        known = Relations(spark)
        for place, (name, table) in enumerate(tables.items(), start=1):
            columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
            connection.execute(f"CREATE TABLE {name} ({columns})".encode())
            known.add(GlobalId.user(place), from_arrow_schema(_data(table, []).schema))
        connection.execute("SET timezone = 'UTC'")
        connection.execute("SET extra_float_digits = 1")
        self._translation = Translation(self._builder, known)
        self._histories = {name: _history(table.rows) for name, table in tables.items()}
        self._runs = 0

    def differences(self, queries: Sequence[str]) -> Iterator[str]:
        """What is wrong with the views of these queries, refusals included."""
        views = []
        for query in queries:
            try:
                bound = bind_query(query, 1, self._relations, facts=self._facts, maintained=True)
                views.append(_View(query, bound, self._planned(bound.sql)))
            except WaterclockError as error:
                yield f"{query}\n    {error.sqlstate} {error}"
            except (*ENGINE_ERRORS, AssertionError, LookupError) as error:
                yield f"{query}\n    {type(error).__name__}: {str(error)[:300]}"
        for first in range(0, len(views), _TOGETHER):
            yield from self._maintained(views[first : first + _TOGETHER])

    def _planned(self, sql: str) -> Node:
        execution = self._spark.sql(sql)._jdf.queryExecution()
        refuse_nondeterministic(Logical(execution.analyzed()))
        [plan] = self._translation.planned([optimized(self._spark, self._builder, execution)])
        return plan

    def _maintained(self, views: Sequence[_View]) -> Iterator[str]:
        self._runs += 1
        program = Program()
        for place, view in enumerate(views):
            program.add(view.plan, f"v{place}")
        folder = self._folder / str(self._runs)
        dataflow = Dataflow(self._spark, self._builder, program, folder)
        wrong: set[int] = set()
        for lower, upper in _STEPS:
            ticked = dataflow.compute(upper, self._deltas(lower, upper))
            for time in range(lower, upper):
                self._fill(time)
                for place, view in enumerate(views):
                    _take(view, ticked.outputs[place], ticked.errors_of[place], time)
                    difference = self._difference(view)
                    if difference is not None and place not in wrong:
                        wrong.add(place)
                        yield f"{view.query}\n    at {time}: {difference}\n    {view.bound.sql}"
            dataflow.commit(upper, ticked)

    def _fill(self, time: int) -> None:
        """Have the tables in PostgreSQL hold what they hold at a time."""
        for name, table in self._tables.items():
            self._connection.execute(f"TRUNCATE {name}".encode())
            places = ", ".join("%s" for _ in table.columns)
            with self._connection.cursor() as cursor:
                insert = f"INSERT INTO {name} VALUES ({places})".encode()
                cursor.executemany(insert, self._histories[name][time])

    def _deltas(self, lower: int, upper: int) -> dict[GlobalId, pa.Table]:
        found = {}
        for place, (name, table) in enumerate(self._tables.items(), start=1):
            changes: list[tuple[Row, int, int]] = []
            for time in range(lower, upper):
                before = self._histories[name][time - 1] if time else []
                changes += [(row, time, -1) for row in before]
                changes += [(row, time, 1) for row in self._histories[name][time]]
            data = _data(table, [row for row, _, _ in changes])
            data = data.cast(arrow_schema(from_arrow_schema(data.schema)))
            data = data.append_column(TIME, pa.array([t for _, t, _ in changes], pa.int64()))
            data = data.append_column(DIFF, pa.array([d for _, _, d in changes], pa.int64()))
            found[GlobalId.user(place)] = data
        return found

    def _difference(self, view: _View) -> str | None:
        ours = +view.held
        try:
            with self._connection.transaction(force_rollback=True):
                result = self._connection.execute(view.query.encode()).pgresult
        except psycopg.Error as error:
            return None if view.errors else f"no error, PostgreSQL: {error.sqlstate} {error}"
        assert result is not None
        if view.errors:
            return "an error"
        theirs = Counter(
            tuple(_text(result.get_value(row, n)) for n in range(result.nfields))
            for row in range(result.ntuples)
        )
        if any(count < 0 for count in view.held.values()):
            return f"a negative number of rows: {view.held}"
        if ours != theirs:
            return f"has {sorted_rows(ours - theirs)}, lacks {sorted_rows(theirs - ours)}"
        return None


def sorted_rows(rows: Counter[Row]) -> list[Row]:
    return sorted(rows.elements(), key=repr)[:5]


def _take(view: _View, rows: pa.Table, errors: pa.Table, time: int) -> None:
    """Add what has changed at a time."""
    rows = rows.filter(pc.equal(rows[TIME], time))
    columns = rows.drop_columns([TIME, DIFF])
    texts = row_texts(columns, view.bound, UTC_ZONE)
    for row, diff in zip(texts, rows[DIFF].to_pylist(), strict=True):
        view.held[row] += diff
    view.held = Counter({row: count for row, count in view.held.items() if count})
    view.errors += sum(errors.filter(pc.equal(errors[TIME], time))[DIFF].to_pylist())


def _data(table: TestTable, rows: Sequence[Row]) -> pa.Table:
    kinds = [parse_type_name(kind.removesuffix(" not null")) for kind in table.columns.values()]
    arrays = [
        decode_text(pa.array([row[n] for row in rows], pa.string()), kind, UTC_ZONE)
        for n, kind in enumerate(kinds)
    ]
    return pa.Table.from_arrays(arrays, names=list(table.columns))


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode()
