"""The catalog as the system relations want to see it: one `CatalogImage` for each version.

What a user may not see is not in it: a secret is its name, a role has no verifier. The system's own
schemas are left out, for those relations know them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from waterclock.catalog.builtins import SYSTEM_ROLE
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.draft import FIRST_OID
from waterclock.catalog.names import quoted
from waterclock.catalog.objects import (
    AnyOwned,
    AnyRelation,
    Cluster,
    Column,
    Connection,
    Database,
    Index,
    MaterializedView,
    Namespace,
    Oid,
    Relation,
    Role,
    Secret,
    Source,
    SourceProgress,
    Subsource,
    Table,
    View,
)
from waterclock.catalog.system import image as shown
from waterclock.model.pg_types import PgType, format_type

ShowDefault = Callable[[str, PgType], str | None]
"""How a default is shown, from how it was written and the type of the column."""


def _as_written(text: str, _declared: PgType) -> str | None:
    return text


def image_of(
    catalog: Catalog,
    settings: tuple[shown.Setting, ...] = (),
    show_default: ShowDefault = _as_written,
) -> shown.CatalogImage:
    """The image; `settings` are the parameters that the server has."""
    found = catalog.objects.values()
    relations = [each for each in found if isinstance(each, Relation)]
    return shown.CatalogImage(
        version=catalog.version,
        system_owner=SYSTEM_ROLE,
        databases=tuple(_database(catalog, each) for each in found if isinstance(each, Database)),
        roles=tuple(_role(catalog, each) for each in found if isinstance(each, Role)),
        schemas=tuple(
            _schema(catalog, each, each.database)
            for each in found
            if isinstance(each, Namespace) and each.database is not None
        ),
        relations=tuple(_relation(catalog, each, show_default) for each in relations),
        indexes=tuple(_index(catalog, each) for each in found if isinstance(each, Index)),
        memberships=tuple(
            shown.Membership(each.role, each.member, each.grantor, each.admin)
            for each in catalog.memberships.values()
        ),
        sources=tuple(_source(catalog, each) for each in relations if isinstance(each, Source)),
        connections=tuple(
            _connection(catalog, each) for each in found if isinstance(each, Connection)
        ),
        secrets=tuple(_secret(catalog, each) for each in found if isinstance(each, Secret)),
        clusters=tuple(_cluster(catalog, each) for each in found if isinstance(each, Cluster)),
        dependencies=tuple(
            shown.Dependency(str(item.id), str(used))
            for item in catalog.items()
            for used in item.uses
        ),
        settings=settings,
    )


def text_id(oid: Oid) -> str:
    """The id that mz_* relations show for what is no item."""
    return f"{'s' if oid < FIRST_OID else 'u'}{oid}"


def _comment(catalog: Catalog, oid: Oid, column: int = 0) -> str | None:
    known = catalog.comments.get(oid)
    return None if known is None else known.texts.get(column)


def _grants(found: AnyOwned) -> tuple[shown.Grant, ...]:
    return tuple(
        shown.Grant(
            each.grantee,
            each.grantor,
            frozenset(privilege.value for privilege in each.privileges),
            frozenset(privilege.value for privilege in each.grantable),
        )
        for each in found.grants or ()
    )


def _database(catalog: Catalog, found: Database) -> shown.Database:
    comment = _comment(catalog, found.oid)
    return shown.Database(
        found.oid, text_id(found.oid), found.name, found.owner, comment, _grants(found)
    )


def _schema(catalog: Catalog, found: Namespace, database: Oid) -> shown.Schema:
    return shown.Schema(
        oid=found.oid,
        id=text_id(found.oid),
        database=database,
        name=found.name,
        owner=found.owner,
        comment=_comment(catalog, found.oid),
        grants=_grants(found),
    )


def _role(catalog: Catalog, found: Role) -> shown.Role:
    return shown.Role(
        oid=found.oid,
        id=text_id(found.oid),
        name=found.name,
        superuser=found.superuser,
        inherit=found.inherit,
        create_role=found.create_role,
        create_db=found.create_database,
        login=found.login,
        comment=_comment(catalog, found.oid),
    )


def _cluster(catalog: Catalog, found: Cluster) -> shown.Cluster:
    comment = _comment(catalog, found.oid)
    return shown.Cluster(text_id(found.oid), found.name, found.owner, comment=comment)


def _relation(catalog: Catalog, found: AnyRelation, show_default: ShowDefault) -> shown.Relation:
    kind, cluster, query = _nature(found)
    return shown.Relation(
        oid=found.oid,
        id=str(found.id),
        schema=found.namespace,
        name=found.name,
        kind=kind,
        columns=tuple(
            shown.Column(
                c.name,
                c.type,
                c.nullable,
                None if c.default is None else show_default(c.default, c.type),
                _comment(catalog, found.oid, n),
            )
            for n, c in enumerate(found.columns, start=1)
        ),
        owner=found.owner,
        row_type=found.row_type,
        row_array_type=found.row_array_type,
        definition=None if query is None else f"{query};",
        create_sql=create_statement(catalog, found),
        comment=_comment(catalog, found.oid),
        cluster=None if cluster is None else text_id(cluster),
        grants=_grants(found),
    )


def _nature(found: AnyRelation) -> tuple[shown.RelationKind, Oid | None, str | None]:
    """The kind, the cluster it runs on, and its query."""
    match found:
        case Table():
            return shown.RelationKind.TABLE, None, None
        case View():
            return shown.RelationKind.VIEW, None, found.query.sql
        case MaterializedView():
            return shown.RelationKind.MATERIALIZED_VIEW, found.cluster, found.query.sql
        case Source():
            return shown.RelationKind.SOURCE, found.cluster, None
        case Subsource():
            return shown.RelationKind.SOURCE, None, None
        case SourceProgress():
            return shown.RelationKind.SOURCE_PROGRESS, None, None
        case _:
            assert_never(found)


def create_statement(catalog: Catalog, found: AnyRelation) -> str | None:
    """The statement that makes the relation; None for what is made as a part of something else."""
    name = qualified(catalog, found)
    match found:
        case Table():
            columns = ", ".join(_declared(c) for c in found.columns)
            return f"CREATE TABLE {name} ({columns}){_options(found)}"
        case View():
            return f"CREATE VIEW {name} AS {found.query.sql}"
        case MaterializedView():
            cluster = quoted(catalog.get(found.cluster, Cluster).name)
            head = f"CREATE MATERIALIZED VIEW {name} IN CLUSTER {cluster}{_options(found)}"
            return f"{head} AS {found.query.sql}"
        case Source():
            return found.sql
        case Subsource() | SourceProgress():
            return None
        case _:
            assert_never(found)


def _options(found: Table | MaterializedView) -> str:
    if found.retain_ms is None:
        return ""
    return f" WITH (RETAIN HISTORY = '{found.retain_ms}ms')"


def qualified(catalog: Catalog, found: AnyRelation | Index) -> str:
    """The item's name with its schema, as SQL writes it."""
    schema = catalog.get(found.namespace, Namespace)
    return f"{quoted(schema.name)}.{quoted(found.name)}"


def _declared(column: Column) -> str:
    default = f" DEFAULT {column.default}" if column.default is not None else ""
    required = "" if column.nullable else " NOT NULL"
    return f"{quoted(column.name)} {format_type(column.type)}{required}{default}"


def _index(catalog: Catalog, found: Index) -> shown.Index:
    on = catalog.item(found.on)
    assert isinstance(on, Relation)
    keys = ", ".join(key.sql for key in found.keys)
    name = quoted(found.name)
    return shown.Index(
        oid=found.oid,
        id=str(found.id),
        schema=found.namespace,
        name=found.name,
        relation=on.oid,
        keys=tuple(
            shown.IndexKey(
                column=key.column or 0,
                expression=None if key.column else key.sql,
                type=key.type,
                name=on.columns[key.column - 1].name if key.column else None,
            )
            for key in found.keys
        ),
        owner=found.owner,
        definition=f"CREATE INDEX {name} ON {qualified(catalog, on)} USING btree ({keys})",
        comment=_comment(catalog, found.oid),
        cluster=text_id(found.cluster),
    )


def _source(catalog: Catalog, found: Source) -> shown.Source:
    parts = (catalog.item(user) for user in sorted(catalog.users.get(found.id, ())))
    progress = next((part.oid for part in parts if isinstance(part, SourceProgress)), 0)
    used = (catalog.item(each) for each in found.connections)
    connections = [str(each.id) for each in used if isinstance(each, Connection)]
    return shown.Source(
        relation=found.oid,
        type=found.connector,
        connection=connections[0] if connections else None,
        envelope=found.envelope,
        key_format=found.key_format,
        value_format=found.value_format,
        progress=progress,
    )


def _connection(catalog: Catalog, found: Connection) -> shown.Connection:
    return shown.Connection(
        oid=found.oid,
        id=str(found.id),
        schema=found.namespace,
        name=found.name,
        type=found.connector,
        owner=found.owner,
        create_sql=found.sql,
        comment=_comment(catalog, found.oid),
        grants=_grants(found),
    )


def _secret(catalog: Catalog, found: Secret) -> shown.Secret:
    return shown.Secret(
        oid=found.oid,
        id=str(found.id),
        schema=found.namespace,
        name=found.name,
        owner=found.owner,
        comment=_comment(catalog, found.oid),
        grants=_grants(found),
    )
