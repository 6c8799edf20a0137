"""LIMIT and OFFSET.

A number that is known is the engine's own limit. One that has to be computed, as by a query, is
compared with the numbers of the rows instead (`blocks.Cut`): so it is of the same time as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from waterclock.model.pg_types import INT8
from waterclock.sql.binding.api import Context, SimpleQuery
from waterclock.sql.binding.blocks import Block, Cut
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.errors import Rejected
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.typed import Typed
from waterclock.sql.dialect.faults import raised
from waterclock.sql.errors import FeatureNotSupported, SyntaxFault
from waterclock.sql.query import tree

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions

_MOST_ROWS = 2**31 - 1
_NEGATIVE = {"LIMIT": "2201W", "OFFSET": "2201X"}


class Limits:
    """Binds LIMIT and OFFSET."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions

    def limited(self, block: Block, query: tree.Query, scope: Scope) -> Block:
        """The block, cut as its query says."""
        limit = self._count(query.limit, "LIMIT", scope)
        offset = self._count(query.offset, "OFFSET", scope)
        if query.with_ties:
            if not query.order:
                raise SyntaxFault("WITH TIES cannot be specified without ORDER BY clause", query.at)
            if offset or block.distinct_on is not None or isinstance(limit, Typed):
                what = "WITH TIES with OFFSET, DISTINCT ON or a computed number"
                raise FeatureNotSupported.of(what, query.at)
        if isinstance(limit, Typed) or isinstance(offset, Typed):
            cut = Cut(_written(limit, "LIMIT"), f"COALESCE({_written(offset, 'OFFSET') or 0}, 0)")
            return replace(block, cut=cut, simple=None)
        limited = replace(
            block, limit=limit, offset=offset, with_ties=query.with_ties and limit is not None
        )
        return replace(limited, simple=_with_limits(limited))

    def _count(self, node: tree.Expression | None, clause: str, scope: Scope) -> int | Typed | None:
        """A number, or what is to be computed; None if there is no limit."""
        if node is None:
            return None
        place = Place(Scope(scope.number), clause)
        found = _whole_number(node)
        written = node if found is None else tree.Number(str(found), node.at)
        value = self._expressions.coercion.coerce(
            self._expressions.bind(written, place), INT8, Context.ASSIGNMENT
        )
        if value.parameter is not None:
            return None
        scalar = None if value.known is None else value.known.scalar
        if scalar is None:
            return value
        if not scalar.is_valid:
            return None
        count = int(scalar.as_py())
        if count < 0:
            raise Rejected(_NEGATIVE[clause], f"{clause} must not be negative", value.at)
        return min(count, _MOST_ROWS)


def _written(count: int | Typed | None, clause: str) -> str | None:
    """The SQL of a number of rows; where it is computed, an error if it is negative."""
    if not isinstance(count, Typed):
        return None if count is None else str(count)
    negative = raised(_NEGATIVE[clause], f"{clause} must not be negative")
    return f"(CASE WHEN {count.sql} < 0 THEN {negative} ELSE {count.sql} END)"


def _whole_number(node: tree.Expression) -> int | None:
    """The value of a sum, difference or product of whole numbers, if it is one that is not below 0.

    Those below are left to be an error.
    """
    found = _whole(node)
    return found if found is not None and 0 <= found < 2**31 else None


def _whole(node: tree.Expression) -> int | None:
    match node:
        case tree.Number(text) if text.isdigit() and len(text) < 10:
            return int(text)
        case tree.Binary("+" | "-" | "*" as sign, left, right):
            one, other = _whole(left), _whole(right)
            if one is None or other is None:
                return None
            found = {"+": one + other, "-": one - other, "*": one * other}[sign]
            return found if abs(found) < 2**31 else None
        case _:
            return None


def _with_limits(block: Block) -> SimpleQuery | None:
    simple = block.simple
    if simple is None or (simple.count_star and block.is_limited) or block.with_ties:
        return None
    if not block.is_limited:
        return simple
    ties = tuple((name, False, True) for name in simple.columns)
    return replace(
        simple, order=(*simple.order, *ties), limit=block.limit, offset=block.offset or None
    )
