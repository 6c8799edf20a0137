"""The order in which rows come out of FROM.

SQL promises an order of the outermost query alone. PostgreSQL lets the rows of a subquery with
ORDER BY through in its order, though, and users count on it: aggregates like `json_agg` collect
them so, and LIMIT outside keeps the first of them. It is the same with VALUES, and with functions
that make rows, which come as they are written or made.

So a part of FROM says by what its rows are sorted, if something is known. Rows that tie may come in
any order, and nothing is known of rows that were joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from waterclock.model.pg_types import INT4
from waterclock.sql.binding.api import BoundQuery
from waterclock.sql.binding.typed import Typed
from waterclock.sql.query import tree


@dataclass(frozen=True, slots=True)
class SortedBy:
    """A sort key."""

    key: Typed
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class RowOrder:
    """What the rows of a relation, or of FROM, are sorted by."""

    terms: tuple[SortedBy, ...] = ()
    is_asked: bool = False
    """Whether an ORDER BY says so; else it is just how the rows are made."""

    def under(self, alias: str) -> RowOrder:
        """The same, where the keys are columns of a relation that has got this alias."""
        terms = (replace(t, key=replace(t.key, sql=f"{alias}.{t.key.sql}")) for t in self.terms)
        return replace(self, terms=tuple(terms))

    def then(self, other: RowOrder) -> RowOrder:
        """The order of rows each of which was followed by rows made of it."""
        return RowOrder((*self.terms, *other.terms), self.is_asked and bool(self.terms))


UNKNOWN_ORDER = RowOrder()


def numbered(column: str) -> RowOrder:
    """The order of rows that have got numbers."""
    return RowOrder((SortedBy(Typed(column, INT4, 0, nullable=False)),))


def order_of_view(query: BoundQuery) -> RowOrder:
    """The order of the rows of a view that is inlined."""
    keys = [
        SortedBy(Typed(f"c{place + 1}", query.columns[place].type, 0), descending, nulls_first)
        for place, descending, nulls_first in query.order
    ]
    return RowOrder(tuple(keys), is_asked=True)


def order_of_join(parts: Sequence[tuple[tree.FromItem, RowOrder]]) -> RowOrder:
    """The order of rows that were joined: known if all but the first are made by functions."""
    if not parts:
        return UNKNOWN_ORDER
    (_, found), *rest = parts
    for item, order in rest:
        if not isinstance(item, tree.FunctionTable):
            return UNKNOWN_ORDER
        found = found.then(order)
    return found
