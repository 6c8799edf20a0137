"""What the parts of the grammar share while a query is drawn."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from waterclock.testing.fuzz.expressions import Column, Expressions
from waterclock.testing.fuzz.trees import Tree, listed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its columns, under their own names."""

    tree: Tree
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Source:
    """What stands after FROM, and the columns that can be used over it."""

    tree: Tree
    scope: tuple[Column, ...]


@dataclass(slots=True)
class Draw:
    """One query being drawn: the dice, the names used so far, and what it is made of."""

    pick: random.Random
    values: Expressions
    tables: dict[str, tuple[Column, ...]]
    """Inputs, views and CTEs that can be named here."""
    query: Callable[[int], Query]
    """Draws a whole query, at most so deep."""
    failing: bool = False
    """Whether the query may fail on some rows."""
    temporal: bool = False
    """Whether conditions on the time are wanted."""
    features: set[str] = field(default_factory=set)
    _names: int = 0

    def name(self, prefix: str) -> str:
        """A name that nothing else in the query has."""
        self._names += 1
        return f"{prefix}{self._names}"

    def name_from(self, number: int) -> None:
        """Number names from here on, apart from those of other queries."""
        self._names = number

    def chance(self, probability: float) -> bool:
        return self.pick.random() < probability

    def one_of(self, options: Sequence[T], weights: Sequence[float] | None = None) -> T:
        return self.pick.choices(options, weights)[0]

    def uses(self, feature: str) -> None:
        self.features.add(feature)

    def projected(self, items: Sequence[tuple[Tree | str, Column]]) -> tuple[Tree, list[Column]]:
        """A select list of values, each under a new name, and the columns it makes."""
        listing: list[Tree] = []
        columns: list[Column] = []
        for value, column in items:
            name = self.name("c")
            listing.append(Tree("item", (value, f" AS {name}")))
            columns.append(Column(name, column.kind, column.exactness))
        return listed(listing), columns
