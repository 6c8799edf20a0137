"""Statements about roles and what they may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from waterclock.sql.ast.common import Identifier, ObjectKind, ObjectName


class RoleWord(Enum):
    """Roles that have a word instead of a name."""

    PUBLIC = "PUBLIC"
    CURRENT_USER = "CURRENT_USER"
    SESSION_USER = "SESSION_USER"


RoleSpec = Identifier | RoleWord


@dataclass(frozen=True, slots=True)
class Password:
    """PASSWORD; None takes it away. It is left out of what is printed of the node."""

    value: str | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class RoleAttributes:
    """What was said of a role; None for what was not."""

    login: bool | None = None
    superuser: bool | None = None
    inherit: bool | None = None
    create_role: bool | None = None
    create_database: bool | None = None
    create_cluster: bool | None = None
    replication: bool | None = None
    bypass_row_security: bool | None = None
    connection_limit: int | None = None
    valid_until: str | None = None
    password: Password | None = None


@dataclass(frozen=True, slots=True)
class CreateRole:
    """`in_roles` are those it becomes a member of, `members` and `admins` those that become its."""

    name: Identifier
    attributes: RoleAttributes
    if_not_exists: bool = False
    in_roles: tuple[RoleSpec, ...] = ()
    members: tuple[RoleSpec, ...] = ()
    admins: tuple[RoleSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterRole:
    name: RoleSpec
    attributes: RoleAttributes


@dataclass(frozen=True, slots=True)
class AlterSetting:
    """A setting's default for one role or database, or for all (`subject` None).

    `values` is None for RESET or DEFAULT; `setting` is None for RESET ALL.
    """

    subject: RoleSpec | ObjectName | None
    kind: ObjectKind | None
    setting: str | None
    values: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Privilege:
    """A privilege in upper case, such as SELECT, with the columns it is restricted to."""

    name: str
    columns: tuple[Identifier, ...] = ()


@dataclass(frozen=True, slots=True)
class TheseObjects:
    """ON [kind] names. A table's kind stands for any relation."""

    kind: ObjectKind
    names: tuple[ObjectName, ...]


@dataclass(frozen=True, slots=True)
class AllInSchemas:
    """ON ALL TABLES IN SCHEMA."""

    kind: ObjectKind
    schemas: tuple[ObjectName, ...]


@dataclass(frozen=True, slots=True)
class WholeSystem:
    """ON SYSTEM."""


GrantTarget = TheseObjects | AllInSchemas | WholeSystem


@dataclass(frozen=True, slots=True)
class GrantPrivileges:
    """`privileges` is empty for ALL."""

    privileges: tuple[Privilege, ...]
    target: GrantTarget
    grantees: tuple[RoleSpec, ...]
    grant_option: bool = False


@dataclass(frozen=True, slots=True)
class RevokePrivileges:
    """With `only_grant_option` the right to pass it on is taken, not the privilege."""

    privileges: tuple[Privilege, ...]
    target: GrantTarget
    grantees: tuple[RoleSpec, ...]
    only_grant_option: bool = False
    cascade: bool = False


@dataclass(frozen=True, slots=True)
class GrantRole:
    roles: tuple[Identifier, ...]
    grantees: tuple[RoleSpec, ...]
    admin_option: bool = False


@dataclass(frozen=True, slots=True)
class RevokeRole:
    roles: tuple[Identifier, ...]
    grantees: tuple[RoleSpec, ...]
    only_admin_option: bool = False
    cascade: bool = False
