"""Whole rows as JSON: `to_jsonb(t)`, `row_to_json(t)`, `json_agg(t)` and the like.

A row is no value here, only the JSON object that is made of its columns. It takes the place of the
argument, for these functions leave what is JSON already as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.model.pg_types import JSONB
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.typed import Role, Typed, operand
from waterclock.sql.dialect.types import JSON
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions.json_texts import row_text_of
from waterclock.sql.functions.jsons import row_of
from waterclock.sql.functions.registry import Argument, Refused
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions

ROW_TO_JSON = "row_to_json"
_TAKE_ROWS = frozenset({"to_jsonb", "jsonb_agg", "to_json", "json_agg", ROW_TO_JSON})


class Documents:
    """Binds rows that are arguments of functions of JSON."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def document(self, node: tree.Call, place: Place) -> Typed | None:
        """The first argument of a call as JSON, if it is a row that the function makes JSON of."""
        name = node.name[-1]
        if name not in _TAKE_ROWS or not node.arguments:
            return None
        fields = self._fields(node.arguments[0], place)
        if fields is None:
            return None
        zone = self._expressions.statement.facts.timezone
        is_text = not name.startswith("jsonb") and name != "to_jsonb"
        arguments = [(label, Argument(value.sql, value.type)) for label, value in fields]
        try:
            sql = row_text_of(arguments, zone) if is_text else row_of(arguments, zone)
        except Refused as problem:
            raise FeatureNotSupported.of(problem.what, node.at) from None
        parts = tuple(value for _, value in fields)
        at = node.arguments[0].at
        return Typed(operand(sql), JSON if is_text else JSONB, at, parts, nullable=False)

    def _fields(self, node: tree.Expression, place: Place) -> list[tuple[str, Typed]] | None:
        match node:
            case tree.Row(items):
                found = [self._expressions.value(each, place) for each in items]
                return [(f"f{n}", value) for n, value in enumerate(found, start=1)]
            case tree.Star(parts) | tree.ColumnRef(parts) if parts:
                columns = place.scope.whole_row(parts, node.at) if len(parts) == 1 else None
                if columns is None:
                    return None
                kept = place.representatives
                return [
                    (each.column.name, kept.get(each.sql, each))
                    for each in columns
                    if each.column is not None
                ]
            case _:
                return None


def counted_row(row: Typed, parts: list[Typed], keys: list[str]) -> Typed:
    """A row as `count` takes it: it is never null, and told from others by its fields."""
    assert row.role is Role.ROW
    fields = ", ".join(f"'f{n}', {key}" for n, key in enumerate(keys))
    return Typed(f"NAMED_STRUCT({fields})", row.type, row.at, tuple(parts), nullable=False)
