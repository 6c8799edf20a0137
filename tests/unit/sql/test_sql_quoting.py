"""Names and strings as text, and what options say."""

from __future__ import annotations

import pytest

from waterclock.sql import options
from waterclock.sql.ast.common import Option
from waterclock.sql.ast.relations import CreateTable
from waterclock.sql.errors import SyntaxFault
from waterclock.sql.parser import parse_statements
from waterclock.sql.quoting import quote_ident, quote_literal, quote_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("abc_1", "abc_1"),
        ("Abc", '"Abc"'),
        ("1a", '"1a"'),
        ("a b", '"a b"'),
        ('a"b', '"a""b"'),
        ("", '""'),
        ("ä", '"ä"'),
        ("a$b", '"a$b"'),
        ("select", '"select"'),
        ("int", '"int"'),
        ("left", '"left"'),
        ("table_name", "table_name"),
        ("source", "source"),
        ("text", "text"),
        ("a\n", '"a\n"'),
    ],
)
def test_quote_ident(name: str, expected: str) -> None:
    assert quote_ident(name) == expected


def test_quote_name() -> None:
    assert quote_name(("a", "B", "c.d")) == 'a."B"."c.d"'


@pytest.mark.parametrize(
    ("text", "expected"),
    [("it's", "'it''s'"), ("", "''"), ("a\\b'", "E'a\\\\b'''"), ("a\nb", "'a\nb'")],
)
def test_quote_literal(text: str, expected: str) -> None:
    assert quote_literal(text) == expected


def given(text: str) -> Option:
    (parsed,) = parse_statements(f"CREATE TABLE t (a int) WITH ({text})")
    assert isinstance(parsed.statement, CreateTable)
    (option,) = parsed.statement.options
    return option


@pytest.mark.parametrize("text", ["a", "a = true", "a = 'ON'", "a 1", "a = on"])
def test_truth(text: str) -> None:
    assert options.truth(given(text)) is True


@pytest.mark.parametrize("text", ["a = false", "a 'off'", "a = 0"])
def test_untruth(text: str) -> None:
    assert options.truth(given(text)) is False


def test_other_readings() -> None:
    assert options.text(given("a = 'x'")) == "x"
    assert options.text(given("a = csv")) == "csv"
    assert options.text(given("a = 1.5")) == "1.5"
    assert options.integer(given("a = -12")) == -12
    assert options.integer(given("a = '12'")) == 12
    assert options.names(given("a = (b, c)")) == ("b", "c")
    assert options.names(given("a = b")) == ("b",)
    assert options.is_star(given("a = *"))


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (options.truth, "a = maybe", "a requires a Boolean value"),
        (options.truth, "a = (1)", "a requires a Boolean value"),
        (options.text, "a", "a requires a parameter"),
        (options.text, "a = (b)", "a requires a string"),
        (options.integer, "a = 1.5", "a requires an integer value"),
        (options.integer, "a", "a requires an integer value"),
        (options.names, "a = 1", "a requires a list of names"),
        (options.names, "a = (b.c)", "a requires a list of names"),
    ],
)
def test_wrong_readings(read: object, text: str, message: str) -> None:
    assert callable(read)
    with pytest.raises(SyntaxFault, match=message) as raised:
        read(given(text))
    assert raised.value.position == 30


def test_by_name() -> None:
    first, second = Option("a", None, 5), Option("b", None, 7)
    assert options.by_name((first, second), {"a", "b"}) == {"a": first, "b": second}
    with pytest.raises(SyntaxFault, match="conflicting or redundant options"):
        options.by_name((first, first), {"a"})
    with pytest.raises(SyntaxFault, match='option "b" not recognized') as raised:
        options.by_name((first, second), {"a"})
    assert raised.value.position == 7
