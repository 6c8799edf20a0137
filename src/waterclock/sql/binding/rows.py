"""Constant rows: VALUES of an INSERT, evaluated without the engine.

Literals, parameters, casts of them, signs, NULL, TRUE and FALSE, and the functions that tell the
time of the transaction are known here. Anything else needs the engine, which None says.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from waterclock.model.pg_types import INT2, INT4, INT8, TEXT, PgType, column_type
from waterclock.persist.rows import arrow_type
from waterclock.sql.ast.common import DefaultValue, ExpressionText
from waterclock.sql.binding.binder import NoRelations, positions_from
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.queries import Queries
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.statement import Parameters, Statement
from waterclock.sql.binding.typed import Typed
from waterclock.sql.budget import Meter
from waterclock.sql.dialect.facts import SessionFacts
from waterclock.sql.functions.system import CLOCKS
from waterclock.sql.query import parse_expression, tree


def bind_values(
    rows: Sequence[Sequence[ExpressionText | DefaultValue]],
    targets: Sequence[PgType],
    *,
    facts: SessionFacts,
    parameter_types: Sequence[PgType | None] = (),
    parameters: Sequence[pa.Scalar | None] | None = None,
    target_names: Sequence[str] = (),
    meter: Meter | None = None,
) -> pa.Table | None:
    """The rows in the targets' Arrow types; None if a value needs the engine.

    DEFAULT is null here: whoever knows another default puts it in its place. Raises a `SqlFault`
    for values that do not fit.
    """
    binder = _Constants(facts, Parameters(parameter_types, parameters), meter or Meter())
    columns: list[list[pa.Scalar]] = [[] for _ in targets]
    for row in rows:
        for place, target in enumerate(targets):
            name = target_names[place] if place < len(target_names) else None
            scalar = binder.scalar(row[place], target, name)
            if scalar is None:
                return None
            columns[place].append(scalar)
    arrays = [_array(each, target) for each, target in zip(columns, targets, strict=True)]
    return pa.Table.from_arrays(arrays, names=[f"c{n}" for n in range(len(targets))])


def literal_value(
    text: ExpressionText,
    target: PgType,
    *,
    facts: SessionFacts,
    parameter_types: Sequence[PgType | None] = (),
    parameters: Sequence[pa.Scalar | None] | None = None,
) -> pa.Scalar | None:
    """The value of a constant expression in a type; None if it needs the engine."""
    binder = _Constants(facts, Parameters(parameter_types, parameters), Meter())
    return binder.scalar(text, target, None)


def _array(scalars: list[pa.Scalar], target: PgType) -> pa.Array:
    held = arrow_type(column_type(target))
    if not scalars:
        return pa.array([], held)
    return pa.concat_arrays([pa.repeat(each, 1) for each in scalars]).cast(held)


class _Constants:
    """Evaluates constants of one statement."""

    def __init__(self, facts: SessionFacts, parameters: Parameters, meter: Meter) -> None:
        self._meter = meter
        statement = Statement(NoRelations(), facts, parameters, False, meter)
        self._queries = Queries(statement)
        self._place = Place(Scope(statement.scope()), "VALUES")

    def scalar(
        self, value: ExpressionText | DefaultValue, target: PgType, name: str | None
    ) -> pa.Scalar | None:
        held = arrow_type(column_type(target))
        if isinstance(value, DefaultValue):
            return pa.scalar(None, held)
        with positions_from(value.position):
            node = parse_expression(value.text, self._meter)
            plain = _plain(node, target, held)
            if plain is not None:
                return plain
            if not _is_constant(node):
                return None
            bound = self._queries.expressions.bind(node, self._place)
            assigned = self._queries.expressions.coercion.assigned(bound, target, name)
        return _known(assigned, held)


_BITS = {INT2: 15, INT4: 31, INT8: 63}


def _plain(node: tree.Expression, target: PgType, held: pa.DataType) -> pa.Scalar | None:
    """The value of a literal that needs no conversion; None if it may need one."""
    match node:
        case tree.Number(text) if target in _BITS and text.isdigit() and len(text) < 20:
            number = int(text)
            return pa.scalar(number, held) if number < 1 << _BITS[target] else None
        case tree.String(text) if target == TEXT:
            return pa.scalar(text, held)
        case _:
            return None


def _is_constant(node: tree.Expression) -> bool:
    match node:
        case tree.String() | tree.Number() | tree.Boolean() | tree.Null() | tree.Parameter():
            return True
        case tree.Cast(operand) | tree.Unary("-" | "+", operand):
            return _is_constant(operand)
        case tree.Call(name, ()):
            return name[-1] in CLOCKS
        case _:
            return False


def _known(value: Typed, held: pa.DataType) -> pa.Scalar | None:
    scalar = None if value.known is None else value.known.scalar
    if scalar is None:
        return None
    return scalar if scalar.type == held else _cast(scalar, held)


def _cast(scalar: pa.Scalar, held: pa.DataType) -> pa.Scalar | None:
    try:
        return scalar.cast(held)
    except pa.ArrowInvalid:
        return None
