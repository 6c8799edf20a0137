"""Giving an expression another type, and finding the one type of several expressions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from waterclock.model.pg_types import (
    NO_MODIFIER,
    RECORD,
    REGCLASS,
    TEXT,
    PgType,
    format_type,
)
from waterclock.sql.binding import constants
from waterclock.sql.binding.api import Context
from waterclock.sql.binding.casting import cast_context, is_implicit
from waterclock.sql.binding.clock_words import clock_word
from waterclock.sql.binding.errors import CannotCoerce, DatatypeMismatch
from waterclock.sql.binding.folding import folded
from waterclock.sql.binding.object_names import relation_named
from waterclock.sql.binding.statement import Statement
from waterclock.sql.binding.typed import Known, Role, Typed, missing_sql, operand
from waterclock.sql.dialect import scaled
from waterclock.sql.dialect.casts import FLOATS, INTEGERS, NoConversion, cast_sql
from waterclock.sql.dialect.texts import record_of
from waterclock.sql.dialect.types import (
    ANY,
    category,
    common_numeric,
    element_type,
    is_array,
    is_preferred,
    is_unconstrained,
    name_of,
    padded_numeric,
    shown,
    spark_type,
)
from waterclock.sql.errors import FeatureNotSupported


class Coercion:
    """Conversions within one statement."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement

    def coerce(
        self, value: Typed, target: PgType, context: Context, at: int | None = None
    ) -> Typed:
        """The expression in the type; raises if PostgreSQL would not convert it there."""
        position = value.at if at is None else at
        if target.oid == ANY.oid:
            return self.settled(value)
        if value.is_unknown:
            return self._of_unknown(_cut(value, target, context), target)
        value = self._as_value(value)
        found = cast_context(value.type, target)
        if found is None or found.value > context.value:
            raise self.refused(value.type, target, context, position)
        return self._converted(value, target, context, position)

    def refused(self, source: PgType, target: PgType, context: Context, at: int) -> Exception:
        if context is Context.EXPLICIT:
            return CannotCoerce(f"cannot cast type {shown(source)} to {shown(target)}", at)
        message = f"cannot convert type {shown(source)} to {shown(target)}"
        return DatatypeMismatch(message, at)

    def settled(self, value: Typed) -> Typed:
        """The expression as a value of a type: text, if nothing else gives it one."""
        return self._of_unknown(value, TEXT) if value.is_unknown else self._as_value(value)

    def _as_value(self, value: Typed) -> Typed:
        """The expression; if it is a row, as a value of type record, which is held as its text."""
        if value.role is not Role.ROW:
            return value
        fields = tuple(self.settled(each) for each in value.parts)
        manner = self._statement.facts.manner
        sql = record_of([(each.sql, each.type) for each in fields], manner)
        missing = missing_sql(value)
        if missing is not None:
            sql = f"(CASE WHEN NOT {missing} THEN {sql} END)"
        nullable = missing is not None
        return Typed(operand(sql), RECORD, value.at, fields, nullable=nullable)

    def boolean(self, value: Typed, clause: str) -> Typed:
        """The expression as a condition."""
        if not value.is_unknown and name_of(value.type) != "bool":
            raise DatatypeMismatch(
                f"argument of {clause} must be type boolean, not type {shown(value.type)}", value.at
            )
        return self.coerce(value, PgType(16), Context.IMPLICIT)

    # Converting

    def _of_unknown(self, value: Typed, target: PgType) -> Typed:
        if value.parameter is not None:
            if target.oid == REGCLASS.oid:
                raise FeatureNotSupported.of("a parameter of type regclass", value.at)
            found = self._statement.parameters.resolve(value.parameter, target, value.at)
            if found.type.oid == target.oid and target.modifier in (
                NO_MODIFIER,
                found.type.modifier,
            ):
                return found
            return self._converted(found, target, Context.EXPLICIT, value.at)
        assert value.known is not None, "what has no type is a constant or a parameter"
        if value.known.text is None:
            return constants.null_of(target, value.at)
        if value.known.is_number and name_of(target) not in FLOATS:
            raise constants.too_long(value.at)
        if target.oid == REGCLASS.oid:
            return relation_named(value.known.text, self._statement, value.at)
        at_clock = clock_word(value.known.text, target, self._statement, value.at)
        if at_clock is not None:
            return at_clock
        found = constants.read(value.known.text, target, self._statement.facts, value.at)
        return replace(found, at=value.at)

    def _converted(self, value: Typed, target: PgType, context: Context, at: int) -> Typed:
        if target.oid == REGCLASS.oid and value.type.oid != REGCLASS.oid:
            if value.text is None:
                what = "a cast to regclass of something that is not constant"
                raise FeatureNotSupported.of(what, at)
            return relation_named(value.text, self._statement, at)
        constant = folded(value, target, explicit=context is Context.EXPLICIT)
        if constant is not None:
            return constant
        manner = self._statement.facts.manner
        try:
            made = cast_sql(
                value.sql, value.type, target, manner, explicit=context is Context.EXPLICIT
            )
        except NoConversion:
            what = f"a cast from {shown(value.type)} to {shown(target)}"
            raise FeatureNotSupported.of(what, at) from None
        if made.sql == value.sql:
            return replace(value, type=made.type)
        return Typed(operand(made.sql), made.type, value.at, (value,), nullable=value.nullable)

    # Common types

    def common_type(self, values: Sequence[Typed], what: str, *, is_shown: bool = True) -> PgType:
        """The type that UNION, CASE, VALUES and the like give to all of these.

        Raises `DatatypeMismatch` if there is none; `what` names the construct. Values that are only
        compared, not shown, need not keep their own digits.
        """
        known = [value for value in values if not value.is_unknown]
        if not known:
            return TEXT
        first = known[0]
        if all(each.type == first.type for each in known):
            has_length = name_of(first.type) in ("varchar", "bpchar") and len(known) < len(values)
            return PgType(first.type.oid) if has_length else first.type
        chosen = self._chosen(known, what)
        if name_of(chosen) == "numeric":
            find = common_numeric if is_shown else padded_numeric
            return find([each.type for each in known if _is_exact(each.type)])
        same = [each.type for each in known if each.type.oid == chosen.oid]
        is_same = len(same) == len(known) and len({each.modifier for each in same}) == 1
        return same[0] if is_same else PgType(chosen.oid)

    def _chosen(self, known: Sequence[Typed], what: str) -> PgType:
        chosen = known[0].type
        for value in known[1:]:
            if value.type.oid == chosen.oid:
                continue
            if category(value.type) != category(chosen):
                raise DatatypeMismatch(
                    f"{what} types {shown(chosen)} and {shown(value.type)} cannot be matched",
                    value.at,
                )
            if is_preferred(chosen):
                continue
            if is_implicit(chosen, value.type) and not is_implicit(value.type, chosen):
                chosen = value.type
        for value in known:
            if not is_implicit(value.type, chosen):
                raise DatatypeMismatch(
                    f"{what} could not convert type {shown(value.type)} to {shown(chosen)}",
                    value.at,
                )
        return chosen

    def unified(self, values: Sequence[Typed], what: str) -> tuple[list[Typed], PgType]:
        """All in their common type."""
        target = self.common_type(values, what)
        return [self.into(value, target) for value in values], target

    def into(self, value: Typed, target: PgType) -> Typed:
        """The expression in a type that it was found to go into, with its digits."""
        found = self._of_unknown(value, target) if value.is_unknown else self._as_value(value)
        if found.type == target:
            return found
        if found.type.oid == target.oid and name_of(target) not in ("numeric", "_numeric"):
            return replace(found, type=target)
        return self._digits(self._converted(found, target, Context.IMPLICIT, value.at), target)

    def _digits(self, value: Typed, target: PgType) -> Typed:
        """A numeric with the digits wanted, or with a scale of its own."""
        if name_of(target) not in ("numeric", "_numeric") or value.type == target:
            return value
        number = value.value
        if isinstance(number, Decimal) and is_unconstrained(target):
            return constants.scaled(number, value.at)
        sql = operand(_with_digits(value.sql, value.type, target))
        return Typed(sql, target, value.at, (value,), nullable=value.nullable)

    def assigned(self, value: Typed, target: PgType, name: str | None) -> Typed:
        """The expression as a value for a column of a table."""
        if value.is_unknown:
            return self._digits(self._of_unknown(value, target), target)
        value = self._as_value(value)
        found = cast_context(value.type, target)
        if found is None or found is Context.EXPLICIT:
            column = (
                ""
                if name is None
                else f'column "{name}" is of type {format_type_plain(target)} but '
            )
            raise DatatypeMismatch(
                f"{column}expression is of type {shown(value.type)}",
                value.at,
                hint="You will need to rewrite or cast the expression.",
            )
        converted = self._converted(value, target, Context.ASSIGNMENT, value.at)
        return self._digits(converted, target)


def _with_digits(value: str, source: PgType, target: PgType) -> str:
    if is_array(target):
        inner = _with_digits("e", element_type(source), element_type(target))
        return f"TRANSFORM({value}, e -> {inner})"
    if is_unconstrained(target):
        return scaled.into(value, source)
    if is_unconstrained(source):
        return scaled.to_exact(value, target)
    return f"CAST({value} AS {spark_type(target)})"


def _cut(value: Typed, target: PgType, context: Context) -> Typed:
    """A string constant that is cast to a type of limited length is cut to it."""
    text = None if value.known is None else value.known.text
    is_limited = name_of(target) in ("varchar", "bpchar") and target.modifier != NO_MODIFIER
    if text is None or not is_limited or context is not Context.EXPLICIT:
        return value
    return replace(value, known=Known(text=text[: target.modifier - 4]))


def format_type_plain(target: PgType) -> str:
    return format_type(PgType(target.oid))


def _is_exact(declared: PgType) -> bool:
    return name_of(declared) in INTEGERS | {"numeric", "uint8"}
