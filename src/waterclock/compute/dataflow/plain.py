"""Expressions that a Python stage computes itself: those that mean the same to Arrow, for certain.

Rows that pass through Spark are made of Arrow into Spark's form and back again, which takes several
times as long as all that is done to them in Python. So sums and products of whole numbers,
comparisons, and what logic makes of those are computed where the rows are, when there are many.

Catalyst stays the judge of everything that is doubtful. What could mean anything else to Arrow is
not translated: floats, decimals, casts, divisions, collations. And if a number does not fit its
type, the rows in question are left to Catalyst, which knows for each of them what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.compute.catalyst.trees import Expression

_SUMS = {"Add": "add_checked", "Subtract": "subtract_checked", "Multiply": "multiply_checked"}
_COMPARISONS = {
    "EqualTo": "equal",
    "GreaterThan": "greater",
    "GreaterThanOrEqual": "greater_equal",
    "LessThan": "less",
    "LessThanOrEqual": "less_equal",
}
_LOGIC = {"And": "and_kleene", "Or": "or_kleene", "Not": "invert"}
_TESTS = {"IsNull": "is_null", "IsNotNull": "is_valid"}
_NUMBERS = {'"integer"': pa.int32(), '"long"': pa.int64()}
_COMPARED = {**_NUMBERS, '"date"': pa.date32(), '"string"': pa.string()}
_ANSI = "ANSI"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the base, by its place."""

    place: int


@dataclass(frozen=True, slots=True)
class Value:
    """A constant."""

    value: int | str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Call:
    """A function of Arrow's. Some argument of it, or of an argument, is a column."""

    function: str
    arguments: tuple[Plain, ...]


Plain = Column | Value | Call


@dataclass(frozen=True, slots=True)
class Computed:
    """Rows of a base that fulfil the conditions, in turn, and what is computed of those left."""

    conditions: tuple[Plain, ...]
    columns: tuple[Plain, ...]

    def of(self, base: pa.Table, schema: pa.Schema) -> pa.Table | None:
        """The updates, under these names and types; None if a number did not fit its type."""
        try:
            for condition in self.conditions:
                base = base.filter(_evaluated(condition, base))
            columns = [_filled(_evaluated(each, base), base.num_rows) for each in self.columns]
        except pa.ArrowInvalid:
            return None
        stamp = base.num_columns - 2
        return typed([*columns, base.column(stamp), base.column(stamp + 1)], schema)


def typed(columns: Sequence[pa.ChunkedArray | pa.Array], schema: pa.Schema) -> pa.Table:
    """A table of the columns, which may differ in whether parts of them can be null."""
    cast = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(cast, schema=schema)


def plain(expression: Expression, known: Mapping[int, Plain | None]) -> Plain | None:
    """The expression over columns that are known by their ids; None if it is left to Catalyst."""
    match expression.kind:
        case "Alias":
            return plain(expression.children[0], known)
        case "AttributeReference":
            return known.get(expression.expr_id)
        case "Literal":
            return _value(expression)
    function = _function(expression)
    if function is None:
        return None
    arguments = [plain(child, known) for child in expression.children]
    translated = tuple(each for each in arguments if each is not None)
    if len(translated) < len(arguments) or not any(map(_has_column, translated)):
        return None
    return Call(function, translated)


def _function(expression: Expression) -> str | None:
    """What Arrow calls it, if it means the same there."""
    kind = expression.kind
    if kind in _SUMS:
        is_checked = _are_all_of(_NUMBERS, expression.children) and _mode(expression) == _ANSI
        return _SUMS[kind] if is_checked else None
    if kind in _COMPARISONS:
        return _COMPARISONS[kind] if _are_all_of(_COMPARED, expression.children) else None
    return _LOGIC.get(kind) or _TESTS.get(kind)


def _are_all_of(types: Mapping[str, pa.DataType], expressions: Sequence[Expression]) -> bool:
    """Whether the expressions are of one of these types, all of the same."""
    found = {expression.type_json for expression in expressions}
    return len(found) == 1 and found <= types.keys()


def _mode(expression: Expression) -> str:
    """What happens if a number does not fit."""
    return str(expression.java.evalMode().toString())


def _value(literal: Expression) -> Value | None:
    kind = _COMPARED.get(literal.type_json)
    value = literal.java.value() if kind is not None else None
    if value is None:
        return None
    return Value(value if isinstance(value, int) else str(value.toString()), kind)


def _has_column(expression: Plain) -> bool:
    """Whether it is one value for each row, not one for all."""
    match expression:
        case Column():
            return True
        case Value():
            return False
        case Call(_, arguments):
            return any(map(_has_column, arguments))
        case _:
            assert_never(expression)


def _evaluated(expression: Plain, base: pa.Table) -> pa.ChunkedArray | pa.Scalar:
    match expression:
        case Column(place):
            return base.column(place)
        case Value(value, kind):
            return pa.scalar(value, kind)
        case Call(function, arguments):
            return pc.call_function(function, [_evaluated(each, base) for each in arguments])
        case _:
            assert_never(expression)


def _filled(values: pa.ChunkedArray | pa.Scalar, length: int) -> pa.ChunkedArray | pa.Array:
    return pa.repeat(values, length) if isinstance(values, pa.Scalar) else values


def computed(
    conditions: Sequence[Plain | None], columns: Sequence[Plain | None]
) -> Computed | None:
    """All of it, if all of it was translated."""
    found = [each for each in conditions if each is not None]
    made = [each for each in columns if each is not None]
    if len(found) < len(conditions) or len(made) < len(columns):
        return None
    return Computed(tuple(found), tuple(made))
