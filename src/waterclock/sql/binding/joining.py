"""Columns of a join: those that USING and NATURAL make one, and those that may be null behind it.

A pair of columns that is joined by shows as one, which stands first. It is the column of the side
that is always there; of a FULL JOIN it is the one that is not null.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import PgType
from waterclock.sql.binding.errors import AmbiguousColumn, DuplicateColumnName, UndefinedColumn
from waterclock.sql.binding.named_sources import Source
from waterclock.sql.binding.scope import Relation
from waterclock.sql.binding.typed import Column, Typed, operand
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions


def shared(item: tree.Join, left: Source, right: Source) -> list[tuple[Column, Column]] | None:
    """The pairs of columns that USING or NATURAL joins by; None without either."""
    if item.is_natural:
        names = [
            (column.name, item.at)
            for column in left.visible
            if any(other.name == column.name for other in right.visible)
        ]
    elif item.using is not None:
        names = list(item.using)
    else:
        return None
    seen: set[str] = set()
    pairs = []
    for name, at in names:
        if name in seen:
            what = f'column name "{name}" appears more than once in USING clause'
            raise DuplicateColumnName(what, at)
        seen.add(name)
        pairs.append((_only(left, name, "left", at), _only(right, name, "right", at)))
    return pairs


def merged(
    item: tree.Join,
    left: Source,
    right: Source,
    pairs: list[tuple[Column, Column]],
    expressions: Expressions,
) -> Source:
    """The join by these pairs, of which one column each is shown, in front of the others."""
    coercion = expressions.coercion
    conditions: list[str] = []
    columns: list[Column] = []
    for one, other in pairs:
        values = (_value(one, item.at), _value(other, item.at))
        equal = expressions.operators.apply("=", values, item.at)
        conditions.append(equal.sql)
        both, declared = coercion.unified(list(values), "JOIN/USING")
        columns.append(_merged_column(item.kind, one, other, both, declared))
    taken = {id(column) for pair in pairs for column in pair}
    rest = [c for c in (*left.visible, *right.visible) if id(c) not in taken]
    relations = (*left.relations, *right.relations)
    if item.alias is not None:
        relations = (*relations, Relation(item.alias.name, tuple(columns)))
    kind = item.kind.value
    on = f" ON {' AND '.join(conditions)}" if conditions else ""
    if not conditions and kind == "INNER":
        kind = "CROSS"
    elif not conditions:
        on = " ON TRUE"
    spine = f"{left.spine} {kind} JOIN {right.sql}{on}"
    return Source(f"({spine})", relations, (*columns, *rest), opened=spine)


def _value(column: Column, at: int) -> Typed:
    return Typed(column.sql, column.type, at, nullable=column.nullable, column=column)


def _only(source: Source, name: str, side: str, at: int) -> Column:
    found = [column for column in source.visible if column.name == name]
    if not found:
        raise UndefinedColumn(
            f'column "{name}" specified in USING clause does not exist in {side} table', at
        )
    if len(found) > 1:
        raise AmbiguousColumn(
            f'common column name "{name}" appears more than once in {side} table', at
        )
    return found[0]


def _merged_column(
    kind: tree.JoinKind, one: Column, other: Column, both: list[Typed], declared: PgType
) -> Column:
    """The one column that stands for both: that of the side which is always there."""
    left, right = both
    match kind:
        case tree.JoinKind.FULL:
            sql, nullable = f"COALESCE({left.sql}, {right.sql})", one.nullable and other.nullable
            kept = replace(one, table_oid=0, number=0)
        case tree.JoinKind.RIGHT:
            sql, nullable, kept = right.sql, other.nullable, other
        case _:
            sql, nullable, kept = left.sql, one.nullable, one
    stored_as = kept.stored_as if sql == kept.sql else None
    return replace(kept, sql=operand(sql), type=declared, nullable=nullable, stored_as=stored_as)


def with_nulls(kind: tree.JoinKind, left: Source, right: Source) -> tuple[Source, Source]:
    """The sides, with columns that an outer join may fill with nulls marked so."""
    if kind in (tree.JoinKind.RIGHT, tree.JoinKind.FULL):
        left = _nullable(left)
    if kind in (tree.JoinKind.LEFT, tree.JoinKind.FULL):
        right = _nullable(right)
    return left, right


def _witness(relation: Relation) -> str | None:
    """A column that is never null while there is a row."""
    if relation.is_padded:
        return None
    return next((column.sql for column in relation.columns if not column.nullable), None)


def _nullable(source: Source) -> Source:
    changed = {
        id(column): replace(column, nullable=True)
        for column in (
            *source.visible,
            *(column for relation in source.relations for column in relation.columns),
        )
    }
    relations = tuple(
        replace(
            relation,
            columns=tuple(changed[id(c)] for c in relation.columns),
            is_padded=True,
            witness=relation.witness or _witness(relation),
        )
        for relation in source.relations
    )
    return Source(source.sql, relations, tuple(changed[id(c)] for c in source.visible))
