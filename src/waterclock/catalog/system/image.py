"""A picture of the catalog at one version, in plain values.

Whoever keeps the durable catalog makes one of these; the system relations are a function of it and
of nothing else. Every object carries the OID that PostgreSQL's clients know it by and the id that
mz_* relations show (`u12`). Objects refer to each other by OID. Two images of the same version must
be equal: the relations are rebuilt only when the version changes.

Nothing is checked here beyond what the types say.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from enum import StrEnum

from waterclock.model.pg_types import PgType

PUBLIC = 0
"""The grantee that stands for every role."""


class RelationKind(StrEnum):
    """What a relation is; the value is the type that mz_objects shows."""

    TABLE = "table"
    SOURCE = "source"
    SOURCE_PROGRESS = "source_progress"
    VIEW = "view"
    MATERIALIZED_VIEW = "materialized-view"


class ConstraintKind(StrEnum):
    """PostgreSQL's contype."""

    PRIMARY_KEY = "p"
    UNIQUE = "u"
    CHECK = "c"
    FOREIGN_KEY = "f"


@dataclass(frozen=True, slots=True)
class Grant:
    """Privileges of one role on one object, by the letters of PostgreSQL's text form (`r`, `U`)."""

    grantee: int
    grantor: int
    privileges: frozenset[str]
    grantable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Database:
    oid: int
    id: str
    name: str
    owner: int
    comment: str | None = None
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema of users. That of temporary objects has the id `0`."""

    oid: int
    id: str
    database: int
    name: str
    owner: int
    comment: str | None = None
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """`default` is the expression as SQL writes it."""

    name: str
    type: PgType
    nullable: bool = True
    default: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """Something with columns that can stand in FROM.

    `row_type` and `row_array_type` are the OIDs of the type of its rows and of arrays of them; 0
    where there is none. `definition` is the query of a view, ending in a semicolon as
    pg_get_viewdef shows it; `create_sql` the statement that made the object.
    """

    oid: int
    id: str
    schema: int
    name: str
    kind: RelationKind
    columns: tuple[Column, ...]
    owner: int
    row_type: int = 0
    row_array_type: int = 0
    definition: str | None = None
    create_sql: str | None = None
    comment: str | None = None
    cluster: str | None = None
    temporary: bool = False
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class IndexKey:
    """A column by its position from 1 on, or an expression with the type of its value."""

    column: int = 0
    expression: str | None = None
    type: PgType | None = None
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Index:
    """`definition` is the CREATE INDEX statement."""

    oid: int
    id: str
    schema: int
    name: str
    relation: int
    keys: tuple[IndexKey, ...]
    owner: int
    definition: str
    unique: bool = False
    primary: bool = False
    comment: str | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class Constraint:
    """`definition` is the constraint as it stands in CREATE TABLE; `check` a check's expression."""

    oid: int
    schema: int
    relation: int
    name: str
    kind: ConstraintKind
    columns: tuple[int, ...]
    definition: str
    index: int = 0
    foreign_relation: int = 0
    foreign_columns: tuple[int, ...] = ()
    check: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Role:
    oid: int
    id: str
    name: str
    superuser: bool = False
    inherit: bool = True
    create_role: bool = False
    create_db: bool = False
    login: bool = True
    replication: bool = False
    bypass_rls: bool = False
    connection_limit: int = -1
    valid_until: datetime.datetime | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Membership:
    """`member` may act as `role`."""

    role: int
    member: int
    grantor: int
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """What is known of a source besides its being a relation, whose OID this is.

    `progress` is the OID of the relation that tells how far it has read.
    """

    relation: int
    type: str
    connection: str | None = None
    envelope: str | None = None
    key_format: str | None = None
    value_format: str | None = None
    progress: int = 0


@dataclass(frozen=True, slots=True)
class Connection:
    oid: int
    id: str
    schema: int
    name: str
    type: str
    owner: int
    create_sql: str | None = None
    comment: str | None = None
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret's name; its value is nowhere in the catalog."""

    oid: int
    id: str
    schema: int
    name: str
    owner: int
    comment: str | None = None
    grants: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class Sink:
    oid: int
    id: str
    schema: int
    name: str
    type: str
    owner: int
    connection: str | None = None
    envelope: str | None = None
    cluster: str | None = None
    create_sql: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Replica:
    id: str
    name: str
    size: str | None = None


@dataclass(frozen=True, slots=True)
class Cluster:
    id: str
    name: str
    owner: int
    replicas: tuple[Replica, ...] = ()
    managed: bool = True
    size: str | None = None
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """`id` is that of a source, such as `u12`."""

    id: str
    status: str
    error: str | None = None
    details: str | None = None
    last_change: datetime.datetime | None = None


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """Whether a source, a view or an index can be read, since when, and if not, why not.

    `blamed` is the id of what is in error or has stalled: itself, or something that it is made
    from.
    """

    id: str
    status: str
    error: str | None = None
    details: str | None = None
    last_change: datetime.datetime | None = None
    blamed: str | None = None


@dataclass(frozen=True, slots=True)
class SourceStatistics:
    """How much a source has done since the server started, and where it stands.

    `lag_ms` is how long ago its contents were complete. What is known and read of the first
    contents is told for sources that begin with them.
    """

    id: str
    messages: int
    bytes: int
    updates: int
    first_rows_known: int | None
    first_rows_read: int | None
    offset_known: int | None
    offset_committed: int | None
    lag_ms: int | None
    undecodable: int = 0
    """How many messages could not be read."""
    skipped: int = 0
    """How many of them are skipped now."""


@dataclass(frozen=True, slots=True)
class Hydration:
    """Whether an object has its first contents, and while it has not, how far that is."""

    id: str
    replica: str | None
    hydrated: bool
    status: str = "running"
    rows_read: int | None = None
    """How many updates of its inputs have been read."""
    tasks_done: int | None = None
    tasks: int | None = None
    """How many tasks there are, as far as is known; 0 while the inputs are being read."""
    error: str | None = None
    rebuilt: str | None = None
    """Why its state had to be computed again since the server started."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """The object reads, or is on, the other; both by id."""

    id: str
    referenced: str


@dataclass(frozen=True, slots=True)
class Setting:
    """A configuration parameter: what it is without a session's change."""

    name: str
    value: str
    description: str = ""
    type: str = "string"
    context: str = "user"
    unit: str | None = None
    category: str = ""


@dataclass(frozen=True, slots=True)
class CatalogImage:
    """All of it. `system_owner` is the role that owns the system's own relations."""

    version: int
    databases: tuple[Database, ...]
    roles: tuple[Role, ...]
    system_owner: int
    schemas: tuple[Schema, ...] = ()
    relations: tuple[Relation, ...] = ()
    indexes: tuple[Index, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    memberships: tuple[Membership, ...] = ()
    sources: tuple[Source, ...] = ()
    connections: tuple[Connection, ...] = ()
    secrets: tuple[Secret, ...] = ()
    sinks: tuple[Sink, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    source_statuses: tuple[SourceStatus, ...] = ()
    source_statistics: tuple[SourceStatistics, ...] = ()
    object_statuses: tuple[ObjectStatus, ...] = ()
    hydration: tuple[Hydration, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    settings: tuple[Setting, ...] = ()
