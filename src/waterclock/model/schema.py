"""The shape of rows: SQL column types, columns and schemas.

`ColumnType` is a closed union of plain values, one class for each SQL type, to be taken apart
with `match`. They describe types only. How a value of one is held in memory, sent over a wire or
written to disk is told elsewhere.

Invariant: a type, column or schema that exists is valid. Names in a schema are unique, not
empty, and none of those that the database itself puts beside a row to show its time and diff.
Names are compared exactly; folding an unquoted name to lower case has happened before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from waterclock.model.errors import (
    DuplicateColumn,
    InvalidName,
    InvalidType,
    ReservedName,
    UnknownColumn,
)

MAX_DECIMAL_PRECISION = 38
RESERVED_NAMES = frozenset({"mz_timestamp", "mz_diff"})


@dataclass(frozen=True, slots=True)
class Bool:
    """True or false."""


@dataclass(frozen=True, slots=True)
class Int:
    """A signed integer."""

    bits: Literal[16, 32, 64]

    def __post_init__(self) -> None:
        if self.bits not in (16, 32, 64):
            raise InvalidType(f"no integer type has {self.bits} bits")


@dataclass(frozen=True, slots=True)
class Float:
    """A binary floating-point number."""

    bits: Literal[32, 64]

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise InvalidType(f"no floating-point type has {self.bits} bits")


@dataclass(frozen=True, slots=True)
class Decimal:
    """An exact number of `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= MAX_DECIMAL_PRECISION:
            raise InvalidType(
                f"decimal precision {self.precision} is not between 1 and {MAX_DECIMAL_PRECISION}"
            )
        if not 0 <= self.scale <= self.precision:
            raise InvalidType(f"decimal scale {self.scale} is not between 0 and {self.precision}")


@dataclass(frozen=True, slots=True)
class Numeric:
    """An exact number, each value of which has its own count of digits after the point."""


@dataclass(frozen=True, slots=True)
class Text:
    """A string of any length."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """A string of bytes of any length."""


@dataclass(frozen=True, slots=True)
class Date:
    """A day."""


@dataclass(frozen=True, slots=True)
class TimeOfDay:
    """A time within some day, in microseconds."""


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment in microseconds: of the world if zoned, of some wall's clock if not."""

    zoned: bool


@dataclass(frozen=True, slots=True)
class Interval:
    """A span of months, days and microseconds."""


@dataclass(frozen=True, slots=True)
class Uuid:
    """A universally unique identifier of 128 bits."""


@dataclass(frozen=True, slots=True)
class Json:
    """Any JSON value."""


@dataclass(frozen=True, slots=True)
class Array:
    """A list of values of one type, any of which may be null."""

    element: ColumnType


@dataclass(frozen=True, slots=True)
class Field:
    """A named part of a struct."""

    name: str
    type: ColumnType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Struct:
    """A row within a row: named fields in a fixed order."""

    fields: tuple[Field, ...]

    def __post_init__(self) -> None:
        _require_distinct(field.name for field in self.fields)


ColumnType: TypeAlias = (
    Bool
    | Int
    | Float
    | Decimal
    | Numeric
    | Text
    | Bytes
    | Date
    | TimeOfDay
    | Timestamp
    | Interval
    | Uuid
    | Json
    | Array
    | Struct
)


@dataclass(frozen=True, slots=True)
class Column:
    """A named part of a row."""

    name: str
    type: ColumnType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a collection's rows, in order. It may have none."""

    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        _require_distinct(self.names)
        for name in self.names:
            if name in RESERVED_NAMES:
                raise ReservedName(
                    f'column name "{name}" is reserved',
                    hint="Give the column another name.",
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name; `UnknownColumn` if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise UnknownColumn(f'column "{name}" does not exist')

    def project(self, names: Iterable[str]) -> Schema:
        """The schema of only these columns, in the order named."""
        return type(self)(tuple(self.column(name) for name in names))


@dataclass(frozen=True, slots=True)
class TimedSchema(Schema):
    """The columns of rows as they are read, among which may be the time of the read.

    No collection has such columns: whoever reads adds them.
    """

    def __post_init__(self) -> None:
        _require_distinct(self.names)


def _require_distinct(names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InvalidName("a column name cannot be empty")
        if name in seen:
            raise DuplicateColumn(f'column "{name}" specified more than once')
        seen.add(name)
