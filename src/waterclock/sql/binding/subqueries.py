"""Queries inside expressions: as a value, behind EXISTS, IN, ANY, ALL and ARRAY.

A query that names columns of the one around it is written with their names, which are unique in the
statement; whatever columns it names are parts of the expression, for the sake of GROUP BY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import BOOL, RECORD, array_of
from waterclock.sql.binding.blocks import Block, Cut
from waterclock.sql.binding.collecting import compared_by
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import DatatypeMismatch, UndefinedFunction
from waterclock.sql.binding.ordering import order_sql
from waterclock.sql.binding.predicates import Predicates, key_sql
from waterclock.sql.binding.typed import ANY_OF_GROUP, Composite, Role, Typed
from waterclock.sql.dialect.types import is_array, is_unconstrained, name_of
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.queries import Queries


class InnerQueries:
    """Binds queries inside expressions."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries
        self._expressions = queries.expressions
        self._predicates = Predicates(queries.expressions)

    def _inner(self, query: tree.Query, place: Place) -> tuple[Block, tuple[Typed, ...]]:
        """A query inside an expression, and the columns of ours that it names."""
        scope = place.scope
        before = len(scope.named_from_inside)
        block = self._queries.block(query, scope, self._queries.tables(scope))
        return block, tuple(scope.named_from_inside[before:])

    def scalar(self, query: tree.Query, place: Place, at: int) -> Typed:
        block, named = self._inner(query, place)
        if len(block.outputs) != 1:
            raise SyntaxFault("subquery must return only one column", at)
        [output] = block.outputs
        if block.limit != 1 or block.offset:
            block = _cut_in_rows(block, named)
        sql = _of_group(f"({block.sql(ordered=block.is_limited)})", place, named)
        return self._named(Typed(sql, output.value.type, at, named), place)

    def _named(self, found: Typed, place: Place) -> Typed:
        """A query as a value; as an argument, by a name: the engine takes no query in a lambda."""
        if not place.extends or not place.is_argument:
            return found
        name = self._queries.statement.alias()
        scope = place.scope
        kept = scope.extended_first if place.clause == "WHERE" else scope.extended
        kept.append(f"{found.sql} AS {name}")
        return replace(found, sql=name)

    def row(self, query: tree.Query, width: int, place: Place, at: int) -> Typed:
        """The one row of a query of so many columns; each is a query of its own."""
        block, named = self._inner(query, place)
        if len(block.outputs) != width:
            raise SyntaxFault(f"subquery has too {_few_or_many(block, width)} columns", at)
        names = [f"c{n}" for n in range(1, width + 1)]
        if block.limit != 1 or block.offset:
            block = _cut_in_rows(block, named)
        source = f"({block.sql(ordered=block.is_limited)}) AS q({', '.join(names)})"
        fields = tuple(
            Typed(
                _of_group(f"(SELECT q.{name} FROM {source})", place, named),
                *(output.value.type, at, named),
            )
            for name, output in zip(names, block.outputs, strict=True)
        )
        composite = Composite(tuple(names), is_made=True)
        return Typed("", RECORD, at, fields, role=Role.ROW, composite=composite)

    def exists(self, query: tree.Query, place: Place, at: int) -> Typed:
        block, named = self._inner(query, place)
        block = _cut_in_rows(block, named)
        sql = f"(EXISTS ({block.sql(ordered=block.is_limited)}))"
        return Typed(_of_group(sql, place, named), BOOL, at, named, nullable=False)

    def membership(self, value: Typed, node: tree.In, place: Place) -> Typed:
        assert isinstance(node.items, tree.Query)
        if value.composite is not None and not value.composite.is_made:
            what = "the whole row of a relation in front of IN, ANY or ALL with a query"
            raise FeatureNotSupported.of(what, node.at)
        values = list(value.parts) if value.role is Role.ROW else [value]
        block, named = self._inner(node.items, place)
        if len(block.outputs) != len(values):
            many = _few_or_many(block, len(values))
            raise SyntaxFault(f"subquery has too {many} columns", node.at)
        values = self._brought_in(values, named, place, node.at)
        left, block = self._comparable(values, block, node.at)
        block = _cut_in_rows(block, named)
        if not place.is_conjunct:
            return self._among(left, block, node, named, place)
        one = ", ".join(_member(each) for each in left)
        inside = block.sql(ordered=block.is_limited)
        if any(key_sql(o.value) != o.value.sql for o in block.outputs):
            inner = [replace(o.value, sql=f"q.c{n + 1}") for n, o in enumerate(block.outputs)]
            inside = f"SELECT {', '.join(map(key_sql, inner))} FROM ({inside}) AS q"
        negation = "NOT " if node.negated else ""
        sql = f"(({one}) {negation}IN ({inside}))"
        return Typed(sql, BOOL, node.at, (*left, *named))

    def _brought_in(
        self, values: Sequence[Typed], named: tuple[Typed, ...], place: Place, at: int
    ) -> list[Typed]:
        """The values in front of IN; those of a query around become columns of FROM.

        From two queries further inside the engine does not find columns of a query around.
        """
        if not named and place.is_conjunct:
            return list(values)
        return [self._as_own(each, place, at) for each in values]

    def _as_own(self, value: Typed, place: Place, at: int) -> Typed:
        scope = place.scope
        columns = [part.column for part in value.walk() if part.column is not None]
        if all(column.scope == scope.number for column in columns):
            return value
        is_of_rows = place.clause == "WHERE" or place.extends
        if not is_of_rows or any(column.scope == scope.number for column in columns):
            raise FeatureNotSupported(
                "a column of a query around in front of IN with a subquery is not supported here",
                at,
                hint="Join the relations in FROM instead.",
            )
        name = self._queries.statement.alias()
        scope.brought_in.append(f"{value.sql} AS {name}")
        return replace(value, sql=name)

    def _among(
        self,
        left: list[Typed],
        block: Block,
        node: tree.In,
        named: tuple[Typed, ...],
        place: Place,
    ) -> Typed:
        """IN as a value, which may be null: Spark knows only whether it is true."""
        _require_no_aggregate(left, node.at)
        columns = [replace(o.value, sql=f"q.c{n + 1}") for n, o in enumerate(block.outputs)]
        pairs = zip(left, columns, strict=True)
        equal = " AND ".join(f"({key_sql(one)} = {key_sql(other)})" for one, other in pairs)
        names = ", ".join(f"c{n + 1}" for n in range(len(columns)))
        source = f"SELECT 1 FROM ({block.sql(ordered=block.is_limited)}) AS q({names}) WHERE"
        first, last = ("FALSE", "TRUE") if node.negated else ("TRUE", "FALSE")
        sql = (
            f"(CASE WHEN EXISTS ({source} {equal}) THEN {first}"
            f" WHEN EXISTS ({source} ({equal}) IS NULL) THEN NULL ELSE {last} END)"
        )
        return Typed(_of_group(sql, place, (*left, *named)), BOOL, node.at, (*left, *named))

    def _comparable(self, values: list[Typed], block: Block, at: int) -> tuple[list[Typed], Block]:
        """Values and columns in the types in which `=` compares them."""
        left, right = [], []
        for value, output in zip(values, block.outputs, strict=True):
            equal = self._expressions.operators.apply("=", (value, output.value), at)
            one, other = equal.parts
            same = (one.type.oid, is_unconstrained(one.type))
            if same != (other.type.oid, is_unconstrained(other.type)):
                [one, other], _ = self._expressions.coercion.unified(list(equal.parts), "IN")
            left.append(one)
            right.append(other)
        return left, block.with_values(right)

    def quantified(self, left: Typed, node: tree.Quantified, place: Place) -> Typed:
        assert isinstance(node.right, tree.Query)
        if node.operator in ("=", "<>") and node.is_all == (node.operator == "<>"):
            same = tree.In(node.left, node.right, node.is_all, node.at)
            return self.membership(left, same, place)
        block, named = self._inner(node.right, place)
        block = _cut_in_rows(block, named)
        if left.role is Role.ROW or len(block.outputs) != 1:
            raise SyntaxFault("subquery has too many columns", node.at)
        column = replace(block.outputs[0].value, sql="q.c1", column=None, known=None)
        compared = self._predicates.compared(node.operator, left, column, node.at)
        if compared.type.oid != BOOL.oid:
            what = "op ANY/ALL (array) requires operator to yield boolean"
            raise DatatypeMismatch(what, node.at)
        _require_no_aggregate(compared.parts, node.at)
        source = f"SELECT 1 FROM ({block.sql(ordered=block.is_limited)}) AS q(c1) WHERE"
        decided = f"NOT {compared.sql}" if node.is_all else compared.sql
        first, last = ("FALSE", "TRUE") if node.is_all else ("TRUE", "FALSE")
        sql = (
            f"(CASE WHEN EXISTS ({source} {decided}) THEN {first}"
            f" WHEN EXISTS ({source} {compared.sql} IS NULL) THEN NULL ELSE {last} END)"
        )
        own = tuple(part for part in compared.parts if not part.sql.startswith("q."))
        return Typed(_of_group(sql, place, (*own, *named)), BOOL, node.at, (*own, *named))

    def array(self, query: tree.Query, place: Place, at: int) -> Typed:
        block, named = self._inner(query, place)
        if len(block.outputs) != 1:
            raise SyntaxFault("subquery must return only one column", at)
        declared = block.outputs[0].value.type
        if is_array(declared):
            raise FeatureNotSupported.of("an array of more than one dimension", at)
        if declared.oid == RECORD.oid:
            raise FeatureNotSupported.of("an array of rows", at)
        if name_of(declared) == "json":
            raise UndefinedFunction("could not identify an equality operator for type json", at)
        if block.order or (block.made_in and block.distinct_on is None):
            source, gathered = self._in_order(block, at)
        else:
            source = f"({block.sql()}) AS q(c1)"
            gathered = "ARRAY_SORT(COLLECT_LIST(NAMED_STRUCT('v', q.c1)))"
        sql = f"(SELECT TRANSFORM({gathered}, e -> e.v) FROM {source})"
        return self._named(Typed(sql, array_of(declared), at, named, nullable=False), place)

    def _in_order(self, block: Block, at: int) -> tuple[str, str]:
        """The rows of a query of one column, and an array of them in their order, cut as it says.

        An array is sorted and cut, not the rows: so the query may depend on the one around it.
        """
        if block.with_ties or block.distinct_on is not None or block.cut is not None:
            what = "WITH TIES, DISTINCT ON or a computed LIMIT beside ORDER BY in an ARRAY subquery"
            raise FeatureNotSupported.of(what, at)
        keys = [
            block.outputs[term.key].value if isinstance(term.key, int) else term.key
            for term in block.sorted_by
        ]
        [output] = block.outputs
        inner = [f"{order_sql(key)} AS k{n}" for n, key in enumerate(keys)]
        source = f"({block.write([f'{output.value.sql} AS v', *inner])}) AS q"
        fields = [*(f"'k{n}', q.k{n}" for n in range(len(keys))), "'v', q.v"]
        items = [(f"k{n}", t.descending, t.nulls_first) for n, t in enumerate(block.sorted_by)]
        rows = f"COLLECT_LIST(NAMED_STRUCT({', '.join(fields)}))"
        gathered = f"ARRAY_SORT({rows}, {compared_by(items)})"
        if block.is_limited:
            count = 2**31 - 1 if block.limit is None else block.limit
            gathered = f"SLICE({gathered}, {(block.offset or 0) + 1}, {count})"
        return source, gathered


def _member(value: Typed) -> str:
    """What the engine looks for: no column of floats, of which equal ones may differ."""
    key = key_sql(value)
    return f"({key} + 0D)" if name_of(value.type) in ("float4", "float8") else key


def _cut_in_rows(block: Block, named: tuple[Typed, ...]) -> Block:
    """A query that uses columns of ours, cut by the numbers of its rows for each row of ours.

    The engine would cut the rows for all of ours together.
    """
    if not named or block.cut is not None or block.with_ties or block.distinct_on is not None:
        return block
    if block.limit is None and not block.offset:
        return block
    limit = None if block.limit is None else str(block.limit)
    return replace(block, limit=None, offset=None, cut=Cut(limit, str(block.offset or 0)))


def _few_or_many(block: Block, wanted: int) -> str:
    return "few" if len(block.outputs) < wanted else "many"


def _require_no_aggregate(values: Sequence[Typed], at: int) -> None:
    """The engine takes no aggregate of ours into a query inside."""
    if any(part.role is Role.AGGREGATE for value in values for part in value.walk()):
        raise FeatureNotSupported(
            "an aggregate in front of IN, ANY or ALL with a subquery is not supported",
            at,
            hint="Compute the aggregate in a subquery in FROM, and compare it in WHERE.",
        )


def _of_group(sql: str, place: Place, named: tuple[Typed, ...]) -> str:
    """A subquery that depends on what is grouped by: Spark wants it inside an aggregate.

    It has the same value for all rows of a group, so any of them will do.
    """
    depends = any(part.column is not None for value in named for part in value.walk())
    has_aggregate = any(part.role is Role.AGGREGATE for value in named for part in value.walk())
    if place.has_sets and place.is_grouped and depends and not has_aggregate:
        what = "a subquery that uses a key of GROUPING SETS, ROLLUP or CUBE"
        raise FeatureNotSupported(
            f"{what} is not supported",
            named[0].at,
            hint="Group in a subquery in FROM, and ask the other query of its columns.",
        )
    if place.is_grouped and depends and not has_aggregate:
        return f"{ANY_OF_GROUP}{sql})"
    return sql
