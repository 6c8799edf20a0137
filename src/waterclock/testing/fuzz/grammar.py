"""Queries: the grammar's upper part, which puts the others together.

A query is drawn with a bound on how deep queries nest. What it was made of is noted by name, so
that a run can tell what it has tried. Everything drawn is definite: where SQL leaves the result
open (a LIMIT without a total order, say), the grammar does not go.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.testing.fuzz.aggregation import aggregation
from waterclock.testing.fuzz.drawing import Draw, Query
from waterclock.testing.fuzz.expressions import TEMPLATES, Column, Exactness, Expressions, Scope
from waterclock.testing.fuzz.schemas import Relations
from waterclock.testing.fuzz.sources import from_clause
from waterclock.testing.fuzz.subqueries import exists, now, predicate, scalar
from waterclock.testing.fuzz.trees import Tree, clause, query
from waterclock.testing.fuzz.windows import first_in_group, total_order, windowed

FAILING = 0.06
"""How often a query may fail on some rows."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A query with the names of what it is made of."""

    tree: Tree
    columns: tuple[Column, ...]
    features: frozenset[str]
    failing: bool

    @property
    def is_loose(self) -> bool:
        """Whether the last digits of some column depend on the order of rows."""
        return any(column.exactness == Exactness.LOOSE for column in self.columns)


class Grammar:
    """Draws queries over some relations."""

    def __init__(
        self,
        pick: random.Random,
        relations: Relations,
        views: Mapping[str, tuple[Column, ...]],
        *,
        temporal: bool = False,
    ) -> None:
        """With `temporal`, some conditions are on the time, as `mz_now()`."""
        self._pick = pick
        self._temporal = temporal
        self._tables = {
            name: tuple(Column(field.name, field.kind) for field in fields)
            for name, fields in relations.items()
        }
        self._tables.update(views)

    def draw(self, depth: int = 1, first_name: int = 0) -> Drawn:
        """A query. Names inside it are numbered from `first_name` on."""
        failing = self._pick.random() < FAILING
        values = Expressions(self._pick, 0.3 if failing else 0.0)
        tables = dict(self._tables)
        draw = Draw(
            self._pick,
            values,
            tables,
            lambda depth: _query(draw, depth),
            failing=failing,
            temporal=self._temporal,
        )
        draw.name_from(first_name)
        drawn = _with_cte(draw, depth) if draw.chance(0.1) else _query(draw, depth)
        return Drawn(drawn.tree, drawn.columns, frozenset(draw.features), failing)


def _query(draw: Draw, depth: int) -> Query:
    forms = (_select, _distinct, aggregation, _set_operation, _top, windowed, first_in_group)
    return draw.one_of(forms, (6, 1.2, 5, 2, 1.2, 1, 0.8))(draw, depth)


def _select(draw: Draw, depth: int, words: str = "SELECT ") -> Query:
    below = from_clause(draw, depth)
    listing, columns = draw.projected(_items(draw, below.scope))
    parts: list[str | Tree] = [words, listing, " FROM ", below.tree]
    if draw.chance(0.6):
        draw.uses("filter rows")
        parts.append(_where(draw, below.scope))
    return Query(query(*parts), tuple(columns))


def _where(draw: Draw, scope: Scope) -> Tree:
    plain = draw.chance(0.65)
    condition = draw.values.condition(scope) if plain else predicate(draw, scope)
    return clause(" WHERE ", condition, now(draw, scope))


def _items(draw: Draw, scope: Scope) -> list[tuple[Tree | str, Column]]:
    items: list[tuple[Tree | str, Column]] = []
    for _ in range(draw.one_of((1, 2, 3, 4), (1, 3, 3, 2))):
        dice = draw.pick.random()
        if dice < 0.55:
            column = draw.one_of(scope)
            items.append((column.sql, column))
            continue
        kind = draw.one_of([*TEMPLATES, *(c.kind for c in scope if c.kind in TEMPLATES)])
        value: Tree | None = None
        if dice > 0.95:
            value = scalar(draw, scope, kind)
        elif dice > 0.92:
            kind, value = "boolean", exists(draw, scope)
        draw.uses("expression")
        items.append((value or draw.values.of(kind, scope), Column("", kind)))
    return items


def _distinct(draw: Draw, depth: int) -> Query:
    draw.uses("distinct")
    return _select(draw, depth, "SELECT DISTINCT ")


def _set_operation(draw: Draw, depth: int) -> Query:
    operator = draw.one_of(("UNION", "INTERSECT", "EXCEPT")) + draw.one_of(("", " ALL"))
    draw.uses(operator.lower())
    common = ("int", "string", "bigint", "decimal", "date")
    kinds = [draw.one_of(common) for _ in range(draw.one_of((1, 2)))]
    left, right = (_shaped(draw, kinds, depth) for _ in range(2))
    tree = query("(", left.tree, f") {operator} (", right.tree, ")")
    return Query(tree, left.columns)


def _shaped(draw: Draw, kinds: list[str], depth: int) -> Query:
    """A query with columns of these types."""
    below = from_clause(draw, depth)
    items = [(draw.values.of(kind, below.scope, 1), Column("", kind)) for kind in kinds]
    listing, columns = draw.projected(items)
    parts: list[str | Tree] = ["SELECT ", listing, " FROM ", below.tree]
    if draw.chance(0.4):
        parts.append(_where(draw, below.scope))
    return Query(query(*parts), tuple(columns))


def _top(draw: Draw, depth: int) -> Query:
    """The first rows in a total order of the result's columns."""
    drawn = _select(draw, depth)
    draw.uses("order by and limit")
    limit = f" LIMIT {draw.pick.randrange(1, 5)}"
    offset = f" OFFSET {draw.pick.randrange(1, 3)}" if draw.chance(0.4) else ""
    if offset and draw.chance(0.2):
        limit = ""
    order = f" ORDER BY {total_order(draw, drawn.columns)}"
    tree = query(*drawn.tree.parts, order, clause(limit) if offset else limit, clause(offset))
    return Query(tree, drawn.columns)


def _with_cte(draw: Draw, depth: int) -> Query:
    """A query over another one that has a name, and may be used several times."""
    draw.uses("cte")
    named = _query(draw, depth)
    name = draw.name("w")
    columns = tuple(c for c in named.columns if c.exactness < Exactness.LOOSE)
    draw.tables = {**draw.tables, name: columns} if columns else draw.tables
    body = _query(draw, depth)
    return Query(query(f"WITH {name} AS (", named.tree, ") ", body.tree), body.columns)
