"""SELECT: one block of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from waterclock.model.ids import GlobalId
from waterclock.sql.binding.api import Comparison, SimpleQuery
from waterclock.sql.binding.blocks import Block, Output, SortTerm, Writer
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import AmbiguousColumn, InvalidColumnReference
from waterclock.sql.binding.grouping import (
    Grouping,
    Groups,
    check_grouped,
    has_aggregate,
)
from waterclock.sql.binding.inner_values import InnerValues
from waterclock.sql.binding.naming import output_name
from waterclock.sql.binding.ordering import check_groupable, check_sortable
from waterclock.sql.binding.representatives import distinct, has_twins
from waterclock.sql.binding.returning import after_change
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.set_calls import SetCalls, calls_in
from waterclock.sql.binding.sources import Sources
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.dialect.types import is_array, name_of
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.queries import CommonTables, Queries

_NO_GROUPS = Groups((), None, False)


@dataclass(frozen=True, slots=True)
class _Clauses:
    """What stands behind the select list."""

    source: str
    where: Typed | None
    groups: Groups | None
    having: Typed | None
    extended: Sequence[str] = ()
    """What is computed of the rows first."""
    extended_first: Sequence[str] = ()
    """What is computed of the rows before WHERE."""


_SORTED_BY_A_KEY = frozenset({"jsonb", "interval", "bpchar"})
"""Types whose values are not sorted as they are held."""


class Selects:
    """Binds SELECT."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._expressions = queries.expressions
        self._sources = Sources(queries)
        self._grouping = Grouping(queries.expressions)

    def bind(
        self, select: tree.Select, query: tree.Query, scope: Scope, tables: CommonTables
    ) -> Block:
        """The block of a SELECT with the ORDER BY of its query."""
        source = self._sources.bind(select.sources, scope, tables)
        extends = select.assigned is None and not self._may_aggregate(select, query)
        plain = Place(scope, "WHERE", windows=dict(select.windows), extends=extends)
        where = None
        if select.where is not None:
            deciding = replace(plain, is_conjunct=True)
            where = self._expressions.condition(select.where, deciding, "WHERE")
        items = list(select.items)
        if select.assigned is None:
            items, source = self._without_sets(select, source, scope, tables)
            if select.group_by is None and select.having is None:
                items, source = self._without_inner(items, source, scope, tables)
        plain = replace(plain, is_grouped=select.group_by is not None)
        shown = replace(plain, clause="SELECT", allows_aggregates=True, allows_windows=True)
        if not self._may_aggregate(select, query):
            shown = replace(shown, order=scope.order)
        outputs = self._shown(select, items, shown)
        groups = None
        if select.group_by is not None:
            keys = replace(plain.of("GROUP BY"), is_grouped=False)
            groups = self._grouping.bind(select, outputs, keys)
            if groups.representatives:
                plain = replace(plain, representatives=groups.representatives)
                shown = replace(shown, representatives=groups.representatives)
                outputs = self._outputs(items, shown)
        having = None
        if select.having is not None:
            place = replace(plain, clause="HAVING", allows_aggregates=True)
            having = self._expressions.condition(select.having, place, "HAVING")
        order = self._order(query.order, outputs, replace(shown, clause="ORDER BY"))
        distinct_on = self._distinct_on(select, outputs, shown)
        order = self._for_distinct(select, outputs, order, distinct_on, query)
        values = [each.value for each in outputs]
        hidden = [term.key for term in order if isinstance(term.key, Typed)]
        everything = [*values, *hidden, *(distinct_on or ()), *([having] if having else [])]
        if groups is None and (having is not None or has_aggregate(everything)):
            groups = _NO_GROUPS
        if groups is not None:
            check_grouped(everything, groups, scope.number)
            if groups.has_sets:
                outputs = [replace(o, value=replace(o.value, nullable=True)) for o in outputs]
        is_distinct = select.distinct_on == ()
        made_in: list[SortTerm] = []
        if groups is None and not order and not is_distinct and select.assigned is None:
            made_in = _order_of_source(scope, outputs)
            if scope.order.is_asked:
                order, made_in = made_in, []
        if having is not None and _asks_for_sets(having):
            plain_clauses = _Clauses(source, where, groups, None)
            whole = Block(tuple(outputs), _writer(plain_clauses, False), tuple(order), distinct_on)
            if is_distinct:
                raise FeatureNotSupported.of("GROUPING in HAVING beside DISTINCT", having.at)
            return self._kept(whole, having)
        if scope.extended and groups is not None:
            what = "a window frame of GROUPS beside an aggregate"
            raise FeatureNotSupported.of(what, select.at)
        clauses = _Clauses(source, where, groups, having, scope.extended, scope.extended_first)
        chooses = is_distinct and any(map(has_twins, (output.value for output in outputs)))
        writer = _writer(clauses, is_distinct and not chooses)
        block = Block(tuple(outputs), writer, tuple(order), distinct_on, made_in=tuple(made_in))
        if chooses:
            return distinct(block, self._queries.statement.alias())
        return replace(block, simple=self._simple(select, block, clauses, scope))

    def _may_aggregate(self, select: tree.Select, query: tree.Query) -> bool:
        """Whether the rows that are shown are groups."""
        if select.group_by is not None or select.having is not None:
            return True
        shown = [*(each.expression for each in select.items), *(e.expression for e in query.order)]
        calls = (call for each in shown for call in calls_in(each))
        is_aggregate = self._expressions.calling.is_aggregate
        return any(call.over is None and is_aggregate(call) for call in calls)

    def _kept(self, block: Block, having: Typed) -> Block:
        """The rows of a block that HAVING keeps, chosen outside of it.

        The engine knows in the select list alone which set of GROUPING SETS a row is of.
        """
        alias = self._queries.statement.alias()
        settle = self._expressions.coercion.settled
        values = [settle(output.value) for output in block.outputs]
        keys = [term.key for term in block.order if isinstance(term.key, Typed)]
        inner = [f"{value.sql} AS c{n + 1}" for n, value in enumerate(values)]
        inner += [f"{key.sql} AS s{n + 1}" for n, key in enumerate(keys)]
        inner += [f"{key.sql} AS d{n + 1}" for n, key in enumerate(block.distinct_on or ())]
        source = block.write([*inner, f"{having.sql} AS h"])

        def outside(value: Typed, name: str) -> Typed:
            return replace(value, sql=f"{alias}.{name}", parts=(value,), known=None)

        moved = iter([outside(key, f"s{n + 1}") for n, key in enumerate(keys)])
        order = [t if isinstance(t.key, int) else replace(t, key=next(moved)) for t in block.order]
        distinct_on = None
        if block.distinct_on is not None:
            distinct_on = tuple(outside(k, f"d{n + 1}") for n, k in enumerate(block.distinct_on))
        return Block(
            tuple(
                replace(output, value=outside(value, f"c{n + 1}"))
                for n, (output, value) in enumerate(zip(block.outputs, values, strict=True))
            ),
            lambda shown: f"SELECT {', '.join(shown)} FROM ({source}) AS {alias} WHERE {alias}.h",
            tuple(order),
            distinct_on,
        )

    # The select list

    def _shown(
        self, select: tree.Select, items: Sequence[tree.SelectItem], place: Place
    ) -> list[Output]:
        """What the items give; behind those of a change, what RETURNING shows."""
        if select.assigned is None:
            return self._outputs(items, place)
        of_change = 1 + len(select.assigned)
        outputs = self._outputs(items[:of_change], place.of("UPDATE"))
        coercion, statement = self._expressions.coercion, self._queries.statement
        outputs, changed = after_change(place.scope, outputs, select.assigned, coercion, statement)
        return outputs + self._outputs(items[of_change:], Place(changed, "RETURNING"))

    def _outputs(self, items: Sequence[tree.SelectItem], place: Place) -> list[Output]:
        outputs: list[Output] = []
        for item in items:
            if isinstance(item.expression, tree.Star):
                if not place.scope.relations and not item.expression.parts:
                    raise SyntaxFault(
                        "SELECT * with no tables specified is not valid", item.expression.at
                    )
                found = place.scope.starred(item.expression.parts, item.expression.at)
                kept = place.representatives
                outputs += [Output(_column_name(c), kept.get(c.sql, c)) for c in found]
                continue
            if isinstance(item.expression, tree.AllFields):
                fields = self._expressions.rows.fields(item.expression, place)
                outputs += [Output(name, value) for name, value in fields]
                continue
            value = self._expressions.bind(item.expression, place)
            if value.role is Role.ROW:
                value = self._expressions.coercion.settled(value)
            name = item.label if item.label is not None else output_name(item.expression)
            outputs.append(Output(name, value))
        return outputs

    def _without_sets(
        self, select: tree.Select, source: str, scope: Scope, tables: CommonTables
    ) -> tuple[list[tree.SelectItem], str]:
        """The items, with calls that give rows moved into FROM, where they mean the same.

        Of several, the rows stand side by side.
        """
        calls = SetCalls(self._expressions.calling.is_set_returning)
        items = [calls.without(item) for item in select.items]
        if not calls.found:
            return list(select.items), source
        at = calls.found[0].at
        if select.group_by is not None or select.having is not None:
            what = "a set-returning function beside GROUP BY in SELECT"
            raise FeatureNotSupported.of(what, at)
        calling = self._expressions.calling
        others = [call for item in select.items for call in calls_in(item.expression)]
        if any(call.over is not None or calling.is_aggregate(call) for call in others):
            what = "a set-returning function beside an aggregate or a window function in SELECT"
            raise FeatureNotSupported.of(what, at)
        for call in calls.found:
            if calling.has_columns(call):
                what = f"the row that {call.name[-1]}() gives as a value"
                raise FeatureNotSupported.of(what, call.at)
        return items, self._beside(source, [calls.table()], scope, tables)

    def _without_inner(
        self, items: Sequence[tree.SelectItem], source: str, scope: Scope, tables: CommonTables
    ) -> tuple[list[tree.SelectItem], str]:
        """The items, with queries that are arguments of functions moved into FROM."""
        inner = InnerValues(self._expressions.calling.is_aggregate)
        items = inner.without(items)
        return items, self._beside(source, inner.tables(), scope, tables)

    def _beside(
        self, source: str, more: Sequence[tree.FromItem], scope: Scope, tables: CommonTables
    ) -> str:
        """What is selected from, with relations that nobody can name."""
        if not more:
            return source
        visible, order = list(scope.visible), scope.order
        joined = self._sources.bind(more, scope, tables)
        scope.visible[:] = visible  # `*` does not show them
        scope.order = order.then(scope.order)
        return f"{source}, {joined}" if source else joined

    # ORDER BY and DISTINCT

    def _order(
        self, items: Sequence[tree.SortItem], outputs: list[Output], place: Place
    ) -> list[SortTerm]:
        terms = []
        for item in items:
            key = self._sort_key(item.expression, outputs, place)
            value = outputs[key].value if isinstance(key, int) else key
            value = self._expressions.coercion.settled(value)
            if isinstance(key, int):
                outputs[key] = replace(outputs[key], value=value)
            check_sortable(value, has_arrays=not self._queries.statement.maintained)
            terms.append(
                SortTerm(key if isinstance(key, int) else value, item.descending, item.nulls_first)
            )
        return terms

    def _sort_key(self, node: tree.Expression, outputs: list[Output], place: Place) -> int | Typed:
        """The place of an output column, by number, by name or by being the same; or a value."""
        if isinstance(node, tree.Number) and node.text.isdigit():
            return output_position(int(node.text), len(outputs), "ORDER BY", node.at)
        if isinstance(node, tree.ColumnRef) and len(node.parts) == 1:
            named = output_named(node.parts[0], outputs, "ORDER BY", node.at)
            if named is not None:
                return named
        value = self._expressions.value(node, place)
        for number, output in enumerate(outputs):
            if output.value.sql == value.sql and not output.value.is_unknown:
                return number
        return value

    def _distinct_on(
        self, select: tree.Select, outputs: list[Output], place: Place
    ) -> tuple[Typed, ...] | None:
        if select.distinct_on is None:
            return None
        if not select.distinct_on:
            for number, output in enumerate(outputs):
                value = self._expressions.coercion.settled(output.value)
                check_groupable(value)
                outputs[number] = replace(output, value=value)
            return None
        keys = []
        for node in select.distinct_on:
            found = self._sort_key(node, outputs, replace(place, clause="DISTINCT ON"))
            value = outputs[found].value if isinstance(found, int) else found
            value = self._expressions.coercion.settled(value)
            check_groupable(value)
            keys.append(value.at_position(node.at))
        return tuple(keys)

    def _for_distinct(
        self,
        select: tree.Select,
        outputs: list[Output],
        order: list[SortTerm],
        distinct_on: tuple[Typed, ...] | None,
        query: tree.Query,
    ) -> list[SortTerm]:
        """Check what DISTINCT asks of ORDER BY."""
        if select.distinct_on == ():
            for term, item in zip(order, query.order, strict=True):
                if isinstance(term.key, Typed):
                    raise InvalidColumnReference(
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                        item.expression.at,
                    )
        if distinct_on is not None and order:
            wanted = {key.sql for key in distinct_on}
            for term in order[: len(wanted)]:
                value = outputs[term.key].value if isinstance(term.key, int) else term.key
                if value.sql not in wanted:
                    raise InvalidColumnReference(
                        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                        distinct_on[0].at,
                    )
        return order

    # Queries that need no engine

    def _simple(
        self, select: tree.Select, block: Block, clauses: _Clauses, scope: Scope
    ) -> SimpleQuery | None:
        """The block as one that only picks rows, if it is; without its limits."""
        if select.distinct_on is not None or len(scope.relations) != 1 or select.having is not None:
            return None
        reads = list(self._queries.statement.reads)
        tests = () if clauses.where is None else clauses.where.test
        columns = scope.relations[0].columns
        if tests is None or not columns or not all(column.is_plain for column in columns):
            return None
        if scope.outer is not None or len(reads) != 1 or len(select.sources) != 1:
            return None
        if clauses.groups is not None:
            return _counted(select, block, clauses.groups, tests, reads[0])
        shown = [_stored_as(output.value) for output in block.outputs]
        order = []
        for term in block.order:
            value = block.outputs[term.key].value if isinstance(term.key, int) else term.key
            if is_array(value.type) or name_of(value.type) in _SORTED_BY_A_KEY:
                return None
            first = term.descending if term.nulls_first is None else term.nulls_first
            order.append((_stored_as(value), term.descending, first))
        if not shown or None in shown or any(name is None for name, _, _ in order):
            return None
        return SimpleQuery(
            reads[0],
            tuple(name for name in shown if name is not None),
            False,
            tests,
            tuple((name, down, first) for name, down, first in order if name is not None),
        )


def _order_of_source(scope: Scope, outputs: Sequence[Output]) -> list[SortTerm]:
    """The order that the rows of FROM have; window functions sort them in orders of their own."""
    values = [output.value for output in outputs]
    if any(part.role is Role.WINDOW for value in values for part in value.walk()):
        return []
    places = {value.sql: place for place, value in reversed(list(enumerate(values)))}
    return [
        SortTerm(places.get(term.key.sql, term.key), term.descending, term.nulls_first)
        for term in scope.order.terms
    ]


def _asks_for_sets(having: Typed) -> bool:
    return any(part.role is Role.GROUPING for part in having.walk())


def _counted(
    select: tree.Select,
    block: Block,
    groups: Groups,
    conditions: tuple[Comparison, ...],
    source: GlobalId,
) -> SimpleQuery | None:
    """`SELECT count(*)`, and nothing else."""
    if groups.keys or groups.sql is not None or len(select.items) != 1 or block.order:
        return None
    match select.items[0].expression:
        case tree.Call(name=("count",), is_star=True, filter=None, over=None):
            return SimpleQuery(source, (), True, conditions)
    return None


def _stored_as(value: Typed) -> str | None:
    """What the collection calls the column that the expression is, if it is just one."""
    return None if value.column is None else value.column.stored_as


def _column_name(value: Typed) -> str:
    assert value.column is not None
    return value.column.name


def output_position(number: int, count: int, clause: str, at: int) -> int:
    """The place of the output column of that number, from 0."""
    if not 1 <= number <= count:
        raise InvalidColumnReference(f"{clause} position {number} is not in select list", at)
    return number - 1


def output_named(name: str, outputs: Sequence[Output], clause: str, at: int) -> int | None:
    """The place of the output column of that name, if there is one."""
    found = [n for n, output in enumerate(outputs) if output.name == name]
    if len({outputs[n].value.sql for n in found}) > 1:
        raise AmbiguousColumn(f'{clause} "{name}" is ambiguous', at)
    return found[0] if found else None


def _writer(clauses: _Clauses, is_distinct: bool) -> Writer:
    def write(columns: Sequence[str]) -> str:
        if clauses.extended or clauses.extended_first:
            return _piped(clauses, columns, is_distinct)
        pieces = ["SELECT DISTINCT" if is_distinct else "SELECT", ", ".join(columns)]
        if clauses.source:
            pieces.append(f"FROM {clauses.source}")
        if clauses.where is not None:
            pieces.append(f"WHERE {clauses.where.sql}")
        if clauses.groups is not None and clauses.groups.sql is not None:
            pieces.append(f"GROUP BY {clauses.groups.sql}")
        if clauses.having is not None:
            pieces.append(f"HAVING {clauses.having.sql}")
        return " ".join(pieces)

    return write


def _piped(clauses: _Clauses, columns: Sequence[str], is_distinct: bool) -> str:
    """The block with columns computed first, which the names of its relations stay beside."""
    pieces = [f"FROM {clauses.source or _ONE_ROW}", *map(_extend, clauses.extended_first)]
    if clauses.where is not None:
        pieces.append(f"WHERE {clauses.where.sql}")
    pieces += map(_extend, dict.fromkeys(clauses.extended))
    pieces.append(f"SELECT {'DISTINCT ' if is_distinct else ''}{', '.join(columns)}")
    return " |> ".join(pieces)


_ONE_ROW = "(SELECT 1 AS c0) AS z"


def _extend(named: str) -> str:
    return f"EXTEND {named}"
