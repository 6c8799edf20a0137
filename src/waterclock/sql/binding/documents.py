"""Whole rows as JSON: `to_jsonb(t)`, `row_to_json(t)`, `json_agg(t)` and the like.

The JSON object that is made of the columns takes the place of the argument, for these functions
leave what is JSON already as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.model.pg_types import JSONB, RECORD
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.row_values import shown_of_group
from waterclock.sql.binding.typed import Role, Typed, missing_sql, operand
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
        row = self._row(node.arguments[0], place)
        if row is None:
            return None
        assert row.composite is not None
        parts = tuple(self._expressions.coercion.settled(each) for each in row.parts)
        if any(each.type.oid == RECORD.oid for each in parts):
            raise FeatureNotSupported.of("JSON of a row in a row", node.at)
        manner = self._expressions.statement.facts.manner
        is_text = not name.startswith("jsonb") and name != "to_jsonb"
        pairs = zip(row.composite.names, parts, strict=True)
        arguments = [(label, Argument(value.sql, value.type)) for label, value in pairs]
        try:
            sql = row_text_of(arguments, manner) if is_text else row_of(arguments, manner)
        except Refused as problem:
            raise FeatureNotSupported.of(problem.what, node.at) from None
        missing = missing_sql(row)
        if missing is not None:
            sql = f"(CASE WHEN NOT {missing} THEN {sql} END)"
        declared = JSON if is_text else JSONB
        return Typed(operand(sql), declared, row.at, parts, nullable=missing is not None)

    def arguments(self, node: tree.Call, place: Place, document: Typed | None) -> tuple[Typed, ...]:
        """The arguments; a row that JSON is made of is that JSON."""
        if document is None:
            return tuple(self._expressions.bind(each, place) for each in node.arguments)
        rest = (self._expressions.bind(each, place) for each in node.arguments[1:])
        return (document, *rest)

    def _row(self, node: tree.Expression, place: Place) -> Typed | None:
        match node:
            case tree.ColumnRef(parts):
                row = place.scope.whole_row(parts, node.at)
                return None if row is None else shown_of_group(row, place)
            case tree.Row() | tree.Star() | tree.AllFields():
                found = self._expressions.bind(node, place)
                return None if found.composite is None else found
            case _:
                return None


def counted_row(row: Typed, parts: list[Typed], keys: list[str]) -> Typed:
    """A row as `count` takes it: null where there is none, and told from others by its fields."""
    assert row.role is Role.ROW
    fields = ", ".join(f"'f{n}', {key}" for n, key in enumerate(keys))
    sql, missing = f"NAMED_STRUCT({fields})", missing_sql(row)
    if missing is not None:
        sql = f"(CASE WHEN NOT {missing} THEN {sql} END)"
    return Typed(sql, row.type, row.at, tuple(parts), nullable=missing is not None)
