"""Expressions, bound as PostgreSQL binds them and written as DuckDB reads them.

Every kind of node that can be answered has its function here; any other is refused by name. What
comes out is a `Typed`: text that needs no parentheses around it, and a type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from sqlglot import exp

from waterclock.catalog.system.binding.agreement import FIELDS
from waterclock.catalog.system.binding.arithmetic import Arithmetic
from waterclock.catalog.system.binding.calling import Calling
from waterclock.catalog.system.binding.coercion import Coercion
from waterclock.catalog.system.binding.conditions import Conditions
from waterclock.catalog.system.binding.functions import Functions
from waterclock.catalog.system.binding.naming import type_name
from waterclock.catalog.system.binding.operators import kind_of
from waterclock.catalog.system.binding.parsing import MARK, SUBSCRIPT
from waterclock.catalog.system.binding.ports import Handlers, Subqueries
from waterclock.catalog.system.binding.scope import Scope, folded
from waterclock.catalog.system.binding.typed import NULL, Statement, Typed, quoted, typed
from waterclock.catalog.system.errors import (
    DatatypeMismatch,
    FeatureNotSupported,
    IndeterminateType,
    SyntaxFault,
    UndefinedColumn,
    UndefinedObject,
)
from waterclock.catalog.system.types import (
    BOOL,
    CHAR,
    DATE,
    INT4,
    INT8,
    INTERVAL,
    NAME,
    NUMERIC,
    RECORD,
    TIMESTAMP,
    TIMESTAMPTZ,
    UNKNOWN,
)
from waterclock.model.pg_types import PgType

_SESSION: dict[type[exp.Expr], tuple[str, int]] = {
    exp.CurrentUser: ("current_user", NAME),
    exp.SessionUser: ("session_user", NAME),
    exp.CurrentSchema: ("schema", NAME),
    exp.CurrentCatalog: ("database", NAME),
}
_COLLATIONS = {"default", "C", "POSIX", "ucs_basic", "C.utf8", "C.UTF-8"}
_INT4_MAX, _INT8_MAX = (1 << 31) - 1, (1 << 63) - 1
_FLOAT = re.compile(r"[.eE]")


class Expressions:
    def __init__(self, statement: Statement, functions: Functions, subqueries: Subqueries) -> None:
        self._statement = statement
        self._types = statement.types
        self._subqueries = subqueries
        self.coercion = Coercion(statement)
        self.calling = Calling(statement, functions, self)
        self._conditions = Conditions(statement, self)
        self._handlers: Handlers = {
            exp.Literal: self._literal,
            exp.Null: lambda _node, _scope: NULL,
            exp.Boolean: lambda node, _scope: typed("TRUE" if node.this else "FALSE", BOOL),
            exp.Parameter: self._parameter,
            exp.Column: self._column,
            exp.Paren: self._paren,
            exp.Case: self._case,
            exp.Cast: self._cast,
            exp.Bracket: self._subscript,
            exp.Dot: self._dot,
            exp.Array: self._array,
            exp.Subquery: self._scalar_subquery,
            exp.Tuple: self._tuple,
            exp.Anonymous: self._function,
            exp.Filter: self._function,
            exp.Window: self._function,
            exp.Collate: self._collate,
            exp.Interval: self._interval,
            exp.CurrentDate: self._current_date,
            exp.CurrentTimestamp: lambda _n, _s: self._session("now", TIMESTAMPTZ),
            exp.Localtimestamp: lambda _n, _s: self._session("local_now", TIMESTAMP),
            exp.Trim: self._trim,
            exp.Substring: self._substring,
            exp.StrPosition: self._position,
            exp.Extract: self._extract,
            **self._conditions.handlers(),
            **Arithmetic(statement, self).handlers(),
        }

    def bind(self, node: exp.Expr, scope: Scope) -> Typed:
        handler = self._handlers.get(type(node))
        if handler is not None:
            return handler(node, scope)
        if type(node) in _SESSION:
            name, oid = _SESSION[type(node)]
            return self._session(name, oid)
        raise self._statement.fail(
            FeatureNotSupported, f"{kind_of(node)} is not supported in catalog queries", node
        )

    def subquery(self, node: exp.Expr, scope: Scope) -> tuple[str, tuple[Typed, ...]]:
        return self._subqueries.subquery(node, scope)

    def boolean(self, node: exp.Expr, scope: Scope, what: str) -> str:
        """A condition's text; `what` is the clause that it stands in."""
        value = self.bind(node, scope)
        if value.is_unknown:
            value = self.coercion.implicit(value, PgType(BOOL), node)
        if value.oid != BOOL:
            shown = self._types.shown(value.oid)
            message = f"argument of {what} must be type boolean, not type {shown}"
            raise self._statement.fail(DatatypeMismatch, message, node)
        return value.sql

    def common(
        self, values: Sequence[Typed], nodes: Sequence[exp.Expr], what: str
    ) -> tuple[list[Typed], PgType]:
        """The values brought to one type."""
        oid = self._types.common([value.oid for value in values])
        if oid is None:
            known = [v.oid for v in values if not v.is_unknown]
            other = next(o for o in known if self._types.common([known[0], o]) is None)
            shown = f"{self._types.shown(known[0])} and {self._types.shown(other)}"
            message = f"{what} types {shown} cannot be matched"
            raise self._statement.fail(DatatypeMismatch, message, nodes[-1])
        same = {value.type for value in values if not value.is_unknown}
        target = same.pop() if len(same) == 1 else PgType(oid)
        made = [
            self.coercion.implicit(value, target, node)
            for value, node in zip(values, nodes, strict=True)
        ]
        return made, target

    def _session(self, name: str, oid: int) -> Typed:
        held = self._types.held_as(oid)
        return typed(f"CAST({self._statement.session_value(name)} AS {held})", oid)

    # --- leaves ---------------------------------------------------------------------------------

    def _literal(self, node: exp.Literal, _scope: Scope) -> Typed:
        text = str(node.this)
        if node.is_string:
            return Typed(quoted(text), PgType(UNKNOWN), literal=text)
        if _FLOAT.search(text):
            return typed(text, NUMERIC)
        number = int(text)
        if number <= _INT4_MAX:
            return typed(text, INT4)
        return typed(text, INT8 if number <= _INT8_MAX else NUMERIC)

    def _parameter(self, node: exp.Parameter, _scope: Scope) -> Typed:
        return self._statement.parameter(int(node.this.name), node)

    def _column(self, node: exp.Column, scope: Scope) -> Typed:
        bare = node.args.get("table") is None and isinstance(node.this, exp.Identifier)
        try:
            return scope.column(node)
        except UndefinedColumn:
            # Words that PostgreSQL reserves and sqlglot takes for columns.
            if (
                bare
                and not node.this.args.get("quoted")
                and node.name.lower() in ("user", "current_role")
            ):
                return self._session("current_user", NAME)
            if bare and not node.this.args.get("quoted") and self._statement.is_reserved(node.name):
                message = f'syntax error at or near "{node.name}"'
                raise self._statement.fail(SyntaxFault, message, node) from None
            if bare and scope.table(folded(node.this)) is not None:
                message = "a whole row as a value is not supported in catalog queries"
                raise self._statement.fail(FeatureNotSupported, message, node) from None
            raise

    def _paren(self, node: exp.Paren, scope: Scope) -> Typed:
        value = self.bind(node.this, scope)
        return value.with_sql(f"({value.sql})")

    def _interval(self, node: exp.Interval, _scope: Scope) -> Typed:
        unit = node.args.get("unit")
        text = f"{node.this.name} {unit.name.lower() if unit is not None else ''}".strip()
        unknown = Typed("", PgType(UNKNOWN), literal=text)
        return self.coercion.implicit(unknown, PgType(INTERVAL), node)

    def _current_date(self, _node: exp.Expr, _scope: Scope) -> Typed:
        return typed(f"CAST({self._session('local_now', TIMESTAMP).sql} AS DATE)", DATE)

    def _collate(self, node: exp.Collate, scope: Scope) -> Typed:
        name = folded(node.expression)
        if name not in _COLLATIONS:
            message = f'collation "{name}" for encoding "UTF8" does not exist'
            raise self._statement.fail(UndefinedObject, message, node.expression)
        return self.bind(node.this, scope)

    # --- values ---------------------------------------------------------------------------------

    def _case(self, node: exp.Case, scope: Scope) -> Typed:
        subject = self.bind(node.this, scope) if node.args.get("this") is not None else None
        conditions: list[str] = []
        result_nodes: list[exp.Expr] = []
        for branch in node.args["ifs"]:
            if subject is None:
                conditions.append(self.boolean(branch.this, scope, "CASE/WHEN"))
            else:
                pair = exp.EQ(this=node.this, expression=branch.this)
                conditions.append(
                    self._conditions.applied("=", subject, self.bind(branch.this, scope), pair)
                )
            result_nodes.append(branch.args["true"])
        # PostgreSQL looks at the default first when it chooses the type.
        default = node.args.get("default")
        result_nodes.insert(0, default if default is not None else exp.Null())
        values = [self.bind(result, scope) for result in result_nodes]
        made, target = self.common(values, result_nodes, "CASE")
        branches = " ".join(
            f"WHEN {condition} THEN {value.sql}"
            for condition, value in zip(conditions, made[1:], strict=True)
        )
        return Typed(f"(CASE {branches} ELSE {made[0].sql} END)", target, made[0].lower)

    def _cast(self, node: exp.Cast, scope: Scope) -> Typed:
        target = self.type_of(node.args["to"])
        inner = node.this
        if isinstance(inner, exp.Array) and not inner.expressions:
            return typed(f"CAST([] AS {self._types.held_as(target.oid)})", target.oid)
        return self.coercion.explicit(self.bind(inner, scope), target, inner)

    def type_of(self, node: exp.Expr) -> PgType:
        """The type that a cast names; 42704 if there is none."""
        name, is_array = type_name(node)
        oid = CHAR if name == "char" else self._types.named(name)
        if oid is None:
            message = f'type "{name}" does not exist'
            raise self._statement.fail(UndefinedObject, message, node)
        modifier = _modifier(node, name)
        return PgType(self._types.array_of(oid) if is_array else oid, modifier)

    # --- arrays and records ---------------------------------------------------------------------

    def _subscript(self, node: exp.Bracket, scope: Scope) -> Typed:
        array = self.bind(node.this, scope)
        element = self._types.element_of(array.oid)
        if element is None:
            shown = self._types.shown(array.oid)
            message = f"cannot subscript type {shown} because it does not support subscripting"
            raise self._statement.fail(DatatypeMismatch, message, node)
        index = node.expressions[0]
        if isinstance(index, exp.Slice):
            return self._slice(array, index, scope)
        if isinstance(index, exp.Anonymous) and index.this == SUBSCRIPT:
            index = index.expressions[0]
        place = self.coercion.implicit(self.bind(index, scope), PgType(INT8), index)
        shift = f" + {1 - array.lower}" if array.lower != 1 else ""
        # DuckDB counts negative places from the end; PostgreSQL finds nothing there.
        return typed(f"{_operand(array.sql)}[greatest(({place.sql}){shift}, 0)]", element)

    def _slice(self, array: Typed, node: exp.Slice, scope: Scope) -> Typed:
        bounds = []
        for bound in (node.this, node.expression):
            if bound is None:
                bounds.append("")
                continue
            value = self.coercion.implicit(self.bind(bound, scope), PgType(INT8), bound)
            bounds.append(f"({value.sql}) + {1 - array.lower}")
        return Typed(f"{_operand(array.sql)}[{bounds[0]}:{bounds[1]}]", array.type)

    def _dot(self, node: exp.Dot, scope: Scope) -> Typed:
        inner, last = node.this, node.expression
        if isinstance(last, exp.Anonymous | exp.Filter | exp.Window):
            return self.calling.call(last, scope, schema=inner)
        value = self.bind(inner, scope)
        name = folded(last)
        for field, oid in value.fields:
            if field == name:
                return typed(f"struct_extract({value.sql}, {quoted(field)})", oid)
        message = f'column "{name}" not found in data type {self._types.shown(value.oid)}'
        raise self._statement.fail(UndefinedColumn, message, last)

    def _array(self, node: exp.Array, scope: Scope) -> Typed:
        items = node.expressions
        if len(items) == 1 and isinstance(items[0], exp.Query):
            text, columns = self.subquery(items[0], scope)
            return typed(f"ARRAY({text})", self._types.array_of(columns[0].oid))
        if not items:
            message = "cannot determine type of empty array"
            raise self._statement.fail(IndeterminateType, message, node,
                                       hint="Explicitly cast to the desired type, "
                                       "for example ARRAY[]::integer[].")  # fmt: skip
        values, target = self.common([self.bind(item, scope) for item in items], items, "ARRAY")
        written = ", ".join(value.sql for value in values)
        return typed(f"[{written}]", self._types.array_of(target.oid))

    def _tuple(self, node: exp.Tuple, scope: Scope) -> Typed:
        values = [self.coercion.settle(self.bind(item, scope)) for item in node.expressions]
        fields = tuple((f"f{n}", value.oid) for n, value in enumerate(values, start=1))
        packed = ", ".join(
            f"'{name}': {value.sql}" for (name, _), value in zip(fields, values, strict=True)
        )
        return Typed("{" + packed + "}", PgType(RECORD), fields=fields)

    # --- subqueries and functions ---------------------------------------------------------------

    def _scalar_subquery(self, node: exp.Subquery, scope: Scope) -> Typed:
        text, columns = self.subquery(node.this, scope)
        return columns[0].with_sql(f"({text})")

    def _function(self, node: exp.Expr, scope: Scope) -> Typed:
        if isinstance(node, exp.Window) and isinstance(node.this, exp.Dot):
            return self.calling.call(node, scope, schema=node.this.this)
        return self.calling.call(node, scope)

    def _called(self, name: str, nodes: Sequence[exp.Expr], scope: Scope) -> Typed:
        call = exp.Anonymous(this=MARK + name, expressions=[part.copy() for part in nodes])
        return self.calling.call(call, scope)

    def _trim(self, node: exp.Trim, scope: Scope) -> Typed:
        names = {"LEADING": "ltrim", "TRAILING": "rtrim"}
        what = node.args.get("expression")
        nodes = [node.this] if what is None else [node.this, what]
        return self._called(names.get(node.args.get("position") or "", "btrim"), nodes, scope)

    def _substring(self, node: exp.Substring, scope: Scope) -> Typed:
        start = node.args.get("start") or exp.Literal.number(1)
        length = node.args.get("length")
        nodes = [node.this, start] if length is None else [node.this, start, length]
        return self._called("substring", nodes, scope)

    def _position(self, node: exp.StrPosition, scope: Scope) -> Typed:
        return self._called("position", [node.args["substr"], node.this], scope)

    def _extract(self, node: exp.Extract, scope: Scope) -> Typed:
        value = self.bind(node.expression, scope)
        part = cast(exp.Expr, node.this).name.lower()
        moments = (TIMESTAMP, TIMESTAMPTZ, INTERVAL)
        if part == "epoch" and value.oid in moments:
            micros = f"CAST(epoch_us({value.sql}) AS DECIMAL(31, 0))"
            return typed(f"({micros} * CAST(0.000001 AS DECIMAL(7, 6)))", NUMERIC)
        is_clock = part in ("hour", "minute")
        if (
            part not in FIELDS
            or value.oid not in (DATE, TIMESTAMP)
            or (is_clock and value.oid == DATE)
        ):
            message = f"extract({part}) over the system catalogs is not supported"
            raise self._statement.fail(FeatureNotSupported, message, node)
        return typed(f"CAST(date_part({quoted(part)}, {value.sql}) AS DECIMAL(38, 0))", NUMERIC)


def _operand(sql: str) -> str:
    return (
        sql
        if sql.startswith("(") or sql.replace(".", "").replace("_", "").isalnum()
        else f"({sql})"
    )


def _modifier(node: exp.Expr, name: str) -> int:
    if not isinstance(node, exp.DataType) or not node.expressions:
        # `char` without a length is one character long.
        return 5 if name == "bpchar" and isinstance(node, exp.DataType) else -1
    numbers = [
        int(part.this.name) for part in node.expressions if isinstance(part, exp.DataTypeParam)
    ]
    match name, numbers:
        case (("varchar" | "bpchar"), [length]):
            return length + 4
        case "numeric", [precision]:
            return (precision << 16) + 4
        case "numeric", [precision, scale]:
            return (precision << 16 | scale) + 4
        case (("timestamp" | "timestamptz" | "time"), [precision]):
            return precision
        case _:
            return -1
