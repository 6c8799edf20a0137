"""Conditions: comparisons, patterns, membership, and their combination.

An operator that PostgreSQL does not have for two types is refused, although DuckDB might find a way
to compare them.
"""

from __future__ import annotations

from sqlglot import exp

from waterclock.catalog.system.binding.operators import kind_of, no_operator
from waterclock.catalog.system.binding.ports import Binder, Handlers
from waterclock.catalog.system.binding.scope import Scope
from waterclock.catalog.system.binding.typed import Statement, Typed, typed
from waterclock.catalog.system.errors import DatatypeMismatch, FeatureNotSupported
from waterclock.catalog.system.types import BOOL, OID, REG_TYPES, TEXT
from waterclock.model.pg_types import PgType

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
    exp.NullSafeNEQ: "IS DISTINCT FROM",
}
_MATCHES = {
    "~": "regexp_matches({0}, {1}, 's')",
    "~*": "regexp_matches({0}, {1}, 'is')",
    "~~": "({0} LIKE {1} ESCAPE '\\')",
    "~~*": "({0} ILIKE {1} ESCAPE '\\')",
}
_OPERATORS = {**{op: op for op in _COMPARISONS.values()}, "!=": "<>"}


class Conditions:
    """Everything whose value is a truth value."""

    def __init__(self, statement: Statement, binder: Binder) -> None:
        self._statement = statement
        self._types = statement.types
        self._binder = binder

    def handlers(self) -> Handlers:
        return {
            exp.And: self._logical,
            exp.Or: self._logical,
            exp.Not: self._not,
            exp.Is: self._is,
            exp.In: self._in,
            exp.Between: self._between,
            exp.Like: self._like,
            exp.ILike: self._like,
            exp.Escape: self._escape,
            exp.RegexpLike: self._regexp,
            exp.RegexpILike: self._regexp,
            exp.Operator: self._operator,
            exp.Exists: self._exists,
            **dict.fromkeys(_COMPARISONS, self._comparison),
        }

    def _logical(self, node: exp.Connector, scope: Scope) -> Typed:
        word = "AND" if isinstance(node, exp.And) else "OR"
        parts = [self._binder.boolean(part, scope, word) for part in node.flatten(unnest=False)]
        return typed("(" + f" {word} ".join(parts) + ")", BOOL)

    def _not(self, node: exp.Not, scope: Scope) -> Typed:
        return typed(f"(NOT {self._binder.boolean(node.this, scope, 'NOT')})", BOOL)

    def _is(self, node: exp.Is, scope: Scope) -> Typed:
        value = self._binder.coercion.settle(self._binder.bind(node.this, scope))
        word = "IS NOT" if node.args.get("negate") else "IS"
        what = node.expression
        if not isinstance(what, exp.Null | exp.Boolean):
            message = f"IS {kind_of(what)} is not supported in catalog queries"
            raise self._statement.fail(FeatureNotSupported, message, node)
        shown = "NULL" if isinstance(what, exp.Null) else str(bool(what.this)).upper()
        return typed(f"({value.sql} {word} {shown})", BOOL)

    def _exists(self, node: exp.Exists, scope: Scope) -> Typed:
        text, _ = self._binder.subquery(node.this, scope)
        return typed(f"EXISTS ({text})", BOOL)

    def _comparison(self, node: exp.Binary, scope: Scope) -> Typed:
        return self._compared(_COMPARISONS[type(node)], node, scope)

    def _compared(self, operator: str, node: exp.Expr, scope: Scope) -> Typed:
        left_node, right_node = node.this, node.args["expression"]
        quantified = _quantified(right_node)
        if quantified is not None:
            return self._quantified(operator, node, *quantified, scope)
        if isinstance(_bare(left_node), exp.Tuple) and isinstance(_bare(right_node), exp.Tuple):
            return self._rows_compared(operator, _bare(left_node), _bare(right_node), scope)
        left, right = self._binder.bind(left_node, scope), self._binder.bind(right_node, scope)
        return typed(self.applied(operator, left, right, node), BOOL)

    def _rows_compared(self, operator: str, left: exp.Expr, right: exp.Expr, scope: Scope) -> Typed:
        pairs = [
            exp.EQ(this=first, expression=second)
            for first, second in zip(left.expressions, right.expressions, strict=True)
        ]
        if operator not in ("=", "<>"):
            message = f"comparing rows with {operator} is not supported in catalog queries"
            raise self._statement.fail(FeatureNotSupported, message, left)
        parts = [self._compared("=", pair, scope).sql for pair in pairs]
        text = "(" + " AND ".join(parts) + ")"
        return typed(text if operator == "=" else f"(NOT {text})", BOOL)

    def applied(self, operator: str, left: Typed, right: Typed, node: exp.Expr) -> str:
        """The comparison of two values that are bound already."""
        left, right = self._matched(operator, left, right, node)
        return f"({left.sql} {operator} {right.sql})"

    def _matched(
        self, operator: str, left: Typed, right: Typed, node: exp.Expr
    ) -> tuple[Typed, Typed]:
        """Both sides of a comparison as types that can be compared."""
        if left.is_unknown and right.is_unknown:
            return self._binder.coercion.settle(left), self._binder.coercion.settle(right)
        if left.is_unknown:
            return self._binder.coercion.implicit(left, _compared_as(right.oid), node.this), right
        if right.is_unknown:
            target = _compared_as(left.oid)
            return left, self._binder.coercion.implicit(right, target, node.args["expression"])
        if left.oid != right.oid and not self._comparable(left.oid, right.oid):
            raise no_operator(self._statement, operator, left.oid, right.oid, node)
        return left, right

    def _comparable(self, left: int, right: int) -> bool:
        types = self._types
        if types.is_string(left) or types.is_string(right):
            return types.is_string(left) and types.is_string(right)
        if types.becomes(left, right) or types.becomes(right, left):
            return True
        first, second = types.element_of(left), types.element_of(right)
        if first is not None and second is not None:
            return self._comparable(first, second)
        return types.category(left) == types.category(right)

    def _quantified(
        self, operator: str, node: exp.Expr, every: bool, inner: exp.Expr, scope: Scope
    ) -> Typed:
        left = self._binder.bind(node.this, scope)
        if isinstance(inner, exp.Subquery | exp.Query):
            return self._against_query(operator, node, left, every, inner, scope)
        array = self._binder.bind(inner, scope)
        if array.is_unknown:
            left = self._binder.coercion.settle(left)
            array = self._binder.coercion.implicit(
                array, PgType(self._types.array_of(left.oid)), inner
            )
        element = self._types.element_of(array.oid)
        if element is None:
            message = "op ANY/ALL (array) requires array on right side"
            raise self._statement.fail(DatatypeMismatch, message, inner)
        left, _ = self._matched(operator, left, typed("", element), node)
        return typed(self._over_array(operator, left, array.sql, every), BOOL)

    def _over_array(self, operator: str, left: Typed, array: str, every: bool) -> str:
        if operator in ("=", "<>") and every == (operator == "<>"):
            found = f"list_contains({array}, {left.sql})"
            if every:
                found = f"(NOT {found})"
            return f"CASE WHEN {left.sql} IS NOT NULL THEN {found} END"
        name = self._statement.alias("e")
        template = _MATCHES.get(operator, "({0} " + operator + " {1})")
        one = template.replace("{0}", left.sql).replace("{1}", name)
        kept = f"len(list_filter({array}, lambda {name}: {one}))"
        return f"({kept} = len({array}))" if every else f"({kept} > 0)"

    def _against_query(
        self,
        operator: str,
        node: exp.Expr,
        left: Typed,
        every: bool,
        inner: exp.Expr,
        scope: Scope,
    ) -> Typed:
        text, columns = self._binder.subquery(inner, scope)
        left, _ = self._matched(operator, left, columns[0], node)
        if operator == "=" and not every:
            return typed(f"({left.sql} IN ({text}))", BOOL)
        if operator == "<>" and every:
            return typed(f"({left.sql} NOT IN ({text}))", BOOL)
        word = "ALL" if every else "ANY"
        return typed(f"({left.sql} {operator} {word} ({text}))", BOOL)

    def _in(self, node: exp.In, scope: Scope) -> Typed:
        query = node.args.get("query")
        if isinstance(_bare(node.this), exp.Tuple):
            return self._rows_in(node, query, scope)
        value = self._binder.bind(node.this, scope)
        if query is not None:
            return self._against_query("=", exp.EQ(this=node.this, expression=query), value, False,
                                       query, scope)  # fmt: skip
        items = [self._binder.bind(item, scope) for item in node.expressions]
        if value.is_unknown:
            value, *items = self._binder.common(
                [value, *items], [node.this, *node.expressions], "IN"
            )[0]
        written = []
        for item, item_node in zip(items, node.expressions, strict=True):
            pair = exp.EQ(this=node.this, expression=item_node)
            written.append(self._matched("=", value, item, pair)[1].sql)
        return typed(f"({value.sql} IN ({', '.join(written)}))", BOOL)

    def _rows_in(self, node: exp.In, query: exp.Expr | None, scope: Scope) -> Typed:
        row = _bare(node.this)
        if query is None:
            options = [
                self._rows_compared("=", row, _bare(item), scope).sql for item in node.expressions
            ]
            return typed("(" + " OR ".join(options) + ")", BOOL)
        parts = [
            self._binder.coercion.settle(self._binder.bind(part, scope)).sql
            for part in row.expressions
        ]
        text, _ = self._binder.subquery(query, scope)
        return typed(f"(({', '.join(parts)}) IN ({text}))", BOOL)

    def _between(self, node: exp.Between, scope: Scope) -> Typed:
        value = self._binder.bind(node.this, scope)
        parts = []
        for operator, bound in ((">=", node.args["low"]), ("<=", node.args["high"])):
            pair = exp.GTE(this=node.this, expression=bound)
            parts.append(self.applied(operator, value, self._binder.bind(bound, scope), pair))
        return typed(f"({parts[0]} AND {parts[1]})", BOOL)

    # --- patterns -------------------------------------------------------------------------------

    def _like(self, node: exp.Binary, scope: Scope) -> Typed:
        operator = "~~*" if isinstance(node, exp.ILike) else "~~"
        value = self._pattern(operator, node, scope)
        return typed(f"(NOT {value.sql})", BOOL) if node.args.get("negate") else value

    def _escape(self, node: exp.Escape, scope: Scope) -> Typed:
        like = node.this
        left, right = self._texts(like, scope)
        word = "ILIKE" if isinstance(like, exp.ILike) else "LIKE"
        escape = self._binder.coercion.implicit(
            self._binder.bind(node.expression, scope), PgType(TEXT), node
        )
        negated = "NOT " if like.args.get("negate") else ""
        return typed(f"({left} {negated}{word} {right} ESCAPE {escape.sql})", BOOL)

    def _regexp(self, node: exp.Binary, scope: Scope) -> Typed:
        return self._pattern("~*" if isinstance(node, exp.RegexpILike) else "~", node, scope)

    def _pattern(self, operator: str, node: exp.Expr, scope: Scope) -> Typed:
        quantified = _quantified(node.args["expression"])
        if quantified is not None:
            return self._quantified(operator, node, *quantified, scope)
        left, right = self._texts(node, scope, operator)
        return typed(_MATCHES[operator].replace("{0}", left).replace("{1}", right), BOOL)

    def _texts(self, node: exp.Expr, scope: Scope, operator: str = "~~") -> tuple[str, str]:
        sides = [
            self._binder.bind(node.this, scope),
            self._binder.bind(node.args["expression"], scope),
        ]
        sides = [self._binder.coercion.settle(side) for side in sides]
        if not all(self._types.is_string(side.oid) for side in sides):
            raise no_operator(self._statement, operator, sides[0].oid, sides[1].oid, node)
        return sides[0].sql, sides[1].sql

    def _operator(self, node: exp.Operator, scope: Scope) -> Typed:
        """`OPERATOR(pg_catalog.~)` and its like."""
        symbol = str(node.args["operator"]).rpartition(".")[2].strip()
        if symbol.startswith("!~"):
            found = self._pattern(symbol[1:], node, scope)
            return typed(f"(NOT {found.sql})", BOOL)
        if symbol in _MATCHES:
            return self._pattern(symbol, node, scope)
        if symbol in _OPERATORS:
            return self._compared(_OPERATORS[symbol], node, scope)
        message = f"operator {symbol} is not supported in catalog queries"
        raise self._statement.fail(FeatureNotSupported, message, node)


def _compared_as(oid: int) -> PgType:
    """The type of a bare string beside a value: the names of objects are compared as OIDs."""
    return PgType(OID if oid in REG_TYPES else oid)


def _bare(node: exp.Expr) -> exp.Expr:
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def _quantified(node: exp.Expr) -> tuple[bool, exp.Expr] | None:
    """Whether the right side is ALL, and what stands in it; None if it is neither ANY nor ALL."""
    if isinstance(node, exp.Any | exp.All):
        inner = node.this
        return isinstance(node, exp.All), _bare(inner)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in ("all", "some"):
        return str(node.this).lower() == "all", _bare(node.expressions[0])
    return None
