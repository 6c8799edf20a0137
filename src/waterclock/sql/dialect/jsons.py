"""`jsonb` in Spark SQL: texts in PostgreSQL's normal form, taken apart and put together.

A value is its text: members in order of the length of their names, `", "` and `": "` between, every
number with the digits that it was written with. Spark's own functions of JSON read numbers as
doubles, so they are not used. What reads, takes apart or writes a whole document is a method of our
Java class `Json`, which takes one pass over its bytes; what is put together of these is here.

Functions take the SQL of a value and give the SQL of another one. Variables of lambdas are named so
that an argument never stands inside the lambda that uses it: `let` hands it in. A value that is
named more than once is `held` first, or each step into a document would make the text several times
as long.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted

# A string ends at the first quote behind an even number of backslashes. The pattern has no group
# that repeats with choices in it: Java would take a frame of its stack for each time.
_STRING = r'"(?s:.*?)(?<!\\)(?:\\\\)*+"'
_TOKEN = quoted(_STRING + r'|[\[\]{}]|, |: |[^\[\]{},:" ]++')
_INTEGER = re.compile(r"\s*[+-]?[0-9]{1,9}")
NOTHING = "CAST(ARRAY() AS ARRAY<STRING>)"
_SHORT = re.compile(r"[\w.`]+|'[^']{0,30}'|\(-?[0-9]+\)")


def held(values: Mapping[str, str], name: str, body: Callable[..., str]) -> str:
    """What the body makes of the values, each of them computed once."""
    if all(_SHORT.fullmatch(each) for each in values.values()):
        return body(*values.values())
    return let(values, name, body(*(f"{name}.{field}" for field in values)))


KINDS = (
    "(CASE WHEN {0} IS NULL THEN NULL WHEN LEFT({0}, 1) = '{{' THEN 'object'"
    " WHEN LEFT({0}, 1) = '[' THEN 'array' WHEN LEFT({0}, 1) = '\"' THEN 'string'"
    " WHEN {0} IN ('true', 'false') THEN 'boolean' WHEN {0} = 'null' THEN 'null'"
    " ELSE 'number' END)"
)
"""What kind of JSON a value is."""


def is_object(value: str) -> str:
    return f"(LEFT({value}, 1) = '{{')"


def is_array(value: str) -> str:
    return f"(LEFT({value}, 1) = '[')"


def is_scalar(value: str) -> str:
    return f"(LEFT({value}, 1) NOT IN ('[', '{{'))"


def tokens(value: str) -> str:
    return f"REGEXP_EXTRACT_ALL({value}, {_TOKEN}, 0)"


def pieces(value: str) -> str:
    """What lies directly in an array, or names and values of an object in turn; [] of a scalar."""
    return f"WC_JSON_PIECES({value})"


def elements(value: str) -> str:
    """The elements of an array; whatever else it is counts as an array of itself."""

    def made(v: str) -> str:
        other = f"WHEN {v} IS NOT NULL THEN ARRAY({v})"
        return f"(CASE WHEN {is_array(v)} THEN {pieces(v)} {other} END)"

    return held({"v": value}, "l", made)


def members(value: str) -> str:
    """The members of an object, as structs of `k` (the name, as text) and `v` (JSON)."""
    names = "FILTER(m.p, (e, i) -> i % 2 = 0)"
    each = f"NAMED_STRUCT('k', {unescaped('k')}, 'v', GET(m.p, 2 * i + 1))"
    return let({"p": pieces(value)}, "m", f"TRANSFORM({names}, (k, i) -> {each})")


def unescaped(token: str) -> str:
    """The text of a JSON string."""
    return f"WC_JSON_UNESCAPED({token})"


def string_of(text: str) -> str:
    """A text as a JSON string."""
    return f"WC_JSON_STRING({text})"


def string_literal(text: str) -> str:
    """The same of a text that is known, as Python has it."""
    return json.dumps(text, ensure_ascii=False)


_NUMBERS = {"int2": "SMALLINT", "int4": "INT", "int8": "BIGINT", "float4": "FLOAT"}
_NUMBERS |= {"float8": "DOUBLE"}


def number_as(value: str, kind: str) -> str:
    """A number as an integer, rounded, or as a float; anything else is an error."""
    return held({"v": value}, "n", lambda v: _number_as(v, kind))


def _number_as(value: str, kind: str) -> str:
    wrong = raised("22023", "cannot cast a jsonb value that is not a number to a number")
    number = f"CASE WHEN {value} RLIKE '^[-0-9]' THEN {value} WHEN {value} IS NOT NULL THEN {wrong}"
    spark = _NUMBERS[kind]
    if kind.startswith("int"):
        return f"CAST(ROUND(CAST({number} END AS DECIMAL(38,18)), 0) AS {spark})"
    over = raised("22003", "value out of range: overflow")
    made = f"CAST({number} END AS {spark})"
    return f"(CASE WHEN ABS({made}) = CAST('Infinity' AS DOUBLE) THEN {over} ELSE {made} END)"


def text_of_json(value: str) -> str:
    """A value as text: null for JSON's null, a string without quotes."""
    return (
        f"(CASE WHEN {value} = 'null' THEN NULL WHEN LEFT({value}, 1) = '\"' THEN"
        f" {unescaped(value)} ELSE {value} END)"
    )


def member(value: str, name: str) -> str:
    """The value of a member, given its name as a JSON string; null if there is none."""
    return f"WC_JSON_MEMBER({value}, {name})"


def element(value: str, place: str) -> str:
    """An element by its place from 0, or from the end below 0; null if there is none."""
    return f"WC_JSON_ELEMENT({value}, {place})"


def at_path(value: str, path: str) -> str:
    """What lies at a path, which is an array of texts."""
    return f"WC_JSON_AT({value}, {path})"


def array_of(items: str) -> str:
    """A JSON array of an array of JSON texts, none of them null."""
    return f"CONCAT('[', ARRAY_JOIN({items}, ', '), ']')"


def object_of(pairs: str) -> str:
    """A JSON object of structs of `k` and `v`; of several with one name the last counts."""
    return f"WC_JSON_OBJECT({pairs})"


def canonical(value: str) -> str:
    """The text with equal numbers written alike, for asking whether values are equal."""
    zeros = "TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM t))"
    shorter = f"CASE WHEN t RLIKE '^-?[0-9]+[.][0-9]*0$' THEN {zeros} ELSE t END"

    def made(v: str) -> str:
        rewritten = f"ARRAY_JOIN(TRANSFORM({tokens(v)}, t -> {shorter}), '')"
        return f"(CASE WHEN {v} RLIKE '[.][0-9]*0' THEN {rewritten} ELSE {v} END)"

    return held({"v": value}, "c", made)


def shortest(number: Decimal) -> str:
    """A number that is known as `canonical` writes it, however many digits it has."""
    plain = f"{number:f}"
    if "." in plain:
        plain = plain.rstrip("0").rstrip(".")
    return "0" if plain == "-0" else plain


def without_nulls(value: str) -> str:
    """All objects in it without members that are null."""
    return f"WC_JSON_STRIPPED({value})"


# --- Changing what lies at a path that is known ---------------------------------------------------

_NOT_A_NUMBER = "22P02"


def replaced(value: str, path: tuple[str, ...], new: str, *, create: bool, at: int = 1) -> str:
    """The value with another one at a path; `create` adds it where it could be."""
    step, *rest = path
    inner = "e.v" if rest else new
    if rest:
        inner = replaced("e.v", tuple(rest), new, create=create, at=at + 1)
    return _stepped(value, step, inner, new if create and not rest else None, at)


def inserted(value: str, path: tuple[str, ...], new: str, *, is_after: bool, at: int = 1) -> str:
    """The value with one more before or behind the element at a path, or as a new member."""
    step, *rest = path
    if rest:
        inner = inserted("e.v", tuple(rest), new, is_after=is_after, at=at + 1)
        return _stepped(value, step, inner, None, at)
    there = raised("22023", "cannot replace existing key")
    of_object = _with_member(value, step, there, new)
    of_array = raised(_NOT_A_NUMBER, f'path element at position {at} is not an integer: "{step}"')
    if _INTEGER.fullmatch(step):
        of_array = _with_another(value, int(step), new, is_after=is_after)
    return (
        f"(CASE WHEN {is_object(value)} THEN {of_object}"
        f" WHEN {is_array(value)} THEN {of_array} ELSE {value} END)"
    )


def _with_another(value: str, place: int, new: str, *, is_after: bool) -> str:
    """The array with one more at a place; beyond an end, at that end."""
    index = f"({place} + SIZE(u.p))" if place < 0 else str(place)
    behind = " + 1" if is_after else ""
    inside = f"(CASE WHEN {index} < 0 THEN 0 ELSE {index}{behind} END)"
    where = f"LEAST({inside}, SIZE(u.p))"
    items = f"CONCAT(SLICE(u.p, 1, {where}), ARRAY({new}), SLICE(u.p, {where} + 1, SIZE(u.p)))"
    return let({"p": pieces(value)}, "u", array_of(items))


def removed(value: str, path: tuple[str, ...], at: int = 1) -> str:
    """The value without what lies at a path."""
    step, *rest = path
    inner = removed("e.v", tuple(rest), at + 1) if rest else "NULL"
    return _stepped(value, step, inner, None, at)


def _stepped(value: str, step: str, inner: str, added: str | None, at: int) -> str:
    """Each member or element `e` that the step means as `inner`; null takes it out."""
    of_object = _with_member(value, step, inner, added)
    of_array = raised(_NOT_A_NUMBER, f'path element at position {at} is not an integer: "{step}"')
    if _INTEGER.fullmatch(step):
        of_array = _with_element(value, int(step), inner, added)
    return (
        f"(CASE WHEN {is_object(value)} THEN {of_object}"
        f" WHEN {is_array(value)} THEN {of_array} ELSE {value} END)"
    )


def _with_member(value: str, name: str, inner: str, added: str | None) -> str:
    key = quoted(name)
    changed = f"NAMED_STRUCT('k', e.k, 'v', CASE WHEN e.k = {key} THEN {inner} ELSE e.v END)"
    pairs = f"FILTER(TRANSFORM({members(value)}, e -> {changed}), e -> e.v IS NOT NULL)"
    if added is not None:
        missing = f"FILTER(ARRAY(NAMED_STRUCT('k', {key}, 'v', {added})), f -> NOT EXISTS"
        pairs = let({"a": pairs}, "u", f"CONCAT(u.a, {missing}(u.a, e -> e.k = {key})))")
    return object_of(pairs)


def _with_element(value: str, place: int, inner: str, added: str | None) -> str:
    keyed = "TRANSFORM(u.p, (x, i) -> NAMED_STRUCT('v', x, 'i', i))"
    index = f"({place} + SIZE(u.p))" if place < 0 else str(place)
    changed = f"CASE WHEN e.i = {index} THEN {inner} ELSE e.v END"
    items = f"FILTER(TRANSFORM({keyed}, e -> {changed}), x -> x IS NOT NULL)"
    if added is not None:
        outside = (
            f"CASE WHEN {index} BETWEEN 0 AND SIZE(u.p) - 1 THEN {NOTHING} ELSE ARRAY({added}) END"
        )
        items = f"CONCAT({outside}, {items})" if place < 0 else f"CONCAT({items}, {outside})"
    return let({"p": pieces(value)}, "u", array_of(items))


# --- Containment in a value that is known ---------------------------------------------------------


def parsed(text: str) -> Any:
    """JSON as Python has it, with numbers that keep their digits."""
    return json.loads(text, parse_float=Decimal, parse_int=Decimal)


def contains(value: str, wanted: Any) -> str:
    """Whether a value contains another one, which is known: PostgreSQL's `@>`."""
    if isinstance(wanted, dict | list):
        return _contains(value, wanted)
    among = f"EXISTS({elements(value)}, x -> {_equals('x', wanted)})"
    return f"(NOT {is_object(value)} AND {among})"


def _contains(value: str, wanted: Any) -> str:
    """The same inside of values, where a scalar is contained in an equal one only."""
    if isinstance(wanted, dict):
        tests = [f"COALESCE({is_object(value)}, FALSE)"]
        for name, inner in wanted.items():
            found = member(value, quoted(string_literal(name)))
            tests.append(let({"v": found}, "b", f"COALESCE({_contains('b.v', inner)}, FALSE)"))
        return f"({' AND '.join(tests)})"
    if isinstance(wanted, list):
        tests = [f"COALESCE({is_array(value)}, FALSE)"]
        tests += [
            f"EXISTS({pieces(value)}, x -> COALESCE({_contains('x', inner)}, FALSE))"
            for inner in wanted
        ]
        return f"({' AND '.join(tests)})"
    return _equals(value, wanted)


def _equals(value: str, wanted: Any) -> str:
    if wanted is None:
        return f"({value} = 'null')"
    if isinstance(wanted, bool):
        return f"({value} = '{str(wanted).lower()}')"
    if isinstance(wanted, str):
        return f"({value} = {quoted(string_literal(wanted))})"
    assert isinstance(wanted, Decimal), "there are no other kinds of JSON"
    return f"({canonical(value)} = {quoted(shortest(wanted))})"
