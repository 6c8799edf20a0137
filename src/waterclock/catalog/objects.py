"""What the catalog holds, as immutable values that are also its durable records.

Every object has an OID, which PostgreSQL's clients know it by. What lives in a schema (an *item*)
has a `GlobalId` too, by which everything else refers to it: a view holds the ids of what it reads,
so giving a name to something else changes no view. Both are for ever, through renames; neither is
given out again.

A secret is held as ciphertext and a password as a verifier, and neither is ever printed.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import ClassVar, NewType, TypeAlias

import msgspec

from waterclock.model.ids import GlobalId
from waterclock.model.pg_types import PgType, column_type
from waterclock.model.schema import Column as StoredColumn
from waterclock.model.schema import Schema, TimedSchema

Oid = NewType("Oid", int)

WEBHOOK = "webhook"
"""The connector of sources whose rows are posted to the server."""
PUBLIC = Oid(0)
"""The grantee that is every role."""


class Privilege(StrEnum):
    """What a grant allows. The value is the letter in PostgreSQL's text form."""

    INSERT = "a"
    SELECT = "r"
    UPDATE = "w"
    DELETE = "d"
    USAGE = "U"
    CREATE = "C"


class Grant(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one role was given by another on one object."""

    grantee: Oid
    grantor: Oid
    privileges: frozenset[Privilege]
    grantable: frozenset[Privilege] = frozenset()
    """Those of the privileges that the grantee may give to others."""


class Column(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column as declared. The default is SQL text; None means that it is null."""

    name: str
    type: PgType
    nullable: bool = True
    default: str | None = None


class Binding(msgspec.Struct, frozen=True):
    """What a relation's name, as it is written in some SQL text, means there for ever."""

    name: str
    id: GlobalId


class Query(msgspec.Struct, frozen=True, omit_defaults=True):
    """SQL text that does not depend on what names mean later."""

    sql: str
    bindings: tuple[Binding, ...] = ()

    @property
    def ids(self) -> tuple[GlobalId, ...]:
        """What the query reads, each once."""
        return tuple(dict.fromkeys(binding.id for binding in self.bindings))


class CatalogObject(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Base of all objects."""

    kind: ClassVar[str] = "object"
    """What messages call it."""

    oid: Oid
    name: str


class Owned(CatalogObject, frozen=True, kw_only=True, omit_defaults=True):
    """Something with an owner. Without grants, what is usual for its kind is granted."""

    owner: Oid
    grants: tuple[Grant, ...] | None = None


class Database(Owned, frozen=True, kw_only=True, omit_defaults=True, tag="database"):
    kind: ClassVar[str] = "database"


class Namespace(Owned, frozen=True, kw_only=True, omit_defaults=True, tag="schema"):
    """A schema, in the sense of a place for names. One without a database is seen in all."""

    kind: ClassVar[str] = "schema"

    database: Oid | None


class Cluster(Owned, frozen=True, kw_only=True, omit_defaults=True, tag="cluster"):
    """A name only: everything runs in one place."""

    kind: ClassVar[str] = "cluster"


class Role(CatalogObject, frozen=True, kw_only=True, omit_defaults=True, tag="role"):
    """A user or a group. Without a verifier there is no password to log in with."""

    kind: ClassVar[str] = "role"

    superuser: bool = False
    login: bool = False
    inherit: bool = True
    create_role: bool = False
    create_database: bool = False
    verifier: str | None = None

    def __repr__(self) -> str:
        return f"Role({self.oid}, {self.name!r})"


class Item(Owned, frozen=True, kw_only=True, omit_defaults=True):
    """Base of what lives in a schema."""

    id: GlobalId
    namespace: Oid
    collections: tuple[GlobalId, ...] = ()
    """Collections in storage that belong to it besides the one of its own id."""
    retain_ms: int | None = None
    """How long its past contents stay readable, if that was asked for."""

    @property
    def uses(self) -> tuple[GlobalId, ...]:
        """What it can not be without."""
        return ()

    @property
    def part_of(self) -> GlobalId | None:
        """The item that it comes and goes with, if it is a part of one."""
        return None


class Relation(Item, frozen=True, kw_only=True, omit_defaults=True):
    """Base of items with columns. Its rows have a type with OIDs of its own, also for arrays."""

    columns: tuple[Column, ...]
    row_type: Oid
    row_array_type: Oid

    @property
    def schema(self) -> Schema:
        """The columns as values are held. Raises for names that no collection can have."""
        return schema_of(self.columns)

    @property
    def is_written_here(self) -> bool:
        """Whether the server's writer of tables fills it, in its own transactions."""
        return False


def schema_of(columns: Iterable[Column]) -> Schema:
    """Columns as a collection holds their values."""
    return Schema(tuple(StoredColumn(c.name, column_type(c.type), c.nullable) for c in columns))


class Table(Relation, frozen=True, kw_only=True, omit_defaults=True, tag="table"):
    kind: ClassVar[str] = "table"

    @property
    def is_written_here(self) -> bool:
        return True


class View(Relation, frozen=True, kw_only=True, omit_defaults=True, tag="view"):
    kind: ClassVar[str] = "view"

    query: Query

    @property
    def uses(self) -> tuple[GlobalId, ...]:
        return self.query.ids


class MaterializedView(Relation, frozen=True, kw_only=True, omit_defaults=True, tag="matview"):
    kind: ClassVar[str] = "materialized view"

    query: Query
    cluster: Oid

    @property
    def uses(self) -> tuple[GlobalId, ...]:
        return self.query.ids


class Source(Relation, frozen=True, kw_only=True, omit_defaults=True, tag="source"):
    """Data from outside. What `definition` says is known to the connector alone.

    `connections` are the connections and secrets that it uses.
    """

    kind: ClassVar[str] = "source"

    connector: str
    sql: str
    definition: bytes = b""
    connections: tuple[GlobalId, ...] = ()
    cluster: Oid
    envelope: str | None = None
    key_format: str | None = None
    value_format: str | None = None

    @property
    def uses(self) -> tuple[GlobalId, ...]:
        return self.connections

    @property
    def is_webhook(self) -> bool:
        """Whether its rows are posted to the server, instead of being read elsewhere."""
        return self.connector == WEBHOOK

    @property
    def is_written_here(self) -> bool:
        return self.is_webhook


class Subsource(Relation, frozen=True, kw_only=True, omit_defaults=True, tag="subsource"):
    """One of several collections that a source fills, such as a table upstream."""

    kind: ClassVar[str] = "subsource"

    source: GlobalId
    upstream: str

    @property
    def uses(self) -> tuple[GlobalId, ...]:
        return (self.source,)

    @property
    def part_of(self) -> GlobalId | None:
        return self.source


class SourceProgress(Relation, frozen=True, kw_only=True, omit_defaults=True, tag="progress"):
    """A source's bindings as a relation. Storage knows nothing of its id.

    Its first column is the time of the read, which is not stored.
    """

    kind: ClassVar[str] = "progress relation"

    source: GlobalId

    @property
    def schema(self) -> Schema:
        """The columns that are stored."""
        return Schema(self.read_schema.columns[1:])

    @property
    def read_schema(self) -> TimedSchema:
        """All columns, as one who reads at some time sees them."""
        columns = (StoredColumn(c.name, column_type(c.type), c.nullable) for c in self.columns)
        return TimedSchema(tuple(columns))

    @property
    def uses(self) -> tuple[GlobalId, ...]:
        return (self.source,)

    @property
    def part_of(self) -> GlobalId | None:
        return self.source


class IndexKey(msgspec.Struct, frozen=True, omit_defaults=True):
    """One part of an index's key: an expression, and the column's number from 1 if it is that."""

    sql: str
    type: PgType
    column: int | None = None


class Index(Item, frozen=True, kw_only=True, omit_defaults=True, tag="index"):
    kind: ClassVar[str] = "index"

    on: GlobalId
    keys: tuple[IndexKey, ...]
    cluster: Oid

    @property
    def uses(self) -> tuple[GlobalId, ...]:
        return (self.on,)


class Connection(Item, frozen=True, kw_only=True, omit_defaults=True, tag="connection"):
    """How to reach a system outside. `definition` names secrets, it does not contain them."""

    kind: ClassVar[str] = "connection"

    connector: str
    sql: str
    definition: bytes = b""
    secrets: tuple[GlobalId, ...] = ()

    @property
    def uses(self) -> tuple[GlobalId, ...]:
        return self.secrets


class Secret(Item, frozen=True, kw_only=True, omit_defaults=True, tag="secret"):
    kind: ClassVar[str] = "secret"

    ciphertext: bytes

    def __repr__(self) -> str:
        return f"Secret({self.id}, {self.name!r})"


class Membership(msgspec.Struct, frozen=True, omit_defaults=True):
    """`member` has what `role` has, and may give it on if `admin`."""

    role: Oid
    member: Oid
    grantor: Oid
    admin: bool = False


class Comments(msgspec.Struct, frozen=True):
    """What was said about an object (0) and its columns (from 1)."""

    texts: dict[int, str]


class Settings(msgspec.Struct, frozen=True):
    """Session variables that begin with these values."""

    values: dict[str, str]


AnyRelation: TypeAlias = Table | View | MaterializedView | Source | Subsource | SourceProgress
AnyItem: TypeAlias = AnyRelation | Index | Connection | Secret
AnyOwned: TypeAlias = Database | Namespace | Cluster | AnyItem
AnyObject: TypeAlias = AnyOwned | Role
