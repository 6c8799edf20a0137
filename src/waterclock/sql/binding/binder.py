"""The entry points: a whole query, or an expression over columns that are given."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa

from waterclock.model.pg_types import PgType, column_type
from waterclock.persist.rows import arrow_type
from waterclock.sql.binding.api import (
    BoundColumn,
    BoundExpression,
    BoundQuery,
    BoundRelation,
    Context,
    Resolver,
)
from waterclock.sql.binding.blocks import Block
from waterclock.sql.binding.coercion import Coercion
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import UndefinedRelation
from waterclock.sql.binding.parts import Parts
from waterclock.sql.binding.queries import Queries, Targets
from waterclock.sql.binding.scope import Relation, Scope
from waterclock.sql.binding.statement import Parameters, Statement
from waterclock.sql.binding.typed import Column, Known, Typed
from waterclock.sql.budget import Meter
from waterclock.sql.dialect.facts import SessionFacts
from waterclock.sql.dialect.types import (
    UNKNOWN,
    is_array,
    is_unconstrained,
    name_of,
    spark_type,
)
from waterclock.sql.errors import FeatureNotSupported, SqlFault, SyntaxFault
from waterclock.sql.query import parse_expression, parse_query, tree


class NoRelations:
    """A resolver for where there is nothing to look up."""

    def relation(self, parts: tuple[str, ...], position: int) -> BoundRelation:
        raise UndefinedRelation(f'relation "{".".join(parts)}" does not exist', position)

    def described(self, parts: tuple[str, ...], position: int) -> BoundRelation:
        return self.relation(parts, position)


@contextmanager
def positions_from(position: int) -> Iterator[None]:
    """Positions of errors count from where the text begins in the whole statement."""
    try:
        yield
    except SqlFault as fault:
        if fault.position is not None:
            fault.position += position - 1
        raise


def bind_query(
    text: str,
    position: int,
    resolver: Resolver,
    *,
    facts: SessionFacts,
    parameter_types: Sequence[PgType | None] = (),
    parameters: Sequence[pa.Scalar | None] | None = None,
    maintained: bool = False,
    target_types: Sequence[PgType | None] = (),
    target_names: Sequence[str] = (),
    assigned: Sequence[int] | None = None,
    meter: Meter | None = None,
    parts: Parts | None = None,
) -> BoundQuery:
    """The query in Spark SQL; raises a `SqlFault` or what the resolver does.

    `parameters` are values for `$1`, `$2` and so on; without them only types are found, and `sql`
    has nulls in their places. `target_types` are those of the columns that the query's columns go
    into, which are converted as by an assignment. `assigned` are the places of the columns that a
    change of the first relation sets; behind their new values stands what RETURNING shows.

    With `parts`, which belong to a larger statement, they are not written out in `sql`: whoever
    has them does that.
    """
    meter = meter or Meter()
    given = Parameters(parameter_types, parameters)
    statement = Statement(resolver, facts, given, maintained, meter, parts or Parts())
    with positions_from(position):
        queries = Queries(statement)
        query = parse_query(text, meter)
        if assigned is not None:
            assert isinstance(query.body, tree.Select), "a change reads by a plain SELECT"
            query = replace(query, body=replace(query.body, assigned=tuple(assigned)))
        targets = Targets(tuple(target_types), tuple(target_names))
        block = queries.open_block(query, None, {}, targets)
        block = _assigned(queries, block, targets)
        settle = queries.expressions.coercion.settled
        block = block.with_values([settle(output.value) for output in block.outputs])
        bound = _bound(block, statement)
    if parts is not None:
        return bound
    return statement.parts.assembled(bound, maintained, meter)


def _assigned(queries: Queries, block: Block, targets: Targets) -> Block:
    if not targets.types:
        return block
    if len(block.outputs) > len(targets.types):
        at = block.outputs[len(targets.types)].value.at
        raise SyntaxFault("INSERT has more expressions than target columns", at)
    values = [output.value for output in block.outputs]
    changed = False
    for place, (given, wanted, name) in enumerate(targets.each(values)):
        if wanted is None:
            continue
        value = queries.expressions.coercion.assigned(given, wanted, name)
        changed |= value.sql != given.sql
        values[place] = value
    return replace(block.with_values(values), simple=None if changed else block.simple)


def _bound(block: Block, statement: Statement) -> BoundQuery:
    columns = block.columns()
    if not columns and statement.maintained:
        raise FeatureNotSupported.of("a maintained query without columns")
    statement.meter.budget.check_columns(len(columns))
    row = _constant_row(block)
    block = block.with_values([_held(output.value) for output in block.outputs])
    return BoundQuery(
        sql=block.sql(_names(columns)),  # of one column, which nobody sees, if there are none
        columns=columns,
        reads=tuple(statement.reads),
        parameters=statement.parameters.types(),
        is_ordered=bool(block.order),
        uses_now=statement.uses_now,
        uses_mz_now=statement.uses_mz_now,
        nondeterministic=tuple(statement.nondeterministic),
        locks=statement.locks,
        limit=block.limit,
        offset=block.offset,
        simple=block.simple if columns else None,
        row=row,
        order=_shown_order(block),
        whole_results=tuple(statement.whole_results),
    )


def _shown_order(block: Block) -> tuple[tuple[int, bool, bool | None], ...]:
    """The sort keys that are output columns, up to the first that is not."""
    found = []
    for term in block.order:
        if not isinstance(term.key, int):
            break
        found.append((term.key, term.descending, term.nulls_first))
    return tuple(found)


def _constant_row(block: Block) -> tuple[pa.Scalar, ...] | None:
    """The values of the only row of a query without FROM, if all of them are known already."""
    if block.sql(["c"] * len(block.outputs)) != _bare([output.value for output in block.outputs]):
        return None
    scalars = [_scalar(output.value) for output in block.outputs]
    return None if any(scalar is None for scalar in scalars) else tuple(scalars)


def _bare(values: Sequence[Typed]) -> str:
    return f"SELECT {', '.join(f'{value.sql} AS c' for value in values)}"


def _scalar(value: Typed) -> pa.Scalar | None:
    if value.known is None:
        return None
    if value.known.is_null:
        return pa.scalar(None, arrow_type(column_type(value.type)))
    return pa.scalar(value.known.text) if value.known.scalar is None else value.known.scalar


def _held(value: Typed) -> Typed:
    """The value as Arrow is to hold it: any part of it may be null, even if none can be."""
    is_struct = name_of(value.type) == "interval" or is_unconstrained(value.type)
    if is_array(value.type) or is_struct:
        return replace(value, sql=f"CAST({value.sql} AS {spark_type(value.type)})")
    return value


def _names(columns: Sequence[BoundColumn]) -> list[str]:
    """Names for Spark, which tells them apart by letters only and must have each once."""
    wanted = [column.name for column in columns]
    if len({name.lower() for name in wanted}) < len(wanted):
        return [f"c{n + 1}" for n in range(len(wanted))]
    return ["`" + name.replace("`", "``") + "`" for name in wanted]


def bind_expression(
    text: str,
    columns: Sequence[BoundColumn] = (),
    *,
    facts: SessionFacts,
    position: int = 1,
    resolver: Resolver | None = None,
    parameter_types: Sequence[PgType | None] = (),
    parameters: Sequence[pa.Scalar | None] | None = None,
    relation: str | None = None,
    clause: str = "this expression",
    target: PgType | None = None,
    maintained: bool = False,
    meter: Meter | None = None,
) -> BoundExpression:
    """An expression over columns, which may also be named behind the `relation`.

    With a `target` it is converted as by an assignment.
    """
    meter = meter or Meter()
    values = Parameters(parameter_types, parameters)
    statement = Statement(resolver or NoRelations(), facts, values, maintained, meter)
    with positions_from(position):
        queries = Queries(statement)
        scope = Scope(statement.scope())
        made = tuple(_given(column, scope) for column in columns)
        scope.add(Relation(relation, made), position)
        scope.visible = list(made)
        value = queries.expressions.bind(parse_expression(text, meter), Place(scope, clause))
        if target is not None:
            value = queries.expressions.coercion.assigned(value, target, None)
        is_unknown = value.is_unknown and value.known is not None
        value = queries.expressions.coercion.settled(value)
        return BoundExpression(
            value.sql,
            value.type,
            value.nullable,
            is_unknown,
            statement.parameters.types(),
            statement.uses_now,
            statement.uses_mz_now,
            tuple(statement.nondeterministic),
        )


def _given(column: BoundColumn, scope: Scope) -> Column:
    sql = "`" + column.name.replace("`", "``") + "`"
    return Column(column.name, sql, column.type, scope.number, column.nullable)


def coerce(
    bound: BoundExpression, target: PgType, context: Context, *, facts: SessionFacts
) -> BoundExpression:
    """The expression in another type; raises if the conversion is not allowed in the context."""
    statement = Statement(NoRelations(), facts, Parameters((), None), False)
    known, declared = None, bound.type
    if bound.is_unknown:
        known, declared = Known(text=_unquoted(bound.sql)), UNKNOWN
    value = Typed(bound.sql, declared, 1, nullable=bound.nullable, known=known)
    found = Coercion(statement).coerce(value, target, context)
    return replace(bound, sql=found.sql, type=found.type, is_unknown=False)


def _unquoted(sql: str) -> str | None:
    """The text of a string constant as we write it; None for a null."""
    if not sql.startswith("'"):
        return None
    return sql[1:-1].replace("\\u0024", "$").replace("\\'", "'").replace("\\\\", "\\")
