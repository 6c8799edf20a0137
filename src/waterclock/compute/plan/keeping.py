"""Refusing values that can not be kept.

What lies between two operators, and what they keep, is in Arrow. Values inside an expression may be
of any type that Catalyst has; but a column of a type that has no form in Arrow can not leave it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pyspark.errors import PySparkTypeError
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from waterclock.compute.catalyst.types import arrow_type, spark_type
from waterclock.compute.errors import NotMaintainable
from waterclock.compute.plan.nodes import Attribute, Linear, Negate, Node, Union, inputs_of

_HINT = "Compute something else of it in the same expression, such as its text or a number."


def refuse_unkept(plans: Sequence[Node]) -> None:
    """`NotMaintainable` with the type's name if a column of it would have to be kept."""
    for type_json in {column.type for column in _kept(plans)}:
        kind = spark_type(type_json)
        if _repeats_names(kind):
            raise _refusal(kind, "Give each field of the struct a name of its own.")
        try:
            arrow_type(type_json)
        except PySparkTypeError:
            raise _refusal(kind, _HINT) from None


def _refusal(kind: DataType, hint: str) -> NotMaintainable:
    name = kind.simpleString()
    return NotMaintainable(f"a view can not be maintained over columns of type {name}", hint=hint)


def _repeats_names(kind: DataType) -> bool:
    """Whether two fields of a struct in it have the same name."""
    match kind:
        case StructType():
            names = kind.names
            return len(set(names)) < len(names) or any(_repeats_names(f.dataType) for f in kind)
        case ArrayType():
            return _repeats_names(kind.elementType)
        case MapType():
            return _repeats_names(kind.keyType) or _repeats_names(kind.valueType)
        case _:
            return False


def _kept(plans: Sequence[Node]) -> Iterator[Attribute]:
    """The columns of the plans, of what operators take in and of what they give."""
    seen: set[Node] = set()
    rest = list(plans)
    for plan in plans:
        yield from plan.output
    while rest:
        node = rest.pop()
        if node in seen:
            continue
        seen.add(node)
        rest += inputs_of(node)
        if not isinstance(node, Linear | Union | Negate):
            yield from node.output
            for below in inputs_of(node):
                yield from below.output
