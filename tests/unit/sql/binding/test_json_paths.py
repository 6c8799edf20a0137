"""Paths into JSON: what is read, what is refused, and how far the text of a path goes."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.sql.dialect import json_path_tree as path
from waterclock.sql.dialect.json_ordering import known_key
from waterclock.sql.dialect.json_path_walks import Walks
from waterclock.sql.dialect.json_paths import BadPath, Unsupported, parse_path


def walks(variables: dict[str, Decimal] | None) -> Walks:
    return Walks("v", variables, lambda pattern, flags: f"({flags}){pattern}")


def member(*names: str) -> path.Walk:
    return path.Walk(path.Root(), tuple(path.Member(name) for name in names))


def test_steps_are_members_and_elements() -> None:
    assert parse_path("$.a.b") == member("a", "b")
    assert parse_path('lax $ . "a b" . type') == member("a b", "type")
    assert parse_path(r'$."\u00e9\x41\n"') == member("éA\n")
    assert parse_path("$.*[*]") == path.Walk(path.Root(), (path.Member(None), path.Elements(())))
    first, last = path.Bound(0, False), path.Bound(-1, True)
    assert parse_path("$[0, 0 to last - 1].size()") == path.Walk(
        path.Root(), (path.Elements(((first, first), (first, last))), path.Method("size"))
    )


def test_conditions_bind_as_they_do_in_sql() -> None:
    found = parse_path("$.a == 1 || $.b < -2.5 && !exists($.c)")
    assert isinstance(found, path.Joined)
    assert found.word == "OR"
    assert isinstance(found.right, path.Joined)
    assert found.right.word == "AND"
    assert found.right.left == path.Compared(
        "<", member("b"), path.Walk(path.Constant(Decimal("-2.5")), ())
    )
    assert found.right.right == path.Negated(path.Exists(member("c")))
    assert parse_path("($.a == 1) is unknown") == path.IsUnknown(
        path.Compared("=", member("a"), path.Walk(path.Constant(Decimal(1)), ()))
    )


def test_a_filter_looks_at_each_value() -> None:
    found = parse_path('$.a ? (@.b starts with "x")')
    looked = path.Walk(path.Current(), (path.Member("b"),))
    assert found == path.Walk(
        path.Root(), (path.Member("a"), path.Filter(path.StartsWith(looked, "x")))
    )


@pytest.mark.parametrize(
    "text",
    ["", "$.", "$.a b", "$[", "$ ?", "$ ? (@.a)", "a", "$.a == ", "!$.a", "$ && $", "§", "($.a"],
)
def test_what_is_no_path(text: str) -> None:
    with pytest.raises(BadPath, match="syntax error"):
        parse_path(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("strict $", "strict"),
        ("$.**", "[.][*][*]"),
        ("$.a + 1", "arithmetic"),
        ("-$.a", "arithmetic"),
        ("$.a.double()", "double"),
        ("$[$.n]", "place"),
        ("$.a starts with $x", "variable"),
    ],
)
def test_what_is_not_computed_is_named(text: str, what: str) -> None:
    with pytest.raises(Unsupported, match=what):
        parse_path(text)


def test_a_variable_that_is_not_given_is_an_error_where_it_is_met() -> None:
    given = walks({"x": Decimal("1.50")})
    assert given.values(parse_path("$x")) == "ARRAY('1.50')"
    assert '42704 could not find jsonpath variable "y"' in given.values(parse_path("$y"))
    assert walks(None).values(parse_path("$y")) == "ARRAY('null')"  # of an operator


def test_a_regular_expression_has_flags() -> None:
    found = parse_path('$.a like_regex "^a" flag "i"')
    assert found == path.LikeRegex(member("a"), "^a", "i")
    assert ", '(i)^a')" in walks(None).values(found)


def test_each_step_adds_as_much_as_the_others() -> None:
    """Were a step to name the one before it twice, the text would grow much faster."""
    sizes = [len(walks(None).values(parse_path("$" + ".a" * count))) for count in (5, 10, 15)]
    assert sizes[2] - sizes[1] < 1.1 * (sizes[1] - sizes[0])


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.data())
def test_keys_of_numbers_compare_as_they_do(one: Decimal, data: st.DataObject) -> None:
    near = st.sampled_from([one, -one, one * 10, one + 1, one - Decimal("0.000001")])
    other = data.draw(st.decimals(allow_nan=False, allow_infinity=False, places=6) | near)
    assert (known_key(one) < known_key(other)) == (one < other)
    assert (known_key(one) == known_key(other)) == (one == other)


def test_keys_of_kinds_compare_as_in_postgres() -> None:
    values = [None, "", "a", "ab", "b", Decimal(-1), Decimal(0), Decimal(2), False, True]
    keys = [known_key(value) for value in values]
    assert keys == sorted(keys)
