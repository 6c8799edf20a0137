"""WITH RECURSIVE: a query that begins with some rows and goes on from those it has found.

The engine has it for UNION ALL, and runs it step by step until one gives no rows. With UNION, equal
rows are left out at the end, and each row knows those that it followed from: one that is among them
is not followed again. What follows from a row does not depend on others, so whatever can be reached
is reached without going around a cycle, and it ends where PostgreSQL's does. But a row that can be
reached in many ways is followed in each of them. What PostgreSQL refuses in the recursive term is
refused here with its words.

The types of the columns are those of the first term. Numerics are held without a fixed number of
digits, for a step may need more of them than the first rows have.

A view can not have it, since it may be maintained: nothing here takes a row back that others
followed from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import NUMERIC, PgType
from waterclock.sql.binding.api import BoundColumn
from waterclock.sql.binding.blocks import Block
from waterclock.sql.binding.errors import DatatypeMismatch, InvalidRecursion
from waterclock.sql.binding.ordering import check_groupable
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.representatives import has_twins
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.typed import Role, Typed
from waterclock.sql.dialect.types import name_of, shown
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.queries import CommonTables, Queries

MOST_STEPS = 1_000
_PATH = "p"
"""The column of rows that a row followed from."""
_HINT = "Only queries that are read once can be recursive; store the rows of one in a table."
_CAST_HINT = "Cast the output of the non-recursive term to the correct type."


class Recursion:
    """Binds queries of WITH RECURSIVE that name themselves."""

    def __init__(self, queries: Queries) -> None:
        self._queries = queries

    def bound(
        self, table: tree.CommonTable, outer: Scope | None, tables: CommonTables
    ) -> tuple[str, tuple[BoundColumn, ...]]:
        """The query's SQL, and its columns under the names that they have of themselves."""
        statement = self._queries.statement
        if statement.maintained:
            raise FeatureNotSupported(
                "WITH RECURSIVE in a view is not supported",
                table.at,
                hint=_HINT,
            )
        union = _union(table)
        tables = self._queries.with_tables(table.query, outer, tables)
        first = self._queries.block(union.left, outer, tables)
        first = first.with_values([self._widened(output.value) for output in first.outputs])
        columns = tuple(
            BoundColumn(column.name, column.type, nullable=True) for column in first.columns()
        )
        name = f"r{statement.alias()}"
        step = self._step(table, union, outer, tables, (name, columns))
        step = self._fitted(table.name, first, step)
        names = ", ".join(f"c{n + 1}" for n in range(len(columns)))
        if union.is_all:
            both = f"({first.sql(ordered=first.is_limited)}) UNION ALL ({step.sql(ordered=False)})"
            head = f"WITH RECURSIVE {name}({names}) MAX RECURSION LEVEL {MOST_STEPS}"
            return f"{head} AS ({both}) SELECT * FROM {name}", columns
        self._check_distinct(first)
        both = _without_cycles(name, names, first, step)
        head = f"WITH RECURSIVE {name}({names}, {_PATH}) MAX RECURSION LEVEL {MOST_STEPS}"
        return f"{head} AS ({both}) SELECT DISTINCT {names} FROM {name}", columns

    def _widened(self, value: Typed) -> Typed:
        if name_of(value.type) != "numeric":
            return value
        return self._queries.expressions.coercion.into(value, NUMERIC)

    def _step(
        self,
        table: tree.CommonTable,
        union: tree.SetOperation,
        outer: Scope | None,
        tables: CommonTables,
        itself: tuple[str, tuple[BoundColumn, ...]],
    ) -> Block:
        """The recursive term, in which the query's name means the rows of the step before."""
        name, columns = itself
        own = self._queries.common_table(f"SELECT * FROM {name}", columns, table)
        step = self._queries.open_block(union.right, outer, {**tables, table.name: own})
        if step.is_limited or step.distinct_on is not None:
            what = "LIMIT or DISTINCT in the recursive term of WITH RECURSIVE"
            raise FeatureNotSupported.of(what, union.right.at)
        for part in (part for output in step.outputs for part in output.value.walk()):
            if part.role is Role.AGGREGATE:
                what = "aggregate functions are not allowed in a recursive query's recursive term"
                raise InvalidRecursion(what, part.at)
            if part.role is Role.WINDOW:
                what = "a window function in the recursive term of WITH RECURSIVE"
                raise FeatureNotSupported.of(what, part.at)
        if len(step.outputs) != len(columns):
            at = next((output.value.at for output in step.outputs), union.right.at)
            raise SyntaxFault("each UNION query must have the same number of columns", at)
        return step

    def _fitted(self, name: str, first: Block, step: Block) -> Block:
        """The recursive term with the types of the first one; an error if it has others."""
        coercion = self._queries.expressions.coercion
        values = []
        pairs = zip(first.outputs, step.outputs, strict=True)
        for number, (one, other) in enumerate(pairs, start=1):
            common = coercion.common_type([one.value, other.value], "UNION")
            if common.oid != one.value.type.oid:
                raise DatatypeMismatch(
                    f'recursive query "{name}" column {number} has type'
                    f" {shown(one.value.type)} in non-recursive term but type {shown(common)}"
                    " overall",
                    one.value.at,
                    hint=_CAST_HINT,
                )
            values.append(coercion.into(other.value, _kept(one.value.type, common)))
        return step.with_values(values)

    def _check_distinct(self, block: Block) -> None:
        for output in block.outputs:
            check_groupable(output.value)
            if has_twins(output.value):
                what = f"a column of type {shown(output.value.type)} in a recursive UNION"
                raise FeatureNotSupported.of(what, output.value.at)


def _without_cycles(name: str, names: str, first: Block, step: Block) -> str:
    """Both terms with the column of rows that each row followed from, itself being the last."""
    start = first.sql(ordered=first.is_limited)
    itself = f"(SELECT * FROM {name}) AS "
    written = step.write(
        [
            *(f"{output.value.sql} AS c{n + 1}" for n, output in enumerate(step.outputs)),
            f"\x00.{_PATH} AS {_PATH}",
        ]
    )
    # The relation that stands for the rows of the step before is not told about the column.
    before, _, behind = written.partition(itself)
    alias, _, rest = behind.partition("(")
    assert rest.startswith(f"{names})"), "the recursive reference is one relation of the step"
    further = f"{before}{itself}{alias}({names}, {_PATH}){rest.removeprefix(f'{names})')}"
    further = further.replace("\x00", alias)
    # A field that may be null in one term may be null in both.
    parts = ", ".join(
        f"'f{n + 1}', NULLIF({key_sql(replace(output.value, sql=f'x.c{n + 1}'))}, NULL)"
        for n, output in enumerate(first.outputs)
    )
    row = f"NAMED_STRUCT({parts})"
    shown = ", ".join(f"x.c{n + 1}" for n in range(len(first.outputs)))
    return (
        f"(SELECT {shown}, ARRAY({row}) AS {_PATH} FROM ({start}) AS x({names})) UNION ALL"
        f" (SELECT {shown}, ARRAY_APPEND(x.{_PATH}, {row}) AS {_PATH}"
        f" FROM ({further}) AS x({names}, {_PATH}) WHERE NOT ARRAY_CONTAINS(x.{_PATH}, {row}))"
    )


def _kept(first: PgType, common: PgType) -> PgType:
    return NUMERIC if name_of(common) == "numeric" else first


# --- What the terms may be ------------------------------------------------------------------------


def _union(table: tree.CommonTable) -> tree.SetOperation:
    """The two terms; raises what is wrong with them."""
    query, name = table.query, table.name
    body = query.body
    if not isinstance(body, tree.SetOperation) or body.operator is not tree.SetOperator.UNION:
        raise InvalidRecursion(
            f'recursive query "{name}" does not have the form non-recursive-term UNION [ALL]'
            " recursive-term",
            table.at,
        )
    for place in references(query.with_, name):
        raise FeatureNotSupported.of("a recursive reference in WITH inside its query", place)
    for place in references(body.left, name):
        raise _misplaced(name, "within its non-recursive term", place)
    if query.order:
        what = "ORDER BY in a recursive query is not implemented"
        raise FeatureNotSupported(what, query.order[0].expression.at)
    for clause, value in (("LIMIT", query.limit), ("OFFSET", query.offset)):
        if value is not None:
            what = f"{clause} in a recursive query is not implemented"
            raise FeatureNotSupported(what, value.at)
    _check_step(body.right, name)
    return body


def _check_step(step: tree.Query, name: str) -> None:
    places = list(references(step, name))
    if len(places) > 1:
        raise _misplaced(name, "more than once", places[1])
    [place] = places
    if not isinstance(step.body, tree.Select) or step.with_ is not None:
        what = "such a recursive term of WITH RECURSIVE"
        raise FeatureNotSupported.of(what, step.at)
    if not any(_stands_in(item, name, place) for item in step.body.sources):
        raise _misplaced(name, "within a subquery", place)
    if step.body.group_by is not None or step.body.having is not None:
        what = "GROUP BY in the recursive term of WITH RECURSIVE"
        raise FeatureNotSupported.of(what, step.at)


def _stands_in(item: tree.FromItem, name: str, place: int) -> bool:
    """Whether the reference is a relation of FROM here, where a join can not leave it out."""
    match item:
        case tree.Table():
            return item.name == (name,)
        case tree.Join():
            in_left = _stands_in(item.left, name, place)
            in_right = not in_left and _stands_in(item.right, name, place)
            padded = {
                tree.JoinKind.LEFT: in_right,
                tree.JoinKind.RIGHT: in_left,
                tree.JoinKind.FULL: in_left or in_right,
            }
            if padded.get(item.kind, False):
                raise _misplaced(name, "within an outer join", place)
            return in_left or in_right
        case tree.Derived():
            if any(references(item.query, name)):
                what = "a recursive reference in a subquery in FROM"
                raise FeatureNotSupported.of(what, place)
            return False
        case _:
            return False


def _misplaced(name: str, where: str, at: int) -> InvalidRecursion:
    return InvalidRecursion(f'recursive reference to query "{name}" must not appear {where}', at)


def references(node: object, name: str) -> Iterator[int]:
    """Where a relation is named without a schema, in a tree, and no WITH inside means another."""
    if isinstance(node, tree.Table):
        if node.name == (name,):
            yield node.at
    elif isinstance(node, tree.With):
        for table in _outside_redefinition(node, name):
            yield from references(table.query, name)
    elif isinstance(node, tree.Query) and _redefines(node.with_, name):
        yield from references(node.with_, name)
    elif isinstance(node, tuple):
        for each in node:
            yield from references(each, name)
    elif is_dataclass(node):
        for field in fields(node):
            yield from references(getattr(node, field.name), name)


def _redefines(with_: tree.With | None, name: str) -> bool:
    return with_ is not None and any(table.name == name for table in with_.tables)


def _outside_redefinition(with_: tree.With, name: str) -> Sequence[tree.CommonTable]:
    """The queries of a WITH in which the name is still that of something outside of it."""
    if not _redefines(with_, name):
        return with_.tables
    if with_.is_recursive:
        return ()
    last = next(n for n, table in enumerate(with_.tables) if table.name == name)
    return with_.tables[: last + 1]
