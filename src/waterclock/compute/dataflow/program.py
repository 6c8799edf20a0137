"""A plan as a program: stateful operators in levels, and Catalyst's expressions between them.

Linear steps, unions and negations commute with everything a delta can do, so they are pushed
towards the inputs until only *branches* are left: the rows of one base (an input or an operator's
output), through a run of Catalyst steps, with a sign. An operator's input is a sum of branches. So
are the outputs of the program.

An operator's level is one more than the highest level among its bases. All operators of a level run
together in one Python stage, whatever view they belong to; Catalyst computes branches in between.
The number of levels, not of operators or views, decides what a tick costs. So a branch that only
picks columns, or leaves out rows that are null in some, does not begin a level: the stage that has
its base does that itself, the one that reads the inputs too. That is only possible while all rows
are in one place; a program that is spread over many tasks is made without it (`spread`), and there
such rows are sent to where they are needed (`sending`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from waterclock.compute.catalyst.trees import Expression
from waterclock.compute.dataflow.plain import Column, Computed, Plain, computed, plain
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
)

Stateful = Join | Reduce | Distinct | Threshold | Single | TopK | Temporal | Regroup | Arrange
Base = Get | Constant | Stateful


@dataclass(frozen=True, slots=True)
class Direct:
    """What a branch that needs nothing from Catalyst consists of: places of its base's columns.

    Only rows count that are not null in those of `present`.
    """

    places: tuple[int, ...]
    present: tuple[int, ...]


@dataclass(frozen=True)
class Branch:
    """The rows of a base, through steps, counted positively or negatively."""

    base: Base
    steps: tuple[Step, ...]
    output: Attributes
    positive: bool = True

    @cached_property
    def direct(self) -> Direct | None:
        """How to make the branch without Catalyst, if it only picks columns and drops nulls."""
        if isinstance(self.base, Regroup):
            return None
        places = {attribute.id: place for place, attribute in enumerate(self.base.output)}
        present: list[int] = []
        for step in self.steps:
            match step:
                case Project(columns):
                    named = [(column.expr_id, _picked(column)) for column in columns]
                    if any(source is None for _, source in named):
                        return None
                    places = {new: places[old] for new, old in named if old is not None}
                case Filter(condition):
                    tested = _tested(condition)
                    if tested is None:
                        return None
                    present += [places[each] for each in tested]
                case _:
                    return None
        return Direct(tuple(places[attribute.id] for attribute in self.output), tuple(present))

    @property
    def never_null(self) -> list[int]:
        """Places of output columns in which rows with a null were left out."""
        if self.direct is None:
            return []
        places, present = self.direct.places, self.direct.present
        return [place for place, source in enumerate(places) if source in present]

    @cached_property
    def computed(self) -> Computed | None:
        """How to make the branch without Catalyst as long as numbers fit their types, if we can."""
        if isinstance(self.base, Regroup):
            return None
        known: dict[int, Plain | None] = {
            attribute.id: Column(place) for place, attribute in enumerate(self.base.output)
        }
        conditions: list[Plain | None] = []
        for step in self.steps:
            match step:
                case Project(columns):
                    known = {column.expr_id: plain(column, known) for column in columns}
                case Filter(condition):
                    conditions.append(plain(condition, known))
                case Generate():
                    return None
        return computed(conditions, [known[attribute.id] for attribute in self.output])

    @cached_property
    def reads(self) -> frozenset[int]:
        """The places of the base's columns that rows and errors of the branch are made from."""
        used = {attribute.id for attribute in self.output}
        for step in self.steps:
            match step:
                case Project(columns):
                    used.update(*(column.references() for column in columns))
                case Filter(condition):
                    used |= condition.references()
                case Generate():
                    return frozenset(range(len(self.base.output)))
        return frozenset(p for p, attribute in enumerate(self.base.output) if attribute.id in used)


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
    names: dict[Stateful, str] = field(default_factory=dict)
    """What the operators' state is filed under."""
    fused: bool = True
    """Whether stages pick columns themselves."""
    _plans: list[tuple[Node, str]] = field(default_factory=list)
    _known: dict[Node, Sum] = field(default_factory=dict)
    _owner: str = ""
    _owned: int = 0

    def add(self, plan: Node, owner: str = "view") -> Sum:
        """Make the plan's result one of the outputs.

        The names of its operators depend on the owner and on its own plans alone, in the order in
        which they are added, whatever else there is in the program. Plans of one owner come one
        after the other.
        """
        self._plans.append((plan, owner))
        if owner != self._owner:
            self._owner, self._owned = owner, 0
        output = self._branches(plan)
        self.outputs.append(output)
        return output

    def plans_of(self, owner: str) -> list[Node]:
        """The plans that were added for an owner."""
        return [plan for plan, whose in self._plans if whose == owner]

    @property
    def owners(self) -> list[str]:
        """Everybody for whom a plan was added."""
        return list(dict.fromkeys(owner for _, owner in self._plans))

    def spread(self) -> Program:
        """The same program, with the same names, for rows that are spread over many tasks."""
        other = Program(fused=False)
        for plan, owner in self._plans:
            other.add(plan, owner)
        assert other.names == self.names
        return other

    def picks(self, branch: Branch) -> Direct | None:
        """What a stage has to pick for the branch, if it does that itself."""
        return branch.direct if self.fused else None

    def behind(self, output: Sum) -> set[Branch | Stateful]:
        """Every branch and operator that the output is made from."""
        found: set[Branch | Stateful] = set()
        rest = list(output)
        while rest:
            branch = rest.pop()
            if branch in found:
                continue
            found.add(branch)
            if not isinstance(branch.base, Get | Constant):
                found.add(branch.base)
                rest += [b for each in self.operators[branch.base].inputs for b in each]
        return found

    @property
    def branches(self) -> list[Branch]:
        """All of them: what operators take in, and what is shown."""
        inputs = [branch for o in self.operators.values() for each in o.inputs for branch in each]
        return [*inputs, *(branch for output in self.outputs for branch in output)]

    @property
    def levels(self) -> int:
        return max((operator.level for operator in self.operators.values()), default=0)

    def at(self, level: int) -> list[Operator]:
        """The operators of a level."""
        return [operator for operator in self.operators.values() if operator.level == level]

    def level_of(self, base: Base) -> int:
        """The level after which the rows of the base are known."""
        return 0 if isinstance(base, Get | Constant) else self.operators[base].level

    def _ready_at(self, branch: Branch) -> int:
        """The first level at which an operator can take the branch in."""
        return self.level_of(branch.base) + (self.picks(branch) is None)

    def _branches(self, node: Node) -> Sum:
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = self._found_branches(node)
        return known

    def _found_branches(self, node: Node) -> Sum:
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
        level = max((self._ready_at(b) for each in inputs for b in each), default=1)
        self.operators[node] = Operator(node, inputs, level)
        self.names[node] = f"{self._owner}_op{self._owned}"
        self._owned += 1


def _picked(column: Expression) -> int | None:
    """The id of the column that a named expression just passes on."""
    inside = column.children[0] if column.kind == "Alias" else column
    return inside.expr_id if inside.kind == "AttributeReference" else None


def _tested(condition: Expression) -> list[int] | None:
    """The ids of the columns that must not be null, if the condition says no more than that."""
    if condition.kind == "And":
        sides = [_tested(each) for each in condition.children]
        return None if None in sides else [each for side in sides for each in side or ()]
    if condition.kind != "IsNotNull" or condition.children[0].kind != "AttributeReference":
        return None
    return [condition.children[0].expr_id]
