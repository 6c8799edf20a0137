"""A SELECT that only picks rows of one collection, or counts them: no engine is needed for it.

It reads one relation, which is stored; it shows and sorts by columns of it as they are held; its
conditions are comparisons that `simple` knows. Whatever else a query has, it is left to the engine.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.model.ids import GlobalId
from waterclock.sql.binding.api import Comparison, SimpleQuery
from waterclock.sql.binding.blocks import Block
from waterclock.sql.binding.clauses import Clauses
from waterclock.sql.binding.grouping import Groups
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.types import is_array, name_of
from waterclock.sql.query import tree

_SORTED_BY_A_KEY = frozenset({"jsonb", "interval", "bpchar"})
"""Types whose values are not sorted as they are held."""


def picked(
    select: tree.Select,
    block: Block,
    clauses: Clauses,
    scope: Scope,
    reads: Sequence[GlobalId],
) -> SimpleQuery | None:
    """The block as one that only picks rows, if it is; without its limits."""
    if select.distinct_on is not None or len(scope.relations) != 1 or select.having is not None:
        return None
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
