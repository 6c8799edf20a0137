"""What is remembered of queries, so that one that comes again costs little before it runs.

A text means the same as long as the catalog, the place where names are looked up, the role and the
time zone are the same; all of that is part of the key, so nothing that is kept is ever wrong, and
what is not used any more is forgotten. A query whose meaning depends on the time is not kept.

A query with parameters is also kept without their values, if it only picks rows: then other values
are put in their places, and nothing is planned at all.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass
from typing import Generic, TypeVar

from waterclock.adapter.planning import Plan
from waterclock.catalog.system.errors import SyntaxFault
from waterclock.catalog.system.routing import Route, route
from waterclock.sql.errors import SqlFault
from waterclock.sql.query import tree
from waterclock.sql.query.queries import parse_query

_KEPT = 2000

Value = TypeVar("Value")


class Recent(Generic[Value]):
    """The values that were asked for last, by key. Thread-safe."""

    def __init__(self, limit: int = _KEPT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()

    def get(self, key: Hashable) -> Value | None:
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._values[key] = value
            self._values.move_to_end(key)
            while len(self._values) > self._limit:
                self._values.popitem(last=False)


class Plans:
    """The plans of a front, and where its queries go."""

    def __init__(self, is_system: Callable[[str | None, str], bool]) -> None:
        """`is_system` tells whether a schema and a name mean a relation of the system."""
        self._is_system = is_system
        self._routes: Recent[Route] = Recent()
        self._plans: Recent[Plan] = Recent()

    def route(self, text: str) -> Route:
        """Where the query goes, which its text alone decides."""
        found = self._routes.get(text)
        if found is None:
            try:
                found = route(text, self._is_system)
            except SyntaxFault:
                found = self._route_as_written(text)
            self._routes.put(text, found)
        return found

    def _route_as_written(self, text: str) -> Route:
        """Where a query goes that the catalog's own engine can not read.

        One that nobody can read is as good as a user's: binding it tells what is wrong, and where.
        """
        try:
            query = parse_query(text)
        except SqlFault:
            return Route.USER
        nodes = list(_nodes(query))
        common = {node.name for node in nodes if isinstance(node, tree.CommonTable)}
        names = [node.name for node in nodes if isinstance(node, tree.Table)]
        found = {
            self._is_system(name[-2] if len(name) > 1 else None, name[-1])
            for name in names
            if len(name) > 1 or name[0] not in common
        }
        if len(found) == 2:
            return Route.MIXED
        if not found:
            return Route.CONSTANT
        return Route.CATALOG if found.pop() else Route.USER

    def plan(self, key: Hashable, make: Callable[[], Plan]) -> Plan:
        """The plan that is kept under the key, or else a new one. What `make` raises is raised."""
        found = self._plans.get(key)
        if found is None:
            found = make()
            if not found.bound.uses_now and not found.bound.uses_mz_now:
                self._plans.put(key, found)
        return found


def _nodes(node: object) -> Iterator[object]:
    """All nodes of a tree."""
    if isinstance(node, tuple):
        for each in node:
            yield from _nodes(each)
    elif is_dataclass(node):
        yield node
        for each in fields(node):
            yield from _nodes(getattr(node, each.name))
