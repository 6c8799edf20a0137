"""A part of FROM, and a relation under the name that the query knows it by.

Every relation gets an alias of its own, and its columns are renamed `c1`, `c2` and so on in the
order they have. So no name of a user's reaches Spark, and none is looked up twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from waterclock.sql.binding.api import BoundColumn
from waterclock.sql.binding.errors import InvalidColumnReference
from waterclock.sql.binding.row_order import UNKNOWN_ORDER, RowOrder
from waterclock.sql.binding.scope import Relation, Scope
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.typed import Column
from waterclock.sql.query import tree


@dataclass(frozen=True, slots=True)
class Source:
    """A part of FROM: its SQL, its relations, and the columns that can be named alone."""

    sql: str
    relations: tuple[Relation, ...]
    visible: tuple[Column, ...]
    order: RowOrder = UNKNOWN_ORDER
    opened: str = ""
    """Of a join, the SQL without the brackets around it."""

    @property
    def spine(self) -> str:
        """The SQL where something stands on the left of it."""
        return self.opened or self.sql


def named(
    statement: Statement,
    sql: str,
    columns: Sequence[BoundColumn],
    name: tuple[str, ...] | None,
    alias: tree.Alias | None,
    scope: Scope,
    *,
    is_stored: bool = False,
    order: RowOrder = UNKNOWN_ORDER,
    width: int = 0,
) -> Source:
    """A relation under its name or alias, if it has one of them.

    There may be columns behind those that are named.
    """
    own = None if name is None else name[-1]
    names = _renamed([column.name for column in columns], alias, own or "")
    known_as = own if alias is None else alias.name
    engine_name = statement.alias()
    made = tuple(
        Column(
            names[place],
            f"{engine_name}.c{place + 1}",
            column.type,
            scope.number,
            column.nullable,
            known_as,
            column.table_oid,
            column.column_number,
            column.name if is_stored else None,
            column.is_declared,
        )
        for place, column in enumerate(columns)
    )
    inner = ", ".join(f"c{place + 1}" for place in range(max(len(made), width)))
    statement.meter.read()
    statement.meter.check_translation(len(sql))
    text = f"{sql} AS {engine_name}" + (f"({inner})" if made else "")
    whole, hidden = (name or (), None) if alias is None else ((), own)
    relation = Relation(known_as, made, whole, hidden_name=hidden)
    return Source(text, (relation,), made, order.under(engine_name))


def _renamed(names: list[str], alias: tree.Alias | None, relation: str) -> list[str]:
    if alias is None or not alias.columns:
        return names
    if len(alias.columns) > len(names):
        raise InvalidColumnReference(
            f'table "{alias.name or relation}" has {len(names)} columns available'
            f" but {len(alias.columns)} columns specified",
            alias.at,
        )
    return [*alias.columns, *names[len(alias.columns) :]]
