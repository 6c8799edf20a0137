"""Random queries: joins, groups, subqueries, set operations, windows, and orders that are total."""

from __future__ import annotations

import random

from waterclock.testing.sql_fuzz.data import COLUMNS, TABLES
from waterclock.testing.sql_fuzz.expressions import Drawing, Scope

_KINDS = {name: kind.partition("(")[0] for name, kind in COLUMNS.items()}
_SELECTED = ("int4", "int8", "numeric", "text", "date", "timestamp", "bool", "float8")
_AGGREGATES = {
    "int8": ("count(*)", "count({int4})", "sum({int4})", "count(distinct {text})"),
    "numeric": ("sum({numeric})", "max({numeric})", "sum({int8})", "avg({numeric})"),
    "int4": ("min({int4})", "max({int4})"),
    "text": ("max({text})", "min({text})", "string_agg({text}, ',' order by {text})"),
    "date": ("min({date})", "max({date})"),
    "bool": ("bool_and({bool})", "bool_or({bool})"),
}


def scope_of(*aliases: str) -> Scope:
    """The columns of tables under aliases, by type."""
    found: dict[str, list[str]] = {}
    for alias in aliases:
        found.setdefault("int4", []).append(f"{alias}.id")
        for name, kind in _KINDS.items():
            found.setdefault(kind, []).append(f"{alias}.{name}")
    return found


def drawn_query(chance: random.Random) -> str:
    """One query."""
    draw = chance.random()
    if draw < 0.35:
        return _ordered(chance, *_plain(chance))
    if draw < 0.65:
        return _grouped(chance)
    if draw < 0.8:
        return _set_operation(chance)
    if draw < 0.92:
        return _windowed(chance)
    return _nested(chance)


def _source(chance: random.Random) -> tuple[str, Scope]:
    """FROM, and what can be named in it."""
    first = chance.choice(TABLES)
    if chance.random() < 0.4:
        return f"{first} as x", scope_of("x")
    second = chance.choice(TABLES)
    scope = scope_of("x", "y")
    kind = chance.choice(("join", "left join", "right join", "full join", "cross join"))
    column = chance.choice(("i", "s", "d", "b"))
    condition = f"x.{column} = y.{column}"
    if kind in ("join", "left join") and chance.random() < 0.4:
        condition += f" and {Drawing(chance, scope).comparison(1)}"
    on = "" if kind == "cross join" else f" on {condition}"
    return f"{first} as x {kind} {second} as y{on}", scope


def _condition(chance: random.Random, scope: Scope) -> str:
    draw = chance.random()
    if draw < 0.35:
        return ""
    if draw < 0.5:
        table = chance.choice(TABLES)
        column = chance.choice(("i", "s"))
        negation = chance.choice(("", "not "))
        inner = f"select 1 from {table} as z where z.{column} = x.{column}"
        return f" where {negation}exists ({inner})"
    if draw < 0.62:
        table, column = chance.choice(TABLES), chance.choice(("i", "b", "d"))
        negation = chance.choice(("", "not "))
        inner = f"select z.{column} from {table} as z where {_inner(chance)}"
        return f" where x.{column} {negation}in ({inner})"
    drawing = Drawing(chance, scope, lambda kind: _scalar(chance, kind))
    return f" where {drawing.expression('bool', 2)}"


def _inner(chance: random.Random) -> str:
    return Drawing(chance, scope_of("z")).expression("bool", 1)


def _scalar(chance: random.Random, kind: str) -> str:
    """A subquery of one value, which may depend on the row outside."""
    table = chance.choice(TABLES)
    value = Drawing(chance, scope_of("z")).expression(kind, 1)
    function = "bool_or" if kind == "bool" else chance.choice(("max", "min"))
    depends = chance.choice(("", " where z.i = x.i", " where z.s = x.s"))
    return f"(select {function}({value}) from {table} as z{depends})"


def _plain(chance: random.Random) -> tuple[str, int]:
    source, scope = _source(chance)
    drawing = Drawing(chance, scope, lambda kind: _scalar(chance, kind))
    kinds = [chance.choice(_SELECTED) for _ in range(chance.randint(1, 4))]
    items = ", ".join(f"{drawing.expression(k, 2)} as c{n}" for n, k in enumerate(kinds))
    distinct = "distinct " if chance.random() < 0.2 else ""
    return f"select {distinct}{items} from {source}{_condition(chance, scope)}", len(kinds)


def _ordered(chance: random.Random, query: str, width: int) -> str:
    """With all columns in ORDER BY, sometimes, and then sometimes a LIMIT."""
    if chance.random() < 0.5:
        return query
    ends = ("", " desc", " nulls first", " desc nulls last")
    keys = ", ".join(f"{n + 1}{chance.choice(ends)}" for n in range(width))
    limit = chance.choice(("", " limit 3", " limit 5 offset 2"))
    return f"{query} order by {keys}{limit}"


def _grouped(chance: random.Random) -> str:
    source, scope = _source(chance)
    drawing = Drawing(chance, scope)
    keys = [drawing.expression(chance.choice(_SELECTED), 1) for _ in range(chance.randint(0, 2))]
    kinds = [chance.choice(tuple(_AGGREGATES)) for _ in range(chance.randint(1, 3))]
    totals = [_aggregate(chance, drawing, kind) for kind in kinds]
    items = ", ".join(f"{text} as c{n}" for n, text in enumerate([*keys, *totals]))
    query = f"select {items} from {source}{_condition(chance, scope)}"
    if keys:
        query += " group by " + ", ".join(str(n + 1) for n in range(len(keys)))
    if chance.random() < 0.25:
        query += f" having count(*) {chance.choice(('>', '<='))} {chance.randint(0, 2)}"
    return _ordered(chance, query, len(keys) + len(totals))


def _aggregate(chance: random.Random, drawing: Drawing, kind: str) -> str:
    form = chance.choice(_AGGREGATES[kind])
    if form.startswith("string_agg"):
        value = drawing.expression("text", 1)
        return form.replace("{text}", value)
    for name in ("int4", "int8", "numeric", "text", "date", "bool"):
        form = form.replace(f"{{{name}}}", drawing.expression(name, 1))
    if chance.random() < 0.2:
        form += f" filter (where {drawing.expression('bool', 1)})"
    return form


def _set_operation(chance: random.Random) -> str:
    kinds = [chance.choice(_SELECTED) for _ in range(chance.randint(1, 3))]
    sides = []
    for _ in range(2):
        source, scope = _source(chance)
        drawing = Drawing(chance, scope)
        items = ", ".join(f"{drawing.expression(k, 1)} as c{n}" for n, k in enumerate(kinds))
        sides.append(f"select {items} from {source}{_condition(chance, scope)}")
    word = chance.choice(
        ("union", "union all", "intersect", "except", "except all", "intersect all")
    )
    return _ordered(chance, f"{sides[0]} {word} {sides[1]}", len(kinds))


def _windowed(chance: random.Random) -> str:
    table = chance.choice(TABLES)
    drawing = Drawing(chance, scope_of("x"))
    part = chance.choice(("", "partition by x.s ", "partition by x.bo "))
    over = f"over ({part}order by {chance.choice(('x.i desc, x.id', 'x.s, x.id', 'x.id'))})"
    number = drawing.expression("int4", 1)
    calls = (
        *("row_number()", "rank()", "dense_rank()", "lag(x.i)", "lead(x.s, 2)", "ntile(3)"),
        *(f"sum({number})", f"count({number})", "first_value(x.d)", "max(x.n)"),
    )
    chosen = ", ".join(f"{chance.choice(calls)} {over} as c{n + 1}" for n in range(2))
    return f"select x.id as c0, {chosen} from {table} as x{_condition(chance, scope_of('x'))}"


def _nested(chance: random.Random) -> str:
    inner, width = _plain(chance)
    names = ", ".join(f"v.c{n}" for n in range(width))
    if chance.random() < 0.5:
        return f"with v as ({inner}) select {names}, count(*) as total from v group by {names}"
    return f"select {names}, v.c0 is null as no_value from ({inner}) as v"
