"""The fingerprint of a plan: the same for the same plan, whatever ids Catalyst gave it."""

from __future__ import annotations

import pytest

from waterclock.compute.catalyst.trees import Expression
from waterclock.compute.dataflow.kept import fingerprint
from waterclock.compute.plan.nodes import (
    Aggregate,
    Attribute,
    Distinct,
    Equal,
    Filter,
    Function,
    Get,
    Join,
    Linear,
    Node,
    Reduce,
    Union,
)
from waterclock.model.ids import GlobalId

SPARK = "Spark 4.3.0"


class Text(Expression):
    """An expression that is only shown."""

    kind = "GreaterThan"

    def __init__(self, written: str) -> None:
        self.__dict__["written"] = written


def column(id_: int, name: str = "v", type_: str = '"long"') -> Attribute:
    return Attribute(id_, name, type_, True)


def plan(first: int, *, limit: int = 5, swapped: bool = False, null_safe: bool = False) -> Node:
    """A join, a filter and an aggregate whose attributes have ids from `first` on."""
    k, v, w = (column(first + place, name) for place, name in enumerate("kvw"))
    left = Get(GlobalId.user(1), (k, v))
    above = Filter(Text(f"({'k' if swapped else 'v'}#{first if swapped else v.id} > {limit})"))
    filtered = Linear(left, (above,), left.output)
    joined = Join(filtered, Get(GlobalId.user(2), (w,)), (Equal(0, 0, null_safe),))
    total = column(first + 9, "total")
    summed = Aggregate(Function.SUM, 1, total)
    return Reduce(joined, (0,), (summed,), (k, total))


def test_ids_do_not_matter() -> None:
    assert fingerprint([plan(10)], SPARK) == fingerprint([plan(77_000)], SPARK)


def test_everything_else_matters() -> None:
    others = [
        fingerprint([plan(10)], SPARK),
        fingerprint([plan(10)], "Spark 4.3.1"),
        fingerprint([plan(10), plan(40)], SPARK),
        fingerprint([Distinct(plan(10))], SPARK),
        fingerprint([plan(10, limit=6)], SPARK),
        fingerprint([plan(10, swapped=True)], SPARK),
        fingerprint([plan(10, null_safe=True)], SPARK),
        fingerprint([], SPARK),
    ]
    assert len(set(others)) == len(others)


def test_a_name_that_looks_like_an_id_is_none() -> None:
    [one, other] = [Get(GlobalId.user(1), (column(1, name),)) for name in ("c#5", "c#6")]
    assert fingerprint([one], SPARK) != fingerprint([other], SPARK)


def test_a_version_of_the_operators_matters(monkeypatch: pytest.MonkeyPatch) -> None:
    before = fingerprint([plan(10)], SPARK)
    monkeypatch.setattr("waterclock.compute.dataflow.kept.OPERATORS", 10**6)
    assert fingerprint([plan(10)], SPARK) != before


def test_a_plan_whose_parts_are_shared_is_read_once() -> None:
    """There are 2**60 ways from the top to the bottom."""
    node: Node = Get(GlobalId.user(1), (column(1),))
    for _ in range(60):
        node = Union((node, node), node.output)
    assert fingerprint([node], SPARK) == fingerprint([node], SPARK)
