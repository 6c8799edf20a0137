"""Operators: choosing an entry of the table, converting the operands, writing it out."""

from __future__ import annotations

from waterclock.model.pg_types import RECORD, PgType, array_of
from waterclock.sql.binding.api import Context
from waterclock.sql.binding.coercion import Coercion
from waterclock.sql.binding.errors import (
    AMBIGUOUS_OPERATOR_HINT,
    NO_OPERATOR_HINT,
    AmbiguousFunction,
    Rejected,
    UndefinedOperator,
)
from waterclock.sql.binding.overloads import Ambiguous, Candidate, choose, polymorphic_types
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.typed import Typed, operand
from waterclock.sql.dialect.types import (
    ANY,
    ANYARRAY,
    ANYCOMPATIBLE,
    ANYCOMPATIBLEARRAY,
    ANYELEMENT,
    POLYMORPHIC,
    UNKNOWN,
    element_type,
    is_array,
    name_of,
    shown,
    spark_type,
)
from waterclock.sql.errors import FeatureNotSupported
from waterclock.sql.functions import OPERATORS
from waterclock.sql.functions.registry import Argument, Function, Invalid, Kind, Refused, Use

_ARITHMETIC = frozenset({"+", "-", "*", "/", "abs", "@", "lcm", "gcd"})
_WHOLE = frozenset({"int2", "int4", "int8"})


class Operators:
    """Applies operators, and converts the arguments of functions in the same way."""

    def __init__(self, statement: Statement, coercion: Coercion) -> None:
        self._statement = statement
        self._coercion = coercion

    def apply(self, name: str, operands: tuple[Typed, ...], at: int) -> Typed:
        """The operator on these operands; raises `UndefinedOperator` if there is none for them."""
        for each in operands:
            if each.type.oid == RECORD.oid:
                raise FeatureNotSupported.of(f"the operator {name} on rows", at)
        candidate = self._chosen(name, operands, at)
        return self.written(candidate, operands, at)

    def _chosen(self, name: str, operands: tuple[Typed, ...], at: int) -> Candidate:
        types = tuple(each.type for each in operands)
        entries = OPERATORS.get(name, ())
        try:
            found = _same_type(entries, types) or choose(entries, types)
        except Ambiguous:
            raise AmbiguousFunction(
                f"operator is not unique: {_signature(name, types)}",
                at,
                hint=AMBIGUOUS_OPERATOR_HINT,
            ) from None
        if found is None:
            message = f"operator does not exist: {_signature(name, types)}"
            raise UndefinedOperator(message, at, hint=NO_OPERATOR_HINT)
        return found

    # Shared with function calls

    def written(self, candidate: Candidate, values: tuple[Typed, ...], at: int) -> Typed:
        """The entry with its arguments converted."""
        function = candidate.function
        converted, use = self.use(candidate, values, at)
        if function.name in _ARITHMETIC and name_of(use.result) in _WHOLE:
            self._statement.whole_results[shown(use.result)] = None
        sql = operand(self.filled(function, use, at))
        nullable = not function.never_null
        return Typed(sql, use.result, at, converted, nullable=nullable)

    def filled(self, function: Function, use: Use, at: int) -> str:
        try:
            return function.written(use)
        except (Refused, Invalid) as problem:
            if isinstance(problem, Refused) and _is_null(function, use):
                return _null(function, use)
            raise _told(problem, at) from None

    def use(
        self, candidate: Candidate, values: tuple[Typed, ...], at: int
    ) -> tuple[tuple[Typed, ...], Use]:
        """The arguments in the types that the entry wants, and the call as its template sees it."""
        function = candidate.function
        common = self._common(candidate, values)
        known = polymorphic_types(candidate, tuple(each.type for each in values), common)
        converted = tuple(
            self._argument(value, wanted, known)
            for value, wanted in zip(values, candidate.arguments, strict=True)
        )
        arguments = tuple(
            Argument(
                *(each.sql, each.type, each.text, each.known is not None, each.value),
                is_null=_has_no_value(each),
            )
            for each in converted
        )
        try:
            declared = function.result
            result = declared if isinstance(declared, PgType) else declared(arguments)
        except (Refused, Invalid) as problem:
            raise _told(problem, at) from None
        if result.oid in POLYMORPHIC:
            if result.oid not in known:  # an array of what is an array already
                raise FeatureNotSupported.of("an array of more than one dimension", at)
            result = known[result.oid]
        return converted, Use(arguments, result, self._statement.facts, at)

    def _common(self, candidate: Candidate, values: tuple[Typed, ...]) -> PgType | None:
        """What the compatible arguments have in common."""
        pairs = list(zip(candidate.arguments, values, strict=True))
        elements = [v for w, v in pairs if w.oid == ANYCOMPATIBLE.oid]
        arrays = [v for w, v in pairs if w.oid == ANYCOMPATIBLEARRAY.oid and not v.is_unknown]
        if not elements and not arrays:
            return None
        inner = [Typed(v.sql, element_type(v.type), v.at) for v in arrays]
        return self._coercion.common_type([*elements, *inner], candidate.function.name)

    def _argument(self, value: Typed, wanted: PgType, known: dict[int, PgType]) -> Typed:
        if wanted.oid == ANY.oid:
            return self._coercion.settled(value)
        if wanted.oid not in POLYMORPHIC:
            return self._coercion.coerce(value, wanted, Context.IMPLICIT)
        if wanted.oid not in known:
            settled = self._coercion.settled(value)
            known[wanted.oid] = settled.type
            if wanted.oid == ANYELEMENT.oid and not is_array(settled.type):
                known[ANYARRAY.oid] = array_of(settled.type)
            return settled
        return self._coercion.into(value, known[wanted.oid])


def _told(problem: Refused | Invalid, at: int) -> Exception:
    if isinstance(problem, Refused):
        return FeatureNotSupported(f"{problem.what} is not supported", at, hint=problem.hint)
    return Rejected(problem.sqlstate, problem.message, at)


def _same_type(entries: tuple[Function, ...], types: tuple[PgType, ...]) -> Candidate | None:
    """If one operand has no type, the entry where both have that of the other."""
    if len(types) != 2 or UNKNOWN.oid not in (types[0].oid, types[1].oid):
        return None
    only = types[0] if types[1].oid == UNKNOWN.oid else types[1]
    if only.oid == UNKNOWN.oid:
        return None
    for entry in entries:
        if len(entry.arguments) == 2 and all(each.oid == only.oid for each in entry.arguments):
            return Candidate(entry, entry.arguments)
    return None


def _signature(name: str, types: tuple[PgType, ...]) -> str:
    if len(types) == 1:
        return f"{name} {shown(types[0])}"
    return f"{shown(types[0])} {name} {shown(types[1])}"


def _is_null(function: Function, use: Use) -> bool:
    """Whether what was refused has no value, whatever it would be made of.

    It has none if an argument is null, and none yet if a parameter's value is still to come: then
    only its type is asked for.
    """
    if function.kind not in (Kind.SCALAR, Kind.SET) or function.columns or function.never_null:
        return False
    return any(each.is_null for each in use.arguments)


def _has_no_value(value: Typed) -> bool:
    return value.parameter is not None if value.known is None else value.known.is_null


def _null(function: Function, use: Use) -> str:
    kind = spark_type(use.result)
    return f"CAST(NULL AS {f'ARRAY<{kind}>' if function.kind is Kind.SET else kind})"
