"""The nodes of a view's plan.

Each node is a function from collections to a collection, applied at every time on its own. They are
few on purpose: all that SQL has beyond them is expressed with them when Catalyst's plan is
translated. A row's columns are identified, as in Catalyst, by the id of the attribute, and placed
by their position in `output`.

Everything that computes values of single rows (`Linear`) stays in Catalyst's expressions;
everything that relates rows to one another is a node of ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar, cast, dataclass_transform

from waterclock.compute.catalyst.trees import Expression, Logical
from waterclock.model.ids import GlobalId

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def _node(cls: type[T]) -> type[T]:
    """A frozen dataclass that remembers its hash.

    Nodes are shared between many others and are looked up often. Without that, each look-up would
    walk over everything below, once for each way that leads there.
    """
    made: Any = dataclass(frozen=True)(cls)
    full_hash = made.__hash__

    def remembered(self: Any) -> int:
        known = self.__dict__.get("_hash")
        if known is None:
            known = self.__dict__["_hash"] = full_hash(self)
        assert isinstance(known, int)
        return known

    made.__hash__ = remembered
    return cast(type[T], made)


@dataclass(frozen=True, slots=True)
class Attribute:
    """A column of a node's output. The type is Catalyst's, as JSON."""

    id: int
    name: str
    type: str
    nullable: bool


Attributes = tuple[Attribute, ...]


@_node
class Get:
    """A collection that the view reads."""

    collection: GlobalId
    output: Attributes


@_node
class Constant:
    """Rows that are there at all times, as a Catalyst plan that reads nothing."""

    rows: Logical
    output: Attributes


@dataclass(frozen=True, slots=True)
class Project:
    """A step of a `Linear`: new columns, each a named Catalyst expression."""

    columns: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """A step of a `Linear`: only the rows for which the condition is true."""

    condition: Expression


@dataclass(frozen=True, slots=True)
class Generate:
    """A step of a `Linear`: a Catalyst `Generate`, which makes several rows, or none, of each."""

    generate: Logical


Step = Project | Filter | Generate


@_node
class Linear:
    """Each row on its own, through some steps."""

    input: Node
    steps: tuple[Step, ...]
    output: Attributes


@dataclass(frozen=True, slots=True)
class Equal:
    """Columns, by position, that must be equal. Null equals nothing, unless `null_safe`."""

    left: int
    right: int
    null_safe: bool = False


@_node
class Join:
    """All pairs of a left and a right row whose key columns are equal; with no keys, all pairs."""

    left: Node
    right: Node
    on: tuple[Equal, ...]

    @property
    def output(self) -> Attributes:
        return self.left.output + self.right.output


class Function(StrEnum):
    """The aggregates that have a kernel."""

    COUNT_ROWS = "count(*)"
    COUNT = "count"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    VAR_POP = "var_pop"
    VAR_SAMP = "var_samp"
    STDDEV_POP = "stddev_pop"
    STDDEV_SAMP = "stddev_samp"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """One aggregate over the column at `argument`."""

    function: Function
    argument: int | None
    result: Attribute


@_node
class Reduce:
    """One row for each group: its keys, then the aggregates. Without keys, always one row."""

    input: Node
    keys: tuple[int, ...]
    aggregates: tuple[Aggregate, ...]
    output: Attributes


@_node
class Distinct:
    """Each row once."""

    input: Node

    @property
    def output(self) -> Attributes:
        return self.input.output


@_node
class Threshold:
    """Each row as often as it is there, and not at all while its multiplicity is negative."""

    input: Node

    @property
    def output(self) -> Attributes:
        return self.input.output


@_node
class Single:
    """The one row of each group; a group of several rows is an error as long as it has them.

    Without keys there is always a row: of nulls, while the input has none.
    """

    input: Node
    keys: tuple[int, ...]

    @property
    def output(self) -> Attributes:
        return self.input.output


@dataclass(frozen=True, slots=True)
class Order:
    """A column, by position, to order by."""

    column: int
    descending: bool
    nulls_first: bool


@_node
class TopK:
    """Of each group the rows after the first `offset`, at most `limit` of them, in an order."""

    input: Node
    keys: tuple[int, ...]
    order: tuple[Order, ...]
    limit: int | None
    offset: int

    @property
    def output(self) -> Attributes:
        return self.input.output


@dataclass(frozen=True, slots=True)
class Bound:
    """A column of milliseconds, by position, that the time is compared with."""

    column: int
    inclusive: bool


@_node
class Temporal:
    """At each time the rows whose lower bounds it has reached and whose upper ones it has not
    passed. A null bound is never reached. The output is the first columns of the input.
    """

    input: Node
    lower: tuple[Bound, ...]
    upper: tuple[Bound, ...]
    output: Attributes


@_node
class Union:
    """All rows of all inputs, by position."""

    inputs: tuple[Node, ...]
    output: Attributes


@_node
class Negate:
    """The same rows with the opposite multiplicities."""

    input: Node

    @property
    def output(self) -> Attributes:
        return self.input.output


@_node
class Arrange:
    """Keeps its input's rows, filed under some columns, to be looked up. Gives nothing itself."""

    input: Node
    keys: tuple[int, ...]

    @property
    def output(self) -> Attributes:
        return ()


@dataclass(frozen=True, slots=True)
class Windows:
    """Catalyst's window functions that share an order, each named, over the rows of a group."""

    columns: tuple[Expression, ...]
    order: tuple[Expression, ...]


@_node
class Regroup:
    """Anything else that is a function of a group: evaluated on each group anew.

    The input's columns, then those of the windows, for every row of the group, or for one of them
    if the windows are the same for all (`whole`). `reason` says why no kernel does it, for EXPLAIN.
    """

    input: Node
    keys: tuple[int, ...]
    windows: tuple[Windows, ...]
    whole: bool
    reason: str
    output: Attributes


Node = (
    Get
    | Constant
    | Linear
    | Join
    | Reduce
    | Distinct
    | Threshold
    | Single
    | TopK
    | Temporal
    | Union
    | Negate
    | Regroup
    | Arrange
)


def inputs_of(node: Node) -> tuple[Node, ...]:
    """The nodes directly below."""
    match node:
        case Get() | Constant():
            return ()
        case Join(left, right, _):
            return (left, right)
        case Union(inputs, _):
            return inputs
        case _:
            return (node.input,)


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, the inputs first."""
    for below in inputs_of(node):
        yield from walk(below)
    yield node
