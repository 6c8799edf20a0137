"""FROM: relations, subqueries, functions and joins, as one source of columns.

Joins keep PostgreSQL's rules: a comma binds less than JOIN, USING merges columns, a function sees
what stands before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from waterclock.catalog.system.binding.expressions import Expressions
from waterclock.catalog.system.binding.live import HERE, LIVE
from waterclock.catalog.system.binding.parsing import MARK
from waterclock.catalog.system.binding.ports import Subqueries
from waterclock.catalog.system.binding.scope import (
    Scope,
    ScopeColumn,
    ScopeTable,
    Source,
    as_source,
    combined_tables,
    folded,
    renamed,
    unmarked,
)
from waterclock.catalog.system.binding.typed import Statement, Typed, typed
from waterclock.catalog.system.errors import (
    FeatureNotSupported,
    SyntaxFault,
    UndefinedColumn,
    UndefinedTable,
)
from waterclock.catalog.system.facts import (
    IMPLICIT_SCHEMAS,
    INFORMATION_SCHEMA,
    FactRelation,
)
from waterclock.catalog.system.types import INT8, OID, RECORD, VECTORS, XID
from waterclock.model.pg_types import PgType

FIXED = "fixed"
"""The schema of the tables that no version changes."""

Fields = tuple[tuple[str, int], ...]


class Sources:
    def __init__(self, statement: Statement, expressions: Expressions, queries: Subqueries) -> None:
        self._statement = statement
        self._expressions = expressions
        self._queries = queries

    def of(self, node: exp.Select, scope: Scope) -> Source:
        """What FROM gives: items separated by commas, each with the joins that follow it."""
        first = node.args["from_"].this
        groups: list[tuple[exp.Expr, list[exp.Join]]] = [(first, [])]
        for join in node.args.get("joins") or []:
            if _is_comma(join):
                groups.append((join.this, []))
            else:
                groups[-1][1].append(join)
        source: Source | None = None
        for item, joins in groups:
            source = self._joined_group(item, joins, source, scope)
        assert source is not None
        return source

    def _joined_group(
        self,
        item: exp.Expr,
        joins: list[exp.Join],
        before: Source | None,
        scope: Scope,
    ) -> Source:
        group = self._item(item, scope, before)
        for join in (*(item.args.get("joins") or ()), *joins):
            group = self._join(group, join, before, scope)
        if before is None:
            return group
        return Source(
            f"{before.sql}, {group.sql}",
            before.columns + group.columns,
            combined_tables(before.tables, group.tables, self._statement),
        )

    def _join(self, left: Source, join: exp.Join, before: Source | None, scope: Scope) -> Source:
        seen = left if before is None else _beside(before, left)
        right = self._item(join.this, scope, seen)
        for nested in join.this.args.get("joins") or ():
            right = self._join(right, nested, seen, scope)
        tables = combined_tables(left.tables, right.tables, self._statement)
        word = _join_word(join)
        using = [folded(name) for name in join.args.get("using") or []]
        if str(join.args.get("method") or "").upper() == "NATURAL":
            names = {column.name for column in right.columns}
            using = [column.name for column in left.columns if column.name in names]
        if using:
            return self._join_using(left, right, using, word, tables)
        columns = left.columns + right.columns
        on = join.args.get("on")
        if on is None:
            return Source(f"{left.sql} CROSS JOIN {right.sql}", columns, tables)
        inner = scope.inner(Source("", columns, tables))
        inner.outer = scope.outer
        inner.common = scope.common
        condition = self._expressions.boolean(on, inner, "JOIN/ON")
        return Source(f"{left.sql} {word} {right.sql} ON {condition}", columns, tables)

    def _join_using(
        self,
        left: Source,
        right: Source,
        using: list[str],
        word: str,
        tables: tuple[ScopeTable, ...],
    ) -> Source:
        merged, conditions = [], []
        for name in using:
            sides = [
                self._one(name, side, place) for side, place in ((left, "left"), (right, "right"))
            ]
            conditions.append(f"{sides[0].sql} = {sides[1].sql}")
            match word:
                case "FULL JOIN":
                    value = sides[0].with_sql(f"coalesce({sides[0].sql}, {sides[1].sql})")
                case "RIGHT JOIN":
                    value = sides[1]
                case _:
                    value = sides[0]
            merged.append(ScopeColumn(name, value))
        rest = [c for c in (*left.columns, *right.columns) if c.name not in using]
        text = f"{left.sql} {word} {right.sql} ON {' AND '.join(conditions)}"
        return Source(text, (*merged, *rest), tables)

    def _one(self, name: str, source: Source, place: str) -> Typed:
        found = [column.value for column in source.columns if column.name == name]
        if not found:
            message = f'column "{name}" specified in USING clause does not exist in {place} table'
            raise self._statement.fail(UndefinedColumn, message)
        return found[0]

    def _item(self, node: exp.Expr, scope: Scope, before: Source | None) -> Source:
        alias = node.args.get("alias")
        if isinstance(node, exp.Lateral):
            return self._lateral(node, scope, before)
        if isinstance(node, exp.Table):
            if isinstance(node.this, exp.Anonymous):
                return self._table_function(node, node.this, scope, before)
            for part, shown in (("rows_from", "ROWS FROM"), ("sample", "TABLESAMPLE")):
                if node.args.get(part):
                    message = f"{shown} is not supported in catalog queries"
                    raise self._statement.fail(FeatureNotSupported, message, node)
            return self._table(node, scope)
        if isinstance(node, exp.Values):
            return self._derived(node, alias, scope)
        if isinstance(node, exp.Subquery):
            inner = node.this
            if isinstance(inner, exp.Table | exp.Subquery) and not isinstance(inner, exp.Query):
                return self._parenthesised_join(inner, alias, scope, before)
            if isinstance(inner, exp.Subquery) and inner.args.get("joins"):
                return self._parenthesised_join(inner, alias, scope, before)
            return self._derived(inner, alias, scope)
        raise self._statement.fail(SyntaxFault, "syntax error in FROM", node)

    def _parenthesised_join(
        self,
        inner: exp.Expr,
        alias: exp.TableAlias | None,
        scope: Scope,
        before: Source | None,
    ) -> Source:
        source = self._item(inner, scope, before)
        for join in inner.args.get("joins") or ():
            source = self._join(source, join, before, scope)
        source = replace(source, sql=f"({source.sql})")
        if alias is None:
            return source
        table = ScopeTable("", source.columns)
        return as_source(source.sql, self._aliased(table, alias))

    def _aliased(self, table: ScopeTable, alias: exp.TableAlias | None) -> ScopeTable:
        if alias is None:
            return table
        names = [unmarked(folded(column)) for column in alias.args.get("columns") or []]
        name = unmarked(folded(alias.this)) if alias.this is not None else table.alias
        return renamed(table, name, names, self._statement)

    def _derived(
        self,
        node: exp.Expr,
        alias: exp.TableAlias | None,
        scope: Scope,
        lateral: str = "",
    ) -> Source:
        bound = self._queries.bind(node, scope)
        targets = bound.settled()
        name = self._statement.alias()
        columns = _columns_of(name, bound.columns, targets)
        table = self._aliased(ScopeTable("", columns), alias)
        return as_source(f"{lateral}({bound.write(targets)}) AS {name}", table)

    def _lateral(self, node: exp.Lateral, scope: Scope, before: Source | None) -> Source:
        alias = node.args.get("alias")
        inner = node.this
        if isinstance(inner, exp.Anonymous | exp.Dot):
            table = exp.Table(
                this=inner, alias=alias, ordinality=node.args.get("ordinality") or None
            )
            call = inner.expression if isinstance(inner, exp.Dot) else inner
            return self._table_function(table, call, scope, before)
        seen = self._beside(scope, before)
        return self._derived(inner.this, alias, seen, "LATERAL ")

    def _beside(self, scope: Scope, before: Source | None) -> Scope:
        """What a lateral item sees: the items before it, and what is further out."""
        seen = Scope(self._statement, scope.outer, before)
        seen.common = scope.common
        return seen

    def _table(self, node: exp.Table, scope: Scope) -> Source:
        name = unmarked(folded(node.this))
        schema = node.args.get("db")
        alias = node.args.get("alias")
        common = scope.common_table(name) if schema is None else None
        if common is not None:
            inner = self._statement.alias()
            columns = tuple(
                ScopeColumn(c.name, c.value.with_sql(f"{inner}.{c.value.sql}"))
                for c in common.columns
            )
            table = self._aliased(ScopeTable(name, columns), alias)
            return as_source(f"{common.name} AS {inner}", table)
        relation = self._relation(name, folded(schema) if schema is not None else None, node)
        return self._relation_source(relation, alias)

    def _relation(self, name: str, schema: str | None, node: exp.Expr) -> FactRelation:
        facts = self._statement.facts
        if schema is not None:
            found = facts.relation(schema, name)
            if found is not None:
                return found
            message = f'relation "{schema}.{name}" does not exist'
            raise self._statement.fail(UndefinedTable, message, node)
        for candidate in (*IMPLICIT_SCHEMAS, *self._statement.path):
            found = facts.relation(candidate, name)
            if found is not None:
                return found
        message = f'relation "{name}" does not exist'
        raise self._statement.fail(UndefinedTable, message, node)

    def _relation_source(self, relation: FactRelation, alias: exp.TableAlias | None) -> Source:
        inner = self._statement.alias()
        types = self._statement.types
        columns = tuple(
            ScopeColumn(
                column.name,
                Typed(
                    f'{inner}."{column.name}"',
                    types.base(PgType(column.type, column.modifier)),
                    0 if column.type in VECTORS else 1,
                ),
            )
            for column in relation.columns
        )
        # Written so that an outer join, which makes the row null, makes it null too.
        first = f'{inner}."{relation.columns[0].name}"'
        hidden = (
            ScopeColumn("tableoid", typed(_if_row(first, relation.oid), OID)),
            ScopeColumn("xmin", typed(_if_row(first, 1), XID)),
            ScopeColumn("xmax", typed(_if_row(first, 0), XID)),
        )
        shown = hidden if relation.kind == "r" else ()
        key = tuple(
            columns[number - 1].value.sql
            for number in self._statement.facts.keys.get(relation.oid, ())
        )
        table = ScopeTable(relation.name, columns, shown, relation.schema, key)
        self._statement.relations.add((relation.schema, relation.name))
        place = HERE if (relation.schema, relation.name) in self._statement.versioned else FIXED
        text = f'{place}."{relation.schema}.{relation.name}" AS {inner}'
        if self._statement.restricted and relation.schema == INFORMATION_SCHEMA:
            seen = _SEEN.get(relation.name)
            stored = f'{place}."{relation.schema}.{relation.name}"'
            text = f"(SELECT * FROM {stored} WHERE {seen}) AS {inner}" if seen else text
        live = LIVE.get((relation.schema, relation.name))
        if live is not None:
            text = f"({live.sql}) AS {inner}"
            self._statement.relations |= {("pg_catalog", needed) for needed in live.needs}
        return as_source(text, self._aliased(table, alias))

    def _table_function(
        self, node: exp.Table, call: exp.Anonymous, scope: Scope, before: Source | None
    ) -> Source:
        name = str(call.this).removeprefix(MARK)
        schema = node.args.get("db")
        alias = node.args.get("alias")
        relation = self._statement.facts.relation("pg_catalog", _SHOWN_BY.get(name, f"{name}()"))
        if relation is not None and not call.expressions:
            source = self._relation_source(relation, None)
            table = replace(source.tables[0], alias=name)
            return as_source(source.sql, self._aliased(table, alias))
        seen = self._beside(scope, before)
        lists = self._lists(name, call, seen, schema)
        inner = self._statement.alias()
        columns, text = self._set_columns(lists, name, alias)
        ordinality = bool(node.args.get("ordinality"))
        if ordinality:
            longest = ", ".join(f"len({value.sql})" for value, _ in lists)
            counted = f"greatest({longest})" if len(lists) > 1 else longest
            columns.append(("ordinality", PgType(INT8), ()))
            text.append(f"unnest(range(1, {counted} + 1))")
        written = ", ".join(f"{part} AS c{n}" for n, part in enumerate(text, start=1))
        table = ScopeTable(
            name,
            tuple(
                ScopeColumn(column, Typed(f"{inner}.c{n}", type_, fields=fields))
                for n, (column, type_, fields) in enumerate(columns, start=1)
            ),
        )
        lateral = "LATERAL " if before is not None else ""
        return as_source(f"{lateral}(SELECT {written}) AS {inner}", self._aliased(table, alias))

    def _lists(
        self, name: str, call: exp.Anonymous, scope: Scope, schema: exp.Expr | None
    ) -> list[tuple[Typed, bool]]:
        """The lists that a function in FROM gives; `unnest` of several arrays gives several."""
        calling = self._expressions.calling
        if name == "unnest" and len(call.expressions) > 1:
            return [
                calling.called(
                    exp.Anonymous(this=call.this, expressions=[part.copy()]), scope, schema
                )
                for part in call.expressions
            ]
        return [calling.called(call, scope, schema)]

    def _set_columns(
        self,
        lists: list[tuple[Typed, bool]],
        name: str,
        alias: exp.TableAlias | None,
    ) -> tuple[list[tuple[str, PgType, tuple[tuple[str, int], ...]]], list[str]]:
        """The columns that a function in FROM has, and their texts."""
        columns: list[tuple[str, PgType, tuple[tuple[str, int], ...]]] = []
        text: list[str] = []
        called = unmarked(folded(alias.this)) if alias is not None and alias.this else name
        for value, many in lists:
            written = f"unnest({value.sql})" if many else value.sql
            if value.oid == RECORD:
                for field, oid in value.fields:
                    columns.append((field, PgType(oid), ()))
                    text.append(f"struct_extract({written}, '{field}')")
            else:
                columns.append((called if len(lists) == 1 else name, value.type, ()))
                text.append(written)
        return columns, text


_ANY_RIGHT = "wc_may_see(table_schema, table_name, 'any')"
_MORE_THAN_READ = "wc_may_see(table_schema, table_name, 'write')"
_OWNED = "wc_may_see(table_schema, table_name, 'own')"
_GRANTED = "(grantee = 'PUBLIC' OR wc_acts_as(grantee) OR wc_acts_as(grantor))"
# Functions in FROM whose rows a relation has.
_SHOWN_BY = {"pg_show_all_settings": "pg_settings"}
# What a role that is no superuser sees of information_schema.
_SEEN = {
    **{"tables": _ANY_RIGHT, "columns": _ANY_RIGHT, "views": _ANY_RIGHT},
    **{"table_constraints": _MORE_THAN_READ, "key_column_usage": _ANY_RIGHT},
    **{"constraint_column_usage": _OWNED, "constraint_table_usage": _OWNED},
    **{"table_privileges": _GRANTED, "role_table_grants": _GRANTED},
    **{"enabled_roles": "wc_acts_as(role_name)", "applicable_roles": "wc_acts_as(grantee)"},
    "schemata": "wc_privilege('schema', '', schema_name, 'CREATE, USAGE')",
}


def _if_row(column: str, value: int) -> str:
    return f"CASE WHEN {column} IS NOT NULL THEN CAST({value} AS UINTEGER) END"


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(part) for part in ("on", "using", "side", "kind", "method"))


def _join_word(join: exp.Join) -> str:
    side = str(join.args.get("side") or "").upper()
    kind = str(join.args.get("kind") or "").upper()
    if side:
        return f"{side} JOIN"
    return "CROSS JOIN" if kind == "CROSS" else "JOIN"


def _beside(left: Source, right: Source) -> Source:
    return Source("", left.columns + right.columns, left.tables + right.tables)


def _columns_of(
    table: str, columns: Sequence[ScopeColumn], targets: Sequence[PgType]
) -> tuple[ScopeColumn, ...]:
    """The columns of an inner query, as seen from outside under the table's name."""
    return tuple(
        ScopeColumn(
            column.name,
            Typed(f"{table}.c{n}", target, column.value.lower, fields=column.value.fields),
        )
        for n, (column, target) in enumerate(zip(columns, targets, strict=True), start=1)
    )
