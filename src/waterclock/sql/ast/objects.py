"""Statements about objects of any kind: DROP, ALTER, COMMENT."""

from __future__ import annotations

from dataclasses import dataclass, field

from waterclock.model.pg_types import PgType
from waterclock.sql.ast.common import ExpressionText, Identifier, ObjectKind, ObjectName, Option
from waterclock.sql.ast.relations import ColumnDefinition, Constraint
from waterclock.sql.ast.roles import RoleSpec
from waterclock.sql.ast.sources import UpstreamTable


@dataclass(frozen=True, slots=True)
class Drop:
    kind: ObjectKind
    names: tuple[ObjectName, ...]
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class RenameTo:
    name: Identifier


@dataclass(frozen=True, slots=True)
class RenameColumn:
    column: Identifier
    name: Identifier


@dataclass(frozen=True, slots=True)
class SetSchema:
    schema: ObjectName


@dataclass(frozen=True, slots=True)
class OwnerTo:
    role: RoleSpec


@dataclass(frozen=True, slots=True)
class SwapWith:
    name: Identifier


@dataclass(frozen=True, slots=True)
class SetCluster:
    cluster: Identifier


@dataclass(frozen=True, slots=True)
class SetOptions:
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class ResetOptions:
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AddColumn:
    column: ColumnDefinition
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropColumn:
    column: Identifier
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class SetDefault:
    """None takes the default away."""

    column: Identifier
    default: ExpressionText | None


@dataclass(frozen=True, slots=True)
class SetNotNull:
    column: Identifier
    not_null: bool


@dataclass(frozen=True, slots=True)
class SetType:
    column: Identifier
    type: PgType
    using: ExpressionText | None = None


@dataclass(frozen=True, slots=True)
class AddConstraint:
    constraint: Constraint


@dataclass(frozen=True, slots=True)
class DropConstraint:
    name: Identifier
    if_exists: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class AddSourceColumn:
    """ADD COLUMN of a source. Without a type it is that of the field."""

    name: Identifier
    type: PgType | None = None
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class AddTables:
    """ADD TABLE of a source: more of what is upstream. The options are those of WITH."""

    tables: tuple[UpstreamTable, ...]
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE of a source: relations that it fills."""

    names: tuple[ObjectName, ...]
    if_exists: bool = False
    cascade: bool = False


AlterAction = (
    RenameTo
    | RenameColumn
    | SetSchema
    | OwnerTo
    | SwapWith
    | SetCluster
    | SetOptions
    | ResetOptions
    | AddColumn
    | DropColumn
    | SetDefault
    | SetNotNull
    | SetType
    | AddConstraint
    | DropConstraint
    | AddSourceColumn
    | AddTables
    | DropTables
)


@dataclass(frozen=True, slots=True)
class Alter:
    """ALTER of one object; all actions happen or none."""

    kind: ObjectKind
    name: ObjectName
    actions: tuple[AlterAction, ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class CommentOn:
    """COMMENT ON. With `column` it is on that column of the relation; None takes it away."""

    kind: ObjectKind
    name: ObjectName
    comment: str | None
    column: str | None = None


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A statement of PostgreSQL, or a clause of one, that Waterclock has not; `what` names it."""

    what: str
    position: int = field(default=0, compare=False)
