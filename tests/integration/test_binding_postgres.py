"""Bound queries in Spark, beside the same queries in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from binding_data import FEW_ROWS, TABLES
from pyspark.sql import SparkSession

from waterclock.adapter.picking import picked
from waterclock.errors import WaterclockError
from waterclock.model.manner import IntervalStyle
from waterclock.sql.binding import bind_query
from waterclock.testing.beside_postgres import BesidePostgres
from waterclock.testing.brief_spark import TINY
from waterclock.testing.relations import KnownRelations, session_facts
from waterclock.testing.services import PostgresServer
from waterclock.testing.views_beside_postgres import ViewsBesidePostgres

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.service, pytest.mark.timeout(3600)]

HERE = Path(__file__).parent
TYPES = HERE.parent / "unit" / "sql" / "binding" / "expression_types.txt"


def queries(name: str) -> list[str]:
    lines = (HERE / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("--")]


@contextmanager
def both(spark: SparkSession, server: PostgresServer, zone: str) -> Iterator[BesidePostgres]:
    session = spark.newSession()
    for name, value in TINY.items():
        session.conf.set(name, value)
    database = server.create_database(f"binding_{zone.replace('/', '_').lower()}")
    with psycopg.connect(database, autocommit=True) as connection:
        yield BesidePostgres(session, connection, TABLES, zone)


@pytest.fixture(scope="module")
def beside(spark: SparkSession, postgres_server: PostgresServer) -> Iterator[BesidePostgres]:
    with both(spark, postgres_server, "UTC") as found:
        yield found


def complaints(beside: BesidePostgres, name: str) -> list[str]:
    found = []
    for query in queries(name):
        try:
            difference = beside.difference(query)
        except WaterclockError as error:
            difference = f"{error.sqlstate} {error}"
        if difference is not None:
            found.append(f"{query}\n    {difference}")
    return found


def test_answers_are_those_of_postgres(beside: BesidePostgres) -> None:
    found = complaints(beside, "binding_queries.sql")
    assert not found, "\n".join(found)


def test_constructs_are_those_of_postgres(beside: BesidePostgres) -> None:
    found = complaints(beside, "binding_queries_constructs.sql")
    assert not found, "\n".join(found)


def test_answers_over_few_rows(spark: SparkSession, postgres_server: PostgresServer) -> None:
    session = spark.newSession()
    for name, value in TINY.items():
        session.conf.set(name, value)
    with psycopg.connect(postgres_server.create_database("few_rows"), autocommit=True) as database:
        few = BesidePostgres(session, database, FEW_ROWS)
        names = ("binding_few_rows.sql", "binding_few_rows_queries.sql")
        found = [each for name in names for each in complaints(few, name)]
    assert not found, "\n".join(found)


def test_failures_are_those_of_postgres(
    spark: SparkSession, postgres_server: PostgresServer
) -> None:
    session = spark.newSession()
    for name, value in TINY.items():
        session.conf.set(name, value)
    with psycopg.connect(postgres_server.create_database("failures"), autocommit=True) as database:
        few = BesidePostgres(session, database, FEW_ROWS)
        found = []
        for query in queries("binding_failures.sql"):
            theirs, ours = few.failure(query)
            assert theirs != "00000", f"PostgreSQL takes {query}"
            if ours != theirs:
                found.append(f"{query}: {ours}, not {theirs}")
    assert found == []


def test_views_over_few_rows(
    spark: SparkSession, postgres_server: PostgresServer, tmp_path: Path
) -> None:
    session = spark.newSession()
    for name, value in TINY.items():
        session.conf.set(name, value)
    with psycopg.connect(postgres_server.create_database("views"), autocommit=True) as database:
        views = ViewsBesidePostgres(session, database, FEW_ROWS, tmp_path)
        found = list(views.differences(queries("binding_few_rows.sql")))
    assert not found, "\n".join(found)


def test_answers_in_another_time_zone(spark: SparkSession, postgres_server: PostgresServer) -> None:
    with both(spark, postgres_server, "America/New_York") as beside:
        found = complaints(beside, "binding_queries_new_york.sql")
        assert not found, "\n".join(found)


@pytest.mark.parametrize("style", IntervalStyle)
def test_intervals_in_every_style(beside: BesidePostgres, style: IntervalStyle) -> None:
    with beside.intervals_in(style):
        found = complaints(beside, "binding_queries_intervals.sql")
    assert not found, "\n".join(found)


def test_refusals_are_those_of_postgres(beside: BesidePostgres) -> None:
    found = []
    for query in queries("binding_refusals.sql"):
        state, position, ours, place = beside.refusal(query)
        assert state != "00000", f"PostgreSQL takes {query}"
        # Where PostgreSQL tells no position, ours is a kindness.
        if (ours, place if position is not None else None) != (state, position):
            found.append(f"{query}: {ours} at {place}, not {state} at {position}")
    assert found == []


def test_expected_types_are_those_of_postgres(beside: BesidePostgres) -> None:
    """What the unit tests expect is true."""
    found = []
    for line in TYPES.read_text().splitlines():
        expression, _, expected = line.partition("  ->  ")
        actual = beside.type_in_postgres(f"SELECT {expression} FROM t")
        if actual != expected:
            found.append(f"{expression}: {actual}, not {expected}")
    assert found == []


SIMPLE = [
    "select * from t",
    "select id, b from t where a = 10",
    "select id from t where a in (10, 42, null)",
    "select id, a from t where a >= 0 and a < 50 order by a desc",
    "select b, id from t where b is not null order by b limit 3",
    "select a, b from t order by a nulls first limit 4 offset 1",
    "select id from t where c = 1.5",
    "select id from t where d between '2000-01-01' and '2024-12-31' order by d",
    "select id from t where tz > '2020-01-01' order by id desc",
    "select id from t where u = 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'",
    "select v from t where v = 'hello'",
    "select id from t where id = any('{1,3,5}') order by 1",
    "select a, id from t limit 3",
    "select count(*) from t where a is null",
    "select count(*) from t",
]


@pytest.mark.parametrize("query", SIMPLE)
def test_simple_queries_pick_what_the_engine_gives(beside: BesidePostgres, query: str) -> None:
    relations = KnownRelations({name: table.columns for name, table in TABLES.items()})
    bound = bind_query(query, 1, relations, facts=session_facts())
    assert bound.simple is not None
    rows = picked(beside.contents("t"), bound.simple)
    engine = beside.run(bound.sql)
    ours = [tuple(column) for column in zip(*(c.to_pylist() for c in rows.columns), strict=True)]
    theirs = [
        tuple(column) for column in zip(*(c.to_pylist() for c in engine.columns), strict=True)
    ]
    if not bound.simple.order:
        ours, theirs = sorted(ours, key=repr), sorted(theirs, key=repr)
    assert repr(ours) == repr(theirs)
