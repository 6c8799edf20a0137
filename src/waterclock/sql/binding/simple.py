"""Queries that only pick rows of one collection, recognised.

Such a query is answered from an index or from the collection's rows, without the engine. It must
give the same rows in the same order, so only what is compared alike by both is let through: no
floating-point numbers, which have NaN; no constants that the column's own type does not hold.
Numbers with scales of their own are compared by value: whoever looks rows up sees to that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa

from waterclock.model.pg_types import column_type
from waterclock.persist.numerics import TooManyDigits, parts_of, python_value
from waterclock.persist.rows import NUMERIC, arrow_type
from waterclock.sql.binding.api import Comparison, ParameterPlace, SimpleQuery
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.types import name_of

_ALIKE = frozenset(
    [
        *("bool", "int2", "int4", "int8", "oid", "mz_timestamp", "text", "varchar", "name"),
        *("numeric", "uint8", "date", "time", "timestamp", "timestamptz", "uuid", "bytea"),
    ]
)
_INTEGERS = frozenset({"int2", "int4", "int8"})
_TEXTS = frozenset({"text", "varchar", "name"})
_FLIPPED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def filled(query: SimpleQuery, parameters: Sequence[pa.Scalar]) -> SimpleQuery | None:
    """A query that was bound without values, with these values in the places of its parameters.

    None if that does not say all: a parameter that is not compared with a column, a null, or a
    value of another type than was thought.
    """
    used: set[int] = set()
    conditions = []
    for comparison in query.conditions:
        values: list[object] = []
        for value in comparison.values:
            if isinstance(value, ParameterPlace):
                used.add(value.number)
                value = _fitting(parameters[value.number - 1], value.held)
                if value is None:
                    return None
            values.append(value)
        conditions.append(replace(comparison, values=tuple(values)))
    if len(used) != len(parameters):
        return None
    return replace(query, conditions=tuple(conditions))


def _fitting(scalar: pa.Scalar, held: pa.DataType) -> object | None:
    if not scalar.is_valid:
        return None
    value = _in_python(scalar)
    if value is None or scalar.type == held:
        return value
    if isinstance(value, Decimal):
        return _exactly(value, held)
    return integer_within(scalar, held)


def integer_within(scalar: pa.Scalar, held: pa.DataType) -> int | None:
    """An integer of any size, if the Arrow type is an integer type that holds it.

    Drivers send an integer in the smallest type that holds it, whatever the column's type is.
    """
    if not (scalar.is_valid and pa.types.is_integer(scalar.type) and pa.types.is_integer(held)):
        return None
    value: int = scalar.as_py()
    try:
        pa.scalar(value, held)
    except (pa.ArrowInvalid, OverflowError):
        return None
    return value


def _in_python(scalar: pa.Scalar) -> object | None:
    """A value as Python has it; None for times that it has not, such as infinity."""
    try:
        value: object = python_value(scalar)
    except (OverflowError, ValueError):
        return None
    return value


def column_test(operator: str, left: Typed, right: Typed) -> tuple[Comparison, ...] | None:
    """What a comparison asks of a column, if one side is a column and the other a constant."""
    if operator not in _FLIPPED:
        return None
    if left.column is None:
        left, right, operator = right, left, _FLIPPED[operator]
    if not _is_testable(left):
        return None
    value = _held(right, left)
    if value is None:
        return None
    return (Comparison(_stored(left), operator, (value,)),)


def membership_test(
    value: Typed, converted: Typed, others: Sequence[Typed]
) -> tuple[Comparison, ...] | None:
    """What `column IN (constants)` asks. A null among them can only make a false one unknown."""
    if not _is_testable(value) or not (converted.column or _widened(value, converted)):
        return None
    values = []
    for each in others:
        if each.known is not None and each.known.is_null:
            continue
        held = _held(each, value)
        if held is None:
            return None
        values.append(held)
    return (Comparison(_stored(value), "in", tuple(values)),)


def _widened(value: Typed, converted: Typed) -> bool:
    """Whether an integer was made a wider one: what it equals stays the same."""
    return name_of(value.type) in _INTEGERS and name_of(converted.type) in _INTEGERS


def array_test(left: Typed, converted: Typed, right: Typed) -> tuple[Comparison, ...] | None:
    """What `column = ANY (constant array)` asks."""
    scalar = None if right.known is None else right.known.scalar
    if not _is_testable(left) or converted.column is None or scalar is None:
        return None
    held = arrow_type(column_type(left.type))
    if not scalar.is_valid or scalar.type.value_type != held:
        return None
    known = _in_python(scalar)
    if not isinstance(known, list):
        return None
    values = tuple(each for each in known if each is not None)
    return (Comparison(_stored(left), "in", values),)


def null_test(value: Typed, *, negated: bool) -> tuple[Comparison, ...] | None:
    if value.column is None or not value.column.is_plain:
        return None
    return (Comparison(_stored(value), "is not null" if negated else "is null"),)


def _stored(value: Typed) -> str:
    assert value.column is not None
    assert value.column.stored_as is not None
    return value.column.stored_as


def _is_testable(value: Typed) -> bool:
    column = value.column
    return column is not None and column.is_plain and name_of(column.type) in _ALIKE


def _held(constant: Typed, column: Typed) -> object | None:
    """The constant as a Python value of the column's type, or the place of a parameter whose
    values that type may hold; None if it is neither.
    """
    have, want = name_of(constant.type), name_of(column.type)
    are_integers = have in _INTEGERS and want in _INTEGERS
    if constant.parameter is not None and constant.known is None:
        place = ParameterPlace(constant.parameter, arrow_type(column_type(column.type)))
        return place if have == want or are_integers else None
    scalar = None if constant.known is None else constant.known.scalar
    if scalar is None or not scalar.is_valid:
        return None
    if have != want and not are_integers and not (have in _TEXTS and want in _TEXTS):
        return None
    value = _in_python(scalar)
    if value is None:
        return None
    return _exactly(value, arrow_type(column_type(column.type)))


def _exactly(value: object, target: pa.DataType) -> object | None:
    """The value as one of the type; None if the type does not hold it."""
    if target == NUMERIC:
        return value if isinstance(value, Decimal) and _has_room(value) else None
    try:
        held = pa.scalar(value, target)
    except (pa.ArrowInvalid, OverflowError, pa.ArrowTypeError):
        return None
    if isinstance(value, Decimal) and held.as_py() != value:
        return None
    result: object = held.as_py()
    return result


def _has_room(number: Decimal) -> bool:
    try:
        parts_of(number)
    except TooManyDigits:
        return False
    return True
