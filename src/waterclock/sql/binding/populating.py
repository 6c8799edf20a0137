"""JSON objects as rows of a relation: `jsonb_populate_record(NULL::orders, j)` and its like.

The first argument tells the columns. If it is a row and not null, its values stand for members that
the object has not. Each member is read as `records` tells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from waterclock.model.pg_types import JSONB, RECORD, PgType
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import NO_FUNCTION_HINT, DatatypeMismatch, UndefinedFunction
from waterclock.sql.binding.records import records
from waterclock.sql.binding.typed import Composite, Role, Typed
from waterclock.sql.dialect.types import JSON, shown
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.json_rows import POPULATE
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


@dataclass(frozen=True, slots=True)
class Populated:
    """Rows of a relation: an array of structs with the fields `f0`, `f1` and so on."""

    sql: str
    columns: tuple[tuple[str, PgType], ...]
    parts: tuple[Typed, ...]
    witness: str | None
    """What is null if the row is, and there is no other that stands for it."""


def is_populating(node: tree.Expression) -> bool:
    return isinstance(node, tree.Call) and node.name[-1] in POPULATE


class Populating:
    """Binds calls of these functions."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def row(self, node: tree.Call, place: Place) -> Typed:
        """The row of a function that gives one."""
        found = self.rows(node, place)
        fields = tuple(
            Typed(f"ELEMENT_AT({found.sql}, 1).f{n}", declared, node.at, found.parts)
            for n, (_, declared) in enumerate(found.columns)
        )
        names = tuple(name for name, _ in found.columns)
        composite = Composite(names, is_padded=found.witness is not None, witness=found.witness)
        return Typed("", RECORD, node.at, fields, role=Role.ROW, composite=composite)

    def rows(self, node: tree.Call, place: Place) -> Populated:
        name = node.name[-1]
        values = tuple(self._expressions.bind(each, place) for each in node.arguments)
        kind = JSONB if name.startswith("jsonb") else JSON
        if len(values) != 2 or not (values[1].is_unknown or values[1].type.oid == kind.oid):
            types = ", ".join(shown(each.type) for each in values)
            message = f"function {name}({types}) does not exist"
            raise UndefinedFunction(message, node.at, hint=NO_FUNCTION_HINT)
        base, value = values[0], self._expressions.coercion.into(values[1], kind)
        composite = base.composite
        if composite is None and base.type.oid != RECORD.oid and not base.is_unknown:
            raise DatatypeMismatch(f"first argument of {name} must be a row type", base.at)
        if composite is None or composite.is_made:
            what = f"{name}() without the row of a relation, or NULL of its type,"
            raise FeatureNotSupported.of(what, base.at)
        fields = tuple(self._expressions.coercion.settled(each) for each in base.parts)
        columns = tuple(zip(composite.names, (each.type for each in fields), strict=True))
        is_null = all(each.known is not None and each.known.is_null for each in fields)
        defaults = None if is_null else [each.sql for each in fields]
        manner = self._expressions.statement.facts.manner
        sql = records(name, value, columns, manner, node.at, defaults)
        return Populated(sql, columns, (value, *fields), value.sql if is_null else None)
