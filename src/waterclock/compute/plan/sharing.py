"""Parts of plans that compute the same, made one.

Catalyst writes a common table expression out as often as it is used, a subquery beside the query it
repeats, and each of several results over the same inputs anew, every time under new ids. Two
operators are the same here if they do the same to inputs that are the same: ids are replaced by the
columns' positions, and expressions must be equal for Catalyst, in its canonical form, which knows
types, and as they are written, since sums in another order may differ. So the second of them need
not exist: in its place come the rows of the first, renamed. Its work is done once, and its state is
kept once.

What is told apart although it is the same only costs. What reads each row alone stays as it is.

To ask Catalyst takes as long as translating the plan did. So the plans are first looked at without
it: where not even the kinds of operators and of columns repeat, nothing does.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from waterclock.compute.catalyst.trees import Expression, with_ids
from waterclock.compute.plan.linear import Linears, attributes_of
from waterclock.compute.plan.nodes import (
    Arrange,
    Attributes,
    Constant,
    Distinct,
    Filter,
    Generate,
    Get,
    Join,
    Linear,
    Negate,
    Node,
    Project,
    Reduce,
    Regroup,
    Single,
    Step,
    Temporal,
    Threshold,
    TopK,
    Union,
    inputs_of,
)


class Sharing:
    """Finds what the plans that it is given have in common."""

    def __init__(self, linears: Linears, *, is_rough: bool = False) -> None:
        """If it is rough, what is different may be taken for the same."""
        self._linears = linears
        self._is_rough = is_rough
        self._numbers: dict[Hashable, int] = {}
        """Everything that was ever computed, numbered."""
        self._first: dict[int, Node] = {}
        """The operator that computes it."""
        self._done: dict[Node, tuple[Node, int]] = {}
        self._has_found = False

    def shared(self, plans: Sequence[Node]) -> tuple[Node, ...]:
        """The plans, with one operator in the place of those that do the same."""
        rough = Sharing(self._linears, is_rough=True)
        for plan in plans:
            rough._visited(plan)
        if not rough._has_found:
            return tuple(plans)
        return tuple(self._visited(plan)[0] for plan in plans)

    def _visited(self, node: Node) -> tuple[Node, int]:
        """What to put in the node's place, and the number of what it computes."""
        known = self._done.get(node)
        if known is None:
            known = self._done[node] = self._found(node)
        return known

    def _found(self, node: Node) -> tuple[Node, int]:
        visited = [self._visited(below) for below in inputs_of(node)]
        what = (type(node), *(number for _, number in visited), *self._told(node))
        number = self._numbers.setdefault(what, len(self._numbers))
        if isinstance(node, Linear | Union | Negate | Get | Constant | Arrange):
            return _over(node, [below for below, _ in visited]), number
        first = self._first.get(number)
        if first is None:
            made = self._first[number] = _over(node, [below for below, _ in visited])
            return made, number
        self._has_found = True
        return node if self._is_rough else self._linears.renamed(first, node.output), number

    def _told(self, node: Node) -> tuple[Hashable, ...]:
        """What a node does, apart from what it does it to. Equal only if it is the same."""
        match node:
            case Get(collection, output):
                return (collection, _kinds(output))
            case Constant():
                return (id(node.rows.java),)
            case Linear(below, steps, output):
                return (self._steps(below.output, steps), _kinds(output))
            case Join(_, _, on):
                return (on,)
            case Reduce(_, keys, aggregates, output):
                calls = tuple((each.function, each.argument) for each in aggregates)
                return (keys, calls, _kinds(output))
            case Distinct() | Threshold() | Negate() | Union():
                return (_kinds(node.output),)
            case Single(_, keys) | Arrange(_, keys):
                return (keys,)
            case TopK(_, keys, order, limit, offset):
                return (keys, order, limit, offset)
            case Temporal(_, lower, upper, output):
                return (lower, upper, _kinds(output))
            case Regroup(below, keys, _, whole, _, output):
                return (keys, self._windows(below.output, node), whole, _kinds(output))

    def _steps(self, visible: Attributes, steps: Sequence[Step]) -> tuple[Hashable, ...]:
        if self._is_rough:
            return tuple(map(type, steps))
        told: list[Hashable] = []
        for step in steps:
            match step:
                case Project(columns):
                    told += (Project, *self._canonical(visible, map(_value, columns)))
                    visible = attributes_of(columns)
                case Filter(condition):
                    told += (Filter, *self._canonical(visible, [condition]))
                case Generate(generate):
                    generator = generate.part("generator")
                    made = attributes_of(generate.parts("generatorOutput"))
                    told += (Generate, *self._canonical(visible, [generator]), _kinds(made))
                    told.append(bool(generate.java.outer()))
                    visible += made
        return tuple(told)

    def _windows(self, visible: Attributes, node: Regroup) -> tuple[Hashable, ...]:
        if self._is_rough:
            return (len(node.windows),)
        told: list[Hashable] = []
        for windows in node.windows:
            told += self._canonical(visible, map(_value, windows.columns))
            told += (len(windows.order), *self._canonical(visible, windows.order))
            visible += attributes_of(windows.columns)
        return tuple(told)

    def _canonical(
        self, visible: Attributes, expressions: Iterable[Expression]
    ) -> tuple[Hashable, ...]:
        """The expressions, with positions for the columns that they read: equal if they mean the
        same and are written the same.
        """
        columns = [self._linears.reference(attribute) for attribute in visible]
        given = list(expressions)
        canonical = self._linears.builder.normalised_over(columns, given)
        return (*canonical, *(_written(visible, expression) for expression in given))


def _written(visible: Attributes, expression: Expression) -> str:
    """The text of an expression with positions for ids."""
    places = {attribute.id: str(place) for place, attribute in enumerate(visible)}
    return with_ids(expression.written, lambda id_: places.setdefault(id_, f"other {len(places)}"))


def _over(node: Node, inputs: Sequence[Node]) -> Node:
    """The node over other inputs, which have the same columns."""
    if all(one is other for one, other in zip(inputs, inputs_of(node), strict=True)):
        return node
    match node:
        case Join():
            left, right = inputs
            return replace(node, left=left, right=right)
        case Union():
            return replace(node, inputs=tuple(inputs))
        case Linear(_, steps, output):
            [below] = inputs
            if isinstance(below, Linear):
                return Linear(below.input, (*below.steps, *steps), output)
            return replace(node, input=below)
        case Get() | Constant():
            return node
        case _:
            [below] = inputs
            return replace(node, input=below)


def _kinds(output: Attributes) -> tuple[tuple[str, bool], ...]:
    return tuple((attribute.type, attribute.nullable) for attribute in output)


def _value(column: Expression) -> Expression:
    return column.children[0] if column.kind == "Alias" else column
