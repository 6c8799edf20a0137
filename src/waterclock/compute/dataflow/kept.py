"""What is remembered of a view's state, so that it can be trusted when it is opened again.

It becomes durable in the same commit as the outputs of a step, and is small: how far the runs of
each arrangement reach, and a fingerprint of everything that decides what is in them. Runs lie side
by side (see `arrangement.cover`), so a file that is missing leaves a gap in the extent, and a state
from another time has another one. The rest a run tells itself: each ends with a checksum.

The fingerprint is that of the plan, column by column and expression by expression, with the ids of
attributes replaced by numbers in the order in which they come, since Catalyst gives new ones every
time. A plan that Catalyst makes otherwise after an upgrade has another fingerprint, and so has the
same plan under another version of Spark, whose expressions may give other values, or of our own
operators. State with another fingerprint is never read: it is made anew from the inputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

import msgspec

from waterclock.compute.catalyst.trees import Tree, with_ids
from waterclock.compute.plan.nodes import Attribute, Generate, Node, inputs_of
from waterclock.persist.arrangement.cover import Extent
from waterclock.persist.arrangement.run import FORMAT

OPERATORS = 4
"""To be raised with every change of what an operator keeps, or of which rows belong in it."""


class Kept(msgspec.Struct, frozen=True):
    """What the commits of a view say about its state."""

    fingerprint: str
    extents: dict[str, tuple[int, int]]
    """For each arrangement, by name, the times that its runs cover."""


def kept(fingerprint: str, extents: Mapping[str, Extent]) -> Kept:
    """The record of these extents."""
    return Kept(fingerprint, {name: (each.start, each.tip) for name, each in extents.items()})


def fingerprint(plans: Iterable[Node], engine: str) -> str:
    """A text that is the same only if the state of the plans is, under that version of Spark."""
    lines = [f"operators {OPERATORS}, runs {FORMAT}, {engine}"]
    for plan in plans:
        lines += _described(plan)
    numbers: dict[int, int] = {}
    text = with_ids("\n".join(lines), lambda id_: numbers.setdefault(id_, len(numbers)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _described(plan: Node) -> Iterator[str]:
    """A line for each node of the plan, the inputs first; one that is used twice is told once."""
    places: dict[Node, int] = {}

    def visit(node: Node) -> Iterator[str]:
        if node in places:
            return
        for each in inputs_of(node):
            yield from visit(each)
        below = [places[each] for each in inputs_of(node)]
        own = [
            f"{each.name}={_shown(getattr(node, each.name))}"
            for each in fields(node)
            if each.name not in ("input", "inputs", "left", "right")
        ]
        places[node] = len(places)
        yield f"{type(node).__name__} {below} {' '.join(own)} -> {_shown(node.output)}"

    yield from visit(plan)


def _shown(value: object) -> str:
    match value:
        case Tree():
            return value.written
        case Generate(generate):
            made = f"{generate.part('generator').written} outer={bool(generate.java.outer())}"
            return f"{made} {_shown(tuple(generate.parts('generatorOutput')))}"
        case Enum():
            return str(value.value)
        case tuple():
            return f"({', '.join(_shown(each) for each in value)})"
        case Attribute(id_, name, type_, nullable):
            return f"{_plain(name)}#{id_}:{_plain(type_)}:{nullable}"
        case _ if is_dataclass(value) and not isinstance(value, type):
            own = (f"{each.name}={_shown(getattr(value, each.name))}" for each in fields(value))
            return f"{type(value).__name__}({' '.join(own)})"
        case _:
            return _plain(str(value))


def _plain(text: str) -> str:
    """A text in which nothing looks like an id."""
    return text.replace("#", "\\u0023")
