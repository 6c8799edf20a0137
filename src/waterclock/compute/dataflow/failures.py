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

from waterclock.compute import faults
from waterclock.compute.catalyst.trees import Builder, Expression
from waterclock.compute.faults import Reason
from waterclock.compute.kernels.errors import ERROR_SCHEMA
from waterclock.persist.numerics import TOO_LONG

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
_CHOICES = frozenset({"CaseWhen", "If"})
_CALL = "StaticInvoke"
_NUMERICS = "waterclock.Numerics"
_WITHOUT_FAULTS = frozenset(
    f"waterclock.{name}"
    for name in (
        *("Floats", "Angles", "Degrees", "Documents", "NumberTexts"),
        *("NumberReading", "Json"),
    )
)
"""Classes of ours whose methods have a value, if only NaN, for all arguments."""
_OF_NUMERICS = {
    "held": Reason("22003", TOO_LONG),
    **dict.fromkeys(("quotient", "wholeQuotient", "remainder"), faults.DIVISION_BY_ZERO),
    "root": Reason("2201F", "cannot take square root of a negative number"),
    "log": faults.DIVISION_BY_ZERO,
    **dict.fromkeys(("exp", "power"), Reason("22003", TOO_LONG)),
    "notZero": Reason("2201E", "cannot take logarithm of zero"),
    "notNegative": Reason("2201E", "cannot take logarithm of a negative number"),
    "defined": Reason("2201F", "zero raised to a negative power is undefined"),
    "real": Reason(
        "2201F", "a negative number raised to a non-integer power yields a complex result"
    ),
}
"""What the methods of this class of ours say where they have no value; all others have one."""
_OF_CLASSES = {
    "waterclock.Matches": faults.PATTERN_TOO_SLOW,
    "waterclock.Likes": faults.PATTERN_TOO_SLOW,
    "waterclock.Texts": faults.VALUE_TOO_LARGE,
}
"""What methods of other classes of ours say where they have no value."""
_DIVISIONS = frozenset({"Divide", "IntegralDivide", "Remainder", "Pmod"})
_SUMS = frozenset(
    {"Add", "Subtract", "Multiply", "UnaryMinus", "Abs", "CheckOverflow", "CheckOverflowInSum"}
)
_SQL_NAMES = {"byte": "smallint", "short": "smallint", "integer": "int", "long": "bigint"}
_RAISE = "RaiseError"
_UNKNOWN = Reason("22000", "a value could not be computed")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a branch that may fail: as the query has it, and over the base's column."""

    original: Expression
    computed: Expression

    @property
    def is_of_the_row(self) -> bool:
        """Whether it depends on the row alone, not on an element of an array in it."""
        return _is_of_the_row(self.computed)


class Failures:
    """Finds what may fail, and makes the columns that tell."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder

    def fallible(self, expression: Expression) -> list[Expression]:
        """Its parts that may raise, the inner ones before those around them."""
        found = [part for child in expression.children for part in self.fallible(child)]
        if expression.kind in _CHOICES and _raises(expression):
            return [*found, expression]
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
        raising = [part.computed for part in parts if part.original.kind == _RAISE]
        reason = build.text(f"{_UNKNOWN.sqlstate} {_UNKNOWN.message}")
        if len(raising) == 1 and _is_of_the_row(raising[0]):
            reason = build.first_of([build.call("TryEval", self._said(raising[0])), reason])
        known = [part for part in parts if part.is_of_the_row]
        for part in reversed(known):
            # What is raised is told by the choice that raises it.
            if part.original.kind == _RAISE or part.original.kind in _CHOICES:
                continue
            tried = build.call("TryEval", build.struct({"x": part.computed}))
            told = build.text(_told(part.original))
            reason = build.call("If", build.call("IsNull", tried), told, reason)
        # A choice knows what it raises for the row; the others are tried whether reached or not.
        chosen = [part for part in known if part.original.kind in _CHOICES]
        said = [build.call("TryEval", self._said(part.computed)) for part in chosen]
        return build.first_of([*said, reason]) if said else reason

    def _said(self, value: Expression) -> Expression:
        """The text that a choice raises for the row; null if it chooses something else."""
        build = self._builder
        if value.kind == _RAISE:
            [_, parameters] = value.children
            if parameters.children:
                return parameters.children[-1]
            held = parameters.java.value().valueArray()  # a map that was computed already
            return build.text(held.getUTF8String(held.numElements() - 1).toString())
        if value.kind == "Cast":
            return self._said(value.children[0])
        if value.kind == "If":
            condition, one, other = value.children
            return build.call("If", condition, self._said(one), self._said(other))
        if value.kind != "CaseWhen":
            return build.literal(None, '"string"')
        said = build.literal(None, '"string"')
        children = value.children
        if len(children) % 2:
            said = self._said(children[-1])
        for condition, chosen in reversed(list(zip(children[::2], children[1::2], strict=False))):
            said = build.call("If", condition, self._said(chosen), said)
        return said

    def _never_fails(self, expression: Expression) -> bool:
        if expression.kind == "Cast":
            return self._builder.is_widening(expression)
        if expression.kind in _NEVER_FAIL:
            return True
        if (method := _method_of_ours(expression)) is not None:
            return method not in _OF_NUMERICS
        if expression.kind == _CALL:
            return expression.java.staticObject().getName() in _WITHOUT_FAULTS
        return expression.kind in _SUMS and _type_name(expression) in ("float", "double")


def _is_of_the_row(expression: Expression) -> bool:
    return all(node.kind != "NamedLambdaVariable" for node in expression.walk())


def _raises(value: Expression) -> bool:
    """Whether one of the values that it chooses from is an error that our own SQL raises."""
    if value.kind == "Cast":
        return _raises(value.children[0])
    if value.kind not in _CHOICES:
        return value.kind == _RAISE
    return any(_raises(child) for child in value.children)


def _told(part: Expression) -> str:
    """What went wrong if exactly this part failed: its SQLSTATE, then the message."""
    found = _reason(part)
    return f"{found.sqlstate} {found.message}"


def _reason(part: Expression) -> Reason:
    if part.kind in _DIVISIONS:
        return faults.DIVISION_BY_ZERO
    if (method := _method_of_ours(part)) is not None:
        return _OF_NUMERICS[method]
    if part.kind == _CALL:
        return _OF_CLASSES.get(part.java.staticObject().getName(), _UNKNOWN)
    if part.kind in _SUMS:
        return faults.out_of_range(_type_name(part))
    if part.kind == "Cast":
        from_text = part.children[0].type_json == '"string"'
        name = _type_name(part)
        return faults.unreadable(name) if from_text else faults.out_of_range(name)
    return _UNKNOWN


def _method_of_ours(expression: Expression) -> str | None:
    """The method of ours that the expression calls, if it calls one."""
    if expression.kind != _CALL or expression.java.staticObject().getName() != _NUMERICS:
        return None
    method: str = expression.java.functionName()
    return method


def _type_name(expression: Expression) -> str:
    """The type as SQL has it."""
    name = expression.type_json.strip('"')
    return _SQL_NAMES.get(name, name).upper()
