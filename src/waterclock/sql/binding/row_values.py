"""Rows in expressions: `ROW(a, b)`, the whole row of a relation, and fields of them.

A row is known by its fields until it has to be one value (`coercion.settled`), which is its text.
So fields are told apart and compared in types of their own; of a value, which comes out of a query,
only the text is left, and it can be shown or cast to text, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from waterclock.model.pg_types import RECORD
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import UndefinedColumn, WrongObjectKind
from waterclock.sql.binding.typed import Composite, Role, Typed
from waterclock.sql.dialect.types import shown
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


class Rows:
    """Binds names, which may mean whole rows, and rows that are made of values."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def named(self, node: tree.ColumnRef, place: Place) -> Typed:
        """A column, or a row of a relation."""
        return shown_of_group(place.scope.column(node.parts, node.at), place)

    def starred(self, node: tree.Star, place: Place) -> Typed:
        """`t.*` where one value is wanted: the whole row."""
        if not node.parts:
            raise SyntaxFault('syntax error at or near "*"', node.at)
        return shown_of_group(place.scope.row_of(node.parts, node.at), place)

    def made(self, node: tree.Row, place: Place) -> Typed:
        """`ROW(...)`, in which `t.*` stands for all columns."""
        fields = tuple(field for item in node.items for field in self._items(item, place))
        names = tuple(f"f{n}" for n in range(1, len(fields) + 1))
        composite = Composite(names, is_made=True)
        return Typed("", RECORD, node.at, fields, role=Role.ROW, composite=composite)

    def _items(self, item: tree.Expression, place: Place) -> Sequence[Typed]:
        match item:
            case tree.Star(parts) if parts:
                row = self._expressions.bind(item, place)
                return (row,) if row.composite is None else row.parts
            case tree.AllFields():
                return [value for _, value in self.fields(item, place)]
            case _:
                return (self._expressions.bind(item, place),)

    def field(self, node: tree.Field, place: Place) -> Typed:
        """`(row).name`."""
        base = self._expressions.bind(node.base, place)
        composite = base.composite
        if composite is None:
            raise _has_no_fields(base, node.name, node.at)
        for name, part in zip(composite.names, base.parts, strict=True):
            if name == node.name:
                return part
        if composite.is_made:
            what = f'could not identify column "{node.name}" in record data type'
        else:
            what = f"column {composite.relation}.{node.name} does not exist"
        raise UndefinedColumn(what, node.at)

    def fields(self, node: tree.AllFields, place: Place) -> list[tuple[str, Typed]]:
        """What `(row).*` stands for: the fields with their names."""
        base = self._expressions.bind(node.base, place)
        if base.composite is None:
            raise _has_no_fields(base, "*", node.at)
        return list(zip(base.composite.names, base.parts, strict=True))

    def all_fields(self, node: tree.AllFields, place: Place) -> Typed:
        """`(row).*` where one value is wanted: the row again."""
        return self._expressions.bind(node.base, place)


def shown_of_group(value: Typed, place: Place) -> Typed:
    """A row with what a group shows of its columns."""
    if value.composite is None or not place.representatives:
        return value
    kept = place.representatives
    parts = tuple(kept.get(part.sql, part) for part in value.parts)
    return Typed("", RECORD, value.at, parts, role=Role.ROW, composite=value.composite)


def _has_no_fields(base: Typed, name: str, at: int) -> Exception:
    if base.type.oid == RECORD.oid:
        return FeatureNotSupported.of("a field of a row that comes out of a query", at)
    what = f"column notation .{name} applied to type {shown(base.type)}"
    return WrongObjectKind(f"{what}, which is not a composite type", at)
