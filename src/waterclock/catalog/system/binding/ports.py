"""What the parts of the binder need of each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sqlglot import exp

from waterclock.catalog.system.binding.coercion import Coercion
from waterclock.catalog.system.binding.scope import Scope, ScopeColumn
from waterclock.catalog.system.binding.typed import Typed
from waterclock.catalog.system.types import TEXT
from waterclock.model.pg_types import PgType

Handlers: TypeAlias = Mapping[type[exp.Expr], Callable[..., Typed]]
"""What binds which kind of node."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A query with names and types; `write` gives its text with the columns as these types."""

    columns: tuple[ScopeColumn, ...]
    write: Callable[[Sequence[PgType]], str]

    def settled(self) -> tuple[PgType, ...]:
        return tuple(
            PgType(TEXT) if column.value.is_unknown else column.value.type
            for column in self.columns
        )


class Subqueries(Protocol):
    """Whoever binds the queries inside expressions."""

    def subquery(self, node: exp.Expr, scope: Scope) -> tuple[str, tuple[Typed, ...]]:
        """The text without parentheses, and the columns."""
        ...

    def bind(self, node: exp.Expr, outer: Scope) -> Bound:
        """The query, to be written later."""
        ...


class Binder(Protocol):
    """Whoever binds expressions of all kinds."""

    @property
    def coercion(self) -> Coercion: ...

    def bind(self, node: exp.Expr, scope: Scope) -> Typed:
        """The expression's text and type."""
        ...

    def boolean(self, node: exp.Expr, scope: Scope, what: str) -> str:
        """A condition's text; `what` is the clause that it stands in."""
        ...

    def common(
        self, values: Sequence[Typed], nodes: Sequence[exp.Expr], what: str
    ) -> tuple[list[Typed], PgType]:
        """The values brought to one type."""
        ...

    def subquery(self, node: exp.Expr, scope: Scope) -> tuple[str, tuple[Typed, ...]]:
        """A query inside an expression: its text without parentheses, and its columns."""
        ...
