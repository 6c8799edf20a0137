"""Catalyst's expressions and logical plans, as Python sees them.

A wrapper stands for one JVM object. Trees are read and rebuilt, never changed in place: Catalyst's
own are immutable. So a tree is read as a whole when something of it is first asked (`reading`), and
what it is made of is known from then on. All else that is asked of the JVM objects is a call each,
which is fine when a view is created and too slow for anything that happens on every tick.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeVar

from waterclock.compute.catalyst.reading import ExpressionTold, PlanTold, Reading, glance

T = TypeVar("T", bound="Tree")
_ID = re.compile(r"#(\d+)")


def with_ids(text: str, shown: Callable[[int], object]) -> str:
    """What trees have written, with something else for the ids."""
    return _ID.sub(lambda found: f"#{shown(int(found[1]))}", text)


def items(scala_seq: Any) -> list[Any]:
    """The elements of a Scala sequence."""
    return [scala_seq.apply(i) for i in range(scala_seq.size())]


class Tree:
    """What expressions and plans have in common."""

    def __init__(self, java: Any, reading: Reading | None = None, number: int = 0) -> None:
        """A JVM object; or, if that is None, the node of a reading."""
        self._java = java
        self._reading = reading
        self._number = number

    @property
    def java(self) -> Any:
        """The JVM object."""
        if self._java is None:
            assert self._reading is not None, "a node is a JVM object, or one of a reading"
            self._java = self._reading.java(self._number)
        return self._java

    def _read(self) -> Reading:
        """What the tree is made of."""
        if self._reading is None:
            self._reading = Reading.of(self._java)
            self._reading.trees[0] = self
        return self._reading

    def _others(self, kind: type[T], numbers: Iterable[int]) -> list[T]:
        """Other nodes of the reading, each of which there is once."""
        reading = self._read()
        found = []
        for number in numbers:
            tree = reading.trees.get(number)
            if tree is None:
                tree = reading.trees[number] = kind(None, reading, number)
            found.append(tree)
        return found

    @cached_property
    def _told(self) -> ExpressionTold | PlanTold:
        """What the reading tells of this node."""
        raise NotImplementedError

    @cached_property
    def kind(self) -> str:
        """The simple name of its class, such as `Project` or `Add`."""
        return self._told.kind

    @cached_property
    def written(self) -> str:
        """A text that only trees have that compute the same. It tells ids as `#12`."""
        java = self.java
        text: str = glance(java._gateway_client).written(java)
        return text


class Expression(Tree):
    """A Catalyst expression."""

    @classmethod
    def made(cls, java: Any, kind: str, children: Sequence[Expression]) -> Expression:
        """One of which is known what it is made of, because it was just made."""
        expression = cls(java)
        expression.__dict__.update(kind=kind, children=list(children))
        return expression

    @cached_property
    def _told(self) -> ExpressionTold:
        return self._read().expression(self._number)

    @cached_property
    def children(self) -> list[Expression]:
        return self._others(Expression, self._told.children)

    @cached_property
    def sql(self) -> str:
        text: str = self.java.sql()
        return text

    @cached_property
    def expr_id(self) -> int:
        """The identity of a named expression."""
        number = None if self._reading is None else self._told.expr_id
        return int(self.java.exprId().id()) if number is None else number

    @cached_property
    def name(self) -> str:
        name = None if self._reading is None else self._told.name
        return str(self.java.name()) if name is None else name

    @cached_property
    def type_json(self) -> str:
        if self._reading is None or self._told.type is None:
            return str(self.java.dataType().json())
        return self._reading.types[self._told.type]

    @cached_property
    def nullable(self) -> bool:
        answer = None if self._reading is None else self._told.nullable
        return bool(self.java.nullable()) if answer is None else answer

    @cached_property
    def deterministic(self) -> bool:
        return (
            bool(self.java.deterministic()) if self._reading is None else self._told.deterministic
        )

    def walk(self) -> Iterator[Expression]:
        """This expression and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def references(self) -> set[int]:
        """The ids of the attributes it reads."""
        return {node.expr_id for node in self.walk() if node.kind == "AttributeReference"}

    def conjuncts(self) -> list[Expression]:
        """The conditions that all must hold for this one to hold."""
        if self.kind == "And":
            left, right = self.children
            return left.conjuncts() + right.conjuncts()
        return [self]


class Logical(Tree):
    """A node of a Catalyst logical plan."""

    @cached_property
    def _told(self) -> PlanTold:
        return self._read().plan(self._number)

    @cached_property
    def children(self) -> list[Logical]:
        return self._others(Logical, self._told.children)

    @cached_property
    def output(self) -> list[Expression]:
        """The attributes it produces."""
        if self._reading is not None:
            return self._others(Expression, self._reading.output(self._number))
        held = Logical(self._java, Reading.unread(self._java))  # there may be much below it
        return held.output

    @property
    def expressions(self) -> list[Expression]:
        """All expressions of this node alone."""
        return [each for name in self._told.fields for each in self.parts(name)]

    def parts(self, name: str) -> list[Expression]:
        """The expressions of a field: one, those of a sequence or of sequences, or the one that
        there may be.
        """
        return self._others(Expression, _flat(self._told.fields[name]))

    def part(self, name: str) -> Expression:
        """The one expression of a field."""
        [only] = self.parts(name)
        return only

    def field(self, name: str) -> list[Any]:
        """The elements of a field that holds a sequence."""
        return items(getattr(self.java, name)())

    def walk(self) -> Iterator[Logical]:
        """This node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()


def _flat(numbers: Iterable[Any]) -> Iterator[int]:
    for number in numbers:
        if isinstance(number, list):
            yield from _flat(number)
        else:
            yield number
