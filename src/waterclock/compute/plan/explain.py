"""A plan, told to a person: one line for each node, its inputs below it and further in.

A line has the operator, what it works on, and how it is kept up to date: by a kernel, which does
only what changed, or by evaluating whole groups anew, with the reason. What looks at each row alone
(Map, Union, Negate) needs neither. Columns go by their names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

from waterclock.compute.plan.nodes import (
    Aggregate,
    Arrange,
    Attribute,
    Bound,
    Constant,
    Distinct,
    Equal,
    Filter,
    Generate,
    Get,
    Join,
    Linear,
    Negate,
    Node,
    Order,
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
from waterclock.model.ids import GlobalId

NameOf = Callable[[GlobalId], str]


@dataclass(frozen=True, slots=True)
class Explained:
    """A node: its operator, what there is to say about it, and the same of its inputs."""

    operator: str
    facts: Mapping[str, Any]
    """By label; texts, numbers, truths, and lists of texts."""
    inputs: tuple[Explained, ...] = ()

    def lines(self, depth: int = 0) -> list[str]:
        """The tree as text."""
        facts = " ".join(_fact(label, value) for label, value in self.facts.items())
        line = "  " * depth + " ".join(part for part in (self.operator, facts) if part)
        return [line, *(line for below in self.inputs for line in below.lines(depth + 1))]

    def tree(self) -> dict[str, Any]:
        """The tree as values that JSON has."""
        inputs = [below.tree() for below in self.inputs]
        return {"operator": self.operator, **self.facts, **({"inputs": inputs} if inputs else {})}


def _fact(label: str, value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{label}=[{', '.join(map(str, value))}]"
    if isinstance(value, bool):
        return f"{label}={'true' if value else 'false'}"
    return f"{label}={value}"


def explained(node: Node, name_of: NameOf) -> Explained:
    """The plan as a tree of texts; `name_of` says how a collection is called."""
    below = tuple(explained(each, name_of) for each in inputs_of(node))
    operator, facts = _described(node, name_of)
    return Explained(operator, facts, below)


def _described(node: Node, name_of: NameOf) -> tuple[str, dict[str, Any]]:
    match node:
        case Get(collection, output):
            return "Read", {"relation": name_of(collection), "columns": _names(output)}
        case Constant(_, output):
            return "Constant", {"columns": _names(output)}
        case Linear(_, steps, _):
            return "Map", {"steps": [_step(step) for step in steps]}
        case Join(left, right, on):
            return _join(left, right, on)
        case Reduce():
            return "Reduce", _reduce(node)
        case Distinct():
            return "Distinct", {"kernel": "distinct"}
        case Threshold():
            return "Threshold", {"kernel": "threshold"}
        case Single(below, keys):
            return "Single", {"keys": _at(below.output, keys), "kernel": "single"}
        case TopK():
            return "TopK", _top(node)
        case Temporal(below, lower, upper, _):
            bounds = [*_bounds(below, lower, ">"), *_bounds(below, upper, "<")]
            return "Temporal", {"bounds": bounds, "kernel": "temporal"}
        case Union():
            return "Union", {}
        case Negate():
            return "Negate", {}
        case Regroup():
            return "Regroup", _regroup(node)
        case Arrange(below, keys):
            return "Arrange", {"keys": _at(below.output, keys)}
        case _:
            assert_never(node)


def _names(output: Sequence[Attribute]) -> list[str]:
    return [attribute.name for attribute in output]


def _at(output: Sequence[Attribute], places: Sequence[int]) -> list[str]:
    return [output[place].name for place in places]


def _step(step: Step) -> str:
    match step:
        case Project(columns):
            return f"project ({', '.join(column.sql for column in columns)})"
        case Filter(condition):
            return f"filter {condition.sql}"
        case Generate(generate):
            return str(generate).splitlines()[0]
        case _:
            assert_never(step)


def _join(left: Node, right: Node, on: Sequence[Equal]) -> tuple[str, dict[str, Any]]:
    if not on:
        return "CrossJoin", {"kernel": "join"}
    keys = [
        f"{left.output[each.left].name} {'<=>' if each.null_safe else '='}"
        f" {right.output[each.right].name}"
        for each in on
    ]
    return "Join", {"on": keys, "kernel": "join"}


def _reduce(node: Reduce) -> dict[str, Any]:
    columns = node.input.output
    return {
        "keys": _at(columns, node.keys),
        "aggregates": [_aggregate(each, columns) for each in node.aggregates],
        "kernel": "reduce",
    }


def _aggregate(each: Aggregate, columns: Sequence[Attribute]) -> str:
    if each.argument is None:
        return each.function.value
    return f"{each.function.value}({columns[each.argument].name})"


def _top(node: TopK) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "keys": _at(node.input.output, node.keys),
        "order": [_order(each, node.input.output) for each in node.order],
    }
    if node.limit is not None:
        facts["limit"] = node.limit
    if node.offset:
        facts["offset"] = node.offset
    return {**facts, "kernel": "top k"}


def _order(each: Order, columns: Sequence[Attribute]) -> str:
    direction = " DESC" if each.descending else ""
    nulls = "FIRST" if each.nulls_first else "LAST"
    return f"{columns[each.column].name}{direction} NULLS {nulls}"


def _bounds(below: Node, bounds: Sequence[Bound], sign: str) -> list[str]:
    return [
        f"mz_now() {sign}{'=' if each.inclusive else ''} {below.output[each.column].name}"
        for each in bounds
    ]


def _regroup(node: Regroup) -> dict[str, Any]:
    return {
        "keys": _at(node.input.output, node.keys),
        "computes": [column.sql for each in node.windows for column in each.columns],
        "reason": f'"{node.reason}"',
    }
