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
from contextlib import suppress
from dataclasses import fields, is_dataclass
from typing import Generic, TypeVar

from waterclock.adapter.planning import Plan
from waterclock.catalog.system.errors import SyntaxFault
from waterclock.catalog.system.facts import SYSTEM_SCHEMAS
from waterclock.catalog.system.routing import Route, route
from waterclock.sql.budget import Meter
from waterclock.sql.errors import SqlFault
from waterclock.sql.lexer import lex
from waterclock.sql.query import tree
from waterclock.sql.query.queries import parse_query
from waterclock.sql.tokens import Kind

_KEPT = 2000
_LONGEST_KEPT = 64_000
"""Characters of a text that is kept, so that what is kept stays small."""
_LONGEST_FOR_CATALOG = 1_000_000
"""Characters of a query over the system's relations."""

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

    def kept_route(self, text: str) -> Route | None:
        """Where the query goes, if that is known already."""
        return self._routes.get(text)

    def route(self, text: str, meter: Meter) -> Route:
        """Where the query goes, which its text alone decides.

        Our own parser tells, unless it can not read the text or a name may be the system's.
        """
        found = None if self._may_name_system(text, meter) else self._as_written(text, meter)
        if found is None and len(text) <= _LONGEST_FOR_CATALOG:
            with suppress(SyntaxFault):
                found = route(text, self._is_system)
        if found is None:
            # One that nobody can read is as good as a user's: binding it tells what is wrong.
            found = self._as_written(text, meter) or Route.USER
        if len(text) <= _LONGEST_KEPT:
            self._routes.put(text, found)
        return found

    def _may_name_system(self, text: str, meter: Meter) -> bool:
        """Whether a word of the text is the name of a relation or schema of the system."""
        words = {each.value for each in lex(text, meter) if each.kind in (Kind.WORD, Kind.QUOTED)}
        return not words.isdisjoint(SYSTEM_SCHEMAS) or any(
            self._is_system(None, word) for word in words
        )

    def _as_written(self, text: str, meter: Meter) -> Route | None:
        """Where a query goes that our own parser can read; None if it can not."""
        try:
            query = parse_query(text, meter)
        except SqlFault:
            return None
        nodes = list(nodes_of(query))
        meter.count(len(nodes))
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

    def kept(self, key: Hashable) -> Plan | None:
        """The plan that is kept under the key."""
        return self._plans.get(key)

    def keep(self, key: Hashable, plan: Plan) -> None:
        """Keep a plan, unless it serves once: None for a key says so."""
        bound = plan.bound
        serves_again = not bound.uses_now and not bound.uses_mz_now
        is_small = len(plan.query.sql) + len(bound.sql) <= _LONGEST_KEPT
        if key is not None and serves_again and is_small:
            self._plans.put(key, plan)


def nodes_of(root: object) -> Iterator[object]:
    """All nodes of a tree, in no particular order."""
    rest = [root]
    while rest:
        node = rest.pop()
        if isinstance(node, tuple):
            rest += node
        elif is_dataclass(node):
            yield node
            rest += [getattr(node, each.name) for each in fields(node)]
