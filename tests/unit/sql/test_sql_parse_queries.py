"""Queries, subscriptions, EXPLAIN, and how a text is split."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from waterclock.sql.ast import Statement
from waterclock.sql.ast.changes import Insert, Update, WithChanges
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    NameValue,
    ObjectKind,
    ObjectName,
    Option,
    QueryText,
    SortKey,
    StringValue,
)
from waterclock.sql.ast.objects import Unsupported
from waterclock.sql.ast.queries import (
    AsOf,
    Explain,
    ExplainObject,
    ExplainStage,
    Query,
    Subscribe,
    SubscribeEnvelope,
    SubscribeForm,
)
from waterclock.sql.ast.relations import CreateMaterializedView
from waterclock.sql.errors import SqlFault
from waterclock.sql.parser import parse_statements

Parse = Callable[[str], Statement]
Refuse = Callable[[str], SqlFault]


def test_empty_texts() -> None:
    for text in ("", "  ", ";", " ; ;; ", "-- nothing\n", "/* nothing */;"):
        assert parse_statements(text) == ()


def test_a_text_is_split_at_semicolons_that_are_semicolons() -> None:
    text = " select ';' ; select $$;$$ /* ; */; begin;;commit -- ;\n"
    found = parse_statements(text)
    assert [parsed.text for parsed in found] == ["select ';'", "select $$;$$", "begin", "commit"]
    for parsed in found:
        assert text[parsed.start : parsed.start + len(parsed.text)] == parsed.text


def test_parameters_are_found_where_they_are_parameters() -> None:
    first, second = parse_statements("select $2, '$7', \"$8\", $1, $2 -- $9\n; select $3")
    assert first.parameters == (1, 2)
    assert second.parameters == (3,)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "SELECT",
        "values (1), (2)",
        "TABLE a.b",
        "TABLE only t order by 1",
        "(select 1) union (select 2) limit 1",
        "with a as (select 1), b(x) as materialized (select 2) select * from a, b",
        "with recursive t(n) as (values (1) union all select n + 1 from t) select * from t",
        "with mutually recursive (return at recursion limit 5) t (n int) as (select 1) table t",
        "select a as of from t",
        "select 1 as of",
        "select 1 as of, 2 as into_",
        "select cast(a as text) from (select 1 as a) as of where a = 1",
        "select (select 1 as of)",
        "select '{}'::oid[], a[1:2], b.*, count(*) from t where x is not null",
        "select count(*) as from from t",
        "select 1 as into",
        "select t.into, t.as from t",
    ],
)
def test_queries_are_kept_as_they_are(parse: Parse, text: str) -> None:
    assert parse(f"  {text} ;") == Query(QueryText(text))


@pytest.mark.parametrize(
    ("clause", "time", "at_least"),
    [
        ("AS OF 5", "5", False),
        ("as of at least now() - '1s'", "now() - '1s'", True),
        ("AS OF (select max(t) from x)", "(select max(t) from x)", False),
        ("AS OF $1", "$1", False),
        ("AS OF -1", "-1", False),
        ("AS OF TIMESTAMP '2020-01-01'", "TIMESTAMP '2020-01-01'", False),
        ("as of null", "null", False),
    ],
)
def test_as_of_is_cut_off(parse: Parse, clause: str, time: str, at_least: bool) -> None:
    statement = parse(f"SELECT * FROM t {clause}")
    assert statement == Query(QueryText("SELECT * FROM t"), AsOf(ExpressionText(time), at_least))
    assert isinstance(statement, Query)
    assert statement.query.position == 1
    assert statement.as_of is not None
    assert statement.as_of.time.position == len(f"SELECT * FROM t {clause}") - len(time) + 1


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("selct 1", 1),
        ("select (1", 10),
        ("select (1;", 10),
        ("select 1)", 9),
        ("select (1]", 10),
        ("select 1; ; foo", 13),
        ("( insert", 3),
        ("((1))", 3),
        ("select 1 +", 11),
        ("select a, from t where", 23),
        ("select a from t where b and;", 28),
        ("with a as select 1", 11),
        ("with a as (select 1) foo", 22),
        ("with a as (select 1),", 22),
        ("with a as (1) select 1", 12),
        ("table", 6),
        ("table t foo", 9),
        ("1", 1),
        ("'select'", 1),
        ('"select" 1', 1),
    ],
)
def test_broken_queries(refuse: Refuse, text: str, position: int) -> None:
    fault = refuse(text)
    assert (fault.sqlstate, fault.position) == ("42601", position)
    if position > len(text):
        assert str(fault) == "syntax error at end of input"
    else:
        assert str(fault).startswith(f'syntax error at or near "{text[position - 1]}')


def test_the_first_mistake_is_told_first(refuse: Refuse) -> None:
    assert str(refuse("selct 'abc")) == 'syntax error at or near "selct"'
    assert str(refuse("select 'abc")).startswith("unterminated quoted string")


def test_with_in_front_of_a_change(parse: Parse) -> None:
    statement = parse("with a as (select 1) insert into t select * from a")
    assert isinstance(statement, Insert)
    assert statement.ctes == QueryText("with a as (select 1)")
    assert statement.source == QueryText("select * from a")


def test_changes_in_with_leave_blanks_behind(parse: Parse) -> None:
    """What is left stands where it was written."""
    text = (
        "with a as (select 1),b as (delete from t where x = $2 returning *), c as (table b) table c"
    )
    found = parse(text)
    assert isinstance(found, WithChanges)
    [named] = found.changes
    assert (named.name.name, named.parameters) == ("b", (2,))
    assert named.change.ctes == QueryText("with a as (select 1)")
    assert isinstance(found.main, Query)
    blank = " " * len("b as (delete from t where x = $2 returning *),")
    assert found.main.query.text == f"with a as (select 1) {blank},c as (table b) table c"


def test_without_queries_nothing_is_left_of_with(parse: Parse) -> None:
    found = parse("with a(x) as (insert into t values (1) returning y) update u set y = 1 from a")
    assert isinstance(found, WithChanges)
    assert [each.columns[0].name for each in found.changes] == ["x"]
    assert isinstance(found.main, Update)
    assert found.main.ctes is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("select a into t from u", "SELECT INTO"),
        (
            "with a as (merge into t using u on true when matched then delete) select 1",
            "MERGE",
        ),
        ("with a as (select 1) merge into t using a on true when matched then delete", "MERGE"),
    ],
)
def test_queries_that_are_not_supported(parse: Parse, text: str, what: str) -> None:
    assert parse(text) == Unsupported(what)


def test_subscribe(parse: Parse) -> None:
    assert parse("SUBSCRIBE t") == Subscribe(ObjectName(("t",)))
    assert parse("subscribe to a.b.c") == Subscribe(ObjectName(("a", "b", "c")))
    assert parse("SUBSCRIBE (SELECT 1)") == Subscribe(QueryText("SELECT 1"))
    assert parse(
        "SUBSCRIBE TO t WITH (SNAPSHOT = false, PROGRESS) AS OF AT LEAST 5 UP TO 1 + 2 "
        "ENVELOPE UPSERT (KEY (a, b)) WITHIN TIMESTAMP ORDER BY a DESC, mz_diff NULLS FIRST"
    ) == Subscribe(
        ObjectName(("t",)),
        (
            Option("snapshot", NameValue(ObjectName(("false",)))),
            Option("progress", None),
        ),
        AsOf(ExpressionText("5"), True),
        ExpressionText("1 + 2"),
        SubscribeEnvelope(SubscribeForm.UPSERT, (Identifier("a"), Identifier("b"))),
        (
            SortKey(ExpressionText("a"), descending=True),
            SortKey(ExpressionText("mz_diff"), nulls_first=True),
        ),
    )


def test_the_clauses_of_subscribe_come_in_any_order(parse: Parse) -> None:
    assert parse("SUBSCRIBE t UP TO 9 AS OF 3 WITH (PROGRESS)") == parse(
        "SUBSCRIBE t WITH (PROGRESS) AS OF 3 UP TO 9"
    )


@pytest.mark.semantics(171)
def test_tail_is_subscribe(parse: Parse) -> None:
    assert parse("TAIL t WITH (PROGRESS) AS OF 3") == parse("SUBSCRIBE t WITH (PROGRESS) AS OF 3")
    assert parse("TAIL t AS OF EARLIEST UNTIL LATEST") == parse(
        "SUBSCRIBE TO t UP TO LATEST AS OF EARLIEST"
    )
    assert parse("TAIL t UNTIL 9") == parse("SUBSCRIBE t UP TO 9")
    assert parse('SUBSCRIBE t AS OF "earliest"') != parse("SUBSCRIBE t AS OF EARLIEST")
    for around in ("COPY ({}) TO STDOUT", "DECLARE c CURSOR FOR {}", "EXPLAIN {}"):
        assert parse(around.format("TAIL t")) == parse(around.format("SUBSCRIBE t"))
    assert parse("SELECT tail, earliest FROM tail AS until") is not None


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("SUBSCRIBE", 10),
        ("SUBSCRIBE TO", 13),
        ("SUBSCRIBE (t)", 12),
        ("SUBSCRIBE t AS OF", 18),
        ("SUBSCRIBE t UP 5", 16),
        ("TAIL t UNTIL", 13),
        ("TAIL t AS OF LATEST UNTIL EARLIEST AS OF 1", 36),
        ("SUBSCRIBE t WITH SNAPSHOT", 18),
        ("SUBSCRIBE t AS OF 1 AS OF 2", 21),
        ("SUBSCRIBE t ENVELOPE NONE", 22),
        ("SUBSCRIBE t WITHIN TIMESTAMP ORDER a", 36),
    ],
)
def test_broken_subscriptions(refuse: Refuse, text: str, position: int) -> None:
    assert refuse(text).position == position


def test_explain(parse: Parse) -> None:
    query = Query(QueryText("SELECT 1"))
    assert parse("EXPLAIN SELECT 1") == Explain(ExplainStage.QUERY, query)
    assert parse("EXPLAIN PLAN FOR SELECT 1") == Explain(ExplainStage.PLAN, query)
    assert parse("EXPLAIN OPTIMIZED PLAN SELECT 1") == Explain(ExplainStage.OPTIMIZED_PLAN, query)
    assert parse("EXPLAIN TIMESTAMP AS JSON FOR SELECT 1") == Explain(
        ExplainStage.TIMESTAMP, query, (), "json"
    )
    assert parse("EXPLAIN PHYSICAL PLAN WITH (types) FOR MATERIALIZED VIEW a.v") == Explain(
        ExplainStage.PHYSICAL_PLAN,
        ExplainObject(ObjectKind.MATERIALIZED_VIEW, ObjectName(("a", "v"))),
        (Option("types", None),),
    )
    true = NameValue(ObjectName(("true",)))
    assert parse("EXPLAIN ANALYZE VERBOSE SELECT 1") == Explain(
        ExplainStage.QUERY, query, (Option("analyze", true), Option("verbose", true))
    )
    assert parse("EXPLAIN (FORMAT 'json') SELECT 1") == Explain(
        ExplainStage.QUERY, query, (Option("format", StringValue("json")),)
    )
    assert parse("EXPLAIN (SELECT 1)") == Explain(
        ExplainStage.QUERY, Query(QueryText("(SELECT 1)"))
    )
    created = parse("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT 1")
    assert isinstance(created, Explain)
    assert isinstance(created.target, CreateMaterializedView)


@pytest.mark.parametrize(
    ("text", "position"),
    [("EXPLAIN", 8), ("EXPLAIN EXPLAIN SELECT 1", 9), ("EXPLAIN PLAN FOR BEGIN", 18)],
)
def test_broken_explain(refuse: Refuse, text: str, position: int) -> None:
    assert refuse(text).position == position
