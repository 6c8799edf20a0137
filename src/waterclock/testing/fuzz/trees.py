"""Queries as trees of text, so that a failing one can be made smaller.

A tree is text with smaller trees in it, each of a *sort*: a query, a value of some type, a clause
that may be left out, or a list of items. Whatever is put in the place of a tree of the same sort
leaves something that looks like SQL. Whether it still has a meaning (a column may be gone that is
used elsewhere) is for Spark to say, so this module knows no scopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from waterclock.testing.fuzz.values import PLAIN_LITERALS

QUERY, CLAUSE, LIST, ITEM = "query", "clause", "list", "item"


@dataclass(frozen=True, slots=True)
class Tree:
    """A piece of SQL; values have the name of their type as sort."""

    sort: str
    parts: tuple[str | Tree, ...]

    @property
    def text(self) -> str:
        comma = ", " if self.sort == LIST else ""
        return comma.join(part if isinstance(part, str) else part.text for part in self.parts)

    @property
    def size(self) -> int:
        """How many trees there are in it."""
        return 1 + sum(part.size for part in self.parts if isinstance(part, Tree))

    def below(self) -> Iterator[Tree]:
        """All trees inside, larger ones first."""
        inside = [part for part in self.parts if isinstance(part, Tree)]
        yield from inside
        for part in inside:
            yield from part.below()


def query(*parts: str | Tree) -> Tree:
    """A complete query."""
    return Tree(QUERY, parts)


def clause(*parts: str | Tree) -> Tree:
    """Something that may be left out."""
    return Tree(CLAUSE, parts)


def listed(items: Sequence[Tree | str]) -> Tree:
    """Items between commas, each of which may be left out unless it is the only one."""
    return Tree(LIST, tuple(Tree(ITEM, (item,)) for item in items)) if items else clause("")


def simpler(tree: Tree) -> Iterator[Tree]:
    """Trees that differ from this one in one place, where they are smaller; bold ones first."""
    yield from _instead(tree)
    for place, part in enumerate(tree.parts):
        if isinstance(part, Tree):
            for smaller in simpler(part):
                yield Tree(tree.sort, (*tree.parts[:place], smaller, *tree.parts[place + 1 :]))


def _instead(tree: Tree) -> Iterator[Tree]:
    """What can stand in the place of a whole tree."""
    if tree.sort == CLAUSE and tree.parts != ("",):
        yield clause("")
    if tree.sort == LIST and len(tree.parts) > 1:
        for place in range(len(tree.parts)):
            yield Tree(LIST, tree.parts[:place] + tree.parts[place + 1 :])
    if tree.sort in (CLAUSE, LIST, ITEM):
        return
    for inside in tree.below():
        if inside.sort == tree.sort:
            yield inside
    plain = PLAIN_LITERALS.get(tree.sort)
    if plain is not None and tree.size > 1:
        yield Tree(tree.sort, (plain,))
