"""What a prepared statement was compiled to, for as long as it means the same.

The meaning follows from the catalog, the settings and the role. Each of them is another object
after every change, so that three comparisons tell whether what is kept still holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.adapter.api import Response, StatementDescription
from waterclock.adapter.portals import Quick
from waterclock.adapter.quick.constants import compiled_constants
from waterclock.adapter.quick.inserts import compiled_insert
from waterclock.adapter.quick.lookups import compiled_lookup
from waterclock.adapter.sequencer.query_plans import planned_at_once
from waterclock.catalog.system.routing import Route
from waterclock.errors import WaterclockError
from waterclock.sql import ast
from waterclock.sql.ast.common import QueryText
from waterclock.sql.budget import TooMuchHere

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


class Shortcut:
    """The quick way to run one statement, if there is one. Implements `portals.Quick`."""

    __slots__ = ("_compiled", "_description", "_is_new", "_made_for", "_statement")

    def __init__(self, statement: ast.Statement, description: StatementDescription) -> None:
        self._statement = statement
        self._description = description
        # Compiling an INSERT costs what running it does, and many are prepared to be run once.
        self._is_new = isinstance(statement, ast.Insert)
        self._made_for: tuple[object, object, object] = (None, None, None)
        self._compiled: Quick | None = None

    def run(self, session: SqlSession, parameters: Sequence[pa.Scalar]) -> Response | None:
        """The answer; None if the ordinary way has to be taken."""
        if self._is_new:
            self._is_new = False
            return None
        if session.transaction.has_written and isinstance(self._statement, ast.Query):
            return None  # it has to see that, and what is compiled is for everybody
        catalog, settings, role = self._made_for
        current = session.front.core.current
        if (
            catalog is not current
            or settings is not session.settings.reported
            or role is not session.role
        ):
            self._made_for = (current, session.settings.reported, session.role)
            self._compiled = self._compile(session)
        return None if self._compiled is None else self._compiled.run(session, parameters)

    def _compile(self, session: SqlSession) -> Quick | None:
        try:
            match self._statement:
                case ast.Query(query, None):
                    return _compiled_query(session, query)
                case ast.Insert():
                    return compiled_insert(session, self._statement, self._description.parameters)
                case _:
                    return None
        except (WaterclockError, TooMuchHere):  # the ordinary way tells what is wrong
            return None


def _compiled_query(session: SqlSession, query: QueryText) -> Quick | None:
    plans = session.front.plans
    route = plans.kept_route(query.text)
    if route is None:
        route = session.front.offload.at_once(lambda meter: plans.route(query.text, meter))
    match route:
        case Route.USER:
            return compiled_lookup(session, planned_at_once(session, query))
        case Route.CONSTANT:
            return compiled_constants(planned_at_once(session, query))
        case Route.CATALOG | Route.MIXED:
            return None
