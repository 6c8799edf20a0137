"""What is common to everything that is bound for one statement: facts, parameters, what was met."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import (
    FLOAT4,
    FLOAT8,
    NUMERIC,
    TEXT,
    PgType,
    array_of,
    column_type,
    pg_type_of,
)
from waterclock.model.schema import (
    Bool,
    Bytes,
    ColumnType,
    Date,
    Float,
    Int,
    Text,
    TimeOfDay,
    Timestamp,
)
from waterclock.persist.numerics import held_as
from waterclock.persist.rows import arrow_type
from waterclock.sql.binding.api import Resolver
from waterclock.sql.binding.errors import UndefinedParameter
from waterclock.sql.binding.parts import Parts
from waterclock.sql.binding.typed import Known, Typed, operand
from waterclock.sql.budget import Meter
from waterclock.sql.dialect.facts import SessionFacts
from waterclock.sql.dialect.literals import null, scalar_literal
from waterclock.sql.dialect.types import UNKNOWN, plain

_SIMPLE_TYPES: tuple[ColumnType, ...] = (
    *(Bool(), Int(16), Int(32), Int(64), Float(32), Float(64), Text(), Bytes(), Date()),
    *(TimeOfDay(), Timestamp(False), Timestamp(True)),
)
_FRACTIONS = (NUMERIC, *(array_of(each) for each in (FLOAT4, FLOAT8, NUMERIC)))
"""Not every value of these is one of any other type that numbers are held as."""
_BY_ARROW = {arrow_type(each): pg_type_of(each) for each in _SIMPLE_TYPES}
_BY_ARROW |= {arrow_type(column_type(each)): each for each in _FRACTIONS}


class Parameters:
    """The parameters of a statement: types that were given or found, and values if there are any.

    One that nothing gives a type is text.
    """

    def __init__(
        self, types: Sequence[PgType | None], values: Sequence[pa.Scalar | None] | None
    ) -> None:
        self._types: dict[int, PgType] = {
            number: each for number, each in enumerate(types, start=1) if each is not None
        }
        self._values = values
        self._count = len(types) if values is None else max(len(types), len(values))

    def typed(self, number: int, at: int) -> Typed:
        """The parameter where it stands, without a type if it has none yet."""
        if self._values is not None and number > len(self._values):
            raise UndefinedParameter(f"there is no parameter ${number}", at)
        self._count = max(self._count, number)
        declared = self._types.get(number)
        if declared is None:
            return Typed("", UNKNOWN, at, parameter=number)
        return self._valued(number, declared, at)

    def resolve(self, number: int, wanted: PgType, at: int) -> Typed:
        """Give the parameter a type, unless it has one; it, in the type it has."""
        declared = self._types.setdefault(number, self._fitting(number, plain(wanted)))
        return self._valued(number, declared, at)

    def _fitting(self, number: int, wanted: PgType) -> PgType:
        """The type wanted, or that of the value if it was read as another one."""
        value = None if self._values is None else self._values[number - 1]
        if value is None or not value.is_valid:
            return wanted
        held = arrow_type(column_type(wanted))
        if value.type == held or pa.types.is_decimal(value.type):
            return wanted
        return _BY_ARROW.get(value.type, wanted)

    def _valued(self, number: int, declared: PgType, at: int) -> Typed:
        if self._values is None:
            return Typed(null(declared), declared, at, parameter=number)
        value = self._values[number - 1]
        held = arrow_type(column_type(declared))
        if value is None or not value.is_valid:
            scalar = pa.scalar(None, held)
        else:
            scalar = held_as(value, held)
        sql = operand(scalar_literal(scalar, declared))
        return Typed(sql, declared, at, known=Known(scalar=scalar), nullable=not scalar.is_valid)

    def types(self) -> tuple[PgType, ...]:
        return tuple(self._types.get(number, TEXT) for number in range(1, self._count + 1))


@dataclass(slots=True)
class Statement:
    """The state of binding one statement."""

    resolver: Resolver
    facts: SessionFacts
    parameters: Parameters
    maintained: bool
    meter: Meter = field(default_factory=Meter)
    parts: Parts = field(default_factory=Parts)
    reads: dict[GlobalId, None] = field(default_factory=dict)
    nondeterministic: dict[str, None] = field(default_factory=dict)
    uses_now: bool = False
    uses_mz_now: bool = False
    locks: bool = False
    whole_results: dict[str, None] = field(default_factory=dict)
    """The types of whole numbers that are computed, which may be too small for a result."""
    aliases: int = 0
    scopes: int = 0

    def alias(self) -> str:
        """A name for a relation that nothing else in the statement has."""
        self.aliases += 1
        return f"t{self.aliases}"

    def scope(self) -> int:
        self.scopes += 1
        return self.scopes
