"""Making, renaming and replacing what the catalog holds; dropping is in `dropping`.

Each function changes a draft or raises and leaves it as it was. Rights are checked before, by
whoever runs the statement (`privileges`).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import msgspec

from waterclock.catalog.builtins import SYSTEM_SCHEMAS, public_schema
from waterclock.catalog.catalog import Place
from waterclock.catalog.draft import Draft
from waterclock.catalog.errors import DependentsExist, NameReserved, PermissionDenied
from waterclock.catalog.objects import (
    AnyItem,
    AnyObject,
    Cluster,
    Column,
    Connection,
    Database,
    Index,
    IndexKey,
    Item,
    MaterializedView,
    Namespace,
    Oid,
    Query,
    Relation,
    Secret,
    Table,
    View,
)
from waterclock.model.errors import DuplicateColumn
from waterclock.model.ids import GlobalId

R = TypeVar("R", bound=Relation)
I = TypeVar("I", bound=Item)  # noqa: E741 (it is what it stands for)


@dataclass(frozen=True, slots=True)
class Site:
    """Where a new item goes, under which name, and whose it is."""

    namespace: Oid
    name: str
    owner: Oid


def create_database(draft: Draft, name: str, owner: Oid) -> Database:
    """A new database with its schema `public`."""
    database = Database(oid=draft.numbers.oid(), name=name, owner=owner)
    draft.add(database)
    draft.adopt(public_schema(draft.numbers.oid(), database.oid, owner))
    return database


def create_schema(draft: Draft, database: Oid, name: str, owner: Oid) -> Namespace:
    """A new, empty schema. Raises `DuplicateSchema`, `NameReserved`."""
    if name in SYSTEM_SCHEMAS:
        raise NameReserved(f'unacceptable schema name "{name}"')
    schema = Namespace(oid=draft.numbers.oid(), name=name, owner=owner, database=database)
    draft.add(schema)
    return schema


def create_cluster(draft: Draft, name: str, owner: Oid) -> Cluster:
    cluster = Cluster(oid=draft.numbers.oid(), name=name, owner=owner)
    draft.add(cluster)
    return cluster


def create_table(
    draft: Draft,
    site: Site,
    columns: Sequence[Column],
    retain_ms: int | None = None,
    *,
    collection: GlobalId | None = None,
) -> Table:
    """A new table. Raises also if a column's name is repeated or reserved.

    `collection` is the id of one that has been filled for it; else it gets a new one.
    """
    parts = relation_parts(draft, site, columns)
    if collection is not None:
        parts["id"] = collection
    return placed_with_rows(draft, Table(**parts, retain_ms=retain_ms))


def create_view(draft: Draft, site: Site, columns: Sequence[Column], query: Query) -> View:
    """A new view, of what the query's names mean now."""
    return placed(draft, View(**relation_parts(draft, site, columns), query=query))


def replace_view(draft: Draft, view: View, columns: Sequence[Column], query: Query) -> View:
    """Let the view's name and OID stand for another query, which gets an id of its own.

    Its owner, grants and comment stay. Raises `DependentsExist` if something uses the old one: what
    is established must not change its meaning.
    """
    users = sorted(draft.catalog.users.get(view.id, ()))
    if users:
        described = draft.catalog.described(view)
        lines = (f"{draft.catalog.described(draft.catalog.item(u))} uses it." for u in users)
        raise DependentsExist(
            f"cannot replace {described} because other objects depend on it",
            detail="\n".join(lines),
            hint="Drop them first; they would otherwise change their meaning.",
        )
    site = Site(view.namespace, view.name, view.owner)
    fresh = View(**relation_parts(draft, site, columns), query=query)
    new = msgspec.structs.replace(
        fresh,
        oid=view.oid,
        row_type=view.row_type,
        row_array_type=view.row_array_type,
        grants=view.grants,
    )
    draft.change(view, new)
    return new


def create_materialized_view(
    draft: Draft, site: Site, columns: Sequence[Column], query: Query, cluster: Oid
) -> MaterializedView:
    """A new materialized view, of what the query's names mean now."""
    parts = relation_parts(draft, site, columns)
    return placed_with_rows(draft, MaterializedView(**parts, query=query, cluster=cluster))


def create_index(
    draft: Draft, site: Site, on: GlobalId, keys: Sequence[IndexKey], cluster: Oid
) -> Index:
    """A new index on what can be read."""
    assert isinstance(draft.catalog.item(on), Relation)
    parts = item_parts(draft, site)
    return placed(draft, Index(**parts, on=on, keys=tuple(keys), cluster=cluster))


def create_connection(
    draft: Draft,
    site: Site,
    connector: str,
    sql: str,
    definition: bytes = b"",
    secrets: Sequence[GlobalId] = (),
) -> Connection:
    """A new connection; `sql` is the statement, with secrets by name only."""
    connection = Connection(
        **item_parts(draft, site),
        connector=connector,
        sql=sql,
        definition=definition,
        secrets=tuple(secrets),
    )
    return placed(draft, connection)


def create_secret(draft: Draft, site: Site, ciphertext: bytes) -> Secret:
    return placed(draft, Secret(**item_parts(draft, site), ciphertext=ciphertext))


def alter_secret(draft: Draft, secret: Secret, ciphertext: bytes) -> Secret:
    """Give the secret another value."""
    new = msgspec.structs.replace(secret, ciphertext=ciphertext)
    draft.change(secret, new)
    return new


def rename(draft: Draft, old: AnyObject, name: str) -> AnyObject:
    """Give the object another name. Its ids stay, and with them everything that refers to it."""
    if isinstance(old, Namespace) and old.database is None:
        raise PermissionDenied(f"schema {old.name} can not be renamed")
    if isinstance(old, Namespace) and name in SYSTEM_SCHEMAS:
        raise NameReserved(f'unacceptable schema name "{name}"')
    if isinstance(old, Item):
        _require_open(draft, old.namespace, name)
    new = msgspec.structs.replace(old, name=name)
    draft.change(old, new)
    return new


def move(draft: Draft, old: Item, namespace: Oid) -> None:
    """Put the item into another schema, under the same name and ids."""
    _require_open(draft, namespace, old.name)
    found = draft.catalog.item(old.id)
    draft.change(found, msgspec.structs.replace(found, namespace=namespace))


def free_name(draft: Draft, namespace: Oid, wanted: str) -> str:
    """The name, or the name with the first number from 1 on that makes it free."""
    names = itertools.chain([wanted], (f"{wanted}{n}" for n in itertools.count(1)))
    return next(n for n in names if Place("item", namespace, n) not in draft.catalog.places)


def item_parts(draft: Draft, site: Site) -> dict[str, Any]:
    """What every new item has, with new numbers."""
    return {
        "oid": draft.numbers.oid(),
        "id": draft.numbers.id(),
        "name": site.name,
        "owner": site.owner,
        "namespace": site.namespace,
    }


def relation_parts(draft: Draft, site: Site, columns: Sequence[Column]) -> dict[str, Any]:
    """What every new relation has, with new numbers. Raises `DuplicateColumn`."""
    names = [column.name for column in columns]
    for name in names:
        if names.count(name) > 1:
            raise DuplicateColumn(f'column "{name}" specified more than once')
    rows = {"row_type": draft.numbers.oid(), "row_array_type": draft.numbers.oid()}
    return {**item_parts(draft, site), "columns": tuple(columns), **rows}


def placed_with_rows(draft: Draft, new: R) -> R:
    """Add a relation whose rows storage holds, so that its columns must be ones it can have."""
    _ = new.schema
    return placed(draft, new)


def placed(draft: Draft, new: I) -> I:
    """Add an item, unless it would be in a schema of the system."""
    _require_open(draft, new.namespace, new.name)
    draft.add(cast(AnyItem, new))
    return new


def _require_open(draft: Draft, namespace: Oid, name: str) -> None:
    """Raise if the schema is the system's."""
    schema = draft.catalog.get(namespace, Namespace)
    if schema.database is None:
        raise PermissionDenied(
            f'permission denied to create "{schema.name}.{name}"',
            detail="The schemas of the system hold no objects of users.",
        )
