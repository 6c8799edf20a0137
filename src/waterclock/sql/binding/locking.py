"""FOR UPDATE and FOR SHARE: which queries may have them.

Nothing is locked. A query that asks for it says so (`BoundQuery.locks`), and whoever runs it lets
its transaction end well only if nothing that it has read was changed meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable

from waterclock.sql.binding.blocks import Block
from waterclock.sql.binding.errors import UndefinedRelation
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.set_calls import calls_in
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.typed import Role
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree


def note_locks(
    query: tree.Query,
    block: Block,
    scope: Scope,
    statement: Statement,
    is_set_returning: Callable[[tree.Expression], bool],
) -> None:
    """Remember what a query locks; raises as PostgreSQL does if its rows are none of a relation."""
    for lock in query.locks:
        if statement.maintained:
            raise FeatureNotSupported.of(f"{lock.words} in a view", lock.at)
        clause = _not_with(query.body, block, is_set_returning)
        if clause is not None:
            raise FeatureNotSupported(f"{lock.words} is not allowed with {clause}", lock.at)
        for name, at in lock.relations:
            if scope.relation((name,)) is None:
                what = f'relation "{name}" in {lock.words} clause not found in FROM clause'
                raise UndefinedRelation(what, at)
        statement.locks = True


def _not_with(
    body: tree.Body, block: Block, is_set_returning: Callable[[tree.Expression], bool]
) -> str | None:
    """What in the query stands in the way, if something does."""
    if isinstance(body, tree.SetOperation):
        return "UNION/INTERSECT/EXCEPT"
    if isinstance(body, tree.Values):
        return "VALUES"
    roles = {part.role for output in block.outputs for part in output.value.walk()}
    calls = [call for item in body.items for call in calls_in(item.expression)]
    for is_there, clause in (
        (body.distinct_on is not None, "DISTINCT clause"),
        (body.group_by is not None, "GROUP BY clause"),
        (body.having is not None, "HAVING clause"),
        (Role.AGGREGATE in roles, "aggregate functions"),
        (Role.WINDOW in roles, "window functions"),
        (any(map(is_set_returning, calls)), "set-returning functions in the target list"),
    ):
        if is_there:
            return clause
    return None
