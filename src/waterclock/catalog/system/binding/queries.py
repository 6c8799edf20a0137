"""Queries, bound against the system relations and written for DuckDB.

A query is bound first and written second: what a bare string in a select list means may be decided
by the other side of a UNION. Names in DuckDB's text are all ours: tables are `t1`, `t2`, columns of
inner queries `c1`, `c2`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from waterclock.catalog.system.binding.calling import direction
from waterclock.catalog.system.binding.expressions import Expressions
from waterclock.catalog.system.binding.functions import Functions
from waterclock.catalog.system.binding.grouping import Grouping
from waterclock.catalog.system.binding.naming import output_name
from waterclock.catalog.system.binding.parsing import Parsed
from waterclock.catalog.system.binding.ports import Bound
from waterclock.catalog.system.binding.scope import (
    CommonTable,
    Scope,
    ScopeColumn,
    folded,
    unmarked,
)
from waterclock.catalog.system.binding.sources import Sources
from waterclock.catalog.system.binding.typed import Lookup, Statement, Typed, typed
from waterclock.catalog.system.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    InvalidColumnReference,
    SyntaxFault,
    UndefinedColumn,
    UndefinedTable,
)
from waterclock.catalog.system.facts import Facts
from waterclock.catalog.system.types import INT8, UNKNOWN, Types
from waterclock.model.pg_types import PgType

_OPEN = re.compile(r"\$(\w+)")
_STRING = re.compile(r"'(?:[^']|'')*'")


@dataclass(frozen=True, slots=True)
class BoundStatement:
    text: str
    columns: tuple[tuple[str, PgType], ...]
    parameters: tuple[int, ...]
    lookups: tuple[Lookup, ...]
    relations: frozenset[tuple[str, str]]
    """What the query reads, by schema and name."""
    session: frozenset[str]
    open: frozenset[str]
    """The names that stand in the text for values to be filled in."""


def bind_statement(
    parsed: Parsed,
    facts: Facts,
    types: Types,
    functions: Functions,
    versioned: frozenset[tuple[str, str]],
    path: tuple[str, ...],
    given: tuple[int, ...],
    *,
    restricted: bool,
) -> BoundStatement:
    """The query as DuckDB's text, with what has to be filled in."""
    statement = Statement(parsed, facts, types, versioned, path, given, restricted)
    bound = Queries(statement, functions).bind(parsed.tree, Scope(statement))
    targets = bound.settled()
    text = bound.write(targets)
    return BoundStatement(
        text=text,
        columns=tuple(
            (column.name, types.base(target))
            for column, target in zip(bound.columns, targets, strict=True)
        ),
        parameters=statement.parameter_types(),
        lookups=tuple(statement.lookups),
        relations=frozenset(statement.relations),
        session=frozenset(statement.session),
        open=frozenset(_OPEN.findall(_STRING.sub("", text))),
    )


class Queries:
    def __init__(self, statement: Statement, functions: Functions) -> None:
        self._statement = statement
        self._functions = functions
        self._expressions = Expressions(statement, functions, self)
        self._sources = Sources(statement, self._expressions, self)

    def subquery(self, node: exp.Expr, scope: Scope) -> tuple[str, tuple[Typed, ...]]:
        """A query inside an expression."""
        while isinstance(node, exp.Subquery | exp.Paren) and not node.args.get("with_"):
            node = node.this
        bound = self.bind(node, scope)
        targets = bound.settled()
        text = bound.write(targets)
        values = tuple(
            replace(column.value, type=target, literal=None, parameter=0)
            for column, target in zip(bound.columns, targets, strict=True)
        )
        return text, values

    def bind(self, node: exp.Expr, outer: Scope) -> Bound:
        scope = outer.inner()
        with_ = node.args.get("with_")
        prefix = self._common_tables(with_, scope) if with_ is not None else ""
        match node:
            case exp.Select():
                bound = self._select(node, scope)
            case exp.SetOperation():
                bound = self._set_operation(node, scope)
            case exp.Values():
                bound = self._values(node, scope)
            case exp.Subquery():
                bound = self._parenthesised(node, scope)
            case _:
                raise self._statement.fail(SyntaxFault, "syntax error", node)
        if not prefix:
            return bound
        return Bound(bound.columns, lambda targets: prefix + bound.write(targets))

    # --- WITH -----------------------------------------------------------------------------------

    def _common_tables(self, node: exp.With, scope: Scope) -> str:
        recursive = bool(node.args.get("recursive"))
        written = []
        for cte in node.expressions:
            alias = cte.args["alias"]
            name = unmarked(folded(alias.this))
            given = [folded(column) for column in alias.args.get("columns") or []]
            inner = self._statement.alias("w")
            query = cte.this
            if recursive and isinstance(query, exp.Union) and _mentions(query.expression, name):
                text, table = self._recursive(query, scope, name, inner, given)
            else:
                bound = self.bind(query, scope)
                text = bound.write(bound.settled())
                table = _common_table(inner, bound.columns, bound.settled(), given)
            scope.common[name] = table
            columns = ", ".join(column.value.sql for column in table.columns)
            written.append(f"{inner}({columns}) AS ({text})")
        return f"WITH {'RECURSIVE ' if recursive else ''}{', '.join(written)} "

    def _recursive(
        self, query: exp.Union, scope: Scope, name: str, inner: str, given: list[str]
    ) -> tuple[str, CommonTable]:
        first = self.bind(query.this, scope)
        targets = first.settled()
        table = _common_table(inner, first.columns, targets, given)
        below = scope.inner()
        below.common[name] = table
        second = self.bind(query.expression, below)
        word = "UNION" if query.args.get("distinct") else "UNION ALL"
        return f"({first.write(targets)}) {word} ({second.write(targets)})", table

    # --- SELECT ---------------------------------------------------------------------------------

    def _select(self, node: exp.Select, scope: Scope) -> Bound:
        if node.args.get("into") is not None:
            message = "SELECT INTO is not supported in catalog queries"
            raise self._statement.fail(FeatureNotSupported, message, node)
        if node.args.get("from_") is not None:
            scope.source = self._sources.of(node, scope)
        items = self._select_list(node, scope)
        clauses = self._clauses(node, items, scope)
        distinct = self._distinct(node, scope)
        source = f" FROM {scope.source.sql}" if scope.source is not None else ""

        def write(targets: Sequence[PgType]) -> str:
            written = [
                f"{self._as(column.value, target)} AS c{number}"
                for number, (column, target) in enumerate(zip(items, targets, strict=True), start=1)
            ]
            shown = ", ".join(written) or "1 AS c1"
            return f"SELECT {distinct}{shown}{source}{clauses}"

        return Bound(tuple(items), write)

    def _as(self, value: Typed, target: PgType) -> str:
        if value.type == target:
            return value.sql
        return self._expressions.coercion.implicit(value, target, None).sql

    def _select_list(self, node: exp.Select, scope: Scope) -> list[ScopeColumn]:
        items: list[ScopeColumn] = []
        for item in node.expressions:
            star = _star(item)
            if star is not None:
                items.extend(self._expanded(star, item, scope))
                continue
            inner = item.this if isinstance(item, exp.Alias) else item
            items.append(ScopeColumn(output_name(item), self._expressions.bind(inner, scope)))
        return items

    def _expanded(self, table: str, node: exp.Expr, scope: Scope) -> tuple[ScopeColumn, ...]:
        if not table:
            if scope.source is None:
                message = "SELECT * with no tables specified is not valid"
                raise self._statement.fail(SyntaxFault, message, node)
            return scope.source.columns
        found = scope.table(table)
        if found is None:
            message = f'missing FROM-clause entry for table "{table}"'
            raise self._statement.fail(UndefinedTable, message, node)
        return found.columns

    def _distinct(self, node: exp.Select, scope: Scope) -> str:
        distinct = node.args.get("distinct")
        if distinct is None:
            return ""
        on = distinct.args.get("on")
        if on is None:
            return "DISTINCT "
        keys = [self._expressions.bind(key, scope).sql for key in on.expressions]
        return f"DISTINCT ON ({', '.join(keys)}) "

    def _clauses(self, node: exp.Select, items: list[ScopeColumn], scope: Scope) -> str:
        text = ""
        where = node.args.get("where")
        if where is not None:
            text += f" WHERE {self._expressions.boolean(where.this, scope, 'WHERE')}"
        keys = self._grouping(node, items, scope)
        if keys:
            text += f" GROUP BY {', '.join(keys)}"
        having = node.args.get("having")
        if having is not None:
            text += f" HAVING {self._expressions.boolean(having.this, scope, 'HAVING')}"
        return text + self._ordered(node, items, scope) + self._limited(node, scope)

    def _grouping(self, node: exp.Select, items: list[ScopeColumn], scope: Scope) -> list[str]:
        """What is grouped by, after the check that nothing else is asked for."""
        group = node.args.get("group")
        keys = self._keys(group, node, items, scope) if group is not None else []
        having, order = node.args.get("having"), node.args.get("order")
        nodes = [item for item in node.expressions if _star(item) is None]
        nodes += [having.this] if having is not None else []
        ordered = [item.this for item in order.expressions] if order is not None else []
        nodes += [part for part in ordered if self._output(part, items) is None]
        grouping = Grouping(self._statement, self._functions, self._expressions, scope, keys)
        if group is None and not grouping.has_aggregate(nodes):
            return []
        stars = [
            column
            for item in node.expressions
            if (star := _star(item)) is not None
            for column in self._expanded(star, item, scope)
        ]
        return grouping.keys(nodes, stars)

    def _output(self, node: exp.Expr, items: list[ScopeColumn]) -> int | None:
        return self._place(node, items, "ORDER BY") or self._named(node, items)

    def _keys(
        self, group: exp.Group, node: exp.Select, items: list[ScopeColumn], scope: Scope
    ) -> list[str]:
        if any(group.args.get(kind) for kind in ("grouping_sets", "cube", "rollup", "totals")):
            message = "grouping sets are not supported in catalog queries"
            raise self._statement.fail(FeatureNotSupported, message, node)
        keys = []
        for key in group.expressions:
            place = self._place(key, items, "GROUP BY")
            if place is not None:
                keys.append(self._expressions.coercion.settle(items[place - 1].value).sql)
                continue
            try:
                keys.append(self._expressions.bind(key, scope).sql)
            except UndefinedColumn:
                named = self._named(key, items)
                if named is None:
                    raise
                keys.append(items[named - 1].value.sql)
        return keys

    def _place(self, node: exp.Expr, items: list[ScopeColumn], clause: str) -> int | None:
        """The output column that a number stands for."""
        if not isinstance(node, exp.Literal) or node.is_string:
            return None
        place = int(str(node.this))
        if not 1 <= place <= len(items):
            message = f"{clause} position {place} is not in select list"
            raise self._statement.fail(InvalidColumnReference, message, node)
        return place

    def _named(self, node: exp.Expr, items: list[ScopeColumn]) -> int | None:
        """The output column that a bare name stands for."""
        if not isinstance(node, exp.Column) or node.args.get("table") is not None:
            return None
        name = folded(node.this)
        places = [n for n, column in enumerate(items, start=1) if column.name == name]
        return places[0] if places else None

    def _ordered(self, node: exp.Expr, items: list[ScopeColumn], scope: Scope | None) -> str:
        order = node.args.get("order")
        if order is None:
            return ""
        parts = []
        for item in order.expressions:
            place = self._output(item.this, items)
            if place is not None:
                parts.append(f"{place}{direction(item)}")
                continue
            if scope is None:
                message = "invalid UNION/INTERSECT/EXCEPT ORDER BY clause"
                raise self._statement.fail(FeatureNotSupported, message, item)
            value = self._expressions.coercion.settle(self._expressions.bind(item.this, scope))
            parts.append(value.sql + direction(item))
        return f" ORDER BY {', '.join(parts)}"

    def _limited(self, node: exp.Expr, scope: Scope) -> str:
        text = ""
        limit = node.args.get("limit")
        if limit is not None:
            count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
            if not isinstance(count, exp.Null | exp.Var):
                text += f" LIMIT {self._count(count, scope)}"
        offset = node.args.get("offset")
        if offset is not None and not isinstance(offset.expression, exp.Null):
            text += f" OFFSET {self._count(offset.expression, scope)}"
        return text

    def _count(self, node: exp.Expr | None, scope: Scope) -> str:
        if node is None:
            return "1"
        value = self._expressions.bind(node, scope)
        return self._expressions.coercion.implicit(value, PgType(INT8), node).sql

    # --- sets of rows ---------------------------------------------------------------------------

    def _set_operation(self, node: exp.SetOperation, scope: Scope) -> Bound:
        left, right = self.bind(node.this, scope), self.bind(node.expression, scope)
        word = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}[type(node)]
        if len(left.columns) != len(right.columns):
            message = f"each {word} query must have the same number of columns"
            raise self._statement.fail(SyntaxFault, message, node.expression)
        columns = [
            self._united(first, second, word, node)
            for first, second in zip(left.columns, right.columns, strict=True)
        ]
        order = self._ordered(node, columns, None) + self._limited(node, scope)
        every = "" if node.args.get("distinct") else " ALL"

        def write(targets: Sequence[PgType]) -> str:
            return f"({left.write(targets)}) {word}{every} ({right.write(targets)}){order}"

        return Bound(tuple(columns), write)

    def _united(
        self, left: ScopeColumn, right: ScopeColumn, word: str, node: exp.Expr
    ) -> ScopeColumn:
        sides = (left.value, right.value)
        if all(side.is_unknown for side in sides):
            return left
        oid = self._statement.types.common([side.oid for side in sides])
        if oid is None:
            shown = " and ".join(self._statement.types.format(side.oid) for side in sides)
            message = f"{word} types {shown} cannot be matched"
            raise self._statement.fail(DatatypeMismatch, message, node.args.get("expression"))
        same = {side.type for side in sides if not side.is_unknown}
        target = same.pop() if len(same) == 1 else PgType(oid)
        return ScopeColumn(left.name, Typed(left.value.sql, target, left.value.lower))

    def _values(self, node: exp.Values, scope: Scope) -> Bound:
        rows = [
            [self._expressions.bind(cell, scope) for cell in _cells(row)]
            for row in node.expressions
        ]
        if len({len(row) for row in rows}) != 1:
            message = "VALUES lists must all be the same length"
            raise self._statement.fail(SyntaxFault, message, node)
        columns = []
        for number, cells in enumerate(zip(*rows, strict=True), start=1):
            oid = self._statement.types.common([cell.oid for cell in cells])
            if oid is None:
                message = "VALUES types cannot be matched"
                raise self._statement.fail(DatatypeMismatch, message, node)
            known = any(not cell.is_unknown for cell in cells)
            columns.append(ScopeColumn(f"column{number}", typed("", oid if known else UNKNOWN)))
        order = self._ordered(node, columns, None) + self._limited(node, scope)

        def write(targets: Sequence[PgType]) -> str:
            written = ", ".join(
                "("
                + ", ".join(
                    self._as(cell, target) for cell, target in zip(row, targets, strict=True)
                )
                + ")"
                for row in rows
            )
            names = ", ".join(f"c{number}" for number in range(1, len(columns) + 1))
            alias = self._statement.alias()
            return f"SELECT * FROM (VALUES {written}) AS {alias}({names}){order}"

        return Bound(tuple(columns), write)

    def _parenthesised(self, node: exp.Subquery, scope: Scope) -> Bound:
        inner = self.bind(node.this, scope)
        if not any(node.args.get(part) for part in ("order", "limit", "offset")):
            return inner
        columns = list(inner.columns)
        rest = self._ordered(node, columns, None) + self._limited(node, scope)
        return Bound(inner.columns, lambda targets: f"SELECT * FROM ({inner.write(targets)}){rest}")


def _star(node: exp.Expr) -> str | None:
    """The table before a star, '' for a bare star, None for anything else."""
    if isinstance(node, exp.Star):
        return ""
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
        return folded(node.args["table"])
    return None


def _cells(row: exp.Expr) -> list[exp.Expr]:
    return row.expressions if isinstance(row, exp.Tuple) else [_inside(row)]


def _inside(node: exp.Expr) -> exp.Expr:
    return node.this if isinstance(node, exp.Paren) else node


def _mentions(node: exp.Expr, name: str) -> bool:
    return any(
        isinstance(table.this, exp.Identifier) and unmarked(folded(table.this)) == name
        for table in node.find_all(exp.Table)
    )


def _common_table(
    name: str,
    columns: Sequence[ScopeColumn],
    targets: Sequence[PgType],
    given: Sequence[str],
) -> CommonTable:
    names = [*given, *(column.name for column in columns[len(given) :])]
    return CommonTable(
        name,
        tuple(
            ScopeColumn(
                shown, Typed(f"c{n}", target, column.value.lower, fields=column.value.fields)
            )
            for n, (shown, column, target) in enumerate(
                zip(names, columns, targets, strict=True), start=1
            )
        ),
    )
