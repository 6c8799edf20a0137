"""Where an expression stands, and what may stand there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from waterclock.sql.binding.errors import GroupingFault, WindowFault
from waterclock.sql.binding.row_order import UNKNOWN_ORDER, RowOrder
from waterclock.sql.binding.scope import Scope
from waterclock.sql.binding.typed import Typed
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.query import tree


@dataclass(frozen=True, slots=True)
class Place:
    """The clause that an expression is part of. A reason is why something may not stand there."""

    scope: Scope
    clause: str
    allows_aggregates: bool = False
    allows_windows: bool = False
    inside: str | None = None
    """Of what function the expression is an argument, if that matters: `aggregate` or `window`."""
    windows: Mapping[str, tree.Window] = field(default_factory=dict)
    is_conjunct: bool = False
    """Whether it decides alone, with others joined by AND, which rows are kept."""
    is_grouped: bool = False
    """Whether the query has GROUP BY, and this is evaluated for each group."""
    has_sets: bool = False
    """Whether GROUP BY has grouping sets, in some of which a key is null."""
    extends: bool = False
    """Whether what is computed of the rows first can get a name here (`Scope.extended`)."""
    is_argument: bool = False
    """Whether it is part of an argument that may be written inside a lambda."""
    representatives: Mapping[str, Typed] = field(default_factory=dict)
    """What a group shows of keys that are equal without being the same, by the SQL of the key."""

    order: RowOrder = UNKNOWN_ORDER
    """In which order the rows come that a window function sees, if its window has none."""

    def check_aggregate(self, at: int) -> None:
        if self.inside == "aggregate":
            raise GroupingFault("aggregate function calls cannot be nested", at)
        if not self.allows_aggregates:
            raise GroupingFault(f"aggregate functions are not allowed in {self.clause}", at)

    def check_window(self, at: int) -> None:
        if self.inside == "aggregate":
            what = "aggregate function calls cannot contain window function calls"
            raise GroupingFault(what, at)
        if self.inside == "window":
            raise WindowFault("window function calls cannot be nested", at)
        if not self.allows_windows:
            raise WindowFault(f"window functions are not allowed in {self.clause}", at)

    def refuse_set(self, name: str, at: int) -> None:
        raise FeatureNotSupported.of(f"the set-returning function {name}() in {self.clause}", at)

    def within(self, kind: str) -> Place:
        """The place of an argument of an aggregate or a window function."""
        if kind == "aggregate":
            return replace(self, inside=kind, is_grouped=False, representatives={})
        return replace(self, inside=kind)

    def of(self, clause: str) -> Place:
        """Another clause of the same query, in which neither kind of function may stand."""
        return replace(
            self, clause=clause, allows_aggregates=False, allows_windows=False, is_conjunct=False
        )
