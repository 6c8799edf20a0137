"""What a reading tells of a tree is what the JVM objects themselves answer, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.catalyst.evaluation import FEW_ROWS, evaluating
from waterclock.compute.catalyst.trees import Builder, Expression, Logical, items, with_ids

pytestmark = pytest.mark.slow

QUERIES = [
    "SELECT id FROM range(3) UNION ALL SELECT id + 1 FROM range(2) WHERE id > 0",
    "SELECT a + 1 AS b, upper(t) AS `a \"name\" of\n two lines ü` FROM (VALUES (1, 'x')) v(a, t)",
    "SELECT a, sum(b) FILTER (WHERE b > 1) AS s, count(DISTINCT b) AS n"
    " FROM (VALUES (1, 2.5)) v(a, b) GROUP BY a HAVING max(b) > 0 ORDER BY s DESC LIMIT 3",
    "SELECT x.id, y.e FROM range(3) x LEFT JOIN (SELECT id, explode(array(1, 2)) AS e"
    " FROM range(2)) y ON x.id = y.id AND y.e > 1",
    "SELECT id, (SELECT max(id) FROM range(9)) AS m, row_number() OVER (ORDER BY id) AS r,"
    " named_struct('p', id, 'q', array(map('k', id))) AS s FROM range(5)"
    " WHERE id IN (SELECT id FROM range(2)) OR EXISTS (SELECT 1 FROM range(1) z WHERE z.id = 7)",
    "SELECT grouping_id(a, b), count(*) FROM (VALUES (1, 2)) v(a, b) GROUP BY CUBE (a, b)",
    "SELECT transform(array(id), e -> e + 1), rand(), CAST(id AS DECIMAL(20, 3)) FROM range(2)",
]

_INCOMPLETE = frozenset(
    {
        "CurrentRow",
        "ListQuery",
        "SortOrder",
        "SpecifiedWindowFrame",
        "UnboundedFollowing",
        "UnboundedPreceding",
        "WindowSpecDefinition",
    }
)
"""Parts of other expressions that have no value, and so no type, or are never null or not."""


def _own(expression: Expression) -> tuple[Any, ...]:
    return (
        expression.kind,
        expression.type_json,
        expression.nullable,
        expression.deterministic,
        len(expression.children),
    )


def _asked(java: Any) -> tuple[Any, ...]:
    return (
        java.getClass().getSimpleName().rstrip("$"),
        java.dataType().json(),
        java.nullable(),
        java.deterministic(),
        java.children().size(),
    )


def _alike(expression: Expression, java: Any) -> Iterator[Expression]:
    """Compare an expression and all below it with what the JVM says."""
    if expression.kind not in _INCOMPLETE:
        assert _own(expression) == _asked(java)
    if expression.kind in ("AttributeReference", "Alias"):
        assert (expression.expr_id, expression.name) == (java.exprId().id(), java.name())
    assert expression.java.equals(java)
    yield expression
    for child, below in zip(expression.children, items(java.children()), strict=True):
        yield from _alike(child, below)


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("form", ["analyzed", "optimizedPlan"])
def test_a_reading_is_the_tree(spark: SparkSession, query: str, form: str) -> None:
    plan = getattr(spark.sql(query)._jdf.queryExecution(), form)()
    rest, seen = [(Logical(plan), plan)], 0
    while rest:
        node, java = rest.pop()
        assert node.kind == java.getClass().getSimpleName().rstrip("$")
        assert node.java.equals(java)
        for told, asked in (
            (node.output, java.output()),
            (node.expressions, java.expressions()),
        ):
            for one, other in zip(told, items(asked), strict=True):
                seen += sum(1 for _ in _alike(one, other))
        rest += zip(node.children, items(java.children()), strict=True)
    assert seen


def test_what_is_made_knows_what_it_is(spark: SparkSession) -> None:
    builder = Builder(spark.sparkContext._jvm)
    columns = [builder.attribute(builder.new_id(), f"c{n}", '"long"', True) for n in range(20)]
    made = [
        builder.alias(builder.call("IsNull", columns[0]), "missing", builder.new_id()),
        builder.cast(columns[1], '"string"'),
        builder.text("ü: text"),
        builder.literal(None, '"date"'),
        builder.null_like(columns[2]),
        builder.nullable(columns[3]),
        builder.struct({"a": columns[0], "7:b": builder.text("x"), "\U0001f600": columns[1]}),
        builder.with_children(builder.call("EqualTo", *columns[:2]), columns[4:6]),
    ]
    for expression in made:
        fresh = Expression(expression.java)
        assert _own(expression) == _own(fresh)
        assert [c.written for c in expression.children] == [c.written for c in fresh.children]
    names = [name.java.toString() for name in made[6].children[::2]]
    assert names == ["a", "7:b", "\U0001f600"]
    sequence = builder.seq(columns)
    assert [each.name() for each in items(sequence)] == [f"c{n}" for n in range(20)]


COLUMNS = "(VALUES (1, 'x', array(1)), (2, '#5', NULL)) v(a, t, l)"
DIFFERENT = [
    "a + 1",
    "try_add(a, 1)",
    "a + 1L",
    "CAST(t AS int)",
    "try_cast(t AS int)",
    f"greatest({'a, ' * 30}1)",
    f"greatest({'a, ' * 30}2)",
    f"a IN ({', '.join(map(str, range(40)))})",
    f"a IN ({', '.join(map(str, range(41)))})",
    "t = '#5'",
    "t = '#6'",
    "t = '#5' COLLATE UTF8_LCASE",
    "X'05'",
    "X'06'",
    "array('a, b')",
    "array('a', 'b')",
    "map('k', a)",
    "map('l', a)",
    "array(named_struct('p', 1))",
    "array(named_struct('q', 1))",
    "transform(l, e -> e + a)",
    "transform(l, e -> a + e)",
    "transform(l, e -> try_add(e, a))",
    "lag(a) OVER (ORDER BY t)",
    "lag(a) IGNORE NULLS OVER (ORDER BY t)",
    "sum(a) OVER (ORDER BY t)",
    "sum(a) OVER (ORDER BY t DESC)",
    "sum(a) OVER (ORDER BY t ROWS 1 PRECEDING)",
    "from_json(t, 'x int')",
    "from_json(t, 'x int', map('mode', 'FAILFAST'))",
    "to_json(named_struct('x', a))",
    "to_json(named_struct('x', a), map('ignoreNullFields', 'false'))",
    "INTERVAL '1' DAY",
    "INTERVAL '24:00' HOUR TO MINUTE",
    "CAST('NaN' AS double)",
    "CAST(a AS double)",
    "CAST(a AS float)",
    "mz_now()",
]


def test_what_computes_something_else_is_written_otherwise(spark: SparkSession) -> None:
    def written(value: str) -> str:
        plan = spark.sql(f"SELECT {value} AS c FROM {COLUMNS}")._jdf.queryExecution()
        ids: dict[int, int] = {}
        nodes = Logical(plan.optimizedPlan()).walk()
        told = [each.written for node in nodes for each in node.expressions]
        return with_ids("\n".join(told), lambda id_: ids.setdefault(id_, len(ids)))

    texts = {value: written(value) for value in DIFFERENT}
    alike = {text: [v for v in DIFFERENT if texts[v] == text] for text in texts.values()}
    assert [values for values in alike.values() if len(values) > 1] == []
    assert {value: written(value) for value in DIFFERENT} == texts, "ids are all that is new"
    assert not [text for text in texts.values() if "@" in text], "no place in memory is told"


CONSTANTS = [
    "VALUES (1, 'x')",
    "VALUES (1, 'y')",
    "VALUES (1, NULL)",
    "VALUES (X'05', array(X'01'))",
    "VALUES (X'06', array(X'01'))",
    "VALUES (X'05', array(X'02'))",
    "VALUES (named_struct('p', 1.50, 'q', DATE '2020-01-01'))",
    "VALUES (named_struct('p', 1.50, 'q', DATE '2020-01-02'))",
    "VALUES (map('k', INTERVAL '1' DAY))",
    "VALUES (map('k', INTERVAL '2' DAY))",
    "SELECT * FROM range(7)",
]


def test_rows_that_are_constant_are_written_too(spark: SparkSession) -> None:
    def written(text: str) -> str:
        plan = spark.sql(text)._jdf.queryExecution().optimizedPlan()
        return with_ids(Logical(plan).written, lambda _: "")

    texts = {text: written(text) for text in CONSTANTS}
    assert len(set(texts.values())) == len(CONSTANTS)
    assert {text: written(text) for text in CONSTANTS} == texts
    assert not [text for text in texts.values() if "@" in text], "no place in memory is told"


def test_few_rows_are_not_compiled(spark: SparkSession) -> None:
    context = spark.sparkContext

    def mode() -> str | None:
        return context.getLocalProperty("spark.sql.codegen.factoryMode")

    with evaluating(context, FEW_ROWS):
        assert mode() == "NO_CODEGEN"
    assert mode() is None
    with evaluating(context, FEW_ROWS + 1):
        assert mode() is None
