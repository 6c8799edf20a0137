"""Statements as values: one frozen dataclass for each kind, `Statement` being all of them.

Nodes say what was written, with names not yet looked up and queries not yet understood. They are
made by `waterclock.sql.parser` and hold nothing but values, so they can be compared, hashed and
kept.
"""

from __future__ import annotations

from waterclock.sql.ast.changes import Copy, Delete, Insert, Truncate, Update, WithChanges
from waterclock.sql.ast.common import StringValue
from waterclock.sql.ast.objects import Alter, CommentOn, Drop, Unsupported
from waterclock.sql.ast.queries import Explain, Query, Subscribe
from waterclock.sql.ast.read_holds import AlterReadHold, CreateReadHold, DropReadHold
from waterclock.sql.ast.relations import (
    CreateDatabase,
    CreateIndex,
    CreateMaterializedView,
    CreateSchema,
    CreateTable,
    CreateTableAs,
    CreateView,
    RefreshMaterializedView,
)
from waterclock.sql.ast.roles import (
    AlterRole,
    AlterSetting,
    CreateRole,
    GrantPrivileges,
    GrantRole,
    RevokePrivileges,
    RevokeRole,
)
from waterclock.sql.ast.session import (
    Begin,
    CloseCursor,
    Commit,
    Deallocate,
    DeclareCursor,
    Discard,
    Execute,
    Fetch,
    Listen,
    Notify,
    Prepare,
    ReleaseSavepoint,
    ResetSetting,
    Rollback,
    RollbackToSavepoint,
    Savepoint,
    SetSetting,
    SetTransaction,
    ShowCreate,
    ShowObjects,
    ShowSetting,
    Unlisten,
)
from waterclock.sql.ast.sources import (
    AlterSecret,
    CreateCluster,
    CreateConnection,
    CreateSecret,
    CreateSink,
    CreateSource,
    CreateTableFromSource,
    ValidateConnection,
)

CreateStatement = (
    CreateDatabase
    | CreateSchema
    | CreateTable
    | CreateTableAs
    | CreateTableFromSource
    | CreateView
    | CreateMaterializedView
    | CreateIndex
    | CreateSource
    | CreateSink
    | CreateConnection
    | CreateSecret
    | CreateCluster
    | CreateRole
)

Statement = (
    Query
    | Subscribe
    | Explain
    | Insert
    | Update
    | Delete
    | WithChanges
    | Truncate
    | Copy
    | SetSetting
    | ResetSetting
    | ShowSetting
    | ShowObjects
    | ShowCreate
    | Discard
    | Begin
    | Commit
    | Rollback
    | Savepoint
    | ReleaseSavepoint
    | RollbackToSavepoint
    | SetTransaction
    | Prepare
    | Execute
    | Deallocate
    | DeclareCursor
    | Fetch
    | CloseCursor
    | Listen
    | Unlisten
    | Notify
    | CreateStatement
    | CreateReadHold
    | AlterReadHold
    | DropReadHold
    | RefreshMaterializedView
    | ValidateConnection
    | AlterRole
    | AlterSetting
    | AlterSecret
    | GrantPrivileges
    | RevokePrivileges
    | GrantRole
    | RevokeRole
    | Drop
    | Alter
    | CommentOn
    | Unsupported
)


__all__ = [
    "Alter",
    "AlterReadHold",
    "AlterRole",
    "AlterSecret",
    "AlterSetting",
    "Begin",
    "CloseCursor",
    "CommentOn",
    "Commit",
    "Copy",
    "CreateCluster",
    "CreateConnection",
    "CreateDatabase",
    "CreateIndex",
    "CreateMaterializedView",
    "CreateReadHold",
    "CreateRole",
    "CreateSchema",
    "CreateSecret",
    "CreateSink",
    "CreateSource",
    "CreateStatement",
    "CreateTable",
    "CreateTableAs",
    "CreateTableFromSource",
    "CreateView",
    "Deallocate",
    "DeclareCursor",
    "Delete",
    "Discard",
    "Drop",
    "DropReadHold",
    "Execute",
    "Explain",
    "Fetch",
    "GrantPrivileges",
    "GrantRole",
    "Insert",
    "Listen",
    "Notify",
    "Prepare",
    "Query",
    "RefreshMaterializedView",
    "ReleaseSavepoint",
    "ResetSetting",
    "RevokePrivileges",
    "RevokeRole",
    "Rollback",
    "RollbackToSavepoint",
    "Savepoint",
    "SetSetting",
    "SetTransaction",
    "ShowCreate",
    "ShowObjects",
    "ShowSetting",
    "Statement",
    "StringValue",
    "Subscribe",
    "Truncate",
    "Unlisten",
    "Unsupported",
    "Update",
    "ValidateConnection",
    "WithChanges",
    "holds_secret",
]

_SENSITIVE = frozenset({"password", "secret", "key", "token"})


def holds_secret(statement: Statement) -> bool:
    """Whether the text of the statement holds a password or a secret and must not be logged."""
    match statement:
        case CreateSecret() | AlterSecret():
            return True
        case CreateRole() | AlterRole():
            return statement.attributes.password is not None
        case CreateConnection():
            return any(
                isinstance(option.value, StringValue)
                and not _SENSITIVE.isdisjoint(option.name.split())
                for option in statement.connection_options
            )
        case _:
            return False
