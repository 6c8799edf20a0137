"""Window functions and the rows that come first in their group.

Ordered windows order by all columns in scope where the result depends on it, so that rows that tie
are equal and the result is definite. Only one such window is in a query: with two, equal rows would
take places in each that have nothing to do with each other, and which go together is not definite.
"""

from __future__ import annotations

from waterclock.testing.fuzz.drawing import Draw, Query
from waterclock.testing.fuzz.expressions import Column, Exactness, Scope
from waterclock.testing.fuzz.sources import from_clause
from waterclock.testing.fuzz.subqueries import now
from waterclock.testing.fuzz.trees import Tree, clause, query
from waterclock.testing.fuzz.values import KINDS

_TOTAL = (
    ("row_number()", "int"),
    ("ntile(2)", "int"),
    ("lag({int})", "int"),
    ("lead({string}, 2)", "string"),
    ("first_value({string})", "string"),
    ("last_value({date})", "date"),
    ("nth_value({int}, 2)", "int"),
    ("lag({string}) IGNORE NULLS", "string"),
    ("sum({int})", "bigint"),
    ("count({string})", "bigint"),
    ("max({decimal})", "decimal"),
)
"""Definite over a total order."""
_PEERS = (
    ("rank()", "int"),
    ("dense_rank()", "int"),
    ("sum({decimal})", "decimal"),
    ("count(*)", "bigint"),
    ("min({date})", "date"),
    ("avg({int})", "double"),
)
"""Definite over any order, since rows that tie are treated alike."""
_FRAMES = (
    "",
    " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW",
    " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    " ROWS BETWEEN 2 PRECEDING AND 1 PRECEDING",
    " ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
)
_RANGES = (
    "",
    " RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
    " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    " RANGE BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
)
"""Over an order by one number."""


def windowed(draw: Draw, depth: int) -> Query:
    """SELECT columns, function OVER (...)."""
    below = from_clause(draw, depth)
    kept = draw.pick.sample(below.scope, min(len(below.scope), draw.one_of((1, 2))))
    items: list[tuple[Tree | str, Column]] = [(c.sql, c) for c in kept]
    items.append(_function(draw, below.scope, draw.one_of(("total", "peers", "whole"))))
    if draw.chance(0.25):
        items.append(_function(draw, below.scope, draw.one_of(("peers", "whole"))))
    listing, columns = draw.projected(items)
    parts: list[str | Tree] = ["SELECT ", listing, " FROM ", below.tree]
    if draw.chance(0.3):
        parts.append(clause(" WHERE ", draw.values.condition(below.scope), now(draw, below.scope)))
    return Query(query(*parts), tuple(columns))


def _function(draw: Draw, scope: Scope, form: str) -> tuple[Tree, Column]:
    draw.uses(f"window: {form}")
    partition = _partition(draw, scope)
    if form == "total":
        template, kind = draw.one_of(_TOTAL)
        framed = template.startswith(("sum", "count", "max", "first", "last"))
        frame = draw.one_of(_FRAMES) if framed else ""
        over = f"{partition}ORDER BY {total_order(draw, scope)}{frame}"
    else:
        template, kind = draw.one_of(_PEERS if form == "peers" else _PEERS[2:])
        column = draw.one_of(scope)
        ranged = column.kind in ("int", "bigint") and not template.endswith("rank()")
        frame = draw.one_of(_RANGES) if ranged else ""
        over = f"{partition}ORDER BY {column.sql}{frame}" if form == "peers" else partition
    call = draw.values.filled(template, kind, scope, 0)
    exactness = Exactness.ROUNDED if template.startswith("avg") else Exactness.EXACT
    return Tree(kind, (call, f" OVER ({over.strip()})")), Column("", kind, exactness)


def _partition(draw: Draw, scope: Scope) -> str:
    usable = [c for c in scope if c.kind in KINDS]
    if not usable or draw.chance(0.2):
        return ""
    return f"PARTITION BY {draw.one_of(usable).sql} "


def total_order(draw: Draw, scope: Scope) -> str:
    """All columns, in any order and direction."""
    shuffled = draw.pick.sample(scope, len(scope))
    ends = ("", " DESC", " NULLS LAST", " DESC NULLS FIRST")
    return ", ".join(column.sql + draw.one_of(ends) for column in shuffled)


def first_in_group(draw: Draw, depth: int) -> Query:
    """The first few rows of each group, as SQL says it: a row number below a bound."""
    below = from_clause(draw, depth)
    draw.uses("top rows of a group")
    inner, columns = draw.projected([(c.sql, c) for c in below.scope])
    rank, alias = draw.name("n"), draw.name("t")
    function = draw.one_of(("row_number()", "row_number()", "rank()"))
    over = f"{_partition(draw, below.scope)}ORDER BY {total_order(draw, below.scope)}"
    numbered = query("SELECT ", inner, f", {function} OVER ({over}) AS {rank} FROM ", below.tree)
    seen = [Column(f"{alias}.{c.sql}", c.kind, c.exactness) for c in columns]
    kept = draw.pick.sample(seen, draw.pick.randrange(1, len(seen) + 1))
    listing, made = draw.projected([(c.sql, c) for c in kept])
    test = draw.one_of((f"{rank} <= 2", f"{rank} = 1", f"{rank} < 4"))
    return Query(
        query("SELECT ", listing, " FROM (", numbered, f") {alias} WHERE {test}"), tuple(made)
    )
