"""The mz_* relations: their names and columns. What stands in them is made in `mz_rows`.

They are those that dbt's adapter and people's own scripts read. A column is (name, type OID).
"""

from __future__ import annotations

_BOOL, _INT4, _INT8, _TEXT, _OID, _JSONB = 16, 23, 20, 25, 26, 3802
_TEXT_ARRAY, _TIMESTAMPTZ, _UINT8 = 1009, 1184, 16464

MZ_CATALOG, MZ_INTERNAL = "mz_catalog", "mz_internal"
MZ_SCHEMAS = (MZ_CATALOG, MZ_INTERNAL)

Columns = tuple[tuple[str, int], ...]

_NAMED: Columns = (("id", _TEXT), ("oid", _OID), ("schema_id", _TEXT), ("name", _TEXT))
_OWNED: Columns = (("owner_id", _TEXT), ("privileges", _TEXT_ARRAY))
_MADE: Columns = (("create_sql", _TEXT), ("redacted_create_sql", _TEXT))

MZ_RELATIONS: tuple[tuple[str, str, Columns], ...] = (
    (MZ_CATALOG, "mz_databases", (("id", _TEXT), ("oid", _OID), ("name", _TEXT), *_OWNED)),
    (
        MZ_CATALOG,
        "mz_schemas",
        (("id", _TEXT), ("oid", _OID), ("database_id", _TEXT), ("name", _TEXT), *_OWNED),
    ),
    (
        MZ_CATALOG,
        "mz_objects",
        (*_NAMED, ("type", _TEXT), ("owner_id", _TEXT), ("cluster_id", _TEXT), _OWNED[1]),
    ),
    (
        MZ_CATALOG,
        "mz_relations",
        (*_NAMED, ("type", _TEXT), ("owner_id", _TEXT), ("cluster_id", _TEXT), _OWNED[1]),
    ),
    (
        MZ_CATALOG,
        "mz_columns",
        (
            *(("id", _TEXT), ("name", _TEXT), ("position", _UINT8), ("nullable", _BOOL)),
            *(("type", _TEXT), ("default", _TEXT), ("type_oid", _OID), ("type_mod", _INT4)),
        ),
    ),
    (MZ_CATALOG, "mz_tables", (*_NAMED, *_OWNED, *_MADE, ("source_id", _TEXT))),
    (MZ_CATALOG, "mz_views", (*_NAMED, ("definition", _TEXT), *_OWNED, *_MADE)),
    (
        MZ_CATALOG,
        "mz_materialized_views",
        (*_NAMED, ("cluster_id", _TEXT), ("definition", _TEXT), *_OWNED, *_MADE),
    ),
    (
        MZ_CATALOG,
        "mz_indexes",
        (
            *(("id", _TEXT), ("oid", _OID), ("name", _TEXT), ("on_id", _TEXT)),
            *(("cluster_id", _TEXT), ("owner_id", _TEXT), *_MADE),
        ),
    ),
    (
        MZ_CATALOG,
        "mz_index_columns",
        (
            *(("index_id", _TEXT), ("index_position", _UINT8), ("on_position", _UINT8)),
            *(("on_expression", _TEXT), ("nullable", _BOOL)),
        ),
    ),
    (
        MZ_CATALOG,
        "mz_sources",
        (
            *(*_NAMED, ("type", _TEXT), ("connection_id", _TEXT), ("size", _TEXT)),
            *(("envelope_type", _TEXT), ("key_format", _TEXT), ("value_format", _TEXT)),
            *(("cluster_id", _TEXT), *_OWNED, *_MADE),
        ),
    ),
    (
        MZ_CATALOG,
        "mz_source_progresses",
        (("id", _TEXT), ("name", _TEXT), ("source_id", _TEXT)),
    ),
    (
        MZ_CATALOG,
        "mz_sinks",
        (
            *(*_NAMED, ("type", _TEXT), ("connection_id", _TEXT), ("size", _TEXT)),
            *(("envelope_type", _TEXT), ("format", _TEXT), ("key_format", _TEXT)),
            *(("value_format", _TEXT), ("cluster_id", _TEXT), ("owner_id", _TEXT), *_MADE),
        ),
    ),
    (MZ_CATALOG, "mz_connections", (*_NAMED, ("type", _TEXT), *_OWNED, *_MADE)),
    (MZ_CATALOG, "mz_secrets", (*_NAMED, *_OWNED)),
    (
        MZ_CATALOG,
        "mz_roles",
        (
            *(("id", _TEXT), ("oid", _OID), ("name", _TEXT), ("inherit", _BOOL)),
            *(("rolcanlogin", _BOOL), ("rolsuper", _BOOL)),
        ),
    ),
    (
        MZ_CATALOG,
        "mz_role_members",
        (("role_id", _TEXT), ("member", _TEXT), ("grantor", _TEXT)),
    ),
    (MZ_CATALOG, "mz_types", (*_NAMED, ("category", _TEXT), *_OWNED, *_MADE)),
    (
        MZ_CATALOG,
        "mz_clusters",
        (
            *(("id", _TEXT), ("name", _TEXT), *_OWNED, ("managed", _BOOL), ("size", _TEXT)),
            *(("replication_factor", _INT4), ("disk", _BOOL), ("availability_zones", _TEXT_ARRAY)),
            *(("introspection_debugging", _BOOL), ("introspection_interval", 1186)),
        ),
    ),
    (
        MZ_CATALOG,
        "mz_cluster_replicas",
        (
            *(("id", _TEXT), ("name", _TEXT), ("cluster_id", _TEXT), ("size", _TEXT)),
            *(("availability_zone", _TEXT), ("owner_id", _TEXT), ("disk", _BOOL)),
        ),
    ),
    (
        MZ_INTERNAL,
        "mz_comments",
        (("id", _TEXT), ("object_type", _TEXT), ("object_sub_id", _INT4), ("comment", _TEXT)),
    ),
    (
        MZ_INTERNAL,
        "mz_hydration_statuses",
        (
            *(("object_id", _TEXT), ("replica_id", _TEXT), ("hydrated", _BOOL)),
            *(("status", _TEXT), ("rows_read", _INT8), ("tasks_done", _INT8), ("tasks", _INT8)),
            *(("error", _TEXT), ("rebuilt", _TEXT)),
        ),
    ),
    (
        MZ_INTERNAL,
        "mz_source_statuses",
        (
            *(("id", _TEXT), ("name", _TEXT), ("type", _TEXT)),
            *(("last_status_change_at", _TIMESTAMPTZ), ("status", _TEXT)),
            *(("error", _TEXT), ("details", _JSONB)),
        ),
    ),
    (
        MZ_INTERNAL,
        "mz_object_statuses",
        (
            *(("id", _TEXT), ("name", _TEXT), ("type", _TEXT)),
            *(("last_status_change_at", _TIMESTAMPTZ), ("status", _TEXT)),
            *(("error", _TEXT), ("details", _JSONB)),
            *(("blamed_id", _TEXT), ("blamed_name", _TEXT)),
        ),
    ),
    (
        MZ_INTERNAL,
        "mz_source_statistics",
        (
            *(("id", _TEXT), ("messages_received", _INT8), ("bytes_received", _INT8)),
            *(("updates_committed", _INT8), ("snapshot_records_known", _INT8)),
            *(("snapshot_records_staged", _INT8), ("offset_known", _INT8)),
            *(("offset_committed", _INT8), ("lag_ms", _INT8)),
            *(("messages_undecodable", _INT8), ("messages_skipped", _INT8)),
        ),
    ),
    (
        MZ_INTERNAL,
        "mz_object_dependencies",
        (("object_id", _TEXT), ("referenced_object_id", _TEXT)),
    ),
    (
        MZ_INTERNAL,
        "mz_read_holds",
        (
            *(("holder", _TEXT), ("kind", _TEXT), ("owner", _TEXT), ("object_id", _TEXT)),
            *(("since", _INT8), ("lease_ms", _INT8), ("expires_at", _TIMESTAMPTZ)),
        ),
    ),
)
