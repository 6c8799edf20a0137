"""The parts of the replay that need no server: reading scripts, and comparing answers."""

from __future__ import annotations

import pytest

from waterclock.testing.judge.systems import Answer
from waterclock.testing.script_files.psql_script import (
    Command,
    Reader,
    Statement,
    argument_list,
    substituted,
)
from waterclock.testing.script_files.replay import Finding, Record
from waterclock.testing.script_files.report import full
from waterclock.testing.script_files.statements import Words
from waterclock.testing.script_files.verdicts import (
    AMBIGUOUS,
    VIEW_TEXT,
    Outcome,
    Verdict,
    compared,
    rows_difference,
)


def texts(script: str) -> list[str]:
    items = list(Reader(script))
    assert all(isinstance(item, Statement) for item in items)
    return [item.text for item in items if isinstance(item, Statement)]


# Reading


def test_statements_end_with_semicolons_and_keep_their_lines() -> None:
    script = "-- first\nSELECT 1;\n\nSELECT\n 2 ; SELECT 3;;\nSELECT 4"
    assert list(Reader(script)) == [
        Statement(2, "SELECT 1"),
        Statement(4, "SELECT\n 2"),
        Statement(5, "SELECT 3"),
        Statement(6, "SELECT 4", "end"),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT ';', E'\\';', 'it''s;'",
        'SELECT 1 AS "a;""b"',
        "SELECT 1 -- one; two\n + 2",
        "SELECT 1 /* one; /* two; */ three; */ + 2",
        "DO $$ BEGIN NULL; END $$",
        "SELECT $tag$ ; $$ ; $tag$, $1, a$b",
        "CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM t; DELETE FROM u)",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN a THEN 1 END; SELECT 2; END",
        "SELECT a[1:2], b::int, U&'\\0061', \"x\"",
    ],
)
def test_quotes_comments_and_brackets_hide_semicolons(statement: str) -> None:
    assert texts(f"{statement};\nSELECT 2;") == [statement, "SELECT 2"]


def test_begin_is_a_statement_outside_of_functions() -> None:
    assert texts("BEGIN; SELECT 1; END;") == ["BEGIN", "SELECT 1", "END"]


def test_what_is_not_closed_goes_on_until_the_end() -> None:
    assert texts("SELECT 'a; SELECT 2;") == ["SELECT 'a; SELECT 2;"]
    assert texts("SELECT $$a; SELECT 2;") == ["SELECT $$a; SELECT 2;"]
    assert texts("SELECT 1 /* a; SELECT 2;") == ["SELECT 1 /* a; SELECT 2;"]


def test_backslash_commands() -> None:
    script = (
        "\\set a 'b c' d\n\\pset null 'n' \\x\nSELECT 1 AS x \\gset p_\nSELECT 2\n\\g\n\\d+ t\n"
    )
    assert list(Reader(script)) == [
        Command(1, "set", "a 'b c' d"),
        Command(2, "pset", "null 'n'"),
        Command(2, "x"),
        Statement(3, "SELECT 1 AS x", "gset", "p_"),
        Statement(4, "SELECT 2", "g"),
        Command(6, "d+", "t"),
    ]


def test_a_command_inside_a_statement_does_not_end_it() -> None:
    script = "SELECT 1,\n\\echo hello\n2;\nSELECT 3 \\r\nSELECT 4;"
    assert list(Reader(script)) == [
        Command(2, "echo", "hello"),
        Statement(1, "SELECT 1,\n\n2"),
        Statement(5, "SELECT 4"),
    ]


def test_several_statements_in_one_message() -> None:
    script = "SELECT 1\\; SELECT 2;\nSELECT 3;"
    assert list(Reader(script)) == [
        Statement(1, "SELECT 1; SELECT 2", is_several=True),
        Statement(2, "SELECT 3"),
    ]


def test_data_of_copy_is_read_on_demand() -> None:
    script = "COPY t FROM STDIN;\n1\tone\n2\tit's;\n\\.\nSELECT 1;\nCOPY u FROM STDIN;\nSELECT 2;\n"
    reader = Reader(script)
    items = iter(reader)
    assert next(items) == Statement(1, "COPY t FROM STDIN")
    assert reader.copy_data() == "1\tone\n2\tit's;\n"
    # A COPY that is refused has no data.
    assert list(items) == [
        Statement(5, "SELECT 1"),
        Statement(6, "COPY u FROM STDIN"),
        Statement(7, "SELECT 2"),
    ]


def test_data_of_copy_ends_with_the_script() -> None:
    reader = Reader("COPY t FROM STDIN;\n1\n2")
    next(iter(reader))
    assert reader.copy_data() == "1\n2"
    assert list(reader) == []


# Variables


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("SELECT :a, :'a', :\"a\"", "SELECT it's, 'it''s', \"it's\""),
        ("SELECT ':a', $$:a$$, x::a, \":a\" -- :a", "SELECT ':a', $$:a$$, x::a, \":a\" -- :a"),
        ("SELECT :unset, a[1:2], f(a := 1)", "SELECT :unset, a[1:2], f(a := 1)"),
        (":{?a} :{?b}", "TRUE FALSE"),
    ],
)
def test_variables_are_filled_in_outside_of_quotes(text: str, result: str) -> None:
    assert substituted(text, {"a": "it's"}) == result


def test_arguments_of_commands() -> None:
    variables = {"dir": "/a b", "n": "1"}
    assert argument_list("file :dir '/data/x.data'", variables) == ["file", "/a b", "/data/x.data"]
    assert argument_list("a 'it''s\\n' x:'n':n", variables) == ["a", "it's\n", "x'1'1"]
    assert argument_list("", variables) == []


# What statements are


@pytest.mark.parametrize(
    ("sql", "is_ordered"),
    [
        ("SELECT a FROM t ORDER BY a", True),
        ("SELECT a FROM (SELECT a FROM t ORDER BY a) x", False),
        ("WITH x AS (SELECT 1 ORDER BY 1) SELECT * FROM x", False),
        ("((SELECT a FROM t ORDER BY 1))", True),
        ("(SELECT 1) UNION (SELECT 2 ORDER BY 1)", False),
        ("(SELECT 1) UNION (SELECT 2) ORDER BY 1", True),
        ("SELECT sum(a) OVER (ORDER BY b) FROM t", False),
        ("SELECT 'ORDER BY' AS x -- ORDER BY", False),
    ],
)
def test_the_outermost_query_has_an_order(sql: str, is_ordered: bool) -> None:
    assert Words(sql).is_ordered is is_ordered


def test_kinds_of_statements() -> None:
    assert Words("(VALUES (1))").is_query
    assert not Words("INSERT INTO t VALUES (1)").is_query
    assert Words("Explain SELECT 1").is_explain
    assert Words("ROLLBACK TO a").controls_transaction
    assert not Words("PREPARE a AS SELECT 1").controls_transaction
    assert Words("SELECT random()").is_volatile
    assert not Words("SELECT 'random()', \"now\" FROM t").is_volatile
    assert Words("SET LOCAL search_path = a").sets_search_path
    assert not Words("SET enable_sort = off").sets_search_path
    assert Words('SELECT * FROM T, "U""v"').names >= {"t", 'U"v'}


# Comparing


def answer(*values: str, name: str = "a", kind: int = 25) -> Answer:
    return Answer(((name, kind),), tuple((value.encode(),) for value in values))


def verdict(ours: Answer, theirs: Answer, *, ordered: bool = False, other: str = "") -> Verdict:
    variants = [answer(*other.split())] if other else [theirs]
    sql = "SELECT a FROM t"
    return compared(sql, ours, theirs, is_ordered=ordered, variants=lambda: variants)


@pytest.mark.parametrize(
    ("ours", "theirs", "outcome"),
    [
        (answer("1", "2"), answer("2", "1"), Outcome.SAME),
        (answer("1", "1"), answer("1"), Outcome.OTHER_ROWS),
        (answer("1"), answer("2"), Outcome.OTHER_ROWS),
        (answer("1", name="b"), answer("1"), Outcome.OTHER_NAMES),
        (answer("1", kind=23), answer("1"), Outcome.OTHER_TYPES),
        (answer("1", kind=2249), answer("1", kind=17000), Outcome.EXPLAINED),
        (Answer(sqlstate="0A000"), answer("1"), Outcome.REFUSED),
        (Answer(sqlstate="42883"), answer("1"), Outcome.REFUSED),
        (Answer(sqlstate="XX000"), answer("1"), Outcome.INTERNAL),
        (Answer(sqlstate="lost"), Answer(sqlstate="42P01"), Outcome.INTERNAL),
        (Answer(sqlstate="57014"), answer("1"), Outcome.INTERNAL),
        (Answer(sqlstate="22012"), answer("1"), Outcome.FAILED),
        (Answer(sqlstate="42P01"), Answer(sqlstate="42P01"), Outcome.SAME),
        (Answer(sqlstate="42P01"), Answer(sqlstate="42703"), Outcome.OTHER_SQLSTATE),
        (answer("1"), Answer(sqlstate="42703"), Outcome.ACCEPTED),
    ],
)
def test_verdicts(ours: Answer, theirs: Answer, outcome: Outcome) -> None:
    assert verdict(ours, theirs).outcome is outcome


def test_order_counts_where_postgres_has_only_one() -> None:
    ours, theirs = answer("1", "2"), answer("2", "1")
    assert verdict(ours, theirs, ordered=True).outcome is Outcome.OTHER_ROWS
    assert verdict(ours, theirs, ordered=True, other="1 2").outcome is Outcome.SAME


def test_rows_that_postgres_leaves_open_are_explained() -> None:
    found = verdict(answer("1"), answer("2"), other="3")
    assert (found.outcome, found.rule) == (Outcome.EXPLAINED, AMBIGUOUS)


def test_the_text_of_a_view_is_its_own() -> None:
    sql = "SELECT pg_get_viewdef('v'::regclass)"
    found = compared(sql, answer("a"), answer("b"), is_ordered=False, variants=list)
    assert (found.outcome, found.rule) == (Outcome.EXPLAINED, VIEW_TEXT)


def test_a_difference_of_rows_says_which() -> None:
    text = rows_difference(answer("1", "2", "2").rows, answer("2", "3").rows)
    assert text == "2 rows too many: (1) (2); 1 too few: (3)"


def test_a_report_lists_all_that_is_not_the_same() -> None:
    record = Record("a.sql")
    refused = Verdict(Outcome.REFUSED, 'type "point" is not supported', sqlstate="0A000")
    wrong = Verdict(Outcome.OTHER_ROWS, "1 rows too many: (1); 0 too few: ")
    for each in (refused, wrong):
        record.outcomes["query", each.outcome] += 1
        record.findings.append(Finding("a.sql", 7, "query", "SELECT 1", each))
    report = "\n".join(full([record], ["a note"]))
    assert record.is_wrong
    assert '| 1 | 0A000 | type "…" is not supported | query 1 | a.sql:7 |' in report
    assert "a.sql:7 (query): 1 rows too many" in report
    assert "- a note" in report
