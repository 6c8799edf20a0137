"""Texts: queries as PostgreSQL reads them, arrays, names."""

import re

import pytest
from sqlglot import exp

from waterclock.catalog.system.arrays import array_elements, array_text
from waterclock.catalog.system.binding.parsing import MARK, parse
from waterclock.catalog.system.binding.tokens import string_value, tokens_of
from waterclock.catalog.system.directory import name_parts
from waterclock.catalog.system.errors import CatalogQueryError, InvalidText, SyntaxFault


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'it''s'", "it's"),
        (r"E'a\tb\x41\101\u0041\''", "a\tbAAA'"),
        (r"U&'\0041\+000042\\'", "AB\\"),
        ("$$a$b$$", "a$b"),
        ("$t$a$$b$t$", "a$$b"),
    ],
)
def test_strings_of_every_kind(text: str, value: str) -> None:
    [token] = tokens_of(text)
    assert string_value(token) == value


def test_comments_nest_and_operators_end_before_a_sign() -> None:
    texts = [t.text for t in tokens_of("a/* x /* y */ z */=-1 -- end\n@-1 <>+2")]
    assert texts == ["a", "=", "-", "1", "@-", "1", "<>", "+", "2"]


@pytest.mark.parametrize("text", ["'abc", '"abc', "$$abc", "/* abc", "select \x00"])
def test_what_does_not_end_is_told_with_its_place(text: str) -> None:
    with pytest.raises(SyntaxFault) as caught:
        list(tokens_of(text))
    assert caught.value.position is not None


def test_functions_are_marked_and_names_are_not() -> None:
    tree = parse("with t(a) as (select coalesce(1, 2)) select t.a, lower('X') from t as u(b)").tree
    names = [str(node.this) for node in tree.find_all(exp.Anonymous)]
    assert sorted(names) == [f"{MARK}coalesce", f"{MARK}lower"]


def test_parameters_without_blanks() -> None:
    parsed = parse("select * from f($1,$2)where a=$3")
    assert parsed.parameters == 3
    assert len(list(parsed.tree.find_all(exp.Parameter))) == 3


@pytest.mark.parametrize(
    ("sql", "position"),
    [("select 1 +", 11), ("select a b c", 12), ("  select 'é', 1 frm x y", 21)],
)
def test_the_place_of_a_syntax_error(sql: str, position: int) -> None:
    with pytest.raises(SyntaxFault) as caught:
        parse(sql)
    assert caught.value.position == position


def test_several_statements_are_refused() -> None:
    assert parse("select 1;").parameters == 0
    with pytest.raises(CatalogQueryError, match="multiple commands"):
        parse("select 1; select 2")


@pytest.mark.parametrize(
    "elements",
    [[], ["a"], ["a b", 'q"', "back\\slash", "", None, "NULL", "{x}", "a,b", " pad "]],
)
def test_arrays_survive_their_text(elements: list[str | None]) -> None:
    assert array_elements(array_text(elements)) == elements


@pytest.mark.parametrize("text", ["x", "a", "{a", "{a,}", '{"a}', "{{a},{b}}"])
def test_malformed_arrays(text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        array_elements(text)


def test_names_with_dots() -> None:
    assert name_parts('Sales."Odd ""Name"""') == ["sales", 'Odd "Name"']
    with pytest.raises(InvalidText):
        name_parts("a..b")
