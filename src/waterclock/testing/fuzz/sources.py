"""FROM: inputs, views, nested queries and constants; joins of every kind; generators."""

from __future__ import annotations

from waterclock.testing.fuzz.drawing import Draw, Source
from waterclock.testing.fuzz.expressions import TEMPLATES, Column, Exactness
from waterclock.testing.fuzz.trees import Tree, clause, listed
from waterclock.testing.fuzz.values import KINDS, literal

_JOINS = (
    ("JOIN", "inner join", 5),
    ("LEFT JOIN", "left join", 3),
    ("RIGHT JOIN", "right join", 2),
    ("FULL JOIN", "full join", 2),
    ("CROSS JOIN", "cross join", 1),
    ("LEFT SEMI JOIN", "semi join", 2),
    ("LEFT ANTI JOIN", "anti join", 2),
)


def source(draw: Draw, depth: int) -> Source:
    """One thing to read from, under an alias."""
    dice = draw.pick.random()
    alias = draw.name("t")
    if depth > 0 and dice < 0.3:
        query = draw.query(depth - 1)
        draw.uses("nested query")
        seen = _seen(query.columns, alias)
        if seen:
            return Source(Tree("source", ("(", query.tree, f") {alias}")), seen)
    if dice > 0.97:
        return _constants(draw, alias)
    name = draw.one_of(list(draw.tables))
    if name.startswith("v"):
        draw.uses("nested view")
    return Source(Tree("source", (f"{name} {alias}",)), _seen(draw.tables[name], alias))


def from_clause(draw: Draw, depth: int) -> Source:
    """One source, or several joined, perhaps with generated rows."""
    drawn = source(draw, depth)
    for _ in range(draw.one_of((0, 1, 2), (4, 5, 1 if depth else 0.5))):
        drawn = _joined(draw, drawn, depth)
    if draw.chance(0.1):
        drawn = _generated(draw, drawn)
    return drawn


def _seen(columns: tuple[Column, ...], alias: str) -> tuple[Column, ...]:
    """The columns that can be used: not those whose last digits depend on the order of rows."""
    usable = [c for c in columns if c.exactness < Exactness.LOOSE]
    return tuple(Column(f"{alias}.{c.sql}", c.kind, c.exactness) for c in usable)


def _constants(draw: Draw, alias: str) -> Source:
    draw.uses("constant rows")
    kinds = [draw.one_of(list(KINDS)) for _ in range(draw.one_of((1, 2)))]
    names = [draw.name("c") for _ in kinds]
    rows = [
        "(" + ", ".join(literal(draw.pick, kind) for kind in kinds) + ")"
        for _ in range(draw.one_of((1, 2, 3)))
    ]
    columns = tuple(Column(name, kind) for name, kind in zip(names, kinds, strict=True))
    head = ", ".join(names)
    tree = Tree("source", ("(VALUES ", listed(rows), f") {alias}({head})"))
    return Source(tree, _seen(columns, alias))


def _joined(draw: Draw, left: Source, depth: int) -> Source:
    if draw.chance(0.05):
        return _lateral(draw, left)
    right = source(draw, depth)
    weights = [weight for _, _, weight in _JOINS]
    words, feature, _ = draw.one_of(_JOINS, weights)
    condition = None if words == "CROSS JOIN" else join_condition(draw, left, right)
    if condition is None:
        words, feature = "CROSS JOIN", "cross join"
    draw.uses(feature)
    parts: list[str | Tree] = [left.tree, f" {words} ", right.tree]
    if condition is not None:
        parts += [" ON ", condition]
    one_sided = words in ("LEFT SEMI JOIN", "LEFT ANTI JOIN")
    scope = left.scope if one_sided else left.scope + right.scope
    return Source(Tree("source", tuple(parts)), scope)


def join_condition(draw: Draw, left: Source, right: Source) -> Tree | None:
    """Equalities between the two sides, and perhaps more; None if they have no type in common."""
    pairs = [
        (one, other)
        for one in left.scope
        for other in right.scope
        if one.kind == other.kind and one.exactness == other.exactness == Exactness.EXACT
    ]
    if not pairs:
        return None
    if draw.chance(0.06):
        draw.uses("join without equality")
        one, other = draw.one_of(pairs)
        return Tree("boolean", (f"{one.sql} {draw.one_of(('<', '>=', '<>'))} {other.sql}",))
    chosen = draw.pick.sample(pairs, min(len(pairs), draw.one_of((1, 2), (3, 1))))
    parts: list[str | Tree] = []
    for one, other in chosen:
        equal = "<=>" if draw.chance(0.2) else "="
        draw.uses("null-safe equality" if equal == "<=>" else "equality")
        joint = " AND " if parts else ""
        parts.append(clause(joint, one.sql, f" {equal} ", other.sql) if parts else one.sql)
        if len(parts) == 1:
            parts.append(f" {equal} {other.sql}")
    if draw.chance(0.3):
        draw.uses("residual condition")
        scope = left.scope + right.scope
        parts.append(clause(" AND ", draw.values.condition(scope)))
    return Tree("boolean", tuple(parts))


def _lateral(draw: Draw, left: Source) -> Source:
    """A subquery that is evaluated for each row to the left."""
    inner = source(draw, 0)
    condition = join_condition(draw, inner, left)
    kinds = [c for c in inner.scope if c.kind in TEMPLATES and c.exactness == Exactness.EXACT]
    if condition is None or not kinds:
        return left
    draw.uses("lateral join")
    column, name, alias = draw.one_of(kinds), draw.name("c"), draw.name("t")
    tree = Tree(
        "source",
        (
            left.tree,
            f", LATERAL (SELECT {column.sql} AS {name} FROM ",
            inner.tree,
            " WHERE ",
            condition,
            f") {alias}",
        ),
    )
    return Source(tree, (*left.scope, Column(f"{alias}.{name}", column.kind)))


def _generated(draw: Draw, below: Source) -> Source:
    """Each row with every element of an array that is made of it."""
    alias, name = draw.name("g"), draw.name("c")
    form = draw.one_of(("array", "sequence", "split", "position", "stack"))
    draw.uses(f"generate: {form}")
    outer = draw.one_of(("", "OUTER "))
    kind = draw.one_of(("int", "string", "decimal", "date"))
    names = name
    made: tuple[Column, ...] = (Column(name, kind),)
    first, second = (draw.values.of(kind, below.scope, 0) for _ in range(2))
    call: tuple[str | Tree, ...]
    match form:
        case "array":
            call = ("explode(array(", first, ", ", second, "))")
        case "stack":
            # Spark brings its arguments to no common type.
            typed = [("CAST(", each, " AS DECIMAL(9, 2))") for each in (first, second)]
            one, other = typed if kind == "decimal" else ((first,), (second,))
            call = ("stack(2, ", *one, ", ", *other, ")")
        case "sequence":
            number = draw.values.of("int", below.scope, 0)
            call = ("explode(sequence(0, coalesce(", number, ", 1) % 4))")
            made = (Column(name, "int"),)
        case "split":
            text = draw.values.of("string", below.scope, 1)
            call = ("explode(split(", text, ", 'a'))")
            made = (Column(name, "string"),)
        case _:
            place = draw.name("c")
            call = ("posexplode(array(", first, ", ", second, "))")
            names, made = f"{place}, {name}", (Column(place, "int"), *made)
    tree = Tree("source", (below.tree, f" LATERAL VIEW {outer}", *call, f" {alias} AS {names}"))
    return Source(tree, (*below.scope, *_seen(made, alias)))
