"""Whole trees of Catalyst's in one question.

Each call into the JVM takes a tenth of a millisecond or more, and every object that comes back
takes another one when Python forgets it. To plan a view, thousands of nodes are looked at. So a
small class on the other side (`compute/jvm/Glance.java`) walks over a tree and describes all of its
nodes in one text, and makes in one call what would take several.

The nodes of a reading are numbered. Their JVM objects are fetched one by one, if at all: most nodes
are only looked at.
"""

from __future__ import annotations

import threading
from typing import Any

import msgspec
from py4j.java_gateway import JavaClass

_CLASS = "waterclock.Glance"


class ExpressionTold(msgspec.Struct, frozen=True, array_like=True):
    """What is told of an expression. `type` is a place among the reading's types."""

    kind: str
    children: tuple[int, ...]
    expr_id: int | None
    name: str | None
    type: int | None
    nullable: bool | None
    deterministic: bool


class PlanTold(msgspec.Struct, frozen=True, array_like=True):
    """What is told of a plan's node: the expressions of its fields."""

    kind: str
    children: tuple[int, ...]
    fields: dict[str, list[Any]]


_Text = tuple[list[str], list[msgspec.Raw]]


class Reading:
    """The nodes of a tree, of which the first is the root."""

    def __init__(self, java: Any) -> None:
        """`java` is a reading on the other side."""
        self._java = java
        self._lock = threading.Lock()
        types, nodes = msgspec.json.decode(java.text(), type=_Text)
        self.types: list[str] = types
        self._nodes: list[msgspec.Raw] = nodes
        self.trees: dict[int, Any] = {}
        """The nodes that were looked at, as others see them."""

    @staticmethod
    def of(java: Any) -> Reading:
        """The reading of a whole tree."""
        return Reading(glance(java._gateway_client).read(java))

    @staticmethod
    def unread(java: Any) -> Reading:
        """A plan of which only the columns can be asked for."""
        return Reading(glance(java._gateway_client).hold(java))

    def output(self, number: int) -> list[int]:
        """The numbers of a plan's columns."""
        with self._lock:
            told = self._java.output(number)
            found, (types, nodes) = msgspec.json.decode(told, type=tuple[list[int], _Text])
            self.types += types
            self._nodes += nodes
        return found

    def expression(self, number: int) -> ExpressionTold:
        return msgspec.json.decode(self._nodes[number], type=ExpressionTold)

    def plan(self, number: int) -> PlanTold:
        return msgspec.json.decode(self._nodes[number], type=PlanTold)

    def java(self, number: int) -> Any:
        """The JVM object of a node."""
        return self._java.node(number)


def glance(client: Any) -> Any:
    """The object in the JVM behind a connection that reads trees, and makes parts of them.

    It is kept with the connection, as the names of classes are (`names`).
    """
    known = client.__dict__.get(_CLASS)
    if known is None:
        known = client.__dict__.setdefault(_CLASS, JavaClass(_CLASS, client)())
    return known
