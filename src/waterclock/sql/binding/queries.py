"""Queries: WITH, set operations, VALUES, ORDER BY and LIMIT."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import pyarrow as pa

from waterclock.model.pg_types import INT4, PgType
from waterclock.sql.binding.api import BoundColumn
from waterclock.sql.binding.blocks import Block, Output, SortTerm
from waterclock.sql.binding.constants import constant_array
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.cutting import cuts
from waterclock.sql.binding.errors import (
    DuplicateAlias,
    InvalidColumnReference,
    UndefinedColumn,
)
from waterclock.sql.binding.expressions import Expressions
from waterclock.sql.binding.limits import Limits
from waterclock.sql.binding.locking import note_locks
from waterclock.sql.binding.ordering import check_sortable
from waterclock.sql.binding.output_keys import check_output_groupable, output_place
from waterclock.sql.binding.recursion import Recursion, references
from waterclock.sql.binding.representatives import combined, combined_all, has_twins
from waterclock.sql.binding.row_keys import check_alike
from waterclock.sql.binding.row_order import UNKNOWN_ORDER, RowOrder
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.selects import Selects
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.subqueries import InnerQueries
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query import tree


@dataclass(frozen=True, slots=True)
class CommonTable:
    """A query of WITH, bound: it is written wherever it is named."""

    sql: str
    columns: tuple[BoundColumn, ...]
    order: RowOrder = UNKNOWN_ORDER
    width: int = 0
    """How many columns the SQL has, with those that are only sorted by."""
    named: tuple[Typed, ...] = ()
    """The columns of queries around that it names."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The columns that those of a query are assigned to, as far as they are known."""

    types: tuple[PgType | None, ...] = ()
    names: tuple[str, ...] = ()

    def each(self, values: Sequence[Typed]) -> Iterator[tuple[Typed, PgType | None, str | None]]:
        for place, value in enumerate(values):
            wanted = self.types[place] if place < len(self.types) else None
            yield value, wanted, self.names[place] if place < len(self.names) else None


_NO_TARGETS = Targets()
_MANY_ROWS = 2000
"""As many rows of VALUES at least reach the engine as rows, and not as SQL."""
CommonTables = Mapping[str, CommonTable]


class Queries:
    """Binds the queries of one statement."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.expressions = Expressions(statement)
        self.expressions.subqueries = InnerQueries(self)
        self._selects = Selects(self)
        self._limits = Limits(self.expressions)
        self._recursion = Recursion(self)
        self._tables: dict[int, CommonTables] = {}

    def block(
        self,
        query: tree.Query,
        outer: Scope | None,
        tables: CommonTables,
        *,
        is_cut: bool = False,
    ) -> Block:
        """A query, with its columns in types."""
        block = self.open_block(query, outer, tables, is_cut=is_cut)
        settle = self.expressions.coercion.settled
        return block.with_values([settle(output.value) for output in block.outputs])

    def open_block(
        self,
        query: tree.Query,
        outer: Scope | None,
        tables: CommonTables,
        targets: Targets = _NO_TARGETS,
        *,
        is_cut: bool = False,
    ) -> Block:
        """A query, some of whose columns may still be without a type.

        Rows of VALUES that are nothing else are assigned to `targets` each on its own. `is_cut` is
        whether the query that reads it keeps only some of the rows.
        """
        with self.statement.meter.query():
            return self._opened(query, outer, tables, targets, is_cut=is_cut)

    def _opened(
        self,
        query: tree.Query,
        outer: Scope | None,
        tables: CommonTables,
        targets: Targets,
        *,
        is_cut: bool,
    ) -> Block:
        self.statement.meter.read()
        is_cut = is_cut or cuts(query)
        tables = self.with_tables(query, outer, tables, is_cut=is_cut)
        scope = Scope(self.statement.scope(), outer, is_cut=is_cut)
        self._tables[scope.number] = tables
        query = self._selects.in_layers(query)
        match query.body:
            case tree.Select() as select:
                block = self._selects.bind(select, query, scope, tables)
            case tree.Values() as values:
                block = self._values(values, query, scope, targets)
            case tree.SetOperation() as operation:
                block = self._set_operation(operation, query, outer, tables, is_cut=is_cut)
            case _:
                assert_never(query.body)
        if query.locks:
            is_set_returning = self.expressions.calling.is_set_returning
            note_locks(query, block, scope, self.statement, is_set_returning)
            block = replace(block, simple=None)
        return self._limits.limited(block, query, scope)

    def tables(self, scope: Scope) -> CommonTables:
        """The queries of WITH that can be named in a query."""
        return self._tables.get(scope.number, {})

    # WITH

    def with_tables(
        self, query: tree.Query, outer: Scope | None, tables: CommonTables, *, is_cut: bool = False
    ) -> CommonTables:
        """The queries of WITH that a query can name: its own, and those of queries around it."""
        if query.with_ is None:
            return tables
        if query.with_.is_recursive:
            _check_order(query.with_)
        found = dict(tables)
        names: set[str] = set()
        for table in query.with_.tables:
            if table.name in names:
                raise DuplicateAlias(
                    f'WITH query name "{table.name}" specified more than once', table.at
                )
            names.add(table.name)
            before = self._mark()
            named_before = 0 if outer is None else len(outer.named_from_inside)
            if query.with_.is_recursive and any(references(table.query, table.name)):
                sql, columns = self._recursion.bound(table, outer, found)
                found[table.name] = self.common_table(sql, columns, table)
                continue
            block = self.block(table.query, outer, found, is_cut=is_cut)
            source, order = block.as_source()
            sql = source.sql()
            if outer is None:  # else it may be another one for each row of the query around
                sql = self._part(sql, source, before)
            named = self.common_table(sql, block.columns(), table)
            outside = () if outer is None else tuple(outer.named_from_inside[named_before:])
            found[table.name] = replace(
                named, order=order, width=len(source.outputs), named=outside
            )
        return found

    def _mark(self) -> tuple[int, int]:
        """What had been read and what was different each time, before a part is bound."""
        statement = self.statement
        return statement.meter.nodes - statement.parts.nodes, len(statement.nondeterministic)

    def _part(self, sql: str, source: Block, before: tuple[int, int]) -> str:
        nodes, volatile = self._mark()
        types = [output.value.type for output in source.outputs]
        is_once = volatile > before[1]
        return self.statement.parts.add(sql, types, nodes - before[0], is_once=is_once)

    def common_table(
        self, sql: str, columns: Sequence[BoundColumn], table: tree.CommonTable
    ) -> CommonTable:
        """A query of WITH with its columns under the names that it gives them."""
        return CommonTable(sql, _with_names(columns, table))

    # VALUES

    def _values(
        self, values: tree.Values, query: tree.Query, scope: Scope, targets: Targets
    ) -> Block:
        width = len(values.rows[0])
        place = Place(scope, "VALUES")
        rows: list[list[Typed]] = []
        for row in values.rows:
            if len(row) != width:
                raise SyntaxFault("VALUES lists must all be the same length", row[0].at)
            rows.append([self._value(each, place) for each in row])
        if len(rows) == 1:
            outputs = [Output(f"column{n + 1}", value) for n, value in enumerate(rows[0])]
            order = self._output_order(query, outputs)
            return Block(tuple(outputs), lambda columns: f"SELECT {', '.join(columns)}", order)
        if not query.order and query.limit is None and query.offset is None:
            rows = [self._assigned(row, targets) for row in rows]
        return self._many_rows(rows, query, width)

    def _value(self, node: tree.Expression, place: Place) -> Typed:
        """A value, perhaps still without a type."""
        found = self.expressions.bind(node, place)
        return found if found.role is not Role.ROW else self.expressions.coercion.settled(found)

    def _assigned(self, row: Sequence[Typed], targets: Targets) -> list[Typed]:
        assigned = self.expressions.coercion.assigned
        return [
            value if wanted is None else assigned(value, wanted, name)
            for value, wanted, name in targets.each(row)
        ]

    def _many_rows(self, rows: list[list[Typed]], query: tree.Query, width: int) -> Block:
        coercion = self.expressions.coercion
        columns = [coercion.unified([row[n] for row in rows], "VALUES")[0] for n in range(width)]
        lines = [[column[n] for column in columns] for n in range(len(rows))]
        alias = self.statement.alias()
        names = ", ".join([*(f"c{n + 1}" for n in range(width)), "n"])
        texts = [", ".join([*(v.sql for v in line), str(n)]) for n, line in enumerate(lines)]
        table = self._constant_rows(columns)
        if table is not None:
            types = [*(column[0].type for column in columns), INT4]
            source = f"({self.statement.parts.add_rows(table, types)})"
        elif all(value.known is not None for line in lines for value in line):
            source = f"(VALUES {', '.join(f'({text})' for text in texts)})"
        else:
            source = f"({' UNION ALL '.join(f'SELECT {text}' for text in texts)})"
        outputs = [
            Output(
                f"column{n + 1}",
                Typed(
                    f"{alias}.c{n + 1}",
                    column[0].type,
                    column[0].at,
                    tuple(column),
                    nullable=any(each.nullable for each in column),
                ),
            )
            for n, column in enumerate(columns)
        ]
        order = self._output_order(query, outputs)
        return Block(
            tuple(outputs),
            lambda shown: f"SELECT {', '.join(shown)} FROM {source} AS {alias}({names})",
            order,
            made_in=(SortTerm(Typed(f"{alias}.n", INT4, 0, nullable=False), False, None),),
        )

    def _constant_rows(self, columns: Sequence[Sequence[Typed]]) -> pa.Table | None:
        """Many rows and their numbers, if they need no engine: it takes long to read them."""
        count = len(columns[0])
        if count < _MANY_ROWS or self.statement.maintained:
            return None
        arrays = []
        for column in columns:
            self.statement.meter.count(count)
            array = constant_array(column)
            if array is None:
                return None
            arrays.append(array)
        arrays.append(pa.array(range(count), pa.int32()))
        return pa.Table.from_arrays(arrays, names=[f"c{n + 1}" for n in range(len(arrays))])

    # Set operations

    def _set_operation(
        self,
        operation: tree.SetOperation,
        query: tree.Query,
        outer: Scope | None,
        tables: CommonTables,
        *,
        is_cut: bool,
    ) -> Block:
        word = operation.operator.value
        with self.statement.meter.level():  # operands in a row are not as deep as queries inside
            left = self._opened(operation.left, outer, tables, _NO_TARGETS, is_cut=is_cut)
            right = self._opened(operation.right, outer, tables, _NO_TARGETS, is_cut=is_cut)
        if len(left.outputs) != len(right.outputs):
            first = next((output.value.at for output in right.outputs), operation.right.at)
            raise SyntaxFault(f"each {word} query must have the same number of columns", first)
        left, right = self._matched(left, right, word)
        source = self._combined(left, right, operation)
        alias = self.statement.alias()
        outputs = [
            Output(
                one.name,
                Typed(
                    f"{alias}.c{n + 1}",
                    one.value.type,
                    one.value.at,
                    (one.value, other.value),
                    nullable=one.value.nullable or other.value.nullable,
                ),
            )
            for n, (one, other) in enumerate(zip(left.outputs, right.outputs, strict=True))
        ]
        order = self._output_order(query, outputs, is_set=True)
        names = ", ".join(f"c{n + 1}" for n in range(len(outputs)))
        named = f"{alias}({names})" if names else alias
        return Block(
            tuple(outputs),
            lambda shown: f"SELECT {', '.join(shown)} FROM {source} AS {named}",
            order,
        )

    def _matched(self, left: Block, right: Block, word: str) -> tuple[Block, Block]:
        """Both sides with the same types."""
        coercion = self.expressions.coercion
        pairs = [
            coercion.unified([one.value, other.value], word)[0]
            for one, other in zip(left.outputs, right.outputs, strict=True)
        ]
        return (
            left.with_values([pair[0] for pair in pairs]),
            right.with_values([pair[1] for pair in pairs]),
        )

    def _combined(self, left: Block, right: Block, operation: tree.SetOperation) -> str:
        """The rows of a set operation."""
        is_union = operation.operator is tree.SetOperator.UNION
        if not operation.is_all or not is_union:
            self._check_comparable(left, right)
            if any(has_twins(output.value) for output in left.outputs):
                combine = combined_all if operation.is_all else combined
                return combine(left, right, operation.operator)
        word = operation.operator.value
        sign = f"{word} ALL" if operation.is_all else word
        return f"(({left.sql(ordered=False)}) {sign} ({right.sql(ordered=False)}))"

    def _check_comparable(self, left: Block, right: Block) -> None:
        """Raise if rows of the two sides can not be compared."""
        settled = self.expressions.coercion.settled
        for one, other in zip(left.outputs, right.outputs, strict=True):
            check_output_groupable(one, settled)
            check_output_groupable(other, settled)
            if one.row is not None and other.row is not None:
                check_alike(one.row, other.row, settled)

    # ORDER BY

    def _output_order(
        self, query: tree.Query, outputs: list[Output], *, is_set: bool = False
    ) -> tuple[SortTerm, ...]:
        """The order of what has no FROM: only output columns can be named."""
        terms = []
        for item in query.order:
            place = self._output_place(item.expression, outputs, is_set=is_set)
            value = self.expressions.coercion.settled(outputs[place].value)
            outputs[place] = replace(outputs[place], value=value)
            check_sortable(value, has_arrays=not self.statement.maintained)
            terms.append(SortTerm(place, item.descending, item.nulls_first))
        return tuple(terms)

    def _output_place(self, node: tree.Expression, outputs: list[Output], *, is_set: bool) -> int:
        found = output_place(node, outputs, "ORDER BY")
        if found is not None:
            return found
        if isinstance(node, tree.ColumnRef) and len(node.parts) == 1:
            raise UndefinedColumn(f'column "{node.parts[0]}" does not exist', node.at)
        if is_set:
            raise FeatureNotSupported(
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                node.at,
                detail="Only result column names can be used, not expressions or functions.",
            )
        raise FeatureNotSupported.of("ORDER BY an expression behind VALUES", node.at)


def _with_names(columns: Sequence[BoundColumn], table: tree.CommonTable) -> tuple[BoundColumn, ...]:
    if len(table.columns) > len(columns):
        raise InvalidColumnReference(
            f'WITH query "{table.name}" has {len(columns)} columns available but'
            f" {len(table.columns)} columns specified",
            table.at,
        )
    names = [*table.columns, *(c.name for c in columns[len(table.columns) :])]
    return tuple(
        replace(column, name=name, table_oid=0, column_number=0)
        for column, name in zip(columns, names, strict=True)
    )


def _check_order(with_: tree.With) -> None:
    """Raise if a query of WITH RECURSIVE names a later one."""
    for place, table in enumerate(with_.tables, start=1):
        for later in with_.tables[place:]:
            for at in references(table.query, later.name):
                raise FeatureNotSupported.of("a query of WITH that names a later one", at)
