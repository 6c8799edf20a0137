"""GROUP BY: what is grouped by, and which columns may then still be asked for.

A column outside an aggregate must be grouped by, or belong to a relation whose primary key is. In
the second case it is grouped by too, which changes no group, because DuckDB does not know keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from waterclock.catalog.system.binding.expressions import Expressions
from waterclock.catalog.system.binding.functions import Functions
from waterclock.catalog.system.binding.parsing import MARK
from waterclock.catalog.system.binding.scope import Scope, ScopeColumn, ScopeTable
from waterclock.catalog.system.binding.typed import Statement
from waterclock.catalog.system.errors import GroupingFault

_JSON_AGGREGATES = ("json_agg", "jsonb_agg")


class Grouping:
    """The check of one SELECT. `keys` are the texts of what it groups by."""

    def __init__(
        self,
        statement: Statement,
        functions: Functions,
        expressions: Expressions,
        scope: Scope,
        keys: Sequence[str],
    ) -> None:
        self._statement = statement
        self._functions = functions
        self._expressions = expressions
        self._scope = scope
        self._keys = list(keys)
        self._simple = all(_is_column(key) for key in keys)
        self._owners = {
            column.value.sql: (table, column)
            for table in (scope.source.tables if scope.source is not None else ())
            for column in (*table.columns, *table.hidden)
        }

    def has_aggregate(self, nodes: Sequence[exp.Expr]) -> bool:
        return any(self._is_aggregate(part) for node in nodes for part in _outside_subqueries(node))

    def keys(self, nodes: Sequence[exp.Expr], shown: Sequence[ScopeColumn]) -> list[str]:
        """All that has to be grouped by; 42803 if something is asked for that can not be."""
        for node in nodes:
            self._check(node)
        for column in shown:
            self._require(column.value.sql, None)
        return self._keys

    def _check(self, node: exp.Expr) -> None:
        inner = node.this if isinstance(node, exp.Filter) else node
        inner = inner.expression if isinstance(inner, exp.Dot) else inner
        if self._is_aggregate(inner) or isinstance(node, exp.Query | exp.Subquery | exp.Exists):
            return
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
            self._require(self._expressions.bind(node, self._scope).sql, node)
            return
        if not self._simple and self._is_key(node):
            return
        for part in node.iter_expressions():
            self._check(part)

    def _is_key(self, node: exp.Expr) -> bool:
        if isinstance(node, exp.Anonymous | exp.Binary | exp.Cast | exp.Paren | exp.Case | exp.Dot):
            return self._expressions.bind(node, self._scope).sql in self._keys
        return False

    def _require(self, text: str, node: exp.Expr | None) -> None:
        owner = self._owners.get(text)
        if owner is None or text in self._keys:
            return
        table, column = owner
        if table.key and all(part in self._keys for part in table.key):
            self._keys.append(text)
            return
        raise self._statement.fail(GroupingFault, _message(table, column), node)

    def _is_aggregate(self, node: exp.Expr) -> bool:
        if not isinstance(node, exp.Anonymous):
            return False
        if isinstance(node.parent, exp.Window) or isinstance(
            node.parent and node.parent.parent, exp.Window
        ):
            return False
        name = str(node.this).removeprefix(MARK)
        return name in _JSON_AGGREGATES or any(
            function.aggregate for function in self._functions.named(name)
        )


def _message(table: ScopeTable, column: ScopeColumn) -> str:
    return (
        f'column "{table.alias}.{column.name}" must appear in the GROUP BY clause'
        " or be used in an aggregate function"
    )


def _is_column(text: str) -> bool:
    return text.replace('"', "").replace(".", "").replace("_", "").isalnum()


def _outside_subqueries(node: exp.Expr) -> Iterator[exp.Expr]:
    yield node
    for part in node.iter_expressions():
        if not isinstance(part, exp.Query | exp.Subquery):
            yield from _outside_subqueries(part)
