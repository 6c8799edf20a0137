"""Calls of functions: which signature is meant, and how the call is written.

Aggregates keep what stands in and behind their parentheses: DISTINCT, ORDER BY, FILTER, OVER. A
function that gives a set becomes a list under `unnest`, which DuckDB expands as PostgreSQL expands
sets in a select list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from waterclock.catalog.system.binding.functions import (
    ANY,
    ANYARRAY,
    ANYELEMENT,
    REFUSED,
    SPECIAL_FORMS,
    Function,
    Functions,
)
from waterclock.catalog.system.binding.parsing import MARK
from waterclock.catalog.system.binding.ports import Binder
from waterclock.catalog.system.binding.scope import Scope, folded
from waterclock.catalog.system.binding.typed import Statement, Typed, typed
from waterclock.catalog.system.errors import (
    FeatureNotSupported,
    SyntaxFault,
    UndefinedFunction,
    UndefinedSchema,
)
from waterclock.catalog.system.types import (
    BOOL,
    BYTEA,
    FLOAT4,
    FLOAT8,
    INTERVAL,
    JSON,
    JSONB,
    NUMERIC,
    REG_TYPES,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    VECTORS,
)
from waterclock.model.pg_types import PgType

_PLACE = re.compile(r"\{(\*|\d+|length|upper|lower|subscripts)\}")
_SESSION_VALUE = re.compile(r"<(\w+)>")
_SCHEMAS = ("pg_catalog", "information_schema", "mz_catalog", "mz_internal")


@dataclass(frozen=True, slots=True)
class Call:
    """A call, taken apart."""

    name: str
    arguments: Sequence[exp.Expr]
    node: exp.Expr
    distinct: bool = False
    star: bool = False
    order: Sequence[exp.Ordered] = ()
    condition: exp.Expr | None = None
    window: exp.Window | None = None


class Calling:
    def __init__(self, statement: Statement, functions: Functions, binder: Binder) -> None:
        self._statement = statement
        self._types = statement.types
        self._functions = functions
        self._binder = binder

    def call(self, node: exp.Expr, scope: Scope, schema: exp.Expr | None = None) -> Typed:
        """The value of a call; 42883 if no function takes these arguments."""
        value, many = self.called(node, scope, schema)
        return replace(value, sql=f"unnest({value.sql})", many=True) if many else value

    def called(
        self, node: exp.Expr, scope: Scope, schema: exp.Expr | None = None
    ) -> tuple[Typed, bool]:
        """The value, and whether it is a list that stands for a set."""
        call = _taken_apart(node)
        if schema is not None and folded(schema) not in _SCHEMAS:
            name = folded(schema)
            if name not in self._statement.path:
                message = f'schema "{name}" does not exist'
                raise self._statement.fail(UndefinedSchema, message, schema)
            raise self._undefined(f"{name}.{call.name}", [], call)
        bound = [self._binder.bind(argument, scope) for argument in call.arguments]
        if call.name in SPECIAL_FORMS and not self._functions.named(call.name):
            return self._special(call, bound, scope), False
        function = self._chosen(call, bound)
        if function.template == REFUSED:
            shown = ", ".join(self._types.shown(value.oid) for value in bound)
            message = f"function {call.name}({shown}) over the system catalogs is not supported"
            raise self._statement.fail(FeatureNotSupported, message, call.node)
        made = self._arguments(function, bound, call)
        text = self._written(function, made, call, scope)
        result = self._result(function, made)
        return Typed(text, result, fields=function.fields), function.many

    # --- which function -------------------------------------------------------------------------

    def _chosen(self, call: Call, bound: list[Typed]) -> Function:
        fitting = [
            (self._score(function, bound), -place, function)
            for place, function in enumerate(self._functions.named(call.name))
            if self._fits(function, bound)
        ]
        if not fitting:
            raise self._undefined(call.name, bound, call)
        return max(fitting, key=lambda found: found[:2])[2]

    def _wanted(self, function: Function, count: int) -> tuple[int, ...] | None:
        """The types of so many arguments; None if it does not take so many."""
        wanted = function.arguments
        if function.variadic and count >= len(wanted) - 1:
            return (*wanted[:-1], *[wanted[-1]] * (count - len(wanted) + 1))
        return wanted if count == len(wanted) else None

    def _fits(self, function: Function, bound: list[Typed]) -> bool:
        wanted = self._wanted(function, len(bound))
        if wanted is None:
            return False
        return all(self._takes(want, value) for want, value in zip(wanted, bound, strict=True))

    def _takes(self, want: int, value: Typed) -> bool:
        if value.is_unknown or want in (ANY, ANYELEMENT):
            return True
        element = self._types.element_of(value.oid)
        if want == ANYARRAY:
            return element is not None
        if want == TEXT and value.oid in (JSON, JSONB):
            return False
        if self._types.becomes(value.oid, want):
            return True
        wanted = self._types.element_of(want)
        return element is not None and wanted is not None and self._types.becomes(element, wanted)

    def _score(self, function: Function, bound: list[Typed]) -> int:
        """Exact types count most; a bare string is rather a text than anything else."""
        wanted = self._wanted(function, len(bound)) or ()
        score = 0
        for want, value in zip(wanted, bound, strict=True):
            if want == value.oid:
                score += 4
            elif value.is_unknown:
                score += 3 if want == TEXT else 1
            elif self._types.category(want) == self._types.category(value.oid):
                score += 2
        return score

    def _undefined(self, name: str, bound: list[Typed], call: Call) -> UndefinedFunction:
        shown = ", ".join(self._types.shown(value.oid) for value in bound)
        error = self._statement.fail(
            UndefinedFunction,
            f"function {name}({shown}) does not exist",
            call.node,
            hint="No function matches the given name and argument types. "
            "You might need to add explicit type casts.",
        )
        assert isinstance(error, UndefinedFunction)
        return error

    def _arguments(self, function: Function, bound: list[Typed], call: Call) -> list[Typed]:
        wanted = self._wanted(function, len(bound)) or ()
        coercion = self._binder.coercion
        made: list[Typed] = []
        for want, value, node in zip(wanted, bound, call.arguments, strict=True):
            if want in (ANY, ANYARRAY, ANYELEMENT):
                made.append(self._loose(want, value, made, node))
            else:
                made.append(coercion.implicit(value, PgType(want), node))
        return made

    def _loose(self, want: int, value: Typed, before: list[Typed], node: exp.Expr) -> Typed:
        coercion = self._binder.coercion
        if want == ANYELEMENT and before:
            element = self._types.element_of(before[0].oid)
            if value.is_unknown and element is not None:
                return coercion.implicit(value, PgType(element), node)
        if want == ANYARRAY and value.is_unknown:
            return coercion.implicit(value, PgType(self._types.array_of(TEXT)), node)
        return coercion.settle(value)

    def _result(self, function: Function, made: list[Typed]) -> PgType:
        match function.result:
            case -1:
                return PgType(self._types.array_of(made[0].oid))
            case 2277:
                return made[0].type
            case 2283:
                element = self._types.element_of(made[0].oid)
                return PgType(element if element is not None else TEXT)
            case oid:
                return PgType(oid)

    # --- how it is written ----------------------------------------------------------------------

    def _written(self, function: Function, made: list[Typed], call: Call, scope: Scope) -> str:
        inside = self._inside(function, made, call, scope)

        def part(match: re.Match[str]) -> str:
            what = match.group(1)
            if what == "*":
                return inside
            if what.isdigit():
                return made[int(what)].sql
            return self._array_part(what, made[0])

        text = _PLACE.sub(part, function.template)
        text = _SESSION_VALUE.sub(lambda match: self._session(match.group(1), function), text)
        if call.condition is not None:
            condition = self._binder.boolean(call.condition, scope, "FILTER")
            text = _behind_aggregate(text, f" FILTER (WHERE {condition})")
        if call.window is not None:
            text = _behind_aggregate(text, f" OVER ({self._over(call.window, scope)})")
        return text

    def _session(self, name: str, function: Function) -> str:
        held = self._types.held_as(function.result)
        return f"CAST({self._statement.session_value(name)} AS {held})"

    def _inside(self, function: Function, made: list[Typed], call: Call, scope: Scope) -> str:
        """What stands in an aggregate's parentheses, or a variadic function's."""
        if call.star:
            return "*"
        written = ", ".join(
            value.sql if not function.variadic else self._as_text(value) for value in made
        )
        if call.distinct:
            written = f"DISTINCT {written}"
        if call.order:
            written += f" ORDER BY {self.ordering(call.order, scope)}"
        return written

    def _as_text(self, value: Typed) -> str:
        return self._binder.coercion.explicit(value, PgType(TEXT), None).sql

    def ordering(self, order: Sequence[exp.Ordered], scope: Scope) -> str:
        """A list of ORDER BY, with nulls where PostgreSQL puts them."""
        parts = []
        for item in order:
            value = self._binder.coercion.settle(self._binder.bind(item.this, scope))
            parts.append(value.sql + direction(item))
        return ", ".join(parts)

    def _array_part(self, what: str, array: Typed) -> str:
        length = f"CAST(len({array.sql}) AS INTEGER)"
        match what:
            case "length":
                return f"nullif({length}, 0)"
            case "upper":
                return f"nullif({length}, 0) - {1 - array.lower}"
            case "lower":
                return f"CASE WHEN len({array.sql}) > 0 THEN {array.lower} END"
            case _:
                end = f"len({array.sql}) + {array.lower}"
                return f"CAST(range({array.lower}, {end}) AS INTEGER[])"

    def _over(self, window: exp.Window, scope: Scope) -> str:
        named = window.args.get("alias")
        if named is not None:
            window = self._named_window(window, folded(named))
        parts = []
        partition = window.args.get("partition_by") or []
        if partition:
            keys = [self._binder.bind(key, scope).sql for key in partition]
            parts.append(f"PARTITION BY {', '.join(keys)}")
        order = window.args.get("order")
        if order is not None:
            parts.append(f"ORDER BY {self.ordering(order.expressions, scope)}")
        spec = window.args.get("spec")
        if spec is not None:
            parts.append(spec.sql(dialect="duckdb"))
        return " ".join(parts)

    def _named_window(self, node: exp.Window, name: str) -> exp.Window:
        select = node.find_ancestor(exp.Select)
        for window in (select.args.get("windows") or []) if select is not None else []:
            if folded(window.this) == name:
                assert isinstance(window, exp.Window)
                return window
        raise self._statement.fail(SyntaxFault, f'window "{name}" does not exist', node)

    # --- functions that take anything -----------------------------------------------------------

    def _special(self, call: Call, bound: list[Typed], scope: Scope) -> Typed:
        nodes = list(call.arguments)
        match call.name:
            case "coalesce" | "greatest" | "least":
                made, target = self._binder.common(bound, nodes, call.name.upper())
                written = ", ".join(value.sql for value in made)
                return Typed(f"{call.name}({written})", target, made[0].lower)
            case "nullif":
                made, _ = self._binder.common(bound, nodes, "NULLIF")
                return made[0].with_sql(f"nullif({made[0].sql}, {made[1].sql})")
            case "row":
                node = exp.Tuple(expressions=[part.copy() for part in nodes])
                return self._binder.bind(node, scope)
            case "json_agg" | "jsonb_agg":
                return self._json_aggregate(call, bound, scope)
            case _:
                oid = JSONB if call.name.startswith(("jsonb", "to_jsonb")) else JSON
                return typed(_in_form(self._json(call.name, bound, oid), oid), oid)

    def _json(self, name: str, bound: list[Typed], oid: int) -> str:
        settled = [self._binder.coercion.settle(value) for value in bound]
        for value in settled:
            if value.oid in (NUMERIC, FLOAT4, FLOAT8, TIMESTAMP, TIMESTAMPTZ, INTERVAL, BYTEA):
                message = f"{self._types.shown(value.oid)} as JSON over the system catalogs"
                raise self._statement.fail(FeatureNotSupported, f"{message} is not supported", None)
        if name.startswith("to_json"):
            return f"CASE WHEN {settled[0].sql} IS NOT NULL THEN {self._json_value(settled[0])} END"
        if name.endswith("array"):
            parts = [self._json_value(value) for value in settled]
            return "('[' || " + " || ', ' || ".join(parts) + " || ']')" if parts else "'[]'"
        between = ": " if oid == JSONB else " : "
        pairs = [
            f"to_json({self._as_text(key)}) || '{between}' || {self._json_value(value)}"
            for key, value in zip(settled[::2], settled[1::2], strict=True)
        ]
        return "('{' || " + " || ', ' || ".join(pairs) + " || '}')" if pairs else "'{}'"

    def _json_value(self, value: Typed) -> str:
        """The value as JSON's text; `null` for a null."""
        if value.oid in (JSON, JSONB):
            written = value.sql
        elif value.oid == BOOL or (
            self._types.category(value.oid) == "N" and value.oid not in REG_TYPES
        ):
            written = f"CAST({value.sql} AS VARCHAR)"
        elif self._types.element_of(value.oid) is not None and value.oid not in VECTORS:
            written = f"CAST(to_json({value.sql}) AS VARCHAR)"
        else:
            written = f"CAST(to_json({self._as_text(value)}) AS VARCHAR)"
        return f"coalesce({written}, 'null')"

    def _json_aggregate(self, call: Call, bound: list[Typed], scope: Scope) -> Typed:
        value = self._binder.coercion.settle(bound[0])
        order = f" ORDER BY {self.ordering(call.order, scope)}" if call.order else ""
        parts = f"string_agg({self._json_value(value)}, ', '{order})"
        if call.condition is not None:
            condition = self._binder.boolean(call.condition, scope, "FILTER")
            parts += f" FILTER (WHERE {condition})"
        oid = JSON if call.name == "json_agg" else JSONB
        return typed(_in_form(f"('[' || {parts} || ']')", oid), oid)


def _in_form(written: str, oid: int) -> str:
    """JSON as its type holds it."""
    return f"wc_jsonb({written})" if oid == JSONB else written


def direction(item: exp.Ordered) -> str:
    """Ascending or descending, with PostgreSQL's place for nulls unless the query says it."""
    descending = bool(item.args.get("desc"))
    nulls_first = item.args.get("nulls_first")
    first = descending if nulls_first is None else bool(nulls_first)
    return f"{' DESC' if descending else ''} NULLS {'FIRST' if first else 'LAST'}"


def _behind_aggregate(text: str, suffix: str) -> str:
    """The suffix behind the call of an aggregate, which may stand inside a cast."""
    match = re.fullmatch(r"CAST\((.*) AS ([^()]*(?:\([^()]*\))?)\)", text, re.DOTALL)
    return f"CAST({match[1]}{suffix} AS {match[2]})" if match is not None else text + suffix


def _taken_apart(node: exp.Expr) -> Call:
    window: exp.Window | None = None
    condition: exp.Expr | None = None
    while not isinstance(node, exp.Anonymous):
        if isinstance(node, exp.Window):
            window, node = node, node.this
        elif isinstance(node, exp.Filter):
            condition, node = node.expression.this, node.this
        elif isinstance(node, exp.Dot):
            node = node.expression
        else:
            raise SyntaxFault("syntax error in a function call")
    name = str(node.this).removeprefix(MARK)
    arguments: list[exp.Expr] = []
    distinct = star = False
    order: Sequence[exp.Ordered] = ()
    for argument in node.expressions:
        if isinstance(argument, exp.Order):
            order, argument = argument.expressions, argument.this
        if isinstance(argument, exp.Distinct):
            distinct = True
            arguments.extend(argument.expressions)
        elif isinstance(argument, exp.Star):
            star = True
        else:
            arguments.append(argument)
    return Call(name, arguments, node, distinct, star, order, condition, window)
