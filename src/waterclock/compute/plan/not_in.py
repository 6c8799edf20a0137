"""NOT IN, under which a null on either side might be any value.

Its join condition is `(a = b) OR isnull(a = b)`, for each of the columns compared: a left row has a
partner if in every column the two are equal or one of them is null. That is no key to join on. But
which columns are null is known of each row, and once it is, the columns in which neither is null
must just be equal. So the left side is split by which of its columns are null, and from each part
those rows are taken away that have a partner among the right rows with no null (by equality of
all remaining columns), then among those with a null here, and so on. Every one of these is an anti
join on equal keys, whose state is as large as its inputs and not as large as their product.

The parts are 3 to the power of the columns; beyond two columns the general way is no worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from waterclock.compute.catalyst.trees import Expression
from waterclock.compute.plan.linear import Linears
from waterclock.compute.plan.nodes import (
    Distinct,
    Equal,
    Filter,
    Join,
    Negate,
    Node,
    Project,
    Union,
)

MOST = 2
"""Limit on the columns compared this way."""

_SOME = True


def null_aware(conjunct: Expression) -> Expression | None:
    """The equality of a condition that also holds if the equality is unknown."""
    if conjunct.kind != "Or":
        return None
    one, other = conjunct.children
    if one.kind != "EqualTo":
        one, other = other, one
    if one.kind != "EqualTo" or other.kind != "IsNull":
        return None
    return one if one.java.semanticEquals(other.children[0].java) else None


def without_partner(
    linears: Linears, left: Node, right: Node, on: Sequence[Equal], unsure: Sequence[Equal]
) -> Node:
    """The left rows for which no right row is equal on `on`, and equal or null on `unsure`."""
    parts: list[Node] = []
    for absent in _subsets([e for e in unsure if left.output[e.left].nullable]):
        present = [e for e in unsure if e not in absent]
        rows = _where(linears, left, [(e.left, e in absent) for e in unsure])
        for unknown in _subsets([e for e in present if right.output[e.right].nullable]):
            others = _where(linears, right, [(e.right, True) for e in unknown])
            known = [*on, *(e for e in present if e not in unknown)]
            rows = _anti(linears, rows, others, known)
        parts.append(rows)
    return Union(tuple(parts), left.output)


def _subsets(pairs: Sequence[Equal]) -> Iterator[tuple[Equal, ...]]:
    for size in range(len(pairs) + 1):
        yield from combinations(pairs, size)


def _where(linears: Linears, rows: Node, nulls: Sequence[tuple[int, bool]]) -> Node:
    """The rows that have a null, or none, in these columns."""
    build = linears.builder
    conditions = [
        build.call("IsNull" if is_null else "IsNotNull", linears.reference(rows.output[place]))
        for place, is_null in nulls
    ]
    condition = build.all_of(conditions)
    return rows if condition is None else linears.step(rows, Filter(condition))


def _anti(linears: Linears, rows: Node, others: Node, on: Sequence[Equal]) -> Node:
    """The rows without one among the others whose key is equal; with no keys, without any."""
    if on:
        keys = linears.pick(others, tuple(others.output[e.right] for e in on))
    else:
        one = linears.fresh(linears.builder.literal(_SOME, '"boolean"'), "some")
        keys = linears.step(others, Project((one,)))
    distinct = linears.copied(Distinct(keys))
    equal = tuple(Equal(e.left, place, e.null_safe) for place, e in enumerate(on))
    partnered = linears.pick(Join(rows, distinct, equal), rows.output)
    return Union((rows, Negate(partnered)), rows.output)
