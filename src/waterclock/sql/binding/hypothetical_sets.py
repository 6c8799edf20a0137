"""`rank(x) WITHIN GROUP (ORDER BY y)` and its like: where a row that is not there would be.

Of the rows of a group it counts how many would come before the row that is asked about, and how
many are its peers. So they are counts under a condition, and nothing is sorted.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import FLOAT8, INT8
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import NO_FUNCTION_HINT, UndefinedFunction
from waterclock.sql.binding.ordering import check_sortable, order_sql
from waterclock.sql.binding.typed import Role, Typed, operand
from waterclock.sql.dialect.types import shown
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions

_OF_COUNTS = frozenset({"percent_rank", "cume_dist"})
_HYPOTHETICAL = frozenset({"rank", "dense_rank"}) | _OF_COUNTS


class HypotheticalSets:
    """Binds such aggregates."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def bound(self, node: tree.Call, condition: Typed | None, inner: Place) -> Typed:
        """The aggregate over the rows of a group."""
        name = node.name[-1]
        assert node.within is not None, "the caller has looked"
        given = [self._expressions.bind(each, inner) for each in node.arguments]
        keys = [self._expressions.bind(item.expression, inner) for item in node.within]
        if name not in _HYPOTHETICAL or len(given) != len(keys):
            types = ", ".join(shown(each.type) for each in (*given, *keys))
            message = f"function {name}({types}) does not exist"
            raise UndefinedFunction(message, node.at, hint=NO_FUNCTION_HINT)
        pairs = []
        for asked, key, item in zip(given, keys, node.within, strict=True):
            if any(part.role is not Role.PLAIN for part in asked.walk()):
                raise FeatureNotSupported.of(f"{name}() of the result of an aggregate", asked.at)
            both, declared = self._expressions.coercion.unified([key, asked], "WITHIN GROUP")
            key, asked = (replace(each, type=declared) for each in both)
            check_sortable(key)
            pairs.append((key, asked, item))
        asked_of = tuple(asked for _, asked, _ in pairs if _has_columns(asked))
        texts = [(order_sql(key), order_sql(asked), item) for key, asked, item in pairs]
        write = _written_outside if asked_of and inner.has_sets else _written
        sql = write(name, texts, condition)
        parts = (*(key for key, _, _ in pairs), *([condition] if condition is not None else []))
        result = FLOAT8 if name in _OF_COUNTS else INT8
        found = Typed(operand(sql), result, node.at, parts, nullable=False, role=Role.AGGREGATE)
        if not asked_of:
            return found
        # Columns that the row asked about is made of must be grouped by, as outside an aggregate.
        return Typed(found.sql, result, node.at, (found, *asked_of), nullable=False)


def _has_columns(value: Typed) -> bool:
    return any(part.column is not None for part in value.walk())


Pair = tuple[str, str, tree.SortItem]
"""What is sorted by, what is asked about, and how it is sorted."""


def _written(name: str, keys: list[Pair], condition: Typed | None) -> str:
    behind = "" if condition is None else f" FILTER (WHERE {condition.sql})"
    before, same = _before(keys), _same(keys)
    count = f"COUNT(CASE WHEN {before} THEN 1 END){behind}"
    match name:
        case "rank":
            return f"{count} + 1"
        case "dense_rank":
            row = f"CASE WHEN {before} THEN {_row(keys)} END"
            return f"COUNT(DISTINCT {row}){behind} + 1"
        case "percent_rank":
            of_all = f"COUNT(1){behind}"
            return f"CASE WHEN {of_all} = 0 THEN 0D ELSE CAST({count} AS DOUBLE) / {of_all} END"
        case _:
            up_to = f"COUNT(CASE WHEN {before} OR {same} THEN 1 END){behind}"
            return f"CAST({up_to} + 1 AS DOUBLE) / (COUNT(1){behind} + 1)"


def _written_outside(name: str, keys: list[Pair], condition: Typed | None) -> str:
    """The same with what is asked about outside of the aggregate.

    A key of grouping sets is null there for the sets that it is not in, and only there.
    """
    behind = "" if condition is None else f" FILTER (WHERE {condition.sql})"
    rows = f"COLLECT_LIST({_row(keys)}){behind}"
    of_rows = [(f"e.k{n}", asked, item) for n, (_, asked, item) in enumerate(keys)]
    before = f"FILTER({rows}, e -> {_before(of_rows)})"
    match name:
        case "rank":
            return f"CAST(SIZE({before}) AS BIGINT) + 1"
        case "dense_rank":
            return f"CAST(SIZE(ARRAY_DISTINCT({before})) AS BIGINT) + 1"
        case "percent_rank":
            share = f"CAST(SIZE({before}) AS DOUBLE) / SIZE({rows})"
            return f"CASE WHEN SIZE({rows}) = 0 THEN 0D ELSE {share} END"
        case _:
            up_to = f"SIZE(FILTER({rows}, e -> {_before(of_rows)} OR {_same(of_rows)}))"
            return f"CAST({up_to} + 1 AS DOUBLE) / (SIZE({rows}) + 1)"


def _row(keys: list[Pair]) -> str:
    fields = ", ".join(f"'k{n}', {key}" for n, (key, _, _) in enumerate(keys))
    return f"NAMED_STRUCT({fields})"


def _before(keys: list[Pair]) -> str:
    """Whether a row comes before the one asked about; never null."""
    (one, other, item), *rest = keys
    nulls_first = item.descending if item.nulls_first is None else item.nulls_first
    sign = ">" if item.descending else "<"
    first, last = ("TRUE", "FALSE") if nulls_first else ("FALSE", "TRUE")
    is_before = (
        f"CASE WHEN {one} <=> {other} THEN FALSE WHEN {one} IS NULL THEN {first}"
        f" WHEN {other} IS NULL THEN {last} ELSE {one} {sign} {other} END"
    )
    if not rest:
        return f"({is_before})"
    return f"({is_before} OR ({one} <=> {other} AND {_before(rest)}))"


def _same(keys: list[Pair]) -> str:
    tests = [f"{one} <=> {other}" for one, other, _ in keys]
    return f"({' AND '.join(tests)})"
