"""Conditions that look beyond the row: at other rows by subqueries, correlated or not, or at the
time.
"""

from __future__ import annotations

from waterclock.testing.fuzz.drawing import Draw, Source
from waterclock.testing.fuzz.expressions import TEMPLATES, Column, Exactness, Scope
from waterclock.testing.fuzz.sources import join_condition, source
from waterclock.testing.fuzz.trees import Tree, clause, query

_AGGREGATES = {
    "int": ("max({})", "min({})"),
    "bigint": ("sum({})", "max({})"),
    "decimal": ("sum({})", "avg({})", "min({})"),
    "double": ("max({})", "sum({})"),
    "date": ("min({})", "max({})"),
    "timestamp": ("max({})",),
    "string": ("max({})", "min({})"),
    "boolean": ("bool_or({})",),
}


def now(draw: Draw, scope: Scope) -> Tree:
    """One more condition, on the time, if the query may have one; else nothing."""
    numbers = [c for c in scope if c.kind in ("int", "bigint")]
    if not draw.temporal or not numbers or not draw.chance(0.6):
        return clause("")
    draw.uses("temporal filter")
    column = draw.one_of(numbers)
    due = f"CAST({column.sql} AS BIGINT) * 3 + {draw.pick.randrange(8)}"
    if draw.chance(0.3):
        return clause(f" AND mz_now() BETWEEN {due} AND {due} + {draw.pick.randrange(9)}")
    operator = draw.one_of(("<", "<=", ">", ">=", "="))
    return clause(f" AND mz_now() {operator} {due}")


def predicate(draw: Draw, scope: Scope) -> Tree:
    """A condition with a subquery in it, or a plain one if the types allow none."""
    form = draw.one_of(("exists", "in", "compare"))
    found = {"exists": exists, "in": membership, "compare": _comparison}[form](draw, scope)
    if found is None:
        return draw.values.condition(scope)
    if draw.chance(0.25):
        draw.uses("subquery under OR")
        return Tree("boolean", ("(", found, " OR ", draw.values.condition(scope), ")"))
    return found


def exists(draw: Draw, scope: Scope) -> Tree | None:
    """[NOT] EXISTS, correlated by equality; now and then with another one inside."""
    inner = source(draw, 0)
    correlation = join_condition(draw, inner, Source(inner.tree, tuple(scope)))
    if correlation is None:
        return None
    word = draw.one_of(("EXISTS", "NOT EXISTS"))
    draw.uses(word.lower())
    nested = exists(draw, inner.scope) if draw.chance(0.15) else None
    more = clause("") if nested is None else clause(" AND ", nested)
    if nested is not None:
        draw.uses("nested subquery")
    below = query("SELECT 1 FROM ", inner.tree, " WHERE ", correlation, more)
    return Tree("boolean", (f"{word} (", below, ")"))


def membership(draw: Draw, scope: Scope) -> Tree | None:
    """[NOT] IN a column of another relation, which may hold nulls."""
    inner = source(draw, 0)
    pairs = _pairs(scope, inner.scope)
    if not pairs:
        return None
    chosen = draw.pick.sample(pairs, min(len(pairs), draw.one_of((1, 2), (4, 1))))
    asked, others = (", ".join(each.sql for each in side) for side in zip(*chosen, strict=True))
    word = draw.one_of(("IN", "NOT IN"))
    draw.uses(word.lower())
    parts: list[str | Tree] = [f"SELECT {others} FROM ", inner.tree]
    if draw.chance(0.4):
        parts.append(clause(" WHERE ", draw.values.condition(inner.scope)))
    return Tree("boolean", (f"(({asked}) {word} (", query(*parts), "))"))


def scalar(draw: Draw, scope: Scope, kind: str) -> Tree | None:
    """A subquery with one value of the type."""
    inner = source(draw, 0)
    columns = [c for c in inner.scope if c.kind == kind and c.exactness == Exactness.EXACT]
    if not columns:
        return None
    column = draw.one_of(columns).sql
    if draw.failing and draw.chance(0.4):
        draw.uses("scalar subquery of any number of rows")
        return _scalar(kind, f"SELECT {column} FROM ", inner.tree, *_correlated(draw, inner, scope))
    if draw.chance(0.2):
        draw.uses("scalar subquery with LIMIT 1")
        return _scalar(kind, f"SELECT {column} FROM ", inner.tree, f" ORDER BY {column} LIMIT 1")
    value = draw.one_of(_AGGREGATES[kind]).format(column)
    tail = _correlated(draw, inner, scope) if draw.chance(0.5) else ()
    draw.uses("correlated scalar subquery" if tail else "scalar subquery")
    return _scalar(kind, f"SELECT {value} FROM ", inner.tree, *tail)


def _scalar(kind: str, *parts: str | Tree) -> Tree:
    return Tree(kind, ("(", query(*parts), ")"))


def _correlated(draw: Draw, inner: Source, scope: Scope) -> tuple[str | Tree, ...]:
    """WHERE with equalities between the subquery and what is around it."""
    pairs = _pairs(scope, inner.scope)
    if not pairs:
        return ()
    outer, within = draw.one_of(pairs)
    return (f" WHERE {within.sql} = {outer.sql}",)


def _comparison(draw: Draw, scope: Scope) -> Tree | None:
    columns = [c for c in scope if c.kind in _AGGREGATES]
    if not columns:
        return None
    column = draw.one_of(columns)
    value = scalar(draw, scope, column.kind)
    if value is None:
        return None
    operator = draw.one_of(("<", ">=", "=", "<>"))
    return Tree("boolean", (f"({column.sql} {operator} ", value, ")"))


def _pairs(scope: Scope, inner: Scope) -> list[tuple[Column, Column]]:
    return [
        (one, other)
        for one in scope
        for other in inner
        if one.kind == other.kind and one.kind in TEMPLATES and one.exactness == other.exactness
    ]
