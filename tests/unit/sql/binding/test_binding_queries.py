"""What becomes of a query: parameters, times, limits, simple queries, targets, expressions."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import pyarrow as pa
import pytest

from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import (
    BOOL,
    DATE,
    FLOAT4,
    FLOAT8,
    INT2,
    INT4,
    INT8,
    INTERVAL,
    NUMERIC,
    TEXT,
    TIMESTAMPTZ,
    PgType,
    array_of,
    numeric,
)
from waterclock.persist.numerics import parts_of, python_value
from waterclock.persist.rows import NUMERIC as NUMERIC_HELD
from waterclock.sql.ast.common import DefaultValue, ExpressionText
from waterclock.sql.binding import (
    BoundColumn,
    Comparison,
    Context,
    SimpleQuery,
    bind_expression,
    bind_values,
    coerce,
    literal_value,
)
from waterclock.sql.errors import FeatureNotSupported, SqlFault
from waterclock.testing.relations import KnownRelations, bound, session_facts

RELATIONS = KnownRelations(
    {
        "t": {
            "id": "int not null",
            "a": "int",
            "b": "text",
            "c": "numeric(10,2)",
            "big": "bigint",
            "f": "float8",
            "ts": "timestamptz",
            "d": "date",
        },
        "u": {"id": "int", "x": "text"},
    }
)
T = GlobalId.user(1)


def varchar(length: int) -> PgType:
    return PgType(1043, length + 4)


# Parameters


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT $1", (TEXT,)),
        ("SELECT $1::int", (INT4,)),
        ("SELECT a + $1 FROM t", (INT4,)),
        ("SELECT * FROM t WHERE big = $1 AND b LIKE $2 AND d > $3", (INT8, TEXT, DATE)),
        ("SELECT * FROM t WHERE a IN ($1, $2)", (INT4, INT4)),
        ("SELECT * FROM t WHERE a = ANY ($1)", (array_of(INT4),)),
        ("SELECT * FROM t WHERE ts BETWEEN $1 AND $2", (TIMESTAMPTZ, TIMESTAMPTZ)),
        ("SELECT * FROM t LIMIT $1 OFFSET $2", (INT8, INT8)),
        ("SELECT coalesce($1, a) FROM t", (INT4,)),
        ("SELECT $2::bool, $1::date", (DATE, BOOL)),
        ("SELECT $1::text || $1", (TEXT,)),
        ("VALUES ($1, 1), (2, $2)", (INT4, INT4)),
    ],
)
def test_parameters_get_types_from_where_they_stand(
    query: str, expected: tuple[PgType, ...]
) -> None:
    assert bound(query, RELATIONS).parameters == expected


def test_a_type_that_was_given_wins() -> None:
    found = bound("SELECT $1 + a FROM t", RELATIONS, parameter_types=[INT8])
    assert found.parameters == (INT8,)
    assert found.columns[0].type == INT8


def test_values_of_parameters_are_constants() -> None:
    query = "SELECT id FROM t WHERE a = $1 AND b = $2"
    found = bound(query, RELATIONS, parameters=[pa.scalar(5, pa.int32()), pa.scalar("x'\\${y}")])
    assert "(t1.c2 = 5)" in found.sql
    assert "'x\\'\\\\\\u0024{y}'" in found.sql
    assert found.simple is not None
    assert found.simple.conditions == (
        Comparison("a", "=", (5,)),
        Comparison("b", "=", ("x'\\${y}",)),
    )


def test_a_null_parameter() -> None:
    found = bound("SELECT $1::int", RELATIONS, parameters=[None])
    assert found.sql == "SELECT CAST(NULL AS INT) AS `int4`"


def test_a_number_as_a_parameter_keeps_the_digits_that_its_column_has_not() -> None:
    given = pa.scalar(parts_of(Decimal("1.005")), NUMERIC_HELD)
    for target, shown in ((numeric(8, 2), "1.01"), (INT4, "1"), (NUMERIC, "0.005")):
        found = bound("SELECT $1", RELATIONS, parameters=[given], target_types=[target])
        assert found.columns[0].type == target
        assert shown in found.sql
    with pytest.raises(SqlFault) as caught:
        bound("SELECT $1", RELATIONS, parameters=[given], target_types=[numeric(2, 2)])
    assert caught.value.sqlstate == "22003"
    many = pa.scalar([parts_of(Decimal("1.005"))], pa.list_(NUMERIC_HELD))
    wanted = array_of(numeric(8, 2))
    found = bound("SELECT $1", RELATIONS, parameters=[many], target_types=[wanted])
    assert found.columns[0].type == wanted


def test_an_aggregate_is_not_compared_with_the_rows_of_a_query() -> None:
    grouped = "SELECT a FROM t GROUP BY a HAVING "
    bound(grouped + "count(*) > 1 AND 1 < ANY (SELECT 1)", RELATIONS)
    for condition in ("count(*) IN (SELECT 1)", "count(*) > ALL (SELECT 1)"):
        with pytest.raises(FeatureNotSupported, match="an aggregate in front of IN") as caught:
            bound(grouped + condition, RELATIONS)
        assert caught.value.hint is not None


# Times


def test_now_is_a_constant_of_a_query_and_refused_in_a_view() -> None:
    found = bound("SELECT now() - ts FROM t", RELATIONS)
    assert found.uses_now
    assert "TIMESTAMP_MICROS(1715941800123456L)" in found.sql
    with pytest.raises(FeatureNotSupported) as caught:
        bound("SELECT id FROM t WHERE ts > now()", RELATIONS, maintained=True)
    assert caught.value.message.startswith("now() in a view")
    assert "mz_now()" in (caught.value.hint or "")
    with pytest.raises(FeatureNotSupported, match="random"):
        bound("SELECT random()", RELATIONS, maintained=True)
    assert bound("SELECT random()", RELATIONS).nondeterministic == ("random",)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("mz_now() <= big", "(MZ_NOW() <= t1.c5)"),
        ("big + 5000 > mz_now()", "(MZ_NOW() < (t1.c5 + 5000))"),
        ("mz_now() < c", "(MZ_NOW() < t1.c4)"),
        (
            "mz_now() <= ts + interval '5 minutes'",
            "(MZ_NOW() <= (CAST(UNIX_MICROS((CASE WHEN (UNIX_MICROS(t1.c7) IN ("
            "9223372036854775807L, (-9223372036854775807L - 1L)))"
            " THEN t1.c7 ELSE TIMESTAMPADD(MICROSECOND, 300000000L, t1.c7) END))"
            " AS DECIMAL(20,0)) * 0.001BD))",
        ),
        (
            "mz_now() BETWEEN big AND big + 1",
            "((MZ_NOW() >= t1.c5) AND (MZ_NOW() <= (t1.c5 + 1)))",
        ),
    ],
)
def test_the_time_of_a_view_is_compared_in_milliseconds(condition: str, expected: str) -> None:
    found = bound(f"SELECT id FROM t WHERE {condition}", RELATIONS, maintained=True)
    assert found.uses_mz_now
    assert found.sql.endswith(f"WHERE {expected}")


def test_the_time_of_a_query_is_a_constant() -> None:
    assert (
        "(1715942000000L > t1.c5)" in bound("SELECT id FROM t WHERE mz_now() > big", RELATIONS).sql
    )


# Order and limits


def test_rows_that_tie_are_told_apart_by_all_columns() -> None:
    found = bound("SELECT id, a FROM t ORDER BY b LIMIT 3", RELATIONS)
    assert found.is_ordered
    assert (found.limit, found.offset) == (3, None)
    assert found.sql.endswith(
        "ORDER BY o.k1 ASC NULLS LAST, o.c1 ASC NULLS FIRST, o.c2 ASC NULLS FIRST LIMIT 3"
    )
    assert " ORDER BY " in bound("SELECT id FROM t LIMIT 1", RELATIONS).sql
    assert " LIMIT " not in bound("SELECT id FROM t ORDER BY id DESC", RELATIONS).sql


# Simple queries


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT * FROM u", SimpleQuery(GlobalId.user(2), ("id", "x"))),
        (
            "SELECT b, id FROM t WHERE a = 5",
            SimpleQuery(T, ("b", "id"), conditions=(Comparison("a", "=", (5,)),)),
        ),
        (
            "SELECT q.one FROM t q(one) WHERE 3 < q.one",
            SimpleQuery(T, ("id",), conditions=(Comparison("id", ">", (3,)),)),
        ),
        (
            "SELECT id FROM t WHERE a IN (1, NULL, 2) AND b IS NOT NULL",
            SimpleQuery(
                T,
                ("id",),
                conditions=(Comparison("a", "in", (1, 2)), Comparison("b", "is not null")),
            ),
        ),
        (
            "SELECT id FROM t WHERE c BETWEEN 1 AND 2.5 AND d >= '2024-01-01'",
            SimpleQuery(
                T,
                ("id",),
                conditions=(
                    Comparison("c", ">=", (Decimal("1.00"),)),
                    Comparison("c", "<=", (Decimal("2.50"),)),
                    Comparison("d", ">=", (datetime.date(2024, 1, 1),)),
                ),
            ),
        ),
        (
            "SELECT id FROM t WHERE big = 7 ORDER BY a DESC, id LIMIT 2 OFFSET 1",
            SimpleQuery(
                T,
                ("id",),
                conditions=(Comparison("big", "=", (7,)),),
                order=(("a", True, True), ("id", False, False), ("id", False, True)),
                limit=2,
                offset=1,
            ),
        ),
        (
            "SELECT count(*) FROM t WHERE a > 1",
            SimpleQuery(T, (), True, (Comparison("a", ">", (1,)),)),
        ),
    ],
)
def test_queries_that_only_pick_rows(query: str, expected: SimpleQuery) -> None:
    assert bound(query, RELATIONS).simple == expected


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id + 1 FROM t",
        "SELECT id FROM t WHERE a = 1 OR a = 2",
        "SELECT id FROM t WHERE a <> 1",
        "SELECT id FROM t WHERE f = 1",
        "SELECT id FROM t WHERE a = 1.5",
        "SELECT id FROM t WHERE c = 1.555",
        "SELECT id FROM t WHERE a = 5000000000",
        "SELECT id FROM t WHERE a = id",
        "SELECT id FROM t WHERE a = NULL",
        "SELECT DISTINCT id FROM t",
        "SELECT b FROM t, u",
        "SELECT t.id FROM t JOIN u USING (id)",
        "SELECT a, count(*) FROM t GROUP BY a",
        "SELECT count(*) FROM t LIMIT 1",
        "SELECT count(*), 1 FROM t",
        "SELECT id FROM t ORDER BY a + 1",
        "SELECT id FROM (SELECT id FROM t) x",
        "SELECT id FROM t WHERE id IN (SELECT id FROM u)",
        "SELECT id FROM t UNION ALL SELECT id FROM t",
        "SELECT 1",
    ],
)
def test_queries_that_do_more(query: str) -> None:
    assert bound(query, RELATIONS).simple is None


# Targets


def test_columns_are_converted_to_what_they_go_into() -> None:
    found = bound(
        "SELECT a, '5', NULL, c FROM t",
        RELATIONS,
        target_types=[INT8, INT2, DATE, FLOAT8],
        target_names=["w", "x", "y", "z"],
    )
    assert [column.type for column in found.columns] == [INT8, INT2, DATE, FLOAT8]


def test_a_column_that_does_not_fit() -> None:
    with pytest.raises(SqlFault) as caught:
        bound("SELECT b FROM t", RELATIONS, target_types=[INT4], target_names=["n"])
    assert caught.value.sqlstate == "42804"
    assert caught.value.message == 'column "n" is of type integer but expression is of type text'
    with pytest.raises(SqlFault, match="more expressions than target columns"):
        bound("SELECT a, b FROM t", RELATIONS, target_types=[INT4])


@pytest.mark.parametrize(
    ("given", "target", "expected"),
    [
        (pa.scalar(2.675), numeric(8, 2), Decimal("2.68")),
        (pa.scalar(123456789.123456789), NUMERIC, Decimal("123456789.123457")),
        (pa.scalar(0.1, pa.float32()), NUMERIC, Decimal("0.1")),
        (pa.scalar(1e20), NUMERIC, Decimal(10**20)),
        (pa.scalar(2.5), INT4, 2),
        (pa.scalar(-3.5), INT8, -4),
        (pa.scalar(0.5), FLOAT4, 0.5),
        (pa.scalar(0.1, pa.float32()), FLOAT8, 0.10000000149011612),
    ],
)
def test_floating_point_constants_need_no_engine(
    given: pa.Scalar, target: PgType, expected: object
) -> None:
    found = values_of(given, target)
    assert found is not None
    assert [python_value(value) for value in found.columns[0]] == [expected]


def test_floating_point_constants_that_do_not_fit() -> None:
    for number, target in ((1e9, numeric(8, 2)), (1e10, INT4)):
        with pytest.raises(SqlFault) as caught:
            values_of(pa.scalar(number), target)
        assert caught.value.sqlstate == "22003"
    for number, target in ((1e40, FLOAT4), (1e-60, FLOAT4), (1e40, NUMERIC), (math.nan, NUMERIC)):
        assert values_of(pa.scalar(number), target) is None  # left to the engine


def values_of(given: pa.Scalar, target: PgType) -> pa.Table | None:
    row = [ExpressionText("$1", 1)]
    return bind_values([row], [target], facts=session_facts(), parameters=[given])


# Expressions


def test_expressions_over_columns() -> None:
    columns = [BoundColumn("a", INT4), BoundColumn("B x", TEXT)]
    facts = session_facts()
    found = bind_expression("a + 1 > 5 AND \"B x\" = 'y'", columns, facts=facts)
    assert (found.sql, found.type) == ("(((`a` + 1) > 5) AND (`B x` = 'y'))", BOOL)
    assert bind_expression("r.a", columns, facts=facts, relation="r").sql == "`a`"
    assert bind_expression("'7'", (), facts=facts, target=INT8).sql == "7L"
    unknown = bind_expression("'7'", (), facts=facts)
    assert unknown.is_unknown
    assert coerce(unknown, INT4, Context.ASSIGNMENT, facts=facts).sql == "7"
    with pytest.raises(SqlFault):
        coerce(found, DATE, Context.EXPLICIT, facts=facts)
    with pytest.raises(SqlFault) as caught:
        bind_expression("nope", columns, facts=facts, position=50)
    assert caught.value.position == 50


# Constant rows


def texts(*values: str) -> list[ExpressionText]:
    return [ExpressionText(value, 1) for value in values]


def test_constant_rows_need_no_engine() -> None:
    found = bind_values(
        [
            texts("1", "'a'", "-2.505", "now()", "'1 day'"),
            [*texts("'2'", "NULL", "+3", "current_timestamp", "interval '2 days'")],
            [*texts("3", "$1::text", "1e2", "'2024-01-01 00:00+02'"), DefaultValue(1)],
        ],
        [INT8, varchar(5), numeric(8, 2), TIMESTAMPTZ, INTERVAL],
        facts=session_facts(),
        parameters=[pa.scalar("p")],
    )
    assert found is not None
    now = datetime.datetime(2024, 5, 17, 10, 30, 0, 123456, datetime.UTC)
    assert [column.to_pylist() for column in found.columns] == [
        [1, 2, 3],
        ["a", None, "p"],
        [Decimal("-2.51"), Decimal("3.00"), Decimal("100.00")],
        [now, now, datetime.datetime(2023, 12, 31, 22, tzinfo=datetime.UTC)],
        [
            {"months": 0, "days": 1, "micros": 0},
            {"months": 0, "days": 2, "micros": 0},
            None,
        ],
    ]


@pytest.mark.parametrize("value", ["1 + 1", "lower('x')", "(SELECT 1)", "random()", "a"])
def test_other_rows_do(value: str) -> None:
    assert bind_values([texts(value)], [TEXT], facts=session_facts()) is None


@pytest.mark.parametrize(
    ("value", "target", "sqlstate"),
    [
        ("'x'", INT4, "22P02"),
        ("'abcdef'", varchar(5), "22001"),
        ("300000", INT2, "22003"),
        ("true", INT4, "42804"),
        ("1", DATE, "42804"),
        ("'2024-02-30'", DATE, "22008"),
    ],
)
def test_rows_that_do_not_fit(value: str, target: PgType, sqlstate: str) -> None:
    with pytest.raises(SqlFault) as caught:
        bind_values([[ExpressionText(value, 40)]], [target], facts=session_facts())
    assert (caught.value.sqlstate, caught.value.position) == (sqlstate, 40)


def test_one_constant() -> None:
    facts = session_facts()
    value = literal_value(ExpressionText("1700000000000", 1), NUMERIC, facts=facts)
    assert value is not None
    assert python_value(value) == 1_700_000_000_000
    assert literal_value(ExpressionText("1 + 1", 1), INT8, facts=facts) is None


def test_without_a_parser_of_texts_only_plain_constants_are_known() -> None:
    facts = session_facts(parse_text=None)
    found = bound("SELECT id FROM t WHERE d = '2024-01-01' AND a = '5'", RELATIONS, facts=facts)
    assert "(t1.c8 = DATE_FROM_UNIX_DATE(19723)) AND (t1.c2 = 5)" in found.sql
    with pytest.raises(FeatureNotSupported):
        bound("SELECT interval '1 day'", RELATIONS, facts=facts)
    with pytest.raises(SqlFault) as caught:
        bound("SELECT 'x'::int", RELATIONS, facts=facts)
    assert caught.value.sqlstate == "22P02"


@pytest.mark.parametrize(
    "constant", ["'infinity'::date", "'-infinity'::timestamp", "'20000-01-01'::timestamptz"]
)
def test_times_that_python_has_not_are_constants_too(constant: str) -> None:
    [column] = bound(f"SELECT isfinite({constant}) AS c", RELATIONS).columns
    assert column.name == "c"


@pytest.mark.parametrize(
    "condition", ["d = 'infinity'", "ts in ('infinity', '2024-01-01')", "d = any('{infinity}')"]
)
def test_conditions_on_times_that_python_has_not_are_left_to_the_engine(condition: str) -> None:
    relations = KnownRelations({"r": {"d": "date", "ts": "timestamp"}})
    assert bound(f"SELECT d FROM r WHERE {condition}", relations).simple is None
