"""FROM: relations, queries and functions, and joins of them.

Every relation gets an alias of its own, and its columns are renamed `c1`, `c2` and so on in the
order they have. So no name of a user's reaches Spark, and none is looked up twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import INT8, PgType
from waterclock.sql.binding.api import BoundColumn, BoundRelation
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import (
    AmbiguousColumn,
    DuplicateColumnName,
    InvalidColumnReference,
    UndefinedColumn,
    UndefinedRelation,
    located,
)
from waterclock.sql.binding.populating import is_populating
from waterclock.sql.binding.records import records
from waterclock.sql.binding.row_order import (
    UNKNOWN_ORDER,
    RowOrder,
    numbered,
    order_of_join,
    order_of_view,
)
from waterclock.sql.binding.scope import Relation, Scope
from waterclock.sql.binding.typed import Column, Typed, operand
from waterclock.sql.dialect.types import spark_type
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.functions.json_rows import RECORDS
from waterclock.sql.functions.registry import Kind
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.queries import CommonTables, Queries


_NO_SCHEMA = "3F000"
"""To PostgreSQL, a relation in a schema that is not there is just not there."""


@dataclass(frozen=True, slots=True)
class Source:
    """A part of FROM: its SQL, its relations, and the columns that can be named alone."""

    sql: str
    relations: tuple[Relation, ...]
    visible: tuple[Column, ...]
    order: RowOrder = UNKNOWN_ORDER


class Sources:
    """Binds FROM clauses."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._statement = queries.statement
        self._expressions = queries.expressions

    def bind(self, items: Sequence[tree.FromItem], scope: Scope, tables: CommonTables) -> str:
        """Put the relations in scope; the SQL behind FROM."""
        texts = []
        orders = []
        for item in items:
            source = self._source(item, scope, tables)
            orders.append((item, source.order))
            for relation in source.relations:
                scope.add(relation, item.at)
            scope.visible += source.visible
            texts.append(source.sql)
        scope.order = order_of_join(orders)
        return ", ".join(texts)

    def _source(self, item: tree.FromItem, scope: Scope, tables: CommonTables) -> Source:
        match item:
            case tree.Table():
                return self._table(item, scope, tables)
            case tree.Derived():
                return self._derived(item, scope, tables)
            case tree.FunctionTable():
                return self._function(item, scope)
            case tree.Join():
                return self._join(item, scope, tables)
            case _:
                assert_never(item)

    # Relations

    def _table(self, item: tree.Table, scope: Scope, tables: CommonTables) -> Source:
        common = tables.get(item.name[0]) if len(item.name) == 1 else None
        if common is not None:
            return self._named(
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
            replace(column, table_oid=relation.oid, column_number=number)
            for number, column in enumerate(relation.columns, start=1)
        )
        if isinstance(relation.source, GlobalId):
            return self._named(sql, columns, item.name, item.alias, scope, is_stored=True)
        order = order_of_view(relation.source)
        return self._named(sql, columns, item.name, item.alias, scope, order=order)

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
        if item.alias is None:
            raise SyntaxFault(
                "subquery in FROM must have an alias",
                item.at,
                hint="For example, FROM (SELECT ...) [AS] foo.",
            )
        lateral = "LATERAL " if item.is_lateral else ""
        columns = block.columns()
        name = (item.alias.name,)
        block, order = block.as_source()
        sql = f"{lateral}({block.sql()})"
        width = len(block.outputs)
        return self._named(sql, columns, name, item.alias, scope, order=order, width=width)

    def _named(
        self,
        sql: str,
        columns: Sequence[BoundColumn],
        name: tuple[str, ...],
        alias: tree.Alias | None,
        scope: Scope,
        *,
        is_stored: bool = False,
        order: RowOrder = UNKNOWN_ORDER,
        width: int = 0,
    ) -> Source:
        """A relation under its name or alias. There may be columns behind those that are named."""
        names = _renamed([column.name for column in columns], alias, name[-1])
        known_as = name[-1] if alias is None else alias.name
        engine_name = self._statement.alias()
        made = tuple(
            Column(
                names[place],
                f"{engine_name}.c{place + 1}",
                column.type,
                scope.number,
                column.nullable,
                known_as,
                column.table_oid,
                column.column_number,
                column.name if is_stored else None,
            )
            for place, column in enumerate(columns)
        )
        inner = ", ".join(f"c{place + 1}" for place in range(max(len(made), width)))
        text = f"{sql} AS {engine_name}" + (f"({inner})" if made else "")
        whole, hidden = (name, None) if alias is None else ((), name[-1])
        relation = Relation(known_as, made, whole, hidden_name=hidden)
        return Source(text, (relation,), made, order.under(engine_name))

    # Functions

    def _function(self, item: tree.FunctionTable, scope: Scope) -> Source:
        calls = _calls(item)
        if len(calls) > 1:
            return self._beside(item, calls, scope)
        [node] = calls
        place = Place(scope, "functions in FROM")
        if is_populating(node):
            return self._populated(item, node, scope)
        if item.definitions:
            return self._record(item, node, scope)
        candidate, values = self._expressions.calling.set_returning(node, place)
        name = node.name[-1]
        if candidate.function.kind is not Kind.SET:
            return self._single(item, node, name, scope)
        converted, use = self._expressions.operators.use(candidate, values, node.at)
        del converted
        array = self._expressions.operators.filled(candidate.function, use, node.at)
        fields = candidate.function.columns or ((self._column_name(item, name), use.result),)
        paths = None
        if len(candidate.function.columns) > 1:
            paths = [field for field, _ in fields]
        return self._exploded(array, fields, paths, item, name, scope)

    def _populated(self, item: tree.FunctionTable, node: tree.Call, scope: Scope) -> Source:
        """JSON as rows of a relation's columns."""
        if item.definitions:
            what = "a column definition list is redundant for a function returning a named"
            raise SyntaxFault(f"{what} composite type", item.defined_at)
        place = Place(scope, "functions in FROM")
        found = self._expressions.calling.populating.rows(node, place)
        paths = [f"f{n}" for n in range(len(found.columns))]
        return self._exploded(found.sql, found.columns, paths, item, node.name[-1], scope)

    def _record(self, item: tree.FunctionTable, node: tree.Call, scope: Scope) -> Source:
        """JSON as rows of the columns that are told."""
        place = Place(scope, "functions in FROM")
        candidate, values = self._expressions.calling.set_returning(node, place)
        name = candidate.function.name
        if name not in RECORDS:
            what = "a column definition list is only allowed for functions returning"
            raise SyntaxFault(f'{what} "record"', item.defined_at)
        if item.with_ordinality:
            raise SyntaxFault(
                "WITH ORDINALITY cannot be used with a column definition list", item.at
            )
        [value], use = self._expressions.operators.use(candidate, values, node.at)
        array = records(name, value, item.definitions, use.manner, node.at)
        paths = [f"f{n}" for n in range(len(item.definitions))]
        return self._exploded(array, item.definitions, paths, item, name, scope)

    def _beside(self, item: tree.FunctionTable, calls: Sequence[tree.Call], scope: Scope) -> Source:
        """Functions whose rows stand side by side; where one has no more of them there are nulls.

        The rows of each are an array, which may be null where there are none.
        """
        arrays, fields = [], []
        for call in calls:
            array, declared = self._array(call, scope)
            arrays.append(f"COALESCE({array}, ARRAY())")
            fields.append((call.name[-1], declared))
        paths = [f"f{n}" for n in range(len(arrays))]
        kinds = ", ".join(
            f"{path}: {spark_type(declared)}"
            for path, (_, declared) in zip(paths, fields, strict=True)
        )
        zipped = f"CAST(ARRAYS_ZIP({', '.join(arrays)}) AS ARRAY<STRUCT<{kinds}>>)"
        return self._exploded(zipped, fields, paths, item, calls[0].name[-1], scope)

    def _array(self, call: tree.Call, scope: Scope) -> tuple[str, PgType]:
        """The rows of a function of one column as an array, and the type of the column."""
        place = Place(scope, "functions in FROM")
        candidate, values = self._expressions.calling.set_returning(call, place)
        if candidate.function.kind is not Kind.SET:
            value = self._expressions.value(call, place)
            return f"ARRAY({value.sql})", value.type
        if len(candidate.function.columns) > 1:
            what = "a function of several columns beside others"
            raise FeatureNotSupported.of(what, call.at)
        _, use = self._expressions.operators.use(candidate, values, call.at)
        return self._expressions.operators.filled(candidate.function, use, call.at), use.result

    def _column_name(self, item: tree.FunctionTable, name: str) -> str:
        """A function's only column is called as the function is, or as its alias."""
        return name if item.alias is None else item.alias.name

    def _single(self, item: tree.FunctionTable, node: tree.Call, name: str, scope: Scope) -> Source:
        """An ordinary function in FROM: one row of its value."""
        value = self._expressions.value(node, Place(scope, "functions in FROM"))
        fields = ((self._column_name(item, name), value.type),)
        return self._exploded(f"ARRAY({value.sql})", fields, None, item, name, scope)

    def _exploded(
        self,
        array: str,
        fields: Sequence[tuple[str, PgType]],
        paths: Sequence[str] | None,
        item: tree.FunctionTable,
        name: str,
        scope: Scope,
    ) -> Source:
        """The elements of an array as rows; with `paths`, they are structs of these fields."""
        columns = [BoundColumn(field, declared) for field, declared in fields]
        shown = ["f.col"] if paths is None else [f"f.col.{path}" for path in paths]
        if item.with_ordinality:
            columns.append(BoundColumn("ordinality", INT8, nullable=False))
            shown.append("CAST(f.pos + 1 AS BIGINT)")
        shown.append("f.pos")
        order = numbered(f"c{len(shown)}")
        inner = f"SELECT POSEXPLODE({array}) AS (pos, col)"
        sql = f"LATERAL (SELECT {', '.join(shown)} FROM ({inner}) AS f)"
        width = len(shown)
        source = self._named(sql, columns, (name,), item.alias, scope, order=order, width=width)
        [relation] = source.relations
        return replace(source, relations=(replace(relation, is_value=len(columns) == 1),))

    # Joins

    def _join(self, item: tree.Join, scope: Scope, tables: CommonTables) -> Source:
        left = self._source(item.left, scope, tables)
        # What stands on the left can be named by a LATERAL on the right, and by ON.
        inner = _beside(scope)
        inner.relations = [*scope.relations]
        inner.visible = [*scope.visible]
        for relation in left.relations:
            inner.add(relation, item.at)
        inner.visible += left.visible
        right = self._source(item.right, inner, tables)
        for relation in right.relations:
            inner.add(relation, item.at)
        inner.visible += right.visible
        left, right = _with_nulls(item.kind, left, right)
        shared = self._shared(item, left, right)
        if shared is not None:
            return self._merged(item, left, right, shared)
        joined = _beside(scope)
        joined.relations = [*left.relations, *right.relations]
        joined.visible = [*left.visible, *right.visible]
        on = ""
        if item.on is not None:
            condition = self._expressions.condition(
                item.on, Place(joined, "JOIN conditions"), "JOIN/ON"
            )
            on = f" ON {condition.sql}"
        sql = f"({left.sql} {item.kind.value} JOIN {right.sql}{on})"
        return Source(
            sql,
            (*left.relations, *right.relations),
            (*left.visible, *right.visible),
            order_of_join([(item.left, left.order), (item.right, right.order)]),
        )

    def _shared(
        self, item: tree.Join, left: Source, right: Source
    ) -> list[tuple[Column, Column]] | None:
        """The pairs of columns that USING or NATURAL joins by; None without either."""
        if item.is_natural:
            names = [
                (column.name, item.at)
                for column in left.visible
                if any(other.name == column.name for other in right.visible)
            ]
        elif item.using is not None:
            names = list(item.using)
        else:
            return None
        seen: set[str] = set()
        pairs = []
        for name, at in names:
            if name in seen:
                what = f'column name "{name}" appears more than once in USING clause'
                raise DuplicateColumnName(what, at)
            seen.add(name)
            pairs.append((_only(left, name, "left", at), _only(right, name, "right", at)))
        return pairs

    def _merged(
        self, item: tree.Join, left: Source, right: Source, pairs: list[tuple[Column, Column]]
    ) -> Source:
        coercion = self._expressions.coercion
        conditions: list[str] = []
        merged: list[Column] = []
        for one, other in pairs:
            values = (_value(one, item.at), _value(other, item.at))
            equal = self._expressions.operators.apply("=", values, item.at)
            conditions.append(equal.sql)
            both, declared = coercion.unified(list(values), "JOIN/USING")
            merged.append(_merged_column(item.kind, one, other, both, declared))
        taken = {id(column) for pair in pairs for column in pair}
        rest = [c for c in (*left.visible, *right.visible) if id(c) not in taken]
        relations = (*left.relations, *right.relations)
        if item.alias is not None:
            relations = (*relations, Relation(item.alias.name, tuple(merged)))
        kind = item.kind.value
        on = f" ON {' AND '.join(conditions)}" if conditions else ""
        if not conditions and kind == "INNER":
            kind = "CROSS"
        elif not conditions:
            on = " ON TRUE"
        sql = f"({left.sql} {kind} JOIN {right.sql}{on})"
        return Source(sql, relations, (*merged, *rest))


def _beside(scope: Scope) -> Scope:
    """A scope of the same query, for the relations of one join."""
    return Scope(
        scope.number,
        scope.outer,
        named_from_inside=scope.named_from_inside,
        is_cut=scope.is_cut,
    )


def _calls(item: tree.FunctionTable) -> list[tree.Call]:
    """The calls; `unnest` of several arrays is one for each."""
    found: list[tree.Call] = []
    if item.definitions and len(item.calls) > 1:
        raise FeatureNotSupported.of("a column definition list beside ROWS FROM", item.at)
    for node in item.calls:
        if not isinstance(node, tree.Call):
            raise FeatureNotSupported.of("this expression in FROM", item.at)
        if node.name[-1] == "unnest" and len(node.arguments) > 1:
            found += [replace(node, arguments=(each,)) for each in node.arguments]
        else:
            found.append(node)
    return found


def _renamed(names: list[str], alias: tree.Alias | None, relation: str) -> list[str]:
    if alias is None or not alias.columns:
        return names
    if len(alias.columns) > len(names):
        raise InvalidColumnReference(
            f'table "{alias.name or relation}" has {len(names)} columns available'
            f" but {len(alias.columns)} columns specified",
            alias.at,
        )
    return [*alias.columns, *names[len(alias.columns) :]]


def _value(column: Column, at: int) -> Typed:
    return Typed(column.sql, column.type, at, nullable=column.nullable, column=column)


def _only(source: Source, name: str, side: str, at: int) -> Column:
    found = [column for column in source.visible if column.name == name]
    if not found:
        raise UndefinedColumn(
            f'column "{name}" specified in USING clause does not exist in {side} table', at
        )
    if len(found) > 1:
        raise AmbiguousColumn(
            f'common column name "{name}" appears more than once in {side} table', at
        )
    return found[0]


def _merged_column(
    kind: tree.JoinKind, one: Column, other: Column, both: list[Typed], declared: PgType
) -> Column:
    """The one column that stands for both: that of the side which is always there."""
    left, right = both
    match kind:
        case tree.JoinKind.FULL:
            sql, nullable = f"COALESCE({left.sql}, {right.sql})", one.nullable and other.nullable
            kept = replace(one, table_oid=0, number=0)
        case tree.JoinKind.RIGHT:
            sql, nullable, kept = right.sql, other.nullable, other
        case _:
            sql, nullable, kept = left.sql, one.nullable, one
    stored_as = kept.stored_as if sql == kept.sql else None
    return replace(kept, sql=operand(sql), type=declared, nullable=nullable, stored_as=stored_as)


def _with_nulls(kind: tree.JoinKind, left: Source, right: Source) -> tuple[Source, Source]:
    """The sides, with columns that an outer join may fill with nulls marked so."""
    if kind in (tree.JoinKind.RIGHT, tree.JoinKind.FULL):
        left = _nullable(left)
    if kind in (tree.JoinKind.LEFT, tree.JoinKind.FULL):
        right = _nullable(right)
    return left, right


def _witness(relation: Relation) -> str | None:
    """A column that is never null while there is a row."""
    if relation.is_padded:
        return None
    return next((column.sql for column in relation.columns if not column.nullable), None)


def _nullable(source: Source) -> Source:
    changed = {
        id(column): replace(column, nullable=True)
        for column in (
            *source.visible,
            *(column for relation in source.relations for column in relation.columns),
        )
    }
    relations = tuple(
        replace(
            relation,
            columns=tuple(changed[id(c)] for c in relation.columns),
            is_padded=True,
            witness=relation.witness or _witness(relation),
        )
        for relation in source.relations
    )
    return Source(source.sql, relations, tuple(changed[id(c)] for c in source.visible))
