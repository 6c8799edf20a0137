"""RETURNING: the names of an UPDATE or DELETE once the rows are changed.

What a change reads is one query: the columns of the target, the new values, and what RETURNING
shows. There the target's columns mean the new values, and all other relations what they meant
before. So the list is bound in a scope of its own, in which a column that is assigned is the
expression of its new value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from waterclock.sql.binding.blocks import Output
from waterclock.sql.binding.coercion import Coercion
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.typed import Column


def after_change(
    scope: Scope,
    outputs: Sequence[Output],
    assigned: Sequence[int],
    coercion: Coercion,
    statement: Statement,
) -> tuple[list[Output], Scope]:
    """The outputs with new values in the types of their columns, and the scope of RETURNING.

    The first relation of the scope is the one that is changed; the outputs are its columns, then
    the new values of those at the places that are assigned. What may be another value each time
    that it is asked for is computed once, before the select list.
    """
    target = scope.relations[0]
    found = list(outputs)
    new: dict[Column, Column] = {}
    for number, place in enumerate(assigned, start=len(target.columns)):
        column = target.columns[place]
        value = coercion.assigned(found[number].value, column.type, column.name)
        if statement.nondeterministic:
            name = statement.alias()
            scope.extended.append(f"{value.sql} AS {name}")
            value = replace(value, sql=name, known=None)
        found[number] = replace(found[number], value=value)
        new[column] = replace(column, sql=value.sql, nullable=True, stored_as=None)
    changed = replace(target, columns=tuple(new.get(each, each) for each in target.columns))
    return found, Scope(
        scope.number,
        scope.outer,
        [changed, *scope.relations[1:]],
        [new.get(each, each) for each in scope.visible],
        scope.named_from_inside,
    )
