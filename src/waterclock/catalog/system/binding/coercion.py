"""How a value becomes one of another type, as DuckDB's text.

Two ways: `implicit`, where nobody asked and only a safe conversion is right, and `explicit`, a
cast. The names of objects (regclass and its like) are held as OIDs, so their conversion to and from
text is a call that looks the name up.
"""

from __future__ import annotations

import re
from dataclasses import replace

from sqlglot import exp

from waterclock.catalog.system.arrays import array_elements
from waterclock.catalog.system.binding.agreement import may_convert, plain
from waterclock.catalog.system.binding.typed import Lookup, Statement, Typed, quoted
from waterclock.catalog.system.errors import (
    CannotCoerce,
    DatatypeMismatch,
    FeatureNotSupported,
    InvalidText,
    NumberOutOfRange,
)
from waterclock.catalog.system.types import (
    BOOL,
    BPCHAR,
    BYTEA,
    CHAR,
    INT2,
    INT4,
    INT8,
    INTEGERS,
    OID,
    REG_TYPES,
    TEXT,
    UNKNOWN,
    VARCHAR,
    VECTORS,
)
from waterclock.model.pg_types import PgType

_TRUE = {"t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"}
_FALSE = {"f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"}
_RANGES = {
    INT2: (-(1 << 15), (1 << 15) - 1, "smallint"),
    INT4: (-(1 << 31), (1 << 31) - 1, "integer"),
    INT8: (-(1 << 63), (1 << 63) - 1, "bigint"),
    OID: (-(1 << 31), (1 << 32) - 1, "oid"),
}
_NUMERIC_OID = re.compile(r"\d+\Z")


class Coercion:
    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._types = statement.types

    def settle(self, value: Typed) -> Typed:
        """The value with a type of its own: what is still unknown is text."""
        return self.implicit(value, PgType(TEXT), None) if value.is_unknown else value

    def implicit(self, value: Typed, target: PgType, node: exp.Expr | None) -> Typed:
        """The value as the target type; `DatatypeMismatch` if that takes a cast."""
        if value.is_unknown:
            return self._decided(value, target, node)
        if value.oid == target.oid:
            return value
        if not self._types.becomes(value.oid, target.oid) and not self._same_elements(
            value.oid, target.oid
        ):
            wanted, given = self._types.shown(target.oid), self._types.shown(value.oid)
            message = f"argument must be type {wanted}, not type {given}"
            raise self._statement.fail(DatatypeMismatch, message, node)
        return self._converted(value, target, node)

    def explicit(self, value: Typed, target: PgType, node: exp.Expr | None) -> Typed:
        """The value after a cast; `CannotCoerce` if there is none."""
        if value.is_unknown:
            return self._limited(self._decided(value, target, node), target)
        if value.oid == target.oid:
            return self._limited(value, target)
        return self._limited(self._converted(value, target, node), target)

    def _same_elements(self, source: int, target: int) -> bool:
        """Whether both are arrays whose elements convert."""
        from_, to = self._types.element_of(source), self._types.element_of(target)
        return from_ is not None and to is not None and self._types.becomes(from_, to)

    # --- unknown values -------------------------------------------------------------------------

    def _decided(self, value: Typed, target: PgType, node: exp.Expr | None) -> Typed:
        if value.parameter:
            decided = self._statement.decide(value, target.oid)
            return decided if decided.oid == target.oid else self._converted(decided, target, node)
        held = self._types.held_as(target.oid)
        lower = 0 if target.oid in VECTORS else 1
        if value.literal is None:
            return Typed(f"CAST(NULL AS {held})", target, lower)
        return Typed(self._literal(value.literal, target.oid, node), target, lower)

    def _literal(self, text: str, oid: int, node: exp.Expr | None) -> str:
        if oid in REG_TYPES:
            return self._object(text, oid, node)
        if oid in _RANGES:
            return self._number(text, oid, node)
        if oid == BOOL:
            return self._boolean(text, node)
        if oid in VECTORS:
            parts = [self._literal(part, VECTORS[oid], node) for part in text.split()]
            return f"CAST([{', '.join(parts)}] AS {self._types.held_as(oid)})"
        element = self._types.element_of(oid)
        if element is not None:
            return self._array(text, oid, element, node)
        if oid == CHAR:
            return quoted(text[:1])
        read = plain(text, oid) if self._types.is_read_as_written(oid) else None
        if read is None:
            what = f"such a constant of type {self._types.shown(oid)} over the system catalogs"
            raise self._statement.fail(FeatureNotSupported, f"{what} is not supported", node)
        text = read
        held = self._types.held_as(oid)
        if held == "VARCHAR":
            return quoted(text)
        if oid == BYTEA and text.startswith("\\x"):
            return f"from_hex({quoted(text[2:])})"
        return f"CAST({quoted(text)} AS {held})"

    def _object(self, text: str, oid: int, node: exp.Expr | None) -> str:
        if _NUMERIC_OID.match(text.strip()):
            return self._number(text, OID, node)
        if text == "-":
            return "CAST(0 AS UINTEGER)"
        name = self._statement.alias("r")
        position = self._statement.position(node)
        self._statement.lookups.append(Lookup(name, oid, text, position))
        return f"CAST(${name} AS UINTEGER)"

    def _number(self, text: str, oid: int, node: exp.Expr | None) -> str:
        low, high, name = _RANGES[oid]
        try:
            number = int(text.strip())
        except ValueError:
            message = f'invalid input syntax for type {name}: "{text}"'
            raise self._statement.fail(InvalidText, message, node) from None
        if not low <= number <= high:
            message = f'value "{text}" is out of range for type {name}'
            raise self._statement.fail(NumberOutOfRange, message, node)
        if oid == OID:
            number %= 1 << 32
        return f"CAST({number} AS {self._types.held_as(oid)})"

    def _boolean(self, text: str, node: exp.Expr | None) -> str:
        plain = text.strip().lower()
        if plain in _TRUE:
            return "TRUE"
        if plain in _FALSE:
            return "FALSE"
        message = f'invalid input syntax for type boolean: "{text}"'
        raise self._statement.fail(InvalidText, message, node)

    def _array(self, text: str, oid: int, element: int, node: exp.Expr | None) -> str:
        try:
            parts = array_elements(text)
        except ValueError:
            message = f'malformed array literal: "{text}"'
            detail = 'Array value must start with "{" or dimension information.'
            raise self._statement.fail(InvalidText, message, node, detail=detail) from None
        written = ["NULL" if part is None else self._literal(part, element, node) for part in parts]
        return f"CAST([{', '.join(written)}] AS {self._types.held_as(oid)})"

    # --- values of known types ------------------------------------------------------------------

    def _limited(self, value: Typed, target: PgType) -> Typed:
        """The value cut to the length that the cast names."""
        if target.oid in (VARCHAR, BPCHAR) and target.modifier >= 4:
            length = target.modifier - 4
            cut = f"left({value.sql}, {length})"
            return Typed(f"rpad({cut}, {length}, ' ')" if target.oid == BPCHAR else cut, target)
        return replace(value, type=target)

    def _converted(self, value: Typed, target: PgType, node: exp.Expr | None) -> Typed:
        source, oid = value.oid, target.oid
        self._check(source, oid, node)
        if oid in REG_TYPES:
            return Typed(self._to_object(value, oid, node), target)
        if self._types.is_text(oid):
            return Typed(self._to_text(value, oid), target)
        held, wanted = self._types.held_as(source), self._types.held_as(oid)
        if source == CHAR and oid in INTEGERS:
            return Typed(f"CAST(ascii({value.sql}) AS {wanted})", target)
        if wanted.endswith("[]") != held.endswith("[]") and not self._types.is_text(source):
            raise self._cannot(source, oid, node)
        if {source, oid} & {BOOL} and not {source, oid} & {INT4, TEXT, VARCHAR, BPCHAR, UNKNOWN}:
            raise self._cannot(source, oid, node)
        lower = value.lower if held.endswith("[]") else 1
        element = self._types.element_of(source)
        if element in REG_TYPES and wanted == "VARCHAR[]":
            name = self._statement.alias("e")
            text = f"list_transform({value.sql}, lambda {name}: wc_reg_out({element}, {name}))"
            return Typed(text, target, lower)
        if held == wanted:
            return Typed(value.sql, target, lower)
        if self._types.is_text(source) and oid in INTEGERS:
            return Typed(f"CAST(wc_integer_in({value.sql}) AS {wanted})", target)
        if self._types.is_text(source) and oid == BOOL:
            return Typed(f"wc_boolean_in({value.sql})", target)
        if wanted.endswith("[]") and held == "VARCHAR":
            return Typed(f"CAST(wc_array_in({value.sql}) AS {wanted})", target)
        return Typed(f"CAST({value.sql} AS {wanted})", target, lower)

    def _check(self, source: int, target: int, node: exp.Expr | None) -> None:
        """Raise for a conversion of which it is not known that DuckDB does it right."""
        is_known = self._types.is_read_as_written(target) or self._types.element_of(target)
        if is_known and may_convert(source, target, is_text=self._types.is_text(target)):
            return
        shown = f"{self._types.shown(source)} to {self._types.shown(target)}"
        message = f"a cast from {shown} over the system catalogs is not supported"
        raise self._statement.fail(FeatureNotSupported, message, node)

    def _to_object(self, value: Typed, oid: int, node: exp.Expr | None) -> str:
        if self._types.is_text(value.oid):
            return f"wc_reg_in({oid}, {value.sql})"
        if value.oid in REG_TYPES or value.oid == OID:
            return value.sql
        if value.oid in INTEGERS:
            return f"CAST({value.sql} AS UINTEGER)"
        raise self._cannot(value.oid, oid, node)

    def _to_text(self, value: Typed, oid: int) -> str:
        source = value.oid
        if source in REG_TYPES:
            text = f"wc_reg_out({source}, {value.sql})"
        elif source in VECTORS:
            text = f"coalesce(array_to_string({value.sql}, ' '), '')"
        elif self._types.element_of(source) is not None:
            text = f"wc_array_out(CAST({value.sql} AS VARCHAR[]))"
        elif self._types.is_text(source):
            text = value.sql
        else:
            text = f"CAST({value.sql} AS VARCHAR)"
        return f"left({text}, 1)" if oid == CHAR and source != CHAR else text

    def _cannot(self, source: int, target: int, node: exp.Expr | None) -> CannotCoerce:
        message = f"cannot cast type {self._types.shown(source)} to {self._types.shown(target)}"
        error = self._statement.fail(CannotCoerce, message, node)
        assert isinstance(error, CannotCoerce)
        return error
