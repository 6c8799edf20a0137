"""Joins of every type, lowered to inner joins.

The condition's equalities between the two sides become the join's keys and the rest a filter above
it. With that:

- semi: each left row joined with the distinct keys of the right side; if there is a residual
  condition, with the distinct left
  rows that found a partner. Its multiplicities are the left side's.
- anti: the left side minus the semi join.
- outer: the inner join, and the anti join's rows padded with nulls.
- existence: the semi join's rows marked true, and the anti join's marked false.

A side that is used several times is one node with several readers: its state is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.linear import Linears, attributes_of
from waterclock.compute.plan.nodes import (
    Attributes,
    Distinct,
    Equal,
    Filter,
    Join,
    Negate,
    Node,
    Union,
)

if TYPE_CHECKING:
    from waterclock.compute.plan.translate import Translation

_TRUE, _FALSE = True, False


@dataclass(frozen=True, slots=True)
class _Sides:
    """The two sides with their key columns computed, and what the keys do not say."""

    left: Node
    right: Node
    keyed_left: Node
    keyed_right: Node
    on: tuple[Equal, ...]
    residual: Expression | None


def crossed(left: Node, right: Node) -> Node:
    """All pairs."""
    return Join(left, right, ())


def lowered(translation: Translation, plan: Logical) -> Node:
    """A Catalyst join in our nodes."""
    left, right = (translation.translate(child) for child in plan.children)
    condition = plan.java.condition()
    conjuncts = Expression(condition.get()).conjuncts() if condition.isDefined() else []
    linears = translation.linears
    sides = _split(linears, left, right, conjuncts)
    output = attributes_of(plan.output)
    kind: str = plan.java.joinType().toString()
    match kind:
        case "Inner" | "Cross":
            return linears.pick(_inner(linears, sides), output)
        case "LeftSemi":
            return _semi(linears, sides)
        case "LeftAnti":
            return _minus(left, _semi(linears, sides))
        case "LeftOuter":
            return _outer(linears, sides, output, keep_left=True, keep_right=False)
        case "RightOuter":
            return _outer(linears, sides, output, keep_left=False, keep_right=True)
        case "FullOuter":
            return _outer(linears, sides, output, keep_left=True, keep_right=True)
        case _ if kind.startswith("ExistenceJoin"):
            return _existence(linears, sides, output)
        case _:
            raise NotMaintainable(f"a view can not be maintained over a {kind} join yet")


def _split(linears: Linears, left: Node, right: Node, conjuncts: Sequence[Expression]) -> _Sides:
    left_ids = {a.id for a in left.output}
    right_ids = {a.id for a in right.output}
    left_keys: list[Expression] = []
    right_keys: list[Expression] = []
    null_safe: list[bool] = []
    residual: list[Expression] = []
    for conjunct in conjuncts:
        if conjunct.kind not in ("EqualTo", "EqualNullSafe"):
            residual.append(conjunct)
            continue
        one, other = conjunct.children
        reads, other_reads = one.references(), other.references()
        if reads and other_reads and reads <= right_ids and other_reads <= left_ids:
            one, other, reads, other_reads = other, one, other_reads, reads
        if reads and other_reads and reads <= left_ids and other_reads <= right_ids:
            left_keys.append(one)
            right_keys.append(other)
            null_safe.append(conjunct.kind == "EqualNullSafe")
        else:
            residual.append(conjunct)
    keyed_left, left_places = linears.with_columns(left, left_keys)
    keyed_right, right_places = linears.with_columns(right, right_keys)
    pairs = zip(left_places, right_places, null_safe, strict=True)
    on = tuple(Equal(*pair) for pair in pairs)
    return _Sides(left, right, keyed_left, keyed_right, on, linears.builder.all_of(residual))


def _inner(linears: Linears, sides: _Sides) -> Node:
    joined: Node = Join(sides.keyed_left, sides.keyed_right, sides.on)
    if sides.residual is not None:
        joined = linears.step(joined, Filter(sides.residual))
    return joined


def _semi(linears: Linears, sides: _Sides) -> Node:
    if sides.residual is not None or not sides.on:
        partnered = linears.pick(_inner(linears, sides), sides.left.output)
        return _among(linears, sides.left, Distinct(partnered))
    return _with_keys(linears, sides, sides.keyed_left, sides.keyed_right, sides.left.output)


def _semi_right(linears: Linears, sides: _Sides) -> Node:
    """The right rows that have a partner on the left."""
    if sides.residual is not None or not sides.on:
        partnered = linears.pick(_inner(linears, sides), sides.right.output)
        return _among(linears, sides.right, Distinct(partnered))
    flipped = _Sides(
        sides.right,
        sides.left,
        sides.keyed_right,
        sides.keyed_left,
        tuple(Equal(e.right, e.left, e.null_safe) for e in sides.on),
        None,
    )
    return _semi(linears, flipped)


def _with_keys(
    linears: Linears, sides: _Sides, left: Node, right: Node, output: Attributes
) -> Node:
    """The left rows whose key occurs on the right."""
    keys = tuple(right.output[e.right] for e in sides.on)
    distinct = linears.copied(Distinct(linears.pick(right, keys)))
    on = tuple(Equal(e.left, place, e.null_safe) for place, e in enumerate(sides.on))
    return linears.pick(Join(left, distinct, on), output)


def _among(linears: Linears, rows: Node, distinct: Node) -> Node:
    """Those of the rows that occur in a set of whole rows."""
    members = linears.copied(distinct)
    on = tuple(Equal(i, i, null_safe=True) for i in range(len(rows.output)))
    return linears.pick(Join(rows, members, on), rows.output)


def _minus(rows: Node, others: Node) -> Node:
    return Union((rows, Negate(others)), rows.output)


def _outer(
    linears: Linears, sides: _Sides, output: Attributes, *, keep_left: bool, keep_right: bool
) -> Node:
    parts = [
        linears.computed(
            _inner(linears, sides),
            [linears.reference(a) for a in (*sides.left.output, *sides.right.output)],
            output,
        )
    ]
    width = len(sides.left.output)
    if keep_left:
        alone = _minus(sides.left, _semi(linears, sides))
        columns = [linears.reference(a) for a in sides.left.output]
        columns += [_null(linears, a.type) for a in output[width:]]
        parts.append(linears.computed(alone, columns, output))
    if keep_right:
        alone = _minus(sides.right, _semi_right(linears, sides))
        columns = [_null(linears, a.type) for a in output[:width]]
        columns += [linears.reference(a) for a in sides.right.output]
        parts.append(linears.computed(alone, columns, output))
    return Union(tuple(parts), output)


def _existence(linears: Linears, sides: _Sides, output: Attributes) -> Node:
    semi = _semi(linears, sides)
    parts = []
    for rows, found in ((semi, _TRUE), (_minus(sides.left, semi), _FALSE)):
        columns = [linears.reference(a) for a in sides.left.output]
        columns.append(linears.builder.literal(found, output[-1].type))
        parts.append(linears.computed(rows, columns, output))
    return Union(tuple(parts), output)


def _null(linears: Linears, type_json: str) -> Expression:
    return linears.builder.literal(None, type_json)
