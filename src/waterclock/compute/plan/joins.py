"""Joins of every type, lowered to inner joins.

The condition's equalities between the two sides become the join's keys and the rest a filter above
it. With that:

- semi: each left row joined with the distinct keys of the right side; if there is a residual
  condition, with the distinct left rows that found a partner; and with the right side itself if
  no two of its rows have the same key (`uniqueness`). Its multiplicities are the left side's.
- anti: the left side minus the semi join.
- outer: the inner join, and the anti join's rows padded with nulls.
- existence: the semi join's rows marked true, and the anti join's marked false.
- single, for correlated subqueries used as values: for each combination of the left columns that
  the condition reads, its right rows, at most one (`Single`); each left row with that, or nulls.

Conditions of NOT IN have their own way (`not_in`). Subqueries in a condition become columns of the
left side first (`subqueries`).

A set has one zero, and the rows of a side may have two, which a condition can tell apart by their
texts. So where whole rows make a set that a condition is asked of, the signs of zeros are columns
of it too.

A side that is used several times is one node with several readers: its state is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.compute.catalyst.now import mentions_now
from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan import not_in, subqueries, temporal
from waterclock.compute.plan.linear import Linears, attributes_of
from waterclock.compute.plan.nodes import (
    Attribute,
    Attributes,
    Distinct,
    Equal,
    Join,
    Negate,
    Node,
    Single,
    Union,
)
from waterclock.compute.plan.uniqueness import is_unique

if TYPE_CHECKING:
    from waterclock.compute.plan.translate import Translation

_TRUE, _FALSE = True, False
_FLOATING = ('"float"', '"double"')


@dataclass(frozen=True, slots=True)
class _Sides:
    """The two sides of a join: as they are, and with the columns that are compared."""

    left: Node
    right: Node
    keyed_left: Node
    keyed_right: Node
    on: tuple[Equal, ...]
    """Columns that must be equal."""
    unsure: tuple[Equal, ...]
    """Columns that must be equal unless one is null."""
    has_residual: bool
    """Whether there is more to the condition than equalities."""
    pairs: Node
    """The inner join: all pairs for which the condition holds, apart from what is unsure."""

    @property
    def turned(self) -> _Sides:
        """The same join seen from the other side."""
        return _Sides(
            self.right,
            self.left,
            self.keyed_right,
            self.keyed_left,
            tuple(Equal(e.right, e.left, e.null_safe) for e in self.on),
            tuple(Equal(e.right, e.left) for e in self.unsure),
            self.has_residual,
            self.pairs,
        )


def lowered(translation: Translation, plan: Logical) -> Node:
    """A Catalyst join in our nodes."""
    linears = translation.linears
    left, right = (translation.translate(child) for child in plan.children)
    conjuncts = [each for whole in plan.parts("condition") for each in whole.conjuncts()]
    left, conjuncts = subqueries.lifted(translation, left, conjuncts)
    output = attributes_of(plan.output)
    kind: str = plan.java.joinType().toString()
    if kind == "LeftSingle":
        joined = _single(linears, left, right, conjuncts, _widened(left, right, output))
    else:
        asks = kind in ("LeftSemi", "LeftAnti") or kind.startswith("ExistenceJoin")
        sides = _split(linears, left, right, conjuncts, null_aware=asks)
        joined = _joined(linears, sides, kind, output)
    return linears.pick(joined, output)


def _joined(linears: Linears, sides: _Sides, kind: str, output: Attributes) -> Node:
    """The join, perhaps with more columns than those of the output."""
    wide = _widened(sides.left, sides.right, output)
    match kind:
        case "Inner" | "Cross":
            return sides.pairs
        case "LeftSemi":
            return _semi(linears, sides)
        case "LeftAnti":
            return _anti(linears, sides)
        case "LeftOuter":
            return _outer(linears, sides, wide, keep_left=True, keep_right=False)
        case "RightOuter":
            return _outer(linears, sides, wide, keep_left=False, keep_right=True)
        case "FullOuter":
            return _outer(linears, sides, wide, keep_left=True, keep_right=True)
        case _ if kind.startswith("ExistenceJoin"):
            return _existence(linears, sides, (*sides.left.output, output[-1]))
        case _:
            raise NotMaintainable(f"a view can not be maintained over a {kind} join")


def _widened(left: Node, right: Node, output: Attributes) -> Attributes:
    """The columns of both sides, as far as they are in the output as the output has them."""
    known = {attribute.id: attribute for attribute in output}
    return tuple(known.get(a.id, a) for a in (*left.output, *right.output))


def _split(
    linears: Linears,
    left: Node,
    right: Node,
    conjuncts: Sequence[Expression],
    *,
    null_aware: bool = False,
) -> _Sides:
    """The sides of a join with these conditions; `null_aware` keeps those of NOT IN apart."""
    pairs: list[_Pair] = []
    residual: list[Expression] = []
    unsure: list[_Pair] = []
    for conjunct in conjuncts:
        pair = _equality(left, right, conjunct)
        if pair is None:
            residual.append(conjunct)
        else:
            (unsure if pair.condition.kind == "Or" else pairs).append(pair)
    if residual or not null_aware or len(unsure) > not_in.MOST:
        residual += [pair.condition for pair in unsure]
        unsure = []
    every = [*pairs, *unsure]
    keyed_left, left_places = linears.with_columns(left, [pair.left for pair in every])
    keyed_right, right_places = linears.with_columns(right, [pair.right for pair in every])
    equal = [
        Equal(i, j, pair.condition.kind == "EqualNullSafe")
        for i, j, pair in zip(left_places, right_places, every, strict=True)
    ]
    on, rest = tuple(equal[: len(pairs)]), tuple(equal[len(pairs) :])
    found: Node = Join(keyed_left, keyed_right, on)
    condition = linears.builder.all_of(residual)
    if condition is not None:
        found = temporal.filtered(linears, found, condition)
    return _Sides(left, right, keyed_left, keyed_right, on, rest, bool(residual), found)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A condition that the two sides' keys are equal. An `Or` also holds if that is unknown."""

    left: Expression
    right: Expression
    condition: Expression


def _equality(left: Node, right: Node, conjunct: Expression) -> _Pair | None:
    equality = not_in.null_aware(conjunct) or conjunct
    is_equality = equality.kind in ("EqualTo", "EqualNullSafe")
    if not is_equality or mentions_now(conjunct):
        return None
    left_ids, right_ids = ({a.id for a in side.output} for side in (left, right))
    one, other = equality.children
    reads, other_reads = one.references(), other.references()
    if not reads or not other_reads:
        return None
    if reads <= left_ids and other_reads <= right_ids:
        return _Pair(one, other, conjunct)
    if reads <= right_ids and other_reads <= left_ids:
        return _Pair(other, one, conjunct)
    return None


def _anti(linears: Linears, sides: _Sides) -> Node:
    if not sides.unsure:
        return _minus(sides.left, _semi(linears, sides))
    rows = not_in.without_partner(
        linears, sides.keyed_left, sides.keyed_right, sides.on, sides.unsure
    )
    return linears.pick(rows, sides.left.output)


def _semi(linears: Linears, sides: _Sides) -> Node:
    if sides.unsure:
        return _minus(sides.left, _anti(linears, sides))
    partnered = linears.pick(sides.pairs, sides.left.output)
    keys = {sides.keyed_right.output[equal.right].id for equal in sides.on}
    if is_unique(sides.keyed_right, keys):
        return partnered
    if sides.has_residual or not sides.on:
        return _among(linears, sides.left, partnered)
    return _with_keys(linears, sides)


def _with_keys(linears: Linears, sides: _Sides) -> Node:
    """The left rows whose key occurs on the right."""
    keys = tuple(sides.keyed_right.output[e.right] for e in sides.on)
    distinct = linears.copied(Distinct(linears.pick(sides.keyed_right, keys)))
    on = tuple(Equal(e.left, place, e.null_safe) for place, e in enumerate(sides.on))
    return linears.pick(Join(sides.keyed_left, distinct, on), sides.left.output)


def _among(linears: Linears, rows: Node, others: Node) -> Node:
    """Those of the rows that occur among others, which have the same columns."""
    marked, _ = linears.with_columns(rows, _zeros(linears, rows.output))
    signed, _ = linears.with_columns(others, _zeros(linears, others.output))
    members = linears.copied(Distinct(signed))
    on = tuple(Equal(i, i, null_safe=True) for i in range(len(marked.output)))
    return linears.pick(Join(marked, members, on), rows.output)


def _zeros(linears: Linears, columns: Sequence[Attribute]) -> list[Expression]:
    """For each column that has floating-point numbers the text of its zeros, or of all of it."""
    build = linears.builder
    found: list[Expression] = []
    for column in columns:
        if not _has_floats(column):
            continue
        value = linears.reference(column)
        text = build.as_text(value)
        if column.type in _FLOATING:
            zero = build.cast(build.literal(0, '"integer"'), column.type)
            text = build.call("If", build.call("EqualTo", value, zero), text, build.null_like(text))
        found.append(text)
    return found


def _has_floats(column: Attribute) -> bool:
    return any(kind in column.type for kind in _FLOATING)


def _minus(rows: Node, others: Node) -> Node:
    return Union((rows, Negate(others)), rows.output)


def _outer(
    linears: Linears, sides: _Sides, output: Attributes, *, keep_left: bool, keep_right: bool
) -> Node:
    parts = [
        linears.computed(
            sides.pairs,
            [linears.reference(a) for a in (*sides.left.output, *sides.right.output)],
            output,
        )
    ]
    width = len(sides.left.output)
    if keep_left:
        alone = _minus(sides.left, _semi(linears, sides))
        parts.append(_padded(linears, alone, output, before=0))
    if keep_right:
        alone = _minus(sides.right, _semi(linears, sides.turned))
        parts.append(_padded(linears, alone, output, before=width))
    return Union(tuple(parts), output)


def _padded(linears: Linears, rows: Node, output: Attributes, *, before: int) -> Node:
    """The rows with nulls for so many columns before them, and for those that follow."""
    after = before + len(rows.output)
    columns = [linears.reference(a) for a in rows.output]
    nulls = [linears.builder.literal(None, a.type) for a in output]
    return linears.computed(rows, [*nulls[:before], *columns, *nulls[after:]], output)


def _single(
    linears: Linears, left: Node, right: Node, conjuncts: Sequence[Expression], output: Attributes
) -> Node:
    """Each left row with its right row, or nulls; several right rows are an error."""
    reads = {number for conjunct in conjuncts for number in conjunct.references()}
    asked = tuple(a for a in left.output if a.id in reads)
    if not asked:
        only = linears.builder.all_of(conjuncts)
        rows = right if only is None else temporal.filtered(linears, right, only)
        return Join(left, Single(rows, ()), ())
    marks = _zeros(linears, asked)
    narrow, _ = linears.with_columns(linears.pick(left, asked), marks)
    asking = linears.copied(Distinct(narrow))
    copies = _with_signs(linears, asked, asking.output)

    def copied(expression: Expression) -> Expression | None:
        if expression.kind != "AttributeReference":
            return None
        return copies.get(expression.expr_id)

    condition = [linears.builder.rewrite(conjunct, copied) for conjunct in conjuncts]
    found = _split(linears, asking, right, condition).pairs
    found = linears.pick(found, (*asking.output, *right.output))
    marked, signs = linears.with_columns(left, marks)
    place = {a.id: i for i, a in enumerate(left.output)}
    places = (*(place[a.id] for a in asked), *signs)
    on = tuple(Equal(mine, i, null_safe=True) for i, mine in enumerate(places))
    joined = Join(marked, Single(found, tuple(range(len(places)))), on)
    columns = [linears.reference(a) for a in (*left.output, *right.output)]
    alone = _minus(left, linears.pick(joined, left.output))
    parts = linears.computed(joined, columns, output), _padded(linears, alone, output, before=0)
    return Union(parts, output)


def _with_signs(linears: Linears, columns: Attributes, held: Attributes) -> dict[int, Expression]:
    """Columns by their ids, of a set that has them and then the texts of their zeros."""
    build = linears.builder
    texts = iter(held[len(columns) :])
    found: dict[int, Expression] = {}
    for column, own in zip(columns, held, strict=False):
        value = linears.reference(own)
        if _has_floats(column):
            text = linears.reference(next(texts))
            if column.type in _FLOATING:
                zero = build.cast(build.literal(-0.0, '"double"'), column.type)
                is_minus = build.call("EqualNullSafe", text, build.text("-0.0"))
                value = build.call("If", is_minus, zero, value)
        found[column.id] = value
    return found


def _existence(linears: Linears, sides: _Sides, output: Attributes) -> Node:
    if sides.unsure:
        anti = _anti(linears, sides)
        semi = _minus(sides.left, anti)
    else:
        semi = _semi(linears, sides)
        anti = _minus(sides.left, semi)
    parts = []
    for rows, found in ((semi, _TRUE), (anti, _FALSE)):
        columns = [linears.reference(a) for a in sides.left.output]
        columns.append(linears.builder.literal(found, output[-1].type))
        parts.append(linears.computed(rows, columns, output))
    return Union(tuple(parts), output)
