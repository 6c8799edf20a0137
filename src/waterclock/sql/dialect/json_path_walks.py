"""Paths of SQL/JSON in Spark SQL.

A path makes a list of values of a document, and each step makes another list of that one, so that
the expression is as long as the path. The mode is lax: a step to a member looks into the elements
of an array, one to elements takes what is no array for one of itself, and what is not there is left
out. A condition is true, false or unknown, which is what Spark's null is; of lists it is true if it
holds for one pair of their values, and else unknown if it is that for any.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, assert_never

from waterclock.sql.dialect import json_path_tree as path
from waterclock.sql.dialect import jsons as js
from waterclock.sql.dialect.faults import raised
from waterclock.sql.dialect.json_ordering import key_literal, scalar_key
from waterclock.sql.dialect.letting import let
from waterclock.sql.dialect.literals import quoted

_ORDERED = {"<=": True, ">=": True, "=": True, "<": False, ">": False, "<>": False}
"""What a comparison of two nulls gives."""


class Walks:
    """Writes paths over a document, with the values of variables; without any, all are null.

    `regex` gives the engine's regular expression for one of a path, with its flags.
    """

    def __init__(
        self, root: str, variables: Mapping[str, Any] | None, regex: Callable[[str, str], str]
    ) -> None:
        self._root = root
        self._variables = variables
        self._regex = regex
        self._depth = 0

    def values(self, found: path.Path) -> str:
        """An array of all values that the path leads to."""
        if isinstance(found, path.Walk):
            return self._walk(found, "")
        test = self.condition(found, "")
        word = "(CASE WHEN q THEN 'true' WHEN NOT q THEN 'false' ELSE 'null' END)"
        return f"TRANSFORM(ARRAY({test}), q -> {word})"

    # Steps

    def _name(self) -> str:
        """A variable that no lambda around has."""
        self._depth += 1
        return f"p{self._depth}"

    def _walk(self, walk: path.Walk, current: str) -> str:
        found = f"ARRAY({self._start(walk.start, current)})"
        for step in walk.steps:
            found = self._step(found, step)
        return found

    def _start(
        self, start: path.Root | path.Current | path.Variable | path.Constant, at: str
    ) -> str:
        match start:
            case path.Root():
                return self._root
            case path.Current():
                return at
            case path.Variable(name):
                if self._variables is None:
                    return "'null'"
                if (missing := self._missing(start)) is not None:
                    return f"CAST({missing} AS STRING)"
                return quoted(_token(self._variables[name]))
            case path.Constant(value):
                return quoted(_token(value))
            case _:
                assert_never(start)

    def _missing(self, start: object) -> str | None:
        """The error of a path that begins at a variable that has no value."""
        if not isinstance(start, path.Variable) or self._variables is None:
            return None
        if start.name in self._variables:
            return None
        return raised("42704", f'could not find jsonpath variable "{start.name}"')

    def _step(self, found: str, step: path.Step) -> str:
        x = self._name()
        match step:
            case path.Member(None):
                values = f"FILTER({js.pieces(x)}, (e, i) -> i % 2 = 1)"
                each = f"CASE WHEN {js.is_object(x)} THEN {values} ELSE {js.NOTHING} END"
                return f"FLATTEN(TRANSFORM({self._unwrapped(found)}, {x} -> {each}))"
            case path.Member(name):
                assert name is not None
                each = js.member(x, quoted(js.string_literal(name)))
                taken = f"TRANSFORM({self._unwrapped(found)}, {x} -> {each})"
                return f"FILTER({taken}, {x} -> {x} IS NOT NULL)"
            case path.Elements(()):
                return self._unwrapped(found)
            case path.Elements(ranges):
                cut = ", ".join(_slice(first, last) for first, last in ranges)
                each = let({"p": js.elements(x)}, "a", f"CONCAT({cut})")
                return f"FLATTEN(TRANSFORM({found}, {x} -> {each}))"
            case path.Filter(condition):
                test = self.condition(condition, x)
                return f"FILTER({self._unwrapped(found)}, {x} -> COALESCE({test}, FALSE))"
            case path.Method("size"):
                count = f"CASE WHEN {js.is_array(x)} THEN SIZE({js.pieces(x)}) ELSE 1 END"
                return f"TRANSFORM({found}, {x} -> CAST({count} AS STRING))"
            case path.Method():
                kind = f"CONCAT('\"', {js.KINDS.format(x)}, '\"')"
                return f"TRANSFORM({found}, {x} -> {kind})"
            case _:
                assert_never(step)

    def _unwrapped(self, found: str) -> str:
        x = self._name()
        return f"FLATTEN(TRANSFORM({found}, {x} -> {js.elements(x)}))"

    # Conditions

    def condition(self, test: path.Condition, current: str) -> str:
        """The condition, over the value that a filter looks at."""
        match test:
            case path.Joined(word, left, right):
                return f"({self.condition(left, current)} {word} {self.condition(right, current)})"
            case path.Negated(inner):
                return f"(NOT {self.condition(inner, current)})"
            case path.IsUnknown(inner):
                return f"({self.condition(inner, current)} IS NULL)"
            case path.Exists(walk):
                return f"(SIZE({self._walk(walk, current)}) > 0)"
            case path.StartsWith(walk, prefix):
                return self._of_text(
                    walk, lambda text: f"STARTSWITH({text}, {quoted(prefix)})", current
                )
            case path.LikeRegex(walk, pattern, flags):
                regex = quoted(self._regex(pattern, flags))
                return self._of_text(walk, lambda text: f"WC_MATCHES({text}, {regex})", current)
            case path.Compared(sign, left, right):
                return self._compared(sign, left, right, current)
            case _:
                assert_never(test)

    def _of_text(self, walk: path.Walk, test: Callable[[str], str], current: str) -> str:
        """A test of strings; of anything else it is unknown."""
        x = self._name()
        each = f"CASE WHEN LEFT({x}, 1) = '\"' THEN {test(js.unescaped(x))} END"
        return f"EXISTS({self._unwrapped(self._walk(walk, current))}, {x} -> {each})"

    def _compared(self, sign: str, left: path.Walk, right: path.Walk, current: str) -> str:
        for side in (left, right):  # both are looked at, even if one leads to nothing
            if (missing := self._missing(side.start)) is not None:
                return f"CAST({missing} AS BOOLEAN)"
        x, y = self._name(), self._name()
        one = self._unwrapped(self._walk(left, current))
        if isinstance(right.start, path.Constant) and not right.steps:
            return f"EXISTS({one}, {x} -> {_with_known(x, sign, right.start.value)})"
        other = self._unwrapped(self._walk(right, current))
        return f"EXISTS({one}, {x} -> EXISTS({other}, {y} -> {_with_other(x, sign, y)}))"


def _token(value: Any) -> str:
    """A value that is known as its JSON."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, str):
        return js.string_literal(value)
    return json.dumps(value, ensure_ascii=False)


def _slice(first: path.Bound, last: path.Bound) -> str:
    """The elements `a.p` from one place to another."""
    start, end = (
        f"SIZE(a.p) - {1 - each.offset}" if each.is_last else str(each.offset)
        for each in (first, last)
    )
    low = f"GREATEST({start}, 0)"
    count = f"GREATEST(LEAST({end}, SIZE(a.p) - 1) - {low} + 1, 0)"
    return f"SLICE(a.p, {low} + 1, {count})"


def _with_known(item: str, sign: str, value: Decimal | str | bool | None) -> str:
    """Whether a value compares so with a constant; null where the two can not be compared."""
    is_null = f"{item} = 'null'"
    if value is None:
        if sign == "<>":
            return f"NOT ({is_null})"
        return is_null if _ORDERED[sign] else "FALSE"
    match value:
        case bool():
            alike, compared = f"{item} IN ('true', 'false')", f"({item} = 'true') {sign} {value}"
        case str():
            alike = f"LEFT({item}, 1) = '\"'"
            compared = f"{js.unescaped(item)} {sign} {quoted(value)}"
        case _:
            alike = f"{item} RLIKE '^[-0-9]'"
            compared = f"{scalar_key(item)} {sign} {key_literal(value)}"
    other = str(sign == "<>").upper()
    return f"CASE WHEN {alike} THEN {compared} WHEN {is_null} THEN {other} END"


def _with_other(one: str, sign: str, other: str) -> str:
    """The same with another value."""
    body = (
        f"CASE WHEN z.a = 'null' AND z.b = 'null' THEN {str(_ORDERED[sign]).upper()}"
        f" WHEN z.a = 'null' OR z.b = 'null' THEN {str(sign == '<>').upper()}"
        f" WHEN {js.is_scalar('z.a')} AND {js.is_scalar('z.b')} AND LEFT(z.k, 1) = LEFT(z.l, 1)"
        f" THEN z.k {sign} z.l END"
    )
    keys = {"k": f"CASE WHEN {js.is_scalar(one)} THEN {scalar_key(one)} END"}
    keys["l"] = f"CASE WHEN {js.is_scalar(other)} THEN {scalar_key(other)} END"
    return let({"a": one, "b": other, **keys}, "z", body)
