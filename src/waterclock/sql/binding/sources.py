"""FROM: relations, queries and functions, and joins of them.

Each item is a `Source` of its own before its relations come into scope. What stands on the left of
it is in scope already, for LATERAL; the condition of a join sees the two sides of the join alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, assert_never

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.sql.binding.api import BoundRelation
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import UndefinedRelation, located
from waterclock.sql.binding.function_sources import FunctionSources
from waterclock.sql.binding.joining import merged, shared, with_nulls
from waterclock.sql.binding.named_sources import Source, named
from waterclock.sql.binding.row_order import order_of_join, order_of_view
from waterclock.sql.binding.scope import Relation, Scope
from waterclock.sql.binding.typed import Typed
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.queries import CommonTables, Queries


_COLUMN = re.compile(r"\bt\d+\.c\d+\b")
"""A column of a relation in FROM, as the engine knows it."""
_NO_SCHEMA = "3F000"
"""To PostgreSQL, a relation in a schema that is not there is just not there."""


class Sources:
    """Binds FROM clauses."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._statement = queries.statement
        self._expressions = queries.expressions
        self._functions = FunctionSources(queries.expressions)

    def bind(self, items: Sequence[tree.FromItem], scope: Scope, tables: CommonTables) -> str:
        """Put the relations in scope; the SQL behind FROM."""
        texts: list[str] = []
        orders = []
        for item in items:
            before = [*scope.relations]
            source = self._source(item, scope, tables, is_kept=True)
            orders.append((item, source.order))
            for relation in source.relations:
                scope.add(relation, item.at)
            scope.visible += source.visible
            if texts and isinstance(item, tree.Join) and _reads(source, before):
                # In brackets, the engine would not see what stands on the left.
                _check_flat(item)
                texts = [f"{' CROSS JOIN '.join(texts)} CROSS JOIN {source.spine}"]
            else:
                texts.append(source.sql)
        scope.order = order_of_join(orders)
        return ", ".join(texts)

    def _source(
        self, item: tree.FromItem, scope: Scope, tables: CommonTables, *, is_kept: bool
    ) -> Source:
        """A part of FROM. It is kept if no outer join around it fills in nulls for its rows."""
        match item:
            case tree.Table():
                return self._table(item, scope, tables)
            case tree.Derived():
                return self._derived(item, scope, tables)
            case tree.FunctionTable():
                return self._functions.bind(item, scope)
            case tree.Join():
                return self._join(item, scope, tables, is_kept=is_kept)
            case _:
                assert_never(item)

    # Relations

    def _table(self, item: tree.Table, scope: Scope, tables: CommonTables) -> Source:
        common = tables.get(item.name[0]) if len(item.name) == 1 else None
        if common is not None:
            scope.check_reach(common.named, item.at)
            return named(
                self._statement,
                *(f"({common.sql})", common.columns, item.name, item.alias, scope),
                order=common.order,
                width=common.width,
            )
        try:
            relation = self._statement.resolver.relation(item.name, item.at)
        except WaterclockError as error:
            if error.sqlstate == _NO_SCHEMA and len(item.name) == 2:
                what = f'relation "{".".join(item.name)}" does not exist'
                raise UndefinedRelation(what, item.at) from None
            raise located(error, item.at) from None
        if isinstance(relation.source, GlobalId):
            self._statement.reads[relation.source] = None
            sql = f"`{relation.source}`"
        else:
            self._take_over(relation)
            sql = f"({relation.source.sql})"
        columns = tuple(
            replace(column, table_oid=relation.oid, column_number=number, is_declared=True)
            for number, column in enumerate(relation.columns, start=1)
        )
        if isinstance(relation.source, GlobalId):
            return named(
                self._statement, sql, columns, item.name, item.alias, scope, is_stored=True
            )
        order = order_of_view(relation.source)
        return named(self._statement, sql, columns, item.name, item.alias, scope, order=order)

    def _take_over(self, relation: BoundRelation) -> None:
        """What is true of an inlined view is true of the query."""
        inner = relation.source
        assert not isinstance(inner, GlobalId)
        self._statement.reads |= dict.fromkeys(inner.reads)
        self._statement.uses_now |= inner.uses_now
        self._statement.uses_mz_now |= inner.uses_mz_now
        self._statement.nondeterministic |= dict.fromkeys(inner.nondeterministic)
        self._statement.whole_results |= dict.fromkeys(inner.whole_results)

    def _derived(self, item: tree.Derived, scope: Scope, tables: CommonTables) -> Source:
        outer = scope if item.is_lateral else scope.outer
        is_cut = scope.is_cut and scope.outer is not None
        block = self._queries.block(item.query, outer, tables, is_cut=is_cut)
        lateral = "LATERAL " if item.is_lateral else ""
        columns = block.columns()
        name = None if item.alias is None else (item.alias.name,)
        block, order = block.as_source()
        sql = f"{lateral}({block.sql()})"
        width = len(block.outputs)
        return named(
            self._statement, sql, columns, name, item.alias, scope, order=order, width=width
        )

    # Joins

    def _join(
        self, item: tree.Join, scope: Scope, tables: CommonTables, *, is_kept: bool
    ) -> Source:
        keeps_left = item.kind not in (tree.JoinKind.RIGHT, tree.JoinKind.FULL)
        keeps_right = item.kind not in (tree.JoinKind.LEFT, tree.JoinKind.FULL)
        left = self._source(item.left, scope, tables, is_kept=is_kept and keeps_left)
        # What stands on the left can be named by a LATERAL on the right, and by ON.
        inner = _beside(scope)
        inner.relations = [*scope.relations]
        inner.visible = [*scope.visible]
        for relation in left.relations:
            inner.add(relation, item.at)
        inner.visible += left.visible
        before = [*inner.relations]
        if not keeps_left:
            inner.bar([*left.visible, *(c for each in left.relations for c in each.columns)])
        right = self._source(item.right, inner, tables, is_kept=is_kept and keeps_right)
        if isinstance(item.right, tree.Join) and _reads(right, before):
            what = "LATERAL in a join in brackets that names what stands outside of them"
            raise FeatureNotSupported.of(what, item.right.at)
        for relation in right.relations:
            inner.add(relation, item.at)
        inner.visible += right.visible
        left, right = with_nulls(item.kind, left, right)
        pairs = shared(item, left, right)
        if pairs is not None:
            return merged(item, left, right, pairs, self._expressions)
        joined = _beside(scope)
        joined.relations = [*left.relations, *right.relations]
        joined.visible = [*left.visible, *right.visible]
        on = ""
        if item.on is not None:
            condition = self._expressions.condition(
                item.on, Place(joined, "JOIN conditions"), "JOIN/ON"
            )
            on = f" ON {condition.sql}"
            if is_kept and item.kind is tree.JoinKind.INNER and _is_correlated(condition, scope):
                scope.conditions.append(condition)
                on = " ON TRUE"
        if not keeps_left:
            # Columns of the left can not be named there; the engine refuses the word itself.
            right = replace(right, sql=right.sql.removeprefix("LATERAL "))
        spine = f"{left.spine} {item.kind.value} JOIN {right.sql}{on}"
        return Source(
            f"({spine})",
            (*left.relations, *right.relations),
            (*left.visible, *right.visible),
            order_of_join([(item.left, left.order), (item.right, right.order)]),
            opened=spine,
        )


def _reads(source: Source, relations: Sequence[Relation]) -> bool:
    """Whether a part of FROM names columns of relations that stand before it."""
    names = {column.sql for relation in relations for column in relation.columns}
    return any(word in names for word in _COLUMN.findall(source.sql))


def _is_correlated(condition: Typed, scope: Scope) -> bool:
    """Whether it names columns of a query around, which the engine does not find everywhere."""
    columns = (part.column for part in condition.walk() if part.column is not None)
    return any(column.scope != scope.number for column in columns)


def _check_flat(item: tree.Join) -> None:
    """Raise unless the join means the same with more relations on its left."""
    left: tree.FromItem = item
    while isinstance(left, tree.Join):
        if left.kind in (tree.JoinKind.RIGHT, tree.JoinKind.FULL):
            what = f"LATERAL beside a {left.kind.value} JOIN that names what stands before the join"
            raise FeatureNotSupported.of(what, left.at)
        left = left.left


def _beside(scope: Scope) -> Scope:
    """A scope of the same query, for the relations of one join."""
    return Scope(
        scope.number,
        scope.outer,
        named_from_inside=scope.named_from_inside,
        conditions=scope.conditions,
        is_cut=scope.is_cut,
    )
