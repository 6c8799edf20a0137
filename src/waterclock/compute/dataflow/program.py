"""A plan as a program: stateful operators in levels, and Catalyst's expressions between them.

Linear steps, unions and negations commute with everything a delta can do, so they are pushed
towards the inputs until only *branches* are left: the rows of one base (an input or an operator's
output), through a run of Catalyst steps, with a sign. An operator's input is a sum of branches. So
are the outputs of the program.

An operator's level is one more than the highest level among its bases. All operators of a level run
together in one Python stage, whatever view they belong to; Catalyst computes branches in between.
The number of levels, not of operators or views, decides what a tick costs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from waterclock.compute.plan.nodes import (
    Attributes,
    Constant,
    Distinct,
    Get,
    Join,
    Linear,
    Negate,
    Node,
    Reduce,
    Regroup,
    Step,
    TopK,
    Union,
)

Stateful = Join | Reduce | Distinct | TopK | Regroup
Base = Get | Constant | Stateful


@dataclass(frozen=True, slots=True)
class Branch:
    """The rows of a base, through steps, counted positively or negatively."""

    base: Base
    steps: tuple[Step, ...]
    output: Attributes
    positive: bool = True


Sum = tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class Operator:
    """A stateful node with its inputs as sums of branches."""

    node: Stateful
    inputs: tuple[Sum, ...]
    level: int


@dataclass(slots=True)
class Program:
    """Everything that has to be computed for some outputs, each operator once however often it is
    used.
    """

    outputs: list[Sum] = field(default_factory=list)
    operators: dict[Stateful, Operator] = field(default_factory=dict)

    def add(self, plan: Node) -> Sum:
        """Make the plan's result one of the outputs."""
        output = self._branches(plan)
        self.outputs.append(output)
        return output

    @property
    def levels(self) -> int:
        return max((operator.level for operator in self.operators.values()), default=0)

    def at(self, level: int) -> list[Operator]:
        """The operators of a level."""
        return [operator for operator in self.operators.values() if operator.level == level]

    def level_of(self, base: Base) -> int:
        """The level after which the rows of the base are known."""
        return 0 if isinstance(base, Get | Constant) else self.operators[base].level

    def _branches(self, node: Node) -> Sum:
        match node:
            case Linear(below, steps, output):
                return tuple(
                    Branch(b.base, b.steps + steps, output, b.positive)
                    for b in self._branches(below)
                )
            case Union(inputs, _):
                return tuple(branch for below in inputs for branch in self._branches(below))
            case Negate(below):
                return tuple(
                    Branch(b.base, b.steps, b.output, not b.positive) for b in self._branches(below)
                )
            case Get() | Constant():
                return (Branch(node, (), node.output),)
            case _:
                self._install(node)
                return (Branch(node, (), node.output),)

    def _install(self, node: Stateful) -> None:
        if node in self.operators:
            return
        below = (node.left, node.right) if isinstance(node, Join) else (node.input,)
        inputs = tuple(self._branches(each) for each in below)
        level = 1 + max(self.level_of(b.base) for each in inputs for b in each)
        self.operators[node] = Operator(node, inputs, level)
