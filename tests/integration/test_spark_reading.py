"""Spark's parser as sessions have it from us reads every text as Spark's own does, only sooner."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from binding_data import TABLES
from py4j.java_gateway import get_field
from py4j.protocol import Py4JJavaError
from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from waterclock.sql.binding import bind_query
from waterclock.testing.relations import KnownRelations, session_facts

pytestmark = pytest.mark.slow

QUERIES = Path(__file__).with_name("binding_queries.sql")
EVERY = 25
"""One of so many of them: Spark's own parser takes its time."""
CHOSEN = [
    "CASE WHEN a THEN b WHEN (c) THEN d ELSE (CASE WHEN e THEN f END) END",
    "CASE a WHEN b THEN c END",
    "(CASE WHEN a THEN b END).f[1]::INT",
    "CASE WHEN (a, b) = (c, d) THEN (SELECT (e)) END",
    "CAST(a AS DECIMAL(10, 2)) + CAST((b) AS STRUCT<c: INT>).c",
    "(a)",
    "(((a + 1) * (b)))",
    "((a), b)",
    "(a, (b, c))",
    "(a IN (1, 2) AND (b IN (SELECT c FROM t)))",
    "(f(a, b))",
    "((f(a, (b))) + 1)",
    "AGGREGATE(a, (0), (c, q) -> (c + q), (c) -> c)",
    "AGGREGATE(a, (0), (c, q) -> (c + q), c -> (c))",
    "(SELECT a FROM t)",
    "((SELECT a FROM t) + 1)",
    "((SELECT a FROM t), 1)",
    "(((SELECT a FROM t)))",
    "(WITH q AS (SELECT 1) SELECT * FROM q)",
    "(VALUES (1))",
    "(TABLE t)",
    "(FROM t SELECT a)",
    "(MAP(1, 2))",
    "(REDUCE(a, 0, (c, q) -> c + q))",
    "(/* , */ a -- )\n)",
    "(')', `a,(b`)",
]
NOT_SO = [
    "case when",
    "CASE when WHEN (a) THEN b END",
    "CAST(a)",
    "CAST(a, b)",
    "cast",
    "(values)",
    "(table)",
    "(select)",
    "(from)",
]
"""Words of the grammar as names, so that what was chosen by the first of them does not fit."""
WRONG = [
    "(a",
    "(a))",
    "()",
    "(a b c)",
    "CASE WHEN a THEN b",
    "CASE WHEN a b END",
    "CAST(a AS)",
    "CAST(a AS INT",
    "(CASE WHEN (a THEN b END)",
]


@pytest.fixture(scope="module")
def ours(spark: SparkSession) -> Any:
    found = spark._jsparkSession.sessionState().sqlParser()
    assert found.getClass().getName() == "waterclock.Reading"
    return found


@pytest.fixture(scope="module")
def own(spark: SparkSession) -> Any:
    assert spark.sparkContext._jvm is not None
    return spark.sparkContext._jvm.org.apache.spark.sql.execution.SparkSqlParser()


def read(parser: Any, text: str) -> str:
    """The plan, with ids left out; or what is said of the text."""
    try:
        return re.sub(r"#\d+", "#", parser.parsePlan(text).toString())
    except (ParseException, Py4JJavaError) as error:
        return f"error: {error}"


@pytest.mark.parametrize("expression", CHOSEN)
def test_an_expression_is_the_same(ours: Any, own: Any, expression: str) -> None:
    text = f"SELECT {expression} FROM t WHERE {expression} IS NULL"
    assert read(ours, text) == read(own, text)


@pytest.mark.parametrize("expression", NOT_SO)
def test_names_that_are_words_of_the_grammar(ours: Any, own: Any, expression: str) -> None:
    text = f"SELECT {expression} FROM t"
    assert read(ours, text) == read(own, text)


@pytest.mark.parametrize("expression", WRONG)
def test_what_is_wrong_is_told_alike(ours: Any, own: Any, expression: str) -> None:
    text = f"SELECT {expression} FROM t"
    assert read(own, text).startswith("error: ")
    assert read(ours, text) == read(own, text)


def test_texts_of_ours_are_the_same(ours: Any, own: Any) -> None:
    relations = KnownRelations({name: table.columns for name, table in TABLES.items()})
    asked = [line for line in QUERIES.read_text().splitlines() if not line.startswith("--")]
    for query in asked[::EVERY]:
        sql = bind_query(query, 1, relations, facts=session_facts()).sql
        assert read(ours, sql) == read(own, sql), query


def test_little_is_learned_of_long_texts(spark: SparkSession, ours: Any, own: Any) -> None:
    """What a parser simulates it keeps, a state for each token and more: ours simulates little."""
    few, many = f"SELECT {_nested(2)}", f"SELECT {_nested(60)}"
    ours.parsePlan(few)
    before = _states(spark)
    ours.parsePlan(many)
    between = _states(spark)
    own.parsePlan(many)
    assert between - before < 10
    assert _states(spark) - between > 500, "Spark's own learns, so it is counted right"


def _states(spark: SparkSession) -> int:
    """How many states all parsers of the JVM have learned."""
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    package = jvm.org.apache.spark.sql.catalyst.parser
    text = jvm.org.antlr.v4.runtime.CharStreams.fromString("1")
    tokens = jvm.org.antlr.v4.runtime.CommonTokenStream(package.SqlBaseLexer(text))
    parser = package.SqlBaseParser(tokens)
    learned = get_field(parser.getInterpreter(), "decisionToDFA")
    return sum(get_field(each, "states").size() for each in learned)


def _nested(depth: int) -> str:
    expression = "a"
    for number in range(depth):
        expression = f"(CASE WHEN (b = {number}) THEN CAST({expression} AS INT) ELSE (c) END)"
    return expression
