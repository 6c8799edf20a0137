"""Function calls: ordinary functions and window functions; aggregates are told apart here.

Whatever is not a function of the rows is noted with the statement, or refused in a view that is
maintained. The name of a type is a function too, which casts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.model.pg_types import MZ_TIMESTAMP, REGTYPE
from waterclock.sql.binding import constants
from waterclock.sql.binding.aggregating import Aggregating
from waterclock.sql.binding.api import Context
from waterclock.sql.binding.casting import cast_context
from waterclock.sql.binding.clock_words import CLOCK_HINT
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.documents import ROW_TO_JSON, Documents
from waterclock.sql.binding.errors import (
    WrongObjectKind,
)
from waterclock.sql.binding.exclusions import of_nothing, without_excluded
from waterclock.sql.binding.lookup import chosen, entries_of, refuse_rows, undefined
from waterclock.sql.binding.named_arguments import in_order
from waterclock.sql.binding.object_names import try_relation_named
from waterclock.sql.binding.overloads import Candidate
from waterclock.sql.binding.populating import Populating, is_populating
from waterclock.sql.binding.typed import Known, Role, Typed, operand
from waterclock.sql.binding.windows import Windows
from waterclock.sql.dialect.casts import FLOATS
from waterclock.sql.dialect.types import name_of, shown
from waterclock.sql.errors import FeatureNotSupported, SqlFault, SyntaxFault
from waterclock.sql.functions import FUNCTIONS
from waterclock.sql.functions.registry import F, Function, Kind, Stability
from waterclock.sql.functions.system import MZ_NOW, clock_value
from waterclock.sql.functions.windows import WHOLE
from waterclock.sql.query import tree
from waterclock.sql.quoting import quote_name
from waterclock.sql.types import parse_type_name

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions

_CHANCE_HINT = (
    "A view that is maintained must give the same rows whenever its inputs hold the same."
)


class Calling:
    """Binds function calls."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._statement = expressions.statement
        self._windows = Windows(expressions)
        self._aggregating = Aggregating(expressions)
        self._documents = Documents(expressions)
        self.populating = Populating(expressions)

    def call(self, node: tree.Call, place: Place) -> Typed:
        node = in_order(node)
        if is_populating(node) and not self.is_set_returning(node):
            return self.populating.row(node, place)
        entries = entries_of(node)
        kinds = {entry.kind for entry in entries}
        if node.over is not None and kinds & {Kind.AGGREGATE, Kind.WINDOW}:
            excluding = self._windows.excluding(node.over, place, node.name[-1])
            if excluding is not None:
                return self._without_excluded(node, excluding, place)
            empty = self._windows.empty(node.over, place, node.name[-1])
            if empty is not None:
                return self._expressions.value(of_nothing(node, empty), place)
        if Kind.AGGREGATE in kinds:
            return self._aggregating.bound(node, entries, place)
        if Kind.WINDOW in kinds:
            return self._window(node, entries, place)
        self._refuse_decoration(node)
        if Kind.SET in kinds:
            place.refuse_set(node.name[-1], node.at)
        document = self._documents.document(node, place)
        if document is not None and node.name[-1] == ROW_TO_JSON and len(node.arguments) == 1:
            return document.at_position(node.at)
        values = self._documents.arguments(node, place, document)
        refuse_rows(values)
        if node.name[-1] == "pg_typeof" and len(values) == 1 and _has_no_type(values[0]):
            return constants.known(pa.scalar("unknown"), REGTYPE, node.at)
        if node.name[-1] == "to_regclass" and len(values) == 1 and values[0].text is not None:
            return try_relation_named(values[0].text, self._statement, node.at)
        candidate = chosen(node, entries, values)
        if candidate is None:
            return self._as_cast(node, values)
        return self._scalar(candidate, values, node)

    def set_returning(self, node: tree.Call, place: Place) -> tuple[Candidate, tuple[Typed, ...]]:
        """A call in FROM, with its arguments; the entry tells whether it gives rows."""
        node = in_order(node)
        self._refuse_decoration(node)
        values = tuple(self._expressions.bind(each, place) for each in node.arguments)
        refuse_rows(values)
        entries = entries_of(node)
        candidate = chosen(node, entries, values)
        if candidate is None:
            raise undefined(node, values)
        return candidate, values

    def is_set_returning(self, node: tree.Expression) -> bool:
        """Whether the expression is a call of a function that gives rows."""
        if not isinstance(node, tree.Call):
            return False
        return any(entry.kind is Kind.SET for entry in FUNCTIONS.get(node.name[-1], ()))

    def is_aggregate(self, node: tree.Call) -> bool:
        return any(entry.kind is Kind.AGGREGATE for entry in entries_of(node))

    def has_columns(self, node: tree.Call) -> bool:
        """Whether the function gives rows of several columns."""
        return is_populating(node) or any(len(each.columns) > 1 for each in entries_of(node))

    def _as_cast(self, node: tree.Call, values: tuple[Typed, ...]) -> Typed:
        """`date(x)`, `text(x)`: the name of a type is a function that casts to it."""
        if len(values) != 1 or node.is_word:
            raise undefined(node, values)
        try:
            target = parse_type_name(quote_name(node.name))
        except FeatureNotSupported as fault:
            fault.position = node.at
            raise
        except SqlFault:
            raise undefined(node, values) from None
        [value] = values
        if not value.is_unknown and cast_context(value.type, target) is None:
            raise undefined(node, values)
        return self._expressions.coercion.coerce(value, target, Context.EXPLICIT, node.at)

    def _refuse_decoration(self, node: tree.Call) -> None:
        """DISTINCT, FILTER, OVER and the like on what is no aggregate."""
        name = node.name[-1]
        if node.is_star:
            raise WrongObjectKind(
                f"{name}(*) specified, but {name} is not an aggregate function", node.at
            )
        if node.is_variadic:
            raise FeatureNotSupported.of("VARIADIC", node.at)
        for present, word in (
            (node.is_distinct, "DISTINCT"),
            (bool(node.order), "ORDER BY"),
            (node.filter is not None, "FILTER"),
        ):
            if present:
                raise WrongObjectKind(
                    f"{word} specified, but {name} is not an aggregate function", node.at
                )
        if node.within is not None:
            raise WrongObjectKind(
                f"{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP", node.at
            )
        if node.over is not None:
            raise WrongObjectKind(
                f"OVER specified, but {name} is not a window function nor an aggregate function",
                node.at,
            )

    # Ordinary functions

    def _scalar(self, candidate: Candidate, values: tuple[Typed, ...], node: tree.Call) -> Typed:
        function = candidate.function
        self._note(function, node.at)
        if function.name == MZ_NOW:
            return self._now(node.at)
        found = self._expressions.operators.written(candidate, values, node.at)
        if function.stability is not Stability.CLOCK or function.arguments:
            return found
        value = clock_value(function.name, self._statement.facts)
        return found if value is None else replace(found, known=Known(scalar=value))

    def _now(self, at: int) -> Typed:
        """The time of the view: a function where it is maintained, a constant where it is read."""
        self._statement.uses_mz_now = True
        time = self._statement.facts.mz_now
        if self._statement.maintained or time is None:
            return Typed("MZ_NOW()", MZ_TIMESTAMP, at, nullable=False)
        return constants.known(pa.scalar(time, pa.int64()), MZ_TIMESTAMP, at)

    def _note(self, function: Function, at: int) -> None:
        """Remember, or refuse, what is not a function of the rows."""
        if function.stability is Stability.IMMUTABLE:
            return
        is_clock = function.stability in (Stability.CLOCK, Stability.MOMENT)
        if self._statement.maintained:
            raise FeatureNotSupported(
                f"{function.name}() in a view that is maintained is not supported",
                at,
                hint=CLOCK_HINT if is_clock else _CHANCE_HINT,
            )
        if function.stability is Stability.CLOCK:
            self._statement.uses_now = True
        if function.stability in (Stability.VOLATILE, Stability.MOMENT):
            self._statement.nondeterministic[function.name] = None

    # Window functions

    def _window(self, node: tree.Call, entries: tuple[Function, ...], place: Place) -> Typed:
        name = node.name[-1]
        if node.within is not None:
            return self._aggregating.hypothetical(node, place)
        if node.over is None:
            raise WrongObjectKind(f"window function {name} requires an OVER clause", node.at)
        if node.filter is not None:
            raise FeatureNotSupported.of(
                "FILTER is not implemented for non-aggregates: it", node.at
            )
        if node.is_distinct or node.order or node.is_star:
            raise SyntaxFault(f"wrong use of the window function {name}", node.at)
        place.check_window(node.at)
        inner = place.within("window")
        values = tuple(self._expressions.bind(each, inner) for each in node.arguments)
        refuse_rows(values)
        candidate = chosen(node, entries, values)
        if candidate is None:
            raise undefined(node, values)
        converted, use = self._expressions.operators.use(candidate, values, node.at)
        window = self._windows.over(node.over, place, function=name)
        sql = self._expressions.operators.filled(candidate.function, use, node.at)
        sql = sql.replace(WHOLE, f" OVER {window.whole}").replace(F, f" OVER {window.sql}")
        parts = (*converted, *window.parts)
        nullable = not candidate.function.never_null
        return Typed(operand(sql), use.result, node.at, parts, nullable=nullable, role=Role.WINDOW)

    def _without_excluded(self, node: tree.Call, window: tree.Window, place: Place) -> Typed:
        """A call over a frame with EXCLUDE."""
        name = node.name[-1]
        if name in ("sum", "avg") and node.arguments:
            kind = self._expressions.value(node.arguments[0], place.within("window")).type
            if name_of(kind) in FLOATS or (name == "avg" and name_of(kind) == "interval"):
                what = f"{name}() of {shown(kind)} over a window frame with EXCLUDE"
                raise FeatureNotSupported.of(what, node.at)
        offsets = self._windows.offsets(window, place)
        return self._expressions.value(without_excluded(node, window, offsets), place)


def _has_no_type(value: Typed) -> bool:
    return value.is_unknown and value.parameter is None
