"""Statements about the session: settings, transactions, prepared statements, cursors, channels."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from waterclock.model.pg_types import PgType
from waterclock.sql.ast.common import ExpressionText, Identifier, ObjectKind, ObjectName, Option
from waterclock.sql.ast.queries import Query, Subscribe

if TYPE_CHECKING:
    from waterclock.sql.ast import Statement


class SettingScope(Enum):
    SESSION = "SESSION"
    LOCAL = "LOCAL"


@dataclass(frozen=True, slots=True)
class SetSetting:
    """SET. `values` is None for DEFAULT; each value is the text of a word, string or number.

    SET TIME ZONE, SET NAMES, SET SCHEMA, SET ROLE and SET SESSION AUTHORIZATION are settings too
    (`timezone`, `client_encoding`, `search_path`, `role`, `session_authorization`), as they are in
    PostgreSQL.
    """

    name: str
    values: tuple[str, ...] | None
    scope: SettingScope = SettingScope.SESSION
    position: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class ResetSetting:
    """RESET; None for ALL."""

    name: str | None


@dataclass(frozen=True, slots=True)
class ShowSetting:
    """SHOW of a setting; None for ALL."""

    name: str | None
    position: int = field(default=0, compare=False)


class Discarded(Enum):
    ALL = "ALL"
    PLANS = "PLANS"
    SEQUENCES = "SEQUENCES"
    TEMP = "TEMP"


@dataclass(frozen=True, slots=True)
class Discard:
    what: Discarded


class Listing(Enum):
    """What SHOW can list; the value is how the statement says it."""

    DATABASES = "DATABASES"
    SCHEMAS = "SCHEMAS"
    TABLES = "TABLES"
    VIEWS = "VIEWS"
    MATERIALIZED_VIEWS = "MATERIALIZED VIEWS"
    INDEXES = "INDEXES"
    SOURCES = "SOURCES"
    SINKS = "SINKS"
    CONNECTIONS = "CONNECTIONS"
    SECRETS = "SECRETS"
    ROLES = "ROLES"
    CLUSTERS = "CLUSTERS"
    OBJECTS = "OBJECTS"
    COLUMNS = "COLUMNS"


@dataclass(frozen=True, slots=True)
class ShowObjects:
    """SHOW of a list. `within` is the schema, database or relation behind FROM, IN or ON."""

    listing: Listing
    within: ObjectName | None = None
    cluster: Identifier | None = None
    like: str | None = None
    where: ExpressionText | None = None


@dataclass(frozen=True, slots=True)
class ShowCreate:
    kind: ObjectKind
    name: ObjectName


class Isolation(Enum):
    READ_UNCOMMITTED = "read uncommitted"
    READ_COMMITTED = "read committed"
    REPEATABLE_READ = "repeatable read"
    SERIALIZABLE = "serializable"
    STRICT_SERIALIZABLE = "strict serializable"


@dataclass(frozen=True, slots=True)
class TransactionModes:
    """What was said of a transaction; None for what was not."""

    isolation: Isolation | None = None
    read_only: bool | None = None
    deferrable: bool | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """`is_start` if it was written as START TRANSACTION, which PostgreSQL says when it is done."""

    modes: TransactionModes = TransactionModes()
    is_start: bool = False


@dataclass(frozen=True, slots=True)
class Commit:
    chain: bool = False


@dataclass(frozen=True, slots=True)
class Rollback:
    chain: bool = False


@dataclass(frozen=True, slots=True)
class Savepoint:
    name: str


@dataclass(frozen=True, slots=True)
class ReleaseSavepoint:
    name: str


@dataclass(frozen=True, slots=True)
class RollbackToSavepoint:
    name: str


@dataclass(frozen=True, slots=True)
class SetTransaction:
    """SET TRANSACTION, or SET SESSION CHARACTERISTICS AS TRANSACTION for all that follow."""

    modes: TransactionModes
    session: bool = False


@dataclass(frozen=True, slots=True)
class Prepare:
    name: str
    types: tuple[PgType, ...]
    statement: Statement
    text: str
    """The statement that is prepared, as it was written."""


@dataclass(frozen=True, slots=True)
class Execute:
    name: str
    arguments: tuple[ExpressionText, ...] = ()


@dataclass(frozen=True, slots=True)
class Deallocate:
    """None for ALL."""

    name: str | None


@dataclass(frozen=True, slots=True)
class DeclareCursor:
    """`scroll` is None if neither SCROLL nor NO SCROLL was said."""

    name: str
    statement: Query | Subscribe
    binary: bool = False
    scroll: bool | None = None
    hold: bool = False


class Direction(Enum):
    FORWARD = "FORWARD"
    BACKWARD = "BACKWARD"
    ABSOLUTE = "ABSOLUTE"
    RELATIVE = "RELATIVE"


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH, or MOVE, which returns no rows. A `count` of None is ALL.

    NEXT, PRIOR, FIRST and LAST are one row forward, one backward, the absolute first and last.
    """

    cursor: str
    direction: Direction
    count: int | None
    move: bool = False
    options: tuple[Option, ...] = ()


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """None for ALL."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Listen:
    channel: str


@dataclass(frozen=True, slots=True)
class Unlisten:
    """None for `*`."""

    channel: str | None


@dataclass(frozen=True, slots=True)
class Notify:
    channel: str
    payload: str = ""
