"""Errors as data: what becomes of a row for which an expression can not be computed.

Catalyst raises when a row divides by zero, overflows or can not be cast. In a view that would stop
everything because of one row. So a branch that may raise is computed under `TryEval`, which gives
null instead, and in its place the stream gets the row as text and the reason. Both are functions of
the row, so the update that retracts the row retracts the error too.

The reason names the first expression, from the inside out, that can not be computed for the row. It
is looked for only after the branch has failed: a row that does not fail pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from waterclock.compute.catalyst.trees import Builder, Expression
from waterclock.compute.kernels.errors import ERROR_SCHEMA

_NEVER_FAIL = frozenset(
    {
        "Alias",
        "And",
        "ArrayContains",
        "ArrayTransform",
        "AtLeastNNonNulls",
        "AttributeReference",
        "CaseWhen",
        "Coalesce",
        "Concat",
        "ConcatWs",
        "Contains",
        "CreateArray",
        "CreateNamedStruct",
        "DayOfMonth",
        "EndsWith",
        "EqualNullSafe",
        "EqualTo",
        "Explode",
        "GetStructField",
        "GreaterThan",
        "GreaterThanOrEqual",
        "Greatest",
        "Hour",
        "If",
        "In",
        "InSet",
        "Inline",
        "IsNaN",
        "IsNotNull",
        "IsNull",
        "KnownFloatingPointNormalized",
        "KnownNotNull",
        "KnownNullable",
        "LambdaFunction",
        "Least",
        "Length",
        "LessThan",
        "LessThanOrEqual",
        "Like",
        "Literal",
        "Lower",
        "Minute",
        "Month",
        "NaNvl",
        "NamedLambdaVariable",
        "NormalizeNaNAndZero",
        "Not",
        "NullIf",
        "Or",
        "PosExplode",
        "Quarter",
        "Second",
        "Size",
        "Stack",
        "StartsWith",
        "StringInstr",
        "StringLocate",
        "StringReplace",
        "StringReverse",
        "StringTrim",
        "StringTrimLeft",
        "StringTrimRight",
        "Substring",
        "Upper",
        "WeekDay",
        "Year",
    }
)
_DIVISIONS = frozenset({"Divide", "IntegralDivide", "Remainder", "Pmod"})
_SUMS = frozenset(
    {"Add", "Subtract", "Multiply", "UnaryMinus", "Abs", "CheckOverflow", "CheckOverflowInSum"}
)
_SQL_NAMES = {"byte": "smallint", "short": "smallint", "long": "bigint", "double": "double"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a branch that may fail: as the query has it, and over the base's column."""

    original: Expression
    computed: Expression

    @property
    def is_of_the_row(self) -> bool:
        """Whether it depends on the row alone, not on an element of an array in it."""
        return all(node.kind != "NamedLambdaVariable" for node in self.computed.walk())


class Failures:
    """Finds what may fail, and makes the columns that tell."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def fallible(self, expression: Expression) -> list[Expression]:
        """Its parts that may raise, the inner ones before those around them."""
        found = [part for child in expression.children for part in self.fallible(child)]
        return found if self._never_fails(expression) else [*found, expression]

    def guarded(
        self,
        value: Expression,
        row: Expression,
        parts: Sequence[Part],
        stamp: Sequence[Expression],
    ) -> Expression:
        """A struct of the value, or of the error if one of its parts can not be computed."""
        build = self._builder
        told = [build.as_text(row), self._reason(parts), *stamp]
        error = self._struct(zip(ERROR_SCHEMA.names, told, strict=True))
        succeeded = self._struct([("v", value), ("e", build.null_like(error))])
        failed = self._struct([("v", build.null_like(value)), ("e", error)])
        return build.first_of([build.call("TryEval", succeeded), failed])

    def _struct(self, fields: Iterable[tuple[str, Expression]]) -> Expression:
        """A struct whose fields may all be null, as far as their type says."""
        build = self._builder
        return build.struct({name: build.call("KnownNullable", field) for name, field in fields})

    def _reason(self, parts: Sequence[Part]) -> Expression:
        build = self._builder
        reason = build.text(f"22000 a value could not be computed: {parts[-1].original.sql}")
        for part in reversed(parts):
            if part.is_of_the_row:
                tried = build.call("TryEval", build.struct({"x": part.computed}))
                told = build.text(_told(part.original))
                reason = build.call("If", build.call("IsNull", tried), told, reason)
        return reason

    def _never_fails(self, expression: Expression) -> bool:
        if expression.kind == "Cast":
            return self._builder.is_widening(expression)
        if expression.kind in _NEVER_FAIL:
            return True
        return expression.kind in _SUMS and _type_name(expression) in ("float", "double")


def _told(part: Expression) -> str:
    """What went wrong if exactly this part failed: its SQLSTATE, then the message."""
    if part.kind in _DIVISIONS:
        return f"22012 division by zero in {part.sql}"
    if part.kind in _SUMS:
        return f"22003 {_type_name(part)} out of range in {part.sql}"
    if part.kind == "Cast":
        from_text = part.children[0].type_json == '"string"'
        code = "22P02" if from_text else "22003"
        return f"{code} invalid value for type {_type_name(part)} in {part.sql}"
    return f"22000 a value could not be computed: {part.sql}"


def _type_name(expression: Expression) -> str:
    name = expression.type_json.strip('"')
    return _SQL_NAMES.get(name, name)
