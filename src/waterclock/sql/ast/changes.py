"""Statements that change the rows of tables, and COPY."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from waterclock.sql.ast.common import (
    DefaultValue,
    ExpressionText,
    Identifier,
    ObjectName,
    Option,
    QueryText,
)
from waterclock.sql.ast.queries import Query, Subscribe

Value = ExpressionText | DefaultValue


@dataclass(frozen=True, slots=True)
class Rows:
    """`VALUES (..), (..)` as it stands in an INSERT, where DEFAULT may be a value."""

    rows: tuple[tuple[Value, ...], ...]


@dataclass(frozen=True, slots=True)
class DefaultRow:
    """`DEFAULT VALUES`: one row with the default of each column."""


InsertSource = Rows | DefaultRow | QueryText


@dataclass(frozen=True, slots=True)
class Conflict:
    """What ON CONFLICT is about: columns or expressions of an index, or a constraint by name.

    Without either it is about any row that is there already.
    """

    keys: tuple[ExpressionText, ...] = ()
    constraint: Identifier | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """INSERT. `columns` is None if no list was given.

    `returning` is the select list behind RETURNING, `ctes` the WITH clause in front, as text.
    """

    table: ObjectName
    columns: tuple[Identifier, ...] | None
    source: InsertSource
    returning: QueryText | None = None
    alias: str | None = None
    ctes: QueryText | None = None
    conflict: Conflict | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """`column = value`."""

    column: Identifier
    value: Value


@dataclass(frozen=True, slots=True)
class RowAssignment:
    """`(a, b) = (SELECT ...)`. A row of values is made into single assignments."""

    columns: tuple[Identifier, ...]
    query: QueryText


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE. `from_items` is what stands behind FROM, as text."""

    table: ObjectName
    assignments: tuple[Assignment | RowAssignment, ...]
    alias: str | None = None
    from_items: QueryText | None = None
    where: ExpressionText | None = None
    returning: QueryText | None = None
    ctes: QueryText | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE. `using` is what stands behind USING, as text."""

    table: ObjectName
    alias: str | None = None
    using: QueryText | None = None
    where: ExpressionText | None = None
    returning: QueryText | None = None
    ctes: QueryText | None = None


Change = Insert | Update | Delete


@dataclass(frozen=True, slots=True)
class NamedChange:
    """A change in WITH. `columns` rename what it returns; `parameters` are the numbers in it."""

    name: Identifier
    columns: tuple[Identifier, ...]
    change: Change
    parameters: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WithChanges:
    """A statement with changes in the WITH in front of it, in whose text they are left out."""

    changes: tuple[NamedChange, ...]
    main: Query | Change


@dataclass(frozen=True, slots=True)
class Truncate:
    tables: tuple[ObjectName, ...]
    cascade: bool = False


class CopyDirection(Enum):
    FROM_STDIN = "FROM STDIN"
    TO_STDOUT = "TO STDOUT"
    TO_LOCATION = "TO"


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY. Options of the old syntax have the names of the new one.

    `location` is the path or URL of files, if these are to be written.
    """

    subject: ObjectName | Query | Subscribe
    direction: CopyDirection
    columns: tuple[Identifier, ...] | None = None
    options: tuple[Option, ...] = ()
    where: ExpressionText | None = None
    location: str | None = None
