"""Objects as statements that would make them, with names that mean the same everywhere."""

from __future__ import annotations

from typing import assert_never

from waterclock.adapter.errors import Unsupported
from waterclock.adapter.retention import retain_option
from waterclock.catalog.catalog import Catalog
from waterclock.catalog.objects import (
    AnyObject,
    Cluster,
    Column,
    Connection,
    Database,
    Index,
    MaterializedView,
    Namespace,
    Oid,
    Query,
    Relation,
    Role,
    Secret,
    Source,
    SourceProgress,
    Subsource,
    Table,
    View,
)
from waterclock.sql import ast
from waterclock.sql.ast.common import (
    ExpressionText,
    Identifier,
    ObjectName,
    QueryText,
    SortKey,
)
from waterclock.sql.ast.relations import ColumnDefinition
from waterclock.sql.ast.roles import RoleAttributes
from waterclock.sql.printing import create_text
from waterclock.sql.qualifying import qualified
from waterclock.sql.quoting import quote_ident


def full_name(catalog: Catalog, namespace: Oid, name: str) -> ObjectName:
    """The name of an item with its database and schema; the system's schemas have no database."""
    schema = catalog.get(namespace, Namespace)
    if schema.database is None:
        return ObjectName((schema.name, name))
    return ObjectName((catalog.get(schema.database, Database).name, schema.name, name))


def name_in_full(catalog: Catalog, found: AnyObject) -> ObjectName:
    """The object's name with everything in front of it."""
    match found:
        case Database() | Role() | Cluster():
            return ObjectName((found.name,))
        case Namespace(database=None):
            return ObjectName((found.name,))
        case Namespace(database=database):
            assert database is not None
            return ObjectName((catalog.get(database, Database).name, found.name))
        case _:
            return full_name(catalog, found.namespace, found.name)


def create_statement(catalog: Catalog, found: AnyObject) -> str:
    """The statement that would make the object. Passwords and values of secrets are not in it."""
    name = name_in_full(catalog, found)
    match found:
        case Connection() | Source():
            return found.sql
        case Subsource() | SourceProgress():
            raise Unsupported(f"SHOW CREATE of a {found.kind} is not supported")
        case Database():
            return create_text(ast.CreateDatabase(name))
        case Namespace():
            return create_text(ast.CreateSchema(name))
        case Cluster():
            return create_text(ast.CreateCluster(Identifier(found.name)))
        case Role():
            return create_text(ast.CreateRole(Identifier(found.name), _attributes(found)))
        case Secret():
            return create_text(ast.CreateSecret(name, ExpressionText("")))
        case Table():
            columns = tuple(map(_column, found.columns))
            kept = retain_option(found.retain_ms)
            return create_text(ast.CreateTable(name, columns, options=kept))
        case View():
            names = tuple(Identifier(column.name) for column in found.columns)
            return create_text(ast.CreateView(name, _query(catalog, found.query), names))
        case MaterializedView():
            return create_text(_materialized_view(catalog, found, name))
        case Index():
            return create_text(_index(catalog, found))
        case _:
            assert_never(found)


def _attributes(found: Role) -> RoleAttributes:
    return RoleAttributes(
        login=found.login,
        superuser=found.superuser,
        inherit=found.inherit,
        create_role=found.create_role,
        create_database=found.create_database,
    )


def _column(column: Column) -> ColumnDefinition:
    default = None if column.default is None else ExpressionText(column.default)
    return ColumnDefinition(Identifier(column.name), column.type, not column.nullable, default)


def _query(catalog: Catalog, query: Query) -> QueryText:
    """The query's text with the present full names of what it reads."""
    names = {
        binding.name: name_in_full(catalog, catalog.item(binding.id)).parts
        for binding in query.bindings
    }
    return QueryText(qualified(query.sql, names))


def _materialized_view(
    catalog: Catalog, found: MaterializedView, name: ObjectName
) -> ast.CreateMaterializedView:
    return ast.CreateMaterializedView(
        name,
        _query(catalog, found.query),
        tuple(Identifier(column.name) for column in found.columns),
        cluster=Identifier(catalog.get(found.cluster, Cluster).name),
        options=retain_option(found.retain_ms),
    )


def _index(catalog: Catalog, found: Index) -> ast.CreateIndex:
    on = catalog.item(found.on)
    assert isinstance(on, Relation)
    keys = tuple(
        SortKey(
            ExpressionText(
                key.sql if key.column is None else quote_ident(on.columns[key.column - 1].name)
            )
        )
        for key in found.keys
    )
    return ast.CreateIndex(
        name_in_full(catalog, on),
        keys,
        Identifier(found.name),
        cluster=Identifier(catalog.get(found.cluster, Cluster).name),
        options=retain_option(found.retain_ms),
    )
