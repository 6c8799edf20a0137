"""An INSERT of parameters and plain constants, compiled.

Each value is a parameter of its column's type, an integer that this type holds, or a constant that
means the same at all times: then a row is made of what the client sent without a look at the text.
What converts, computes or asks for the time is left to the ordinary way, and so is a null where
none may be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from waterclock.adapter.api import Done, Response
from waterclock.adapter.sequencer.inserts import check_conflict, full_row
from waterclock.adapter.sequencer.writing import (
    loose_schema,
    places_of,
    require_writable,
    writable,
)
from waterclock.catalog.objects import Column, Privilege
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import INT2, INT4, INT8, NO_MODIFIER, TEXT, PgType
from waterclock.persist.rows import DIFF
from waterclock.sql import ast
from waterclock.sql.ast.changes import Rows as ValueRows
from waterclock.sql.ast.common import ExpressionText
from waterclock.sql.binding import bind_values, integer_within
from waterclock.sql.query import parse_expression, tree

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_MANY_VALUES = 1_000
_INTEGERS = frozenset({INT2, INT4, INT8})
Value: TypeAlias = "int | pa.Scalar"
"""The place of a parameter, from 0 on, or a constant."""


@dataclass(frozen=True, slots=True)
class Template:
    """The rows of an INSERT, with places for the parameters."""

    table: GlobalId
    schema: pa.Schema
    """The table's columns, and the diff."""
    required: tuple[bool, ...]
    """Whether each column must have a value."""
    columns: tuple[tuple[Value, ...], ...]
    """The values of each column."""
    diffs: pa.Array

    def run(self, session: SqlSession, parameters: Sequence[pa.Scalar]) -> Response | None:
        """Let the rows be written when the transaction ends."""
        if session.transaction.has_failed:
            return None
        require_writable(session, "INSERT")
        arrays: list[pa.Array] = []
        for field, required, values in zip(self.schema, self.required, self.columns, strict=False):
            array = _array(values, parameters, field.type)
            if array is None or (required and array.null_count):
                return None
            arrays.append(array)
        rows = pa.Table.from_arrays([*arrays, self.diffs], schema=self.schema)
        session.transaction.write({self.table: rows}, "INSERT")
        return Done(f"INSERT 0 {len(self.diffs)}")


def _array(
    values: Sequence[Value], parameters: Sequence[pa.Scalar], kind: pa.DataType
) -> pa.Array | None:
    """The values as an array; None if the type does not hold one of them."""
    scalars = []
    for each in values:
        scalar = parameters[each] if isinstance(each, int) else each
        if scalar.type != kind:
            value = integer_within(scalar, kind)
            if value is None and scalar.is_valid:
                return None
            scalar = pa.scalar(value, kind)
        scalars.append(scalar)
    if len(scalars) == 1:
        return pa.repeat(scalars[0], 1)
    return pa.array(scalars, kind)


def compiled_insert(
    session: SqlSession, statement: ast.Insert, parameters: Sequence[PgType]
) -> Template | None:
    """The statement as a template, if it is one. Raises what is wrong with it."""
    if not isinstance(statement.source, ValueRows) or statement.returning is not None:
        return None
    table = writable(session, statement.table, Privilege.INSERT)
    places = places_of(table, statement.columns)
    check_conflict(table, statement.conflict)
    count = len(statement.source.rows)
    if not count or count * len(table.columns) > _MANY_VALUES:
        return None
    rows = [full_row(table, places, row) for row in statement.source.rows]
    columns = []
    for place, column in enumerate(table.columns):
        values = [_value(session, row[place], column, parameters) for row in rows]
        known = tuple(value for value in values if value is not None)
        if len(known) < len(values):
            return None
        columns.append(known)
    schema = loose_schema(table).append(pa.field(DIFF, pa.int64(), nullable=False))
    required = tuple(not column.nullable for column in table.columns)
    diffs = pa.repeat(pa.scalar(1, pa.int64()), len(rows))
    return Template(table.id, schema, required, tuple(columns), diffs)


def _value(
    session: SqlSession, written: ExpressionText, column: Column, parameters: Sequence[PgType]
) -> Value | None:
    """What is to be put into the column; None if that takes the ordinary way."""
    if column.type.modifier != NO_MODIFIER:
        return None
    node = parse_expression(written.text)
    if isinstance(node, tree.Parameter):
        given = parameters[node.number - 1]
        is_held = given == column.type or {given, column.type} <= _INTEGERS
        return node.number - 1 if is_held else None
    if not _means_itself(node, column.type):
        return None
    row = bind_values([[written]], [column.type], facts=session.facts())
    return None if row is None else row.column(0)[0]


def _means_itself(node: tree.Expression, target: PgType) -> bool:
    """Whether a constant is the same at all times. A text may be such as 'now'."""
    match node:
        case tree.Number() | tree.Boolean() | tree.Null():
            return True
        case tree.String():
            return target == TEXT
        case tree.Unary("-", operand):
            return isinstance(operand, tree.Number)
        case _:
            return False
