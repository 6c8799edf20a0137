"""Where a query goes, decided on its tree: to the system relations, to the engine, or nowhere.

A name is a system relation's if it is qualified with a system schema, or if it is bare and a system
schema, which comes first, has it. Names of WITH are neither.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from sqlglot import exp

from waterclock.catalog.system.binding.parsing import MARK, parse

Resolver = Callable[[str | None, str], bool]
"""Whether schema (None: not said) and name mean a system relation."""


class Route(Enum):
    CATALOG = "catalog"
    """All relations are the system's."""
    CONSTANT = "constant"
    """There is no relation: a query like `SELECT 1` or `SELECT version()`."""
    USER = "user"
    """All relations are users'."""
    MIXED = "mixed"


def route(query: exp.Expr | str, resolver: Resolver) -> Route:
    """Where the query goes. Functions in FROM are no relations."""
    tree = parse(query).tree if isinstance(query, str) else query
    found = {
        resolver(schema, name)
        for schema, name, node in _tables(tree)
        if schema is not None or not _is_common(node, name)
    }
    if not found:
        return Route.CONSTANT
    if len(found) == 2:
        return Route.MIXED
    return Route.CATALOG if found.pop() else Route.USER


def is_catalog_query(query: exp.Expr | str, resolver: Resolver) -> bool:
    """Whether the system relations answer it."""
    return route(query, resolver) in (Route.CATALOG, Route.CONSTANT)


def _tables(tree: exp.Expr) -> list[tuple[str | None, str, exp.Table]]:
    return [
        (
            _folded(table.args["db"]) if table.args.get("db") is not None else None,
            _folded(table.this),
            table,
        )
        for table in tree.find_all(exp.Table)
        if isinstance(table.this, exp.Identifier)
    ]


def _folded(node: exp.Expr) -> str:
    quoted = isinstance(node, exp.Identifier) and node.args.get("quoted")
    return (node.name if quoted else node.name.lower()).removeprefix(MARK)


def _is_common(node: exp.Table, name: str) -> bool:
    """Whether a WITH around the table defines the name."""
    above: exp.Expr | None = node.parent
    while above is not None:
        with_ = above.args.get("with_")
        for cte in with_.expressions if with_ is not None else ():
            if _folded(cte.args["alias"].this) == name:
                return True
        above = above.parent
    return False
