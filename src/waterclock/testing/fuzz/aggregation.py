"""GROUP BY: aggregates, FILTER, DISTINCT, grouping sets, HAVING."""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.testing.fuzz.drawing import Draw, Query
from waterclock.testing.fuzz.expressions import Column, Exactness, Scope
from waterclock.testing.fuzz.sources import from_clause
from waterclock.testing.fuzz.subqueries import now
from waterclock.testing.fuzz.trees import Tree, clause, listed, query
from waterclock.testing.fuzz.values import KINDS

_EXACT, _ROUNDED, _LOOSE = Exactness.EXACT, Exactness.ROUNDED, Exactness.LOOSE

Aggregate = tuple[str, str, Exactness]
"""Template, type of the result, exactness."""

_ADDED: Sequence[Aggregate] = (
    ("count(*)", "bigint", _EXACT),
    ("count({int})", "bigint", _EXACT),
    ("count({string})", "bigint", _EXACT),
    ("count({date}, {int})", "bigint", _EXACT),
    ("sum({int})", "bigint", _EXACT),
    ("sum({bigint})", "bigint", _EXACT),
    ("sum({decimal})", "decimal", _EXACT),
    ("avg({int})", "double", _ROUNDED),
    ("avg({decimal})", "decimal", _EXACT),
    ("count_if({boolean})", "bigint", _EXACT),
)
_EXTREMES: Sequence[Aggregate] = (
    ("min({int})", "int", _EXACT),
    ("max({bigint})", "bigint", _EXACT),
    ("max({decimal})", "decimal", _EXACT),
    ("min({string})", "string", _EXACT),
    ("max({date})", "date", _EXACT),
    ("min({timestamp})", "timestamp", _EXACT),
    ("max({double})", "double", _EXACT),
    ("bool_and({boolean})", "boolean", _EXACT),
    ("bool_or({boolean})", "boolean", _EXACT),
    ("max(array({double}, {double}))", "doubles", _EXACT),
    ("min(named_struct('x', {date}, 'y', {int})).y", "int", _EXACT),
)
_DISTINCT: Sequence[Aggregate] = (
    ("count(DISTINCT {int})", "bigint", _EXACT),
    ("count(DISTINCT {string})", "bigint", _EXACT),
    ("count(DISTINCT {string}, {int})", "bigint", _EXACT),
    ("sum(DISTINCT {int})", "bigint", _EXACT),
    ("avg(DISTINCT {decimal})", "decimal", _EXACT),
    ("min(DISTINCT {date})", "date", _EXACT),
)
_WHOLE: Sequence[Aggregate] = (
    ("sum({double})", "double", _EXACT),
    ("avg({double})", "double", _ROUNDED),
    ("bit_xor({int})", "int", _EXACT),
    ("bit_or({bigint})", "bigint", _EXACT),
    ("max_by({string}, struct({int}, {string}))", "string", _LOOSE),
    ("sort_array(collect_list({int}))", "array<int>", _EXACT),
    ("array_sort(collect_set({string}))", "array<string>", _EXACT),
    ("percentile({int}, 0.5)", "double", _ROUNDED),
    ("listagg({string}, ',') WITHIN GROUP (ORDER BY 1)", "string", _LOOSE),
    ("approx_count_distinct({int})", "bigint", _EXACT),
)
_SPREAD: Sequence[Aggregate] = (
    ("stddev({int})", "double", _LOOSE),
    ("var_pop({decimal})", "double", _LOOSE),
    ("variance({bigint})", "double", _LOOSE),
)
_FAMILIES = (
    (_ADDED, "added", 5.0),
    (_EXTREMES, "extremes", 3.0),
    (_DISTINCT, "distinct aggregate", 1.5),
    (_WHOLE, "aggregate without a kernel", 0.8),
    (_SPREAD, "spread", 0.5),
)


_AROUND = ("sort_array", "array_sort", "min(named_struct")
"""Templates with something around an aggregate: a definite order, or one of several values."""


def aggregate(draw: Draw, scope: Scope) -> tuple[Tree, Column]:
    """One aggregate over the scope, and what it gives."""
    families = [(members, feature) for members, feature, _ in _FAMILIES]
    members, feature = draw.one_of(families, [weight for _, _, weight in _FAMILIES])
    template = draw.values.closest([template for template, _, _ in members], scope)
    [(_, kind, exactness)] = [each for each in members if each[0] == template]
    if template.startswith(("max_by", "listagg")):
        return _ordered(draw, template, scope)
    draw.uses(feature)
    tree = draw.values.filled(template, kind, scope, 1)
    if draw.chance(0.15) and not template.startswith(_AROUND):
        draw.uses("filter")
        condition = draw.values.condition(scope)
        tree = Tree(kind, (tree, clause(" FILTER (WHERE ", condition, ")")))
    return tree, Column("", kind, exactness)


def _ordered(draw: Draw, template: str, scope: Scope) -> tuple[Tree, Column]:
    """Aggregates that mind the order of rows, over an order that leaves no choice."""
    draw.uses("ordered aggregate")
    text = draw.values.of("string", scope, 0).text
    if template.startswith("max_by"):
        number = draw.values.of("int", scope, 0).text
        sql = f"max_by({text}, struct({number}, {text}))"
    else:
        sql = f"listagg({text}, ',') WITHIN GROUP (ORDER BY {text})"
    return Tree("string", (sql,)), Column("", "string")


def aggregation(draw: Draw, depth: int) -> Query:
    """SELECT keys, aggregates ... GROUP BY."""
    below = from_clause(draw, depth)
    keys = _keys(draw, below.scope)
    calls = [aggregate(draw, below.scope) for _ in range(draw.one_of((1, 2, 3, 4), (3, 3, 2, 1)))]
    if sum("DISTINCT" in tree.text for tree, _ in calls) > 1:
        draw.uses("several distinct aggregates")
    grouping, marks = _grouping(draw, keys)
    items = [(sql, column) for sql, column in keys] + calls + marks
    listing, columns = draw.projected(items)
    parts: list[str | Tree] = ["SELECT ", listing, " FROM ", below.tree]
    if draw.chance(0.3):
        parts.append(clause(" WHERE ", draw.values.condition(below.scope), now(draw, below.scope)))
    parts += grouping
    if draw.chance(0.25) and (keys or draw.chance(0.3)):
        parts.append(_having(draw, below.scope))
    return Query(query(*parts), tuple(columns))


def _keys(draw: Draw, scope: Scope) -> list[tuple[str, Column]]:
    usable = [c for c in scope if c.kind in KINDS]
    count = min(len(usable), draw.one_of((0, 1, 2, 3), (1.5, 5, 3, 1)))
    return [_key(draw, column) for column in draw.pick.sample(usable, count)]


def _key(draw: Draw, column: Column) -> tuple[str, Column]:
    if draw.chance(0.25):
        draw.uses("grouping by an expression")
        match column.kind:
            case "int" | "bigint":
                return f"({column.sql} % 2)", Column("", column.kind)
            case "string":
                return f"upper({column.sql})", Column("", "string")
            case "date":
                return f"month({column.sql})", Column("", "int")
            case _:
                return f"({column.sql} IS NULL)", Column("", "boolean")
    return column.sql, Column("", column.kind, column.exactness)


def _grouping(
    draw: Draw, keys: Sequence[tuple[str, Column]]
) -> tuple[list[str | Tree], list[tuple[Tree, Column]]]:
    """The GROUP BY, and columns that tell grouping sets apart."""
    if not keys:
        draw.uses("global aggregate")
        return [], []
    names = [sql for sql, _ in keys]
    if len(names) < 2 or not draw.chance(0.25):
        return [" GROUP BY ", listed(names)], []
    word = draw.one_of(("ROLLUP", "CUBE", "GROUPING SETS"))
    draw.uses(word.lower())
    mark = (Tree("bigint", ("CAST(grouping_id() AS BIGINT)",)), Column("", "bigint"))
    marks = [mark] if draw.chance(0.5) else []
    if word == "GROUPING SETS":
        sets = [f"({names[0]})", f"({names[1]})", "()", f"({', '.join(names)})"]
        chosen = draw.pick.sample(sets, draw.one_of((2, 3)))
        return [" GROUP BY GROUPING SETS (", listed([*chosen, sets[3]]), ")"], marks
    return [f" GROUP BY {word}(", listed(names), ")"], marks


def _having(draw: Draw, scope: Scope) -> Tree:
    draw.uses("having")
    tests = ("count(*) > 1", "sum({int}) > 2", "max({bigint}) >= 1", "min({string}) < 'b'")
    return clause(" HAVING ", draw.values.filled(draw.one_of(tests), "boolean", scope, 0))
