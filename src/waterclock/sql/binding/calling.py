"""Function calls: ordinary functions, aggregates and window functions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from waterclock.model.pg_types import INT4, MZ_TIMESTAMP, RECORD, REGTYPE, PgType
from waterclock.sql.binding import constants
from waterclock.sql.binding.api import Context
from waterclock.sql.binding.casting import cast_context
from waterclock.sql.binding.clock_words import CLOCK_HINT
from waterclock.sql.binding.collecting import Collecting
from waterclock.sql.binding.context import Place
from waterclock.sql.binding.documents import ROW_TO_JSON, Documents, counted_row
from waterclock.sql.binding.errors import (
    AMBIGUOUS_FUNCTION_HINT,
    NO_FUNCTION_HINT,
    NO_SEQUENCES_HINT,
    AmbiguousFunction,
    UndefinedFunction,
    WrongObjectKind,
)
from waterclock.sql.binding.exclusions import without_excluded
from waterclock.sql.binding.hypothetical_sets import HypotheticalSets
from waterclock.sql.binding.named_arguments import in_order
from waterclock.sql.binding.object_names import try_relation_named
from waterclock.sql.binding.ordered_sets import OrderedSets
from waterclock.sql.binding.ordering import check_groupable
from waterclock.sql.binding.overloads import Ambiguous, Candidate, choose
from waterclock.sql.binding.populating import Populating, is_populating
from waterclock.sql.binding.predicates import key_sql
from waterclock.sql.binding.typed import Known, Role, Typed, operand
from waterclock.sql.binding.windows import Windows
from waterclock.sql.dialect.casts import FLOATS
from waterclock.sql.dialect.types import UNKNOWN, name_of, shown
from waterclock.sql.errors import FeatureNotSupported, SqlFault, SyntaxFault
from waterclock.sql.functions import FUNCTIONS
from waterclock.sql.functions.aggregates import ORDERED, WITHIN, WITHOUT_DISTINCT
from waterclock.sql.functions.registry import D, F, Function, Kind, Stability, Use
from waterclock.sql.functions.system import MZ_NOW, clock_value
from waterclock.sql.query import tree
from waterclock.sql.quoting import quote_name
from waterclock.sql.types import parse_type_name

if TYPE_CHECKING:
    from waterclock.sql.binding.expressions import Expressions

_OF_SEQUENCES = frozenset({"nextval", "currval", "lastval", "setval"})
_CHANCE_HINT = (
    "A view that is maintained must give the same rows whenever its inputs hold the same."
)


class Calling:
    """Binds function calls."""

    def __init__(self, expressions: Expressions) -> None:
        self._expressions = expressions
        self._statement = expressions.statement
        self._windows = Windows(expressions)
        self._collecting = Collecting(expressions)
        self._documents = Documents(expressions)
        self.populating = Populating(expressions)
        self._ordered_sets = OrderedSets(expressions)
        self._hypothetical_sets = HypotheticalSets(expressions)

    def call(self, node: tree.Call, place: Place) -> Typed:
        node = in_order(node)
        if is_populating(node) and not self.is_set_returning(node):
            return self.populating.row(node, place)
        entries = self._entries(node)
        kinds = {entry.kind for entry in entries}
        if node.over is not None and kinds & {Kind.AGGREGATE, Kind.WINDOW}:
            excluding = self._windows.excluding(node.over, place, node.name[-1])
            if excluding is not None:
                return self._without_excluded(node, excluding, place)
        if Kind.AGGREGATE in kinds:
            return self._aggregate(node, entries, place)
        if Kind.WINDOW in kinds:
            return self._window(node, entries, place)
        self._refuse_decoration(node)
        if Kind.SET in kinds:
            place.refuse_set(node.name[-1], node.at)
        document = self._documents.document(node, place)
        if document is not None and node.name[-1] == ROW_TO_JSON and len(node.arguments) == 1:
            return document.at_position(node.at)
        values = self._values(node, place, document)
        self._refuse_rows(values)
        if node.name[-1] == "pg_typeof" and len(values) == 1 and _has_no_type(values[0]):
            return constants.known(pa.scalar("unknown"), REGTYPE, node.at)
        if node.name[-1] == "to_regclass" and len(values) == 1 and values[0].text is not None:
            return try_relation_named(values[0].text, self._statement, node.at)
        candidate = self.chosen(node, entries, values)
        if candidate is None:
            return self._as_cast(node, values)
        return self._scalar(candidate, values, node)

    def _values(self, node: tree.Call, place: Place, document: Typed | None) -> tuple[Typed, ...]:
        """The arguments; a row that JSON is made of is that JSON."""
        if document is None:
            return tuple(self._expressions.bind(each, place) for each in node.arguments)
        rest = (self._expressions.bind(each, place) for each in node.arguments[1:])
        return (document, *rest)

    def set_returning(self, node: tree.Call, place: Place) -> tuple[Candidate, tuple[Typed, ...]]:
        """A call in FROM, with its arguments; the entry tells whether it gives rows."""
        node = in_order(node)
        self._refuse_decoration(node)
        values = tuple(self._expressions.bind(each, place) for each in node.arguments)
        self._refuse_rows(values)
        entries = self._entries(node)
        candidate = self.chosen(node, entries, values)
        if candidate is None:
            raise self._undefined(node, values)
        return candidate, values

    def is_set_returning(self, node: tree.Expression) -> bool:
        """Whether the expression is a call of a function that gives rows."""
        if not isinstance(node, tree.Call):
            return False
        return any(entry.kind is Kind.SET for entry in FUNCTIONS.get(node.name[-1], ()))

    def is_aggregate(self, node: tree.Call) -> bool:
        return any(entry.kind is Kind.AGGREGATE for entry in self._entries(node))

    def has_columns(self, node: tree.Call) -> bool:
        """Whether the function gives rows of several columns."""
        return is_populating(node) or any(len(each.columns) > 1 for each in self._entries(node))

    # Looking up

    def _entries(self, node: tree.Call) -> tuple[Function, ...]:
        *schema, name = node.name
        if schema and schema != ["pg_catalog"]:
            return ()
        return FUNCTIONS.get(name, ())

    def chosen(
        self, node: tree.Call, entries: tuple[Function, ...], values: tuple[Typed, ...]
    ) -> Candidate | None:
        try:
            return choose(entries, tuple(each.type for each in values))
        except Ambiguous:
            raise AmbiguousFunction(
                f"function {_signature(node, values)} is not unique",
                node.at,
                hint=AMBIGUOUS_FUNCTION_HINT,
            ) from None

    def _undefined(self, node: tree.Call, values: tuple[Typed, ...]) -> SqlFault:
        name = node.name[-1]
        if name in _OF_SEQUENCES:
            return FeatureNotSupported(
                f"{name}() is not supported", node.at, hint=NO_SEQUENCES_HINT
            )
        message = f"function {_signature(node, values)} does not exist"
        return UndefinedFunction(message, node.at, hint=NO_FUNCTION_HINT)

    def _as_cast(self, node: tree.Call, values: tuple[Typed, ...]) -> Typed:
        """`date(x)`, `text(x)`: the name of a type is a function that casts to it."""
        if len(values) != 1 or node.is_word:
            raise self._undefined(node, values)
        try:
            target = parse_type_name(quote_name(node.name))
        except FeatureNotSupported as fault:
            fault.position = node.at
            raise
        except SqlFault:
            raise self._undefined(node, values) from None
        [value] = values
        if not value.is_unknown and cast_context(value.type, target) is None:
            raise self._undefined(node, values)
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

    def _refuse_rows(self, values: tuple[Typed, ...]) -> None:
        for value in values:
            if value.type.oid == RECORD.oid:
                raise FeatureNotSupported.of("a row as an argument of a function", value.at)

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

    # Aggregates

    def _aggregate(self, node: tree.Call, entries: tuple[Function, ...], place: Place) -> Typed:
        name = node.name[-1]
        is_within = any(entry.sql == WITHIN for entry in entries)
        if node.within is not None and not is_within:
            raise WrongObjectKind(
                f"{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP", node.at
            )
        if node.within is None and is_within:
            raise WrongObjectKind(
                f"WITHIN GROUP is required for ordered-set aggregate {name}", node.at
            )
        if node.is_variadic:
            raise FeatureNotSupported.of("VARIADIC", node.at)
        inner = self._check_place(node, place)
        if not node.arguments and not node.is_star and name == "count":
            raise WrongObjectKind(
                "count(*) must be used to call a parameterless aggregate function", node.at
            )
        document = self._documents.document(node, inner)
        values = self._values(node, inner, document)
        if name == "count" and len(values) == 1:
            values = (self._counted(values[0], node),)
        else:
            self._refuse_rows(values)
        candidate = self.chosen(node, entries, values)
        if candidate is None:
            raise self._undefined(node, values)
        self._refuse_outer(values, place, node.at)
        condition = self._filter(node, inner)
        if condition is not None and node.over is not None and node.is_star:
            return self._counted_over(entries, node, condition, place)
        if candidate.function.sql == WITHIN:
            return self._ordered_sets.bound(candidate, values, node, condition, inner)
        if node.is_distinct and name in WITHOUT_DISTINCT and not _is_float(values[0].type):
            raise FeatureNotSupported.of(f"{name}() of distinct exact numbers", node.at)
        if candidate.function.sql == ORDERED:
            of_rows = document is not None
            if node.over is not None:
                self._refuse_maintained(name, node.at)
                window = self._windows.over(node.over, place, keeps_frame=True)
                return self._collecting.collected_over(
                    candidate, values, node, condition, window, of_rows=of_rows
                )
            return self._collecting.collected(
                candidate, values, node, condition, inner, of_rows=of_rows
            )
        return self._written(candidate, values, node, condition, place)

    def _refuse_maintained(self, name: str, at: int) -> None:
        """Rows that the order of a window does not tell apart come in any order."""
        if self._statement.maintained:
            what = f"{name}() as a window function of a view"
            raise FeatureNotSupported.of(what, at)

    def _counted_over(
        self, entries: tuple[Function, ...], node: tree.Call, condition: Typed, place: Place
    ) -> Typed:
        """`count(*) FILTER (...) OVER (...)`, as a count of what is not null."""
        one = f"(CASE WHEN {condition.sql} THEN 1 END)"
        values = (Typed(one, INT4, node.at, (condition,)),)
        plain = replace(node, is_star=False, filter=None)
        candidate = self.chosen(plain, entries, values)
        assert candidate is not None, "anything can be counted"
        return self._written(candidate, values, plain, None, place)

    def _counted(self, value: Typed, node: tree.Call) -> Typed:
        if value.role is not Role.ROW:
            if node.is_distinct:
                self._refuse_rows((value,))
            return value
        parts = [self._expressions.coercion.settled(each) for each in value.parts]
        for part in parts:
            check_groupable(part)
        return counted_row(value, parts, [key_sql(part) for part in parts])

    def _check_place(self, node: tree.Call, place: Place) -> Place:
        """The place of the arguments, if the aggregate may stand where it does."""
        if node.over is None:
            place.check_aggregate(node.at)
            return place.within("aggregate")
        place.check_window(node.at)
        if node.is_distinct:
            raise FeatureNotSupported.of("DISTINCT for window functions", node.at)
        if node.order:
            raise FeatureNotSupported.of("aggregate ORDER BY for window functions", node.at)
        return place.within("window")

    def _refuse_outer(self, values: tuple[Typed, ...], place: Place, at: int) -> None:
        """An aggregate over columns of an outer query alone is one of that query."""
        columns = [part.column for value in values for part in value.walk() if part.column]
        if columns and all(column.scope != place.scope.number for column in columns):
            raise FeatureNotSupported.of("an aggregate of an outer query's columns", at)

    def _filter(self, node: tree.Call, place: Place) -> Typed | None:
        if node.filter is None:
            return None
        inner = replace(place.of("FILTER"), inside=None)
        return self._expressions.condition(node.filter, inner, "FILTER")

    def _written(
        self,
        candidate: Candidate,
        values: tuple[Typed, ...],
        node: tree.Call,
        condition: Typed | None,
        place: Place,
    ) -> Typed:
        converted, use = self._expressions.operators.use(candidate, values, node.at)
        if node.is_distinct:
            use = replace(_distinguished(candidate.function, converted, use), is_distinct=True)
        parts = [*converted, *([condition] if condition is not None else [])]
        behind = "" if condition is None else f" FILTER (WHERE {condition.sql})"
        role = Role.AGGREGATE
        if node.over is not None:
            window = self._windows.over(node.over, place, keeps_frame=True)
            parts += window.parts
            behind, role = f" OVER {window.sql}", Role.WINDOW
            use = _only_if(use, condition, node)
        sql = self._expressions.operators.filled(candidate.function, use, node.at)
        sql = sql.replace(D, "DISTINCT " if node.is_distinct else "").replace(F, behind)
        nullable = not candidate.function.never_null
        return Typed(operand(sql), use.result, node.at, tuple(parts), nullable=nullable, role=role)

    # Window functions

    def _window(self, node: tree.Call, entries: tuple[Function, ...], place: Place) -> Typed:
        name = node.name[-1]
        if node.within is not None:
            return self._hypothetical(node, place)
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
        self._refuse_rows(values)
        candidate = self.chosen(node, entries, values)
        if candidate is None:
            raise self._undefined(node, values)
        converted, use = self._expressions.operators.use(candidate, values, node.at)
        window = self._windows.over(node.over, place, function=name)
        sql = self._expressions.operators.filled(candidate.function, use, node.at)
        sql = sql.replace(F, f" OVER {window.sql}")
        parts = (*converted, *window.parts)
        nullable = not candidate.function.never_null
        return Typed(operand(sql), use.result, node.at, parts, nullable=nullable, role=Role.WINDOW)

    def _without_excluded(self, node: tree.Call, window: tree.Window, place: Place) -> Typed:
        """A call over a frame with EXCLUDE."""
        name = node.name[-1]
        if name in ("sum", "avg") and node.arguments:
            kind = self._expressions.value(node.arguments[0], place.within("window")).type
            if _is_float(kind) or (name == "avg" and name_of(kind) == "interval"):
                what = f"{name}() of {shown(kind)} over a window frame with EXCLUDE"
                raise FeatureNotSupported.of(what, node.at)
        return self._expressions.value(without_excluded(node, window), place)

    def _hypothetical(self, node: tree.Call, place: Place) -> Typed:
        """`rank(x) WITHIN GROUP (ORDER BY y)`, which is an aggregate and no window function."""
        if node.over is not None:
            raise FeatureNotSupported.of("OVER for hypothetical-set aggregates", node.at)
        inner = self._check_place(node, place)
        return self._hypothetical_sets.bound(node, self._filter(node, inner), inner)


def _has_no_type(value: Typed) -> bool:
    return value.is_unknown and value.parameter is None


def _is_float(declared: PgType) -> bool:
    return name_of(declared) in FLOATS


def _distinguished(function: Function, values: tuple[Typed, ...], use: Use) -> Use:
    """The arguments of an aggregate of distinct values, told apart as PostgreSQL does."""
    pairs = zip(use.arguments, values, strict=True)
    if function.name == "count":
        keys = tuple(replace(each, sql=key_sql(value)) for each, value in pairs)
        return replace(use, arguments=keys)
    for value in values:
        check_groupable(value)
    return use


def _only_if(use: Use, condition: Typed | None, node: tree.Call) -> Use:
    """The arguments as null where the condition does not hold: Spark's windows have no FILTER.

    Aggregates do not see nulls, so that is the same.
    """
    if condition is None:
        return use
    if not use.arguments:
        raise FeatureNotSupported.of("FILTER of count(*) over a window", node.at)
    first, *rest = use.arguments
    kept = f"(CASE WHEN {condition.sql} THEN {first.sql} END)"
    return replace(use, arguments=(replace(first, sql=kept), *rest))


def _signature(node: tree.Call, values: tuple[Typed, ...]) -> str:
    types = "*" if node.is_star else ", ".join(_type_name(each.type) for each in values)
    return f"{'.'.join(node.name)}({types})"


def _type_name(declared: PgType) -> str:
    return "unknown" if declared.oid == UNKNOWN.oid else shown(declared)
