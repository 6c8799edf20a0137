"""What stands in the mz_* relations: all databases at once, objects known by their ids."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from waterclock.catalog.system.facts import PG_CATALOG_OID, Facts
from waterclock.catalog.system.image import (
    CatalogImage,
    Connection,
    Index,
    Relation,
    RelationKind,
    Secret,
    Sink,
    Source,
)
from waterclock.catalog.system.rows.picture import acl_items
from waterclock.catalog.system.types import Types

Values = Mapping[str, Any]
Item: TypeAlias = Relation | Index | Connection | Secret | Sink

SYSTEM_SCHEMA_ID = "s1"
_CATEGORIES = {"A": "array", "B": "boolean", "N": "numeric", "S": "string", "D": "date-time"}


class MzRows:
    def __init__(self, image: CatalogImage, facts: Facts, types: Types) -> None:
        self._image = image
        self._facts = facts
        self._types = types
        self._role_ids = {role.oid: role.id for role in image.roles}
        self._role_names = {role.oid: role.name for role in image.roles}
        self._schema_ids = {schema.oid: schema.id for schema in image.schemas}
        self._relations = {relation.oid: relation for relation in image.relations}
        self._sources = {source.relation: source for source in image.sources}

    def tables(self) -> Mapping[str, Iterator[Values]]:
        image = self._image
        relations = image.relations
        return {
            "mz_databases": self._databases(),
            "mz_schemas": self._schemas(),
            "mz_objects": self._objects(self._items()),
            "mz_relations": self._objects([(item, item.kind.value) for item in relations]),
            "mz_columns": self._columns(),
            "mz_tables": self._of_kind(RelationKind.TABLE),
            "mz_views": self._of_kind(RelationKind.VIEW),
            "mz_materialized_views": self._of_kind(RelationKind.MATERIALIZED_VIEW),
            "mz_indexes": self._indexes(),
            "mz_index_columns": self._index_columns(),
            "mz_sources": self._source_rows(),
            "mz_source_progresses": self._progresses(),
            "mz_sinks": self._sinks(),
            "mz_connections": self._connections(),
            "mz_secrets": (self._item(secret) for secret in image.secrets),
            "mz_roles": self._roles(),
            "mz_role_members": self._members(),
            "mz_types": self._type_rows(),
            "mz_clusters": self._clusters(),
            "mz_cluster_replicas": self._replicas(),
            "mz_comments": self._comments(),
            "mz_hydration_statuses": self._hydration(),
            "mz_source_statuses": self._source_statuses(),
            "mz_object_statuses": self._object_statuses(),
            "mz_source_statistics": self._source_statistics(),
            "mz_object_dependencies": (
                {"object_id": found.id, "referenced_object_id": found.referenced}
                for found in image.dependencies
            ),
        }

    def _owner(self, oid: int) -> str | None:
        return self._role_ids.get(oid)

    def _databases(self) -> Iterator[Values]:
        for found in self._image.databases:
            yield {
                "id": found.id,
                "oid": found.oid,
                "name": found.name,
                "owner_id": self._owner(found.owner),
                "privileges": acl_items(found.grants, self._role_names),
            }

    def _schemas(self) -> Iterator[Values]:
        database_ids = {database.oid: database.id for database in self._image.databases}
        for found in self._image.schemas:
            yield {
                "id": found.id,
                "oid": found.oid,
                "database_id": database_ids.get(found.database),
                "name": found.name,
                "owner_id": self._owner(found.owner),
                "privileges": acl_items(found.grants, self._role_names),
            }

    def _items(self) -> list[tuple[Item, str]]:
        image = self._image
        return [
            *((relation, relation.kind.value) for relation in image.relations),
            *((index, "index") for index in image.indexes),
            *((sink, "sink") for sink in image.sinks),
            *((connection, "connection") for connection in image.connections),
            *((secret, "secret") for secret in image.secrets),
        ]

    def _item(self, item: Item) -> dict[str, Any]:
        """What every item has."""
        return {
            "id": item.id,
            "oid": item.oid,
            "schema_id": self._schema_ids.get(item.schema),
            "name": item.name,
            "owner_id": self._owner(item.owner),
            "privileges": acl_items(getattr(item, "grants", ()), self._role_names),
        }

    def _objects(self, items: Sequence[tuple[Item, str]]) -> Iterator[Values]:
        for item, kind in items:
            yield {
                **self._item(item),
                "type": kind,
                "cluster_id": getattr(item, "cluster", None),
            }

    def _columns(self) -> Iterator[Values]:
        for relation in self._image.relations:
            for position, column in enumerate(relation.columns, start=1):
                yield {
                    "id": relation.id,
                    "name": column.name,
                    "position": position,
                    "nullable": column.nullable,
                    "type": self._types.format(column.type.oid),
                    "default": column.default,
                    "type_oid": column.type.oid,
                    "type_mod": column.type.modifier,
                }

    def _of_kind(self, kind: RelationKind) -> Iterator[Values]:
        for relation in self._image.relations:
            if relation.kind is kind:
                yield {**self._item(relation), **self._making(relation, kind)}

    def _making(self, relation: Relation, kind: RelationKind) -> Values:
        made = {"create_sql": relation.create_sql, "redacted_create_sql": relation.create_sql}
        match kind:
            case RelationKind.VIEW:
                return made | {"definition": relation.definition}
            case RelationKind.MATERIALIZED_VIEW:
                return made | {"definition": relation.definition, "cluster_id": relation.cluster}
            case _:
                return made

    def _indexes(self) -> Iterator[Values]:
        for index in self._image.indexes:
            yield {
                "id": index.id,
                "oid": index.oid,
                "name": index.name,
                "on_id": self._relations[index.relation].id,
                "cluster_id": index.cluster,
                "owner_id": self._owner(index.owner),
                "create_sql": index.definition,
                "redacted_create_sql": index.definition,
            }

    def _index_columns(self) -> Iterator[Values]:
        for index in self._image.indexes:
            columns = self._relations[index.relation].columns
            for position, key in enumerate(index.keys, start=1):
                yield {
                    "index_id": index.id,
                    "index_position": position,
                    "on_position": key.column or None,
                    "on_expression": key.expression,
                    "nullable": columns[key.column - 1].nullable if key.column else True,
                }

    def _source_rows(self) -> Iterator[Values]:
        for relation in self._image.relations:
            source = self._sources.get(relation.oid)
            if source is not None or relation.kind is RelationKind.SOURCE:
                yield {**self._item(relation), **self._source(relation, source)}

    def _source(self, relation: Relation, source: Source | None) -> Values:
        return {
            "type": source.type if source is not None else "subsource",
            "connection_id": source.connection if source is not None else None,
            "envelope_type": source.envelope if source is not None else None,
            "key_format": source.key_format if source is not None else None,
            "value_format": source.value_format if source is not None else None,
            "cluster_id": relation.cluster,
            "create_sql": relation.create_sql,
            "redacted_create_sql": relation.create_sql,
        }

    def _progresses(self) -> Iterator[Values]:
        for source in self._image.sources:
            if source.progress:
                progress = self._relations[source.progress]
                yield {
                    "id": progress.id,
                    "name": progress.name,
                    "source_id": self._relations[source.relation].id,
                }

    def _sinks(self) -> Iterator[Values]:
        for sink in self._image.sinks:
            values = self._item(sink)
            del values["privileges"]
            yield {
                **values,
                "type": sink.type,
                "connection_id": sink.connection,
                "envelope_type": sink.envelope,
                "cluster_id": sink.cluster,
                "create_sql": sink.create_sql,
                "redacted_create_sql": sink.create_sql,
            }

    def _connections(self) -> Iterator[Values]:
        for found in self._image.connections:
            yield {
                **self._item(found),
                "type": found.type,
                "create_sql": found.create_sql,
                "redacted_create_sql": found.create_sql,
            }

    def _roles(self) -> Iterator[Values]:
        for role in self._image.roles:
            yield {
                "id": role.id,
                "oid": role.oid,
                "name": role.name,
                "inherit": role.inherit,
                "rolcanlogin": role.login,
                "rolsuper": role.superuser,
            }

    def _members(self) -> Iterator[Values]:
        for found in self._image.memberships:
            yield {
                "role_id": self._owner(found.role),
                "member": self._owner(found.member),
                "grantor": self._owner(found.grantor),
            }

    def _type_rows(self) -> Iterator[Values]:
        for found in self._facts.types.values():
            if found.schema == PG_CATALOG_OID and found.kind == "b":
                yield {
                    "id": f"s{found.oid}",
                    "oid": found.oid,
                    "schema_id": SYSTEM_SCHEMA_ID,
                    "name": found.name,
                    "category": _CATEGORIES.get(found.category, "pseudo"),
                    "owner_id": self._owner(self._image.system_owner),
                }

    def _clusters(self) -> Iterator[Values]:
        for cluster in self._image.clusters:
            yield {
                "id": cluster.id,
                "name": cluster.name,
                "owner_id": self._owner(cluster.owner),
                "managed": cluster.managed,
                "size": cluster.size,
                "replication_factor": len(cluster.replicas) if cluster.managed else None,
            }

    def _replicas(self) -> Iterator[Values]:
        for cluster in self._image.clusters:
            for replica in cluster.replicas:
                yield {
                    "id": replica.id,
                    "name": replica.name,
                    "cluster_id": cluster.id,
                    "size": replica.size,
                    "owner_id": self._owner(cluster.owner),
                }

    def _comments(self) -> Iterator[Values]:
        for id_, kind, part, text in self._commented():
            if text is not None:
                yield {"id": id_, "object_type": kind, "object_sub_id": part, "comment": text}

    def _commented(self) -> Iterator[tuple[str, str, int | None, str | None]]:
        image = self._image
        for item, kind in self._items():
            yield item.id, kind, None, item.comment
        for relation in image.relations:
            for position, column in enumerate(relation.columns, start=1):
                yield relation.id, relation.kind.value, position, column.comment
        for database in image.databases:
            yield database.id, "database", None, database.comment
        for schema in image.schemas:
            yield schema.id, "schema", None, schema.comment
        for role in image.roles:
            yield role.id, "role", None, role.comment
        for cluster in image.clusters:
            yield cluster.id, "cluster", None, cluster.comment

    def _hydration(self) -> Iterator[Values]:
        for found in self._image.hydration:
            yield {
                "object_id": found.id,
                "replica_id": found.replica,
                "hydrated": found.hydrated,
                "status": found.status,
                "rows_read": found.rows_read,
                "tasks_done": found.tasks_done,
                "tasks": found.tasks,
                "error": found.error,
                "rebuilt": found.rebuilt,
            }

    def _source_statistics(self) -> Iterator[Values]:
        for found in self._image.source_statistics:
            yield {
                "id": found.id,
                "messages_received": found.messages,
                "bytes_received": found.bytes,
                "updates_committed": found.updates,
                "snapshot_records_known": found.first_rows_known,
                "snapshot_records_staged": found.first_rows_read,
                "offset_known": found.offset_known,
                "offset_committed": found.offset_committed,
                "lag_ms": found.lag_ms,
                "messages_undecodable": found.undecodable,
                "messages_skipped": found.skipped,
            }

    def _object_statuses(self) -> Iterator[Values]:
        items = {item.id: (item, kind) for item, kind in self._items()}
        for found in self._image.object_statuses:
            item, kind = items[found.id]
            blamed = None if found.blamed is None else items.get(found.blamed)
            yield {
                "id": found.id,
                "name": item.name,
                "type": kind,
                "last_status_change_at": found.last_change,
                "status": found.status,
                "error": found.error,
                "details": _as_json(found.details),
                "blamed_id": found.blamed,
                "blamed_name": None if blamed is None else blamed[0].name,
            }

    def _source_statuses(self) -> Iterator[Values]:
        sources = {relation.id: relation for relation in self._image.relations}
        for status in self._image.source_statuses:
            relation = sources[status.id]
            source = self._sources.get(relation.oid)
            yield {
                "id": status.id,
                "name": relation.name,
                "type": source.type if source is not None else "source",
                "last_status_change_at": status.last_change,
                "status": status.status,
                "error": status.error,
                "details": _as_json(status.details),
            }


def _as_json(details: str | None) -> str | None:
    return None if details is None else json.dumps(json.loads(details))
