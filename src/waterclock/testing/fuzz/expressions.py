"""Values: random expressions of a wanted type over the columns in scope.

The grammar is a table of templates. A hole such as `{int}` is filled with an expression of that
type, and every template is total: whatever the columns hold, it has a value. Templates that can
fail, by dividing by zero, say, are in a table of their own and used only where failing is wanted.
"""

from __future__ import annotations

import random
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from waterclock.testing.fuzz.trees import Tree
from waterclock.testing.fuzz.values import literal


class Exactness(IntEnum):
    """How far a floating-point number can be trusted; other types are always exact."""

    EXACT = 0
    """Sums of it are exact in any order."""
    ROUNDED = 1
    """The same however it is computed, but sums of it depend on the order."""
    LOOSE = 2
    """Depends on the order of rows in its last digits: good for looking at only."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column in scope, as it is written."""

    sql: str
    kind: str
    exactness: Exactness = Exactness.EXACT


Scope = Sequence[Column]

_ANY = (
    "CASE WHEN {boolean} THEN {T} ELSE {T} END",
    "CASE WHEN {boolean} THEN {T} END",
    "coalesce({T}, {T})",
    "if({boolean}, {T}, {T})",
    "nullif({T}, {T})",
)
_ORDERED = ("greatest({T}, {T})", "least({T}, {T})")
_NUMBER = ("({T} + {T})", "({T} - {T})", "abs({T})")

TEMPLATES: Mapping[str, Sequence[str]] = {
    "int": (
        *_NUMBER,
        "({int} * {int})",
        "({int} % 3)",
        "length({string})",
        "year({date})",
        "datediff({date}, {date})",
        "CAST({boolean} AS INT)",
        "instr({string}, {string})",
        "hour({timestamp})",
    ),
    "bigint": (
        *_NUMBER,
        "({bigint} * {int})",
        "({bigint} DIV 2)",
        "CAST({int} AS BIGINT)",
        "pmod({bigint}, 3L)",
    ),
    "decimal": (
        *_NUMBER,
        "({decimal} * {decimal})",
        "({decimal} / 4)",
        "round({decimal}, 1)",
        "CAST({int} AS DECIMAL(12,3))",
    ),
    "string": (
        "concat({string}, {string})",
        "({string} || '-')",
        "upper({string})",
        "lower({string})",
        "substring({string}, 1, 2)",
        "trim({string})",
        "reverse({string})",
        "replace({string}, 'a', 'c')",
        "lpad({string}, 3, '.')",
        "concat_ws('/', {string}, {string})",
        "CAST({int} AS STRING)",
        "CAST({date} AS STRING)",
        "regexp_replace({string}, '[ab]', '*')",
    ),
    "boolean": (
        "({boolean} AND {boolean})",
        "({boolean} OR {boolean})",
        "(NOT {boolean})",
        "({int} = {int})",
        "({bigint} < {bigint})",
        "({int} <=> {int})",
        "({string} <=> {string})",
        "({decimal} >= {decimal})",
        "({string} <> {string})",
        "({date} <= {date})",
        "({timestamp} > {timestamp})",
        "({double} < {double})",
        "({int} IS NULL)",
        "({string} IS NOT NULL)",
        "({int} IN (1, 2, {int}))",
        "({int} NOT IN (0, NULL))",
        "({int} BETWEEN {int} AND {int})",
        "({string} LIKE 'a%')",
        "startswith({string}, 'a')",
        "contains({string}, {string})",
    ),
    "date": (
        "date_add({date}, 1)",
        "date_sub({date}, ({int} % 3))",
        "CAST({timestamp} AS DATE)",
        "trunc({date}, 'MONTH')",
        "last_day({date})",
    ),
    "timestamp": (
        "CAST({date} AS TIMESTAMP)",
        "date_trunc('HOUR', {timestamp})",
        "({timestamp} + INTERVAL 1 DAY)",
    ),
    "double": (
        *_NUMBER,
        "({double} * 0.5D)",
        "({double} / 2.0D)",
        "CAST({int} AS DOUBLE)",
        "CAST({bigint} AS DOUBLE)",
    ),
}

FAILING: Mapping[str, Sequence[str]] = {
    "int": (
        "CAST({string} AS INT)",
        "CAST({bigint} AS TINYINT) + 0",
        "element_at(array(1, 2), {int})",
    ),
    "bigint": ("({bigint} DIV {int})", "({bigint} % {bigint})"),
    "decimal": ("({decimal} / {decimal})", "CAST({string} AS DECIMAL(10,2))"),
    "date": ("CAST({string} AS DATE)",),
    "timestamp": ("CAST({string} AS TIMESTAMP)",),
    "double": ("CAST({string} AS DOUBLE)",),
    "boolean": ("CAST({string} AS BOOLEAN)",),
}

_COMPARED = tuple(kind for kind in TEMPLATES if kind != "boolean")


class Expressions:
    """Draws expressions; with `failing` above zero, some that raise an error on some rows."""

    def __init__(self, pick: random.Random, failing: float = 0.0) -> None:
        self._pick = pick
        self._failing = failing

    def of(self, kind: str, scope: Scope, depth: int = 2) -> Tree:
        """An expression of the type; `depth` bounds how deep templates are nested."""
        usable = [c for c in scope if c.kind == kind and c.exactness == Exactness.EXACT]
        dice = self._pick.random()
        if kind not in TEMPLATES or (usable and dice < (0.45 if depth else 0.9)):
            return Tree(kind, (self._pick.choice(usable).sql,))
        if depth == 0 or dice > 0.93:
            return Tree(kind, (literal(self._pick, kind),))
        return self.filled(self._template(kind, scope), kind, scope, depth - 1)

    def closest(self, templates: Sequence[str], scope: Scope) -> str:
        """Of a few templates the one that has most use for the columns there are."""
        kinds = {c.kind for c in scope if c.exactness == Exactness.EXACT}

        def used(template: str) -> int:
            holes = [hole for _, hole, _, _ in string.Formatter().parse(template) if hole]
            return sum(1 if hole in kinds or hole == "T" else -1 for hole in holes)

        return max(self._pick.sample(templates, min(3, len(templates))), key=used)

    def filled(self, template: str, kind: str, scope: Scope, depth: int) -> Tree:
        """The template with an expression in each of its holes."""
        parts: list[str | Tree] = []
        for text, hole, _, _ in string.Formatter().parse(template):
            parts.append(text)
            if hole is not None:
                parts.append(self.of(kind if hole == "T" else hole, scope, depth))
        return Tree(kind, tuple(parts))

    def condition(self, scope: Scope, depth: int = 1) -> Tree:
        """Something true of some rows, over a column if there is one to compare."""
        compared = [c for c in scope if c.kind in _COMPARED]
        if not compared or self._pick.random() < 0.4:
            return self.of("boolean", scope, depth + 1)
        column = self._pick.choice(compared)
        operator = self._pick.choice(("=", "<", ">=", "<>", ">", "IS NOT DISTINCT FROM"))
        other = Tree(column.kind, (literal(self._pick, column.kind),))
        if self._pick.random() < 0.4:
            other = self.of(column.kind, scope, depth)
        return Tree("boolean", ("(", Tree(column.kind, (column.sql,)), f" {operator} ", other, ")"))

    def _template(self, kind: str, scope: Scope) -> str:
        failing = FAILING.get(kind, ())
        if failing and self._pick.random() < self._failing:
            return self._pick.choice(failing)
        ordered = _ORDERED if kind != "boolean" else ()
        return self.closest((*TEMPLATES[kind], *TEMPLATES[kind], *_ANY, *ordered), scope)
