"""INTERSECT ALL and EXCEPT ALL, as differences of multisets.

Catalyst marks the rows of the two sides, unites them, counts each row's marks and then repeats the
row as often as the counts say. Counting and repeating is what a collection does by itself: with
multiplicities a and b of a row on the two sides,

- EXCEPT ALL has it max(a - b, 0) times: the threshold of the left side minus the right one;
- INTERSECT ALL has it min(a, b) = a - max(a - b, 0) times: the left side minus that threshold.

So the state is one count for each row. The marks tell which side a row is of; they are constants
of the branches of the union, or else columns to be looked at. Where Catalyst knows a side to be
empty, the marks may be gone; then rows are counted and repeated as it says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.compute.catalyst.trees import Logical
from waterclock.compute.plan.linear import attributes_of
from waterclock.compute.plan.nodes import (
    Attribute,
    Filter,
    Negate,
    Node,
    Threshold,
    Union,
)

if TYPE_CHECKING:
    from waterclock.compute.plan.translate import Translation


@dataclass(frozen=True, slots=True)
class _Marked:
    """Branches of the two sides, and which of their columns, by position, are marks and values.

    One mark is 1 on the left and -1 on the right; the first of two is null on the right, the second
    on the left. A side that Catalyst knows to be empty has no branch.
    """

    branches: tuple[Logical, ...]
    marks: tuple[int, ...]
    values: tuple[int, ...]


def try_difference(translation: Translation, plan: Logical) -> Node | None:
    """Rows repeated by a count as one of the two, if the count is made as described."""
    marked = _marked(plan)
    if marked is None:
        return None
    output = tuple(attributes_of(plan.parts("generatorOutput")))
    lefts: list[Node] = []
    rights: list[Node] = []
    for branch in marked.branches:
        rows = translation.translate(branch)
        sides = _sides(translation, marked, branch, rows)
        for side, found in zip(sides, (lefts, rights), strict=True):
            if side is not None:
                found.append(_normalised(translation, side, marked.values, output))
    negated = tuple(Negate(right) for right in rights)
    more = Threshold(Union((*lefts, *negated), output))
    return more if len(marked.marks) == 1 else Union((*lefts, Negate(more)), output)


def _marked(plan: Logical) -> _Marked | None:
    generator = plan.part("generator")
    if generator.kind != "ReplicateRows":
        return None
    node = plan.children[0]
    while node.kind in ("Project", "Filter"):
        node = node.children[0]
    if node.kind != "Aggregate":
        return None
    [united] = node.children
    place = {attribute.expr_id: i for i, attribute in enumerate(united.output)}
    marks = _marks(node)
    values = [a.expr_id if a.kind == "AttributeReference" else -1 for a in generator.children[1:]]
    if marks is None or not place.keys() >= {*marks, *values}:
        return None
    branches = united.children if united.kind == "Union" else [united]
    return _Marked(tuple(branches), tuple(place[m] for m in marks), tuple(place[v] for v in values))


def _marks(aggregate: Logical) -> list[int] | None:
    """The ids of the columns that are summed, if it is one, or counted, if it is two."""
    results = aggregate.parts("aggregateExpressions")
    calls = [n for r in results for n in r.walk() if n.kind == "AggregateExpression"]
    functions = [call.children[0] for call in calls]
    if [f.kind for f in functions] not in (["Sum"], ["Count", "Count"]):
        return None
    arguments = [function.children[0] for function in functions]
    if any(a.kind != "AttributeReference" for a in arguments):
        return None
    return [a.expr_id for a in arguments]


def _sides(
    translation: Translation, marked: _Marked, branch: Logical, rows: Node
) -> tuple[Node | None, Node | None]:
    """The rows of a branch that are of the left side, and those of the right side."""
    is_left = _constant_side(branch, marked)
    if is_left is not None:
        return (rows, None) if is_left else (None, rows)
    linears = translation.linears
    build = linears.builder
    mark = rows.output[marked.marks[0]]
    value = linears.reference(mark)
    if len(marked.marks) == 2:
        conditions = [build.call("IsNotNull", value), build.call("IsNull", value)]
    else:
        ones = [build.cast(build.literal(n, '"integer"'), mark.type) for n in (1, -1)]
        conditions = [build.call("EqualTo", value, one) for one in ones]
    left, right = (linears.step(rows, Filter(condition)) for condition in conditions)
    return left, right


def _constant_side(branch: Logical, marked: _Marked) -> bool | None:
    """Whether all rows of the branch are of the left side, if its columns are constants."""
    if branch.kind == "Project":
        columns = branch.parts("projectList")
    elif branch.kind == "Aggregate":
        columns = branch.parts("aggregateExpressions")
    else:
        return None
    mark = columns[marked.marks[0]]
    value = mark.children[0] if mark.kind == "Alias" else mark
    if value.kind != "Literal":
        return None
    constant = value.java.eval(None)
    return constant is not None if len(marked.marks) == 2 else constant == 1


def _normalised(
    translation: Translation, rows: Node, values: tuple[int, ...], output: tuple[Attribute, ...]
) -> Node:
    """The rows' values with one zero and one NaN: what is subtracted must look the same."""
    linears = translation.linears
    columns = [linears.builder.normalised(linears.reference(rows.output[v])) for v in values]
    return linears.computed(rows, columns, output)
