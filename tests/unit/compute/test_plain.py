"""What a stage computes itself: only what means the same to Arrow, and everything else is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pyarrow as pa
import pytest

from waterclock.compute.catalyst.trees import Expression
from waterclock.compute.dataflow.plain import Call, Column, Plain, Value, computed, plain

KNOWN: dict[int, Plain | None] = {1: Column(0), 2: Column(1), 3: None}
LONG, TEXT = '"long"', '"string"'


@dataclass
class Java:
    """What is asked of the tree in Java: a literal's value, or the mode of a sum."""

    held: object = None
    mode: str = "ANSI"

    def value(self) -> object:
        return self.held

    def evalMode(self) -> Java:  # as Catalyst calls it
        return self

    def toString(self) -> str:
        return str(self.held or self.mode)


@dataclass
class Tree:
    """An expression of Catalyst's, as far as it is looked at."""

    kind: str
    children: list[Tree] = field(default_factory=list)
    type_json: str = LONG
    expr_id: int = 0
    java: Java = field(default_factory=Java)


def column(number: int, kind: str = LONG) -> Tree:
    return Tree("AttributeReference", type_json=kind, expr_id=number)


def literal(value: object, kind: str = LONG) -> Tree:
    return Tree("Literal", type_json=kind, java=Java(value))


def translated(tree: Tree) -> Plain | None:
    return plain(cast("Expression", tree), KNOWN)


def test_sums_and_comparisons() -> None:
    total = Tree("Add", [column(1), Tree("Multiply", [column(2), literal(2)])])
    product = Call("multiply_checked", (Column(1), Value(2, pa.int64())))
    assert translated(Tree("Alias", [total])) == Call("add_checked", (Column(0), product))
    less = Tree("LessThan", [column(1), literal(5)])
    assert translated(Tree("Not", [less])) == Call(
        "invert", (Call("less", (Column(0), Value(5, pa.int64()))),)
    )
    assert translated(Tree("IsNull", [column(1, '"double"')])) == Call("is_null", (Column(0),))


def test_texts_are_compared_with_literals() -> None:
    same = Tree("EqualTo", [column(2, TEXT), literal(Java("x"), TEXT)])
    assert translated(same) == Call("equal", (Column(1), Value("x", pa.string())))


@pytest.mark.parametrize(
    "tree",
    [
        column(3),  # was not translated itself
        literal(None),
        literal(1.5, '"double"'),
        Tree("Divide", [column(1), column(2)]),
        Tree("Add", [column(1), literal(None)]),
        Tree("Add", [column(1, '"double"'), column(2, '"double"')]),
        Tree("Add", [column(1, '"decimal(10,2)"'), column(2, '"decimal(10,2)"')]),
        Tree("Add", [column(1), column(2)], java=Java(mode="TRY")),
        Tree("Add", [column(1), column(2, '"integer"')]),
        Tree("LessThan", [column(1, '"double"'), column(2, '"double"')]),
        Tree("EqualTo", [column(1, '"string collate UNICODE_CI"')] * 2),
        Tree("And", [Tree("IsNull", [column(1)]), Tree("Rand")]),
        Tree("LessThan", [literal(1), literal(2)]),  # has no column to say how many rows
        Tree("Cast", [column(1)]),
    ],
)
def test_what_may_mean_something_else_is_left_to_catalyst(tree: Tree) -> None:
    assert translated(tree) is None


ROWS = pa.table(
    {
        "a": pa.array([1, None, 3, 2**62], pa.int64()),
        "b": pa.array([2, 2, None, 2], pa.int64()),
        "time": pa.array([7, 7, 8, 8]),
        "diff": pa.array([1, 1, 1, -1]),
    }
)
SUMS = pa.schema([("c0", pa.int64()), ("time", pa.int64()), ("diff", pa.int64())])


def made(conditions: list[Plain | None], value: Plain | None) -> list[dict[str, Any]] | None:
    whole = computed(conditions, [value])
    assert whole is not None
    rows = whole.of(ROWS, SUMS)
    return None if rows is None else rows.to_pylist()


TWICE = Call("multiply_checked", (Column(0), Column(1)))
SMALL = Call("less", (Column(0), Value(100, pa.int64())))


def test_only_rows_for_which_a_condition_is_true() -> None:
    assert made([SMALL], TWICE) == [
        {"c0": 2, "time": 7, "diff": 1},
        {"c0": None, "time": 8, "diff": 1},
    ]
    missing = Call("is_null", (Column(1),))
    either = Call("or_kleene", (SMALL, missing))
    assert made([Call("invert", (either,))], Column(0)) == [{"c0": 2**62, "time": 8, "diff": -1}]


def test_a_number_that_does_not_fit_leaves_all_rows() -> None:
    assert made([], TWICE) is None
    assert made([Call("equal", (TWICE, Value(2, pa.int64())))], Column(0)) is None


def test_nothing_is_computed_unless_all_of_it_is() -> None:
    assert computed([None], [Column(0)]) is None
    assert computed([SMALL], [Column(0), None]) is None
