"""What stands in the rest of pg_catalog: what all databases share, comments, and the views.

The views (pg_tables and its like) are filled as tables are: nobody can tell, and a query over one
costs less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from waterclock.catalog.system.image import RelationKind
from waterclock.catalog.system.rows.picture import (
    RELKINDS,
    SHARED_CLASSES,
    Picture,
    acl_items,
    comments,
    has_foreign_key,
)

Values = Mapping[str, Any]

UTF8 = 6


class PgRows:
    """The rows of one database at one version."""

    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._image = picture.image
        self._role_names = {oid: role.name for oid, role in picture.roles.items()}

    def tables(self) -> Mapping[str, Iterator[Values]]:
        """The rows, by the table's name."""
        return {
            "pg_database": self._databases(),
            "pg_description": self._descriptions(),
            "pg_shdescription": self._shared_descriptions(),
            "pg_authid": self._roles(),
            "pg_roles": self._roles(),
            "pg_auth_members": self._memberships(),
            "pg_user": self._users(),
            "pg_shadow": self._users(),
            "pg_group": self._groups(),
            "pg_settings": self._settings(),
            "pg_tables": self._tables(),
            "pg_views": self._views(),
            "pg_matviews": self._materialized_views(),
            "pg_indexes": self._index_definitions(),
            "pg_stat_user_tables": self._statistics(),
            "pg_stat_all_tables": self._statistics(),
        }

    def _databases(self) -> Iterator[Values]:
        for database in self._image.databases:
            yield {
                "oid": database.oid,
                "datname": database.name,
                "datdba": database.owner,
                "encoding": UTF8,
                "datlocprovider": "c",
                "datallowconn": True,
                "datconnlimit": -1,
                "dattablespace": 1663,
                "datcollate": "C.UTF-8",
                "datctype": "C.UTF-8",
                "datacl": acl_items(database.grants, self._role_names),
            }

    def _roles(self) -> Iterator[Values]:
        for role in self._image.roles:
            yield {
                "oid": role.oid,
                "rolname": role.name,
                "rolsuper": role.superuser,
                "rolinherit": role.inherit,
                "rolcreaterole": role.create_role,
                "rolcreatedb": role.create_db,
                "rolcanlogin": role.login,
                "rolreplication": role.replication,
                "rolbypassrls": role.bypass_rls,
                "rolconnlimit": role.connection_limit,
                "rolpassword": "********",
                "rolvaliduntil": role.valid_until,
            }

    def _users(self) -> Iterator[Values]:
        for role in self._image.roles:
            if role.login:
                yield {
                    "usename": role.name,
                    "usesysid": role.oid,
                    "usecreatedb": role.create_db,
                    "usesuper": role.superuser,
                    "userepl": role.replication,
                    "usebypassrls": role.bypass_rls,
                    "passwd": "********",
                    "valuntil": role.valid_until,
                }

    def _groups(self) -> Iterator[Values]:
        for role in self._image.roles:
            if not role.login:
                members = [m.member for m in self._image.memberships if m.role == role.oid]
                yield {"groname": role.name, "grosysid": role.oid, "grolist": members}

    def _memberships(self) -> Iterator[Values]:
        for found in self._image.memberships:
            yield {
                "roleid": found.role,
                "member": found.member,
                "grantor": found.grantor,
                "admin_option": found.admin,
            }

    def _settings(self) -> Iterator[Values]:
        for setting in sorted(self._image.settings, key=lambda setting: setting.name.lower()):
            yield {
                "name": setting.name,
                "setting": setting.value,
                "unit": setting.unit,
                "category": setting.category,
                "short_desc": setting.description,
                "context": setting.context,
                "vartype": setting.type,
                "source": "default",
                "boot_val": setting.value,
                "reset_val": setting.value,
                "pending_restart": False,
            }

    def _descriptions(self) -> Iterator[Values]:
        for (oid, classoid, number), text in comments(self._picture).items():
            if classoid not in SHARED_CLASSES:
                yield {
                    "objoid": oid,
                    "classoid": classoid,
                    "objsubid": number,
                    "description": text,
                }

    def _shared_descriptions(self) -> Iterator[Values]:
        for (oid, classoid, _), text in comments(self._picture).items():
            if classoid in SHARED_CLASSES:
                yield {"objoid": oid, "classoid": classoid, "description": text}

    def _tables(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            if RELKINDS[relation.kind] == "r":
                yield {
                    "schemaname": self._picture.schema_name(relation.schema),
                    "tablename": relation.name,
                    "tableowner": self._picture.role_name(relation.owner),
                    "hasindexes": relation.oid in self._picture.indexes_on,
                    "hasrules": False,
                    "hastriggers": has_foreign_key(self._picture, relation),
                    "rowsecurity": False,
                }

    def _views(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            if relation.kind is RelationKind.VIEW:
                yield {
                    "schemaname": self._picture.schema_name(relation.schema),
                    "viewname": relation.name,
                    "viewowner": self._picture.role_name(relation.owner),
                    "definition": relation.definition,
                }

    def _materialized_views(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            if relation.kind is RelationKind.MATERIALIZED_VIEW:
                yield {
                    "schemaname": self._picture.schema_name(relation.schema),
                    "matviewname": relation.name,
                    "matviewowner": self._picture.role_name(relation.owner),
                    "hasindexes": relation.oid in self._picture.indexes_on,
                    "ispopulated": True,
                    "definition": relation.definition,
                }

    def _index_definitions(self) -> Iterator[Values]:
        for index in self._picture.indexes.values():
            yield {
                "schemaname": self._picture.schema_name(index.schema),
                "tablename": self._picture.relations[index.relation].name,
                "indexname": index.name,
                "indexdef": index.definition,
            }

    def _statistics(self) -> Iterator[Values]:
        for relation in self._picture.relations.values():
            if relation.kind is not RelationKind.VIEW:
                yield {
                    "relid": relation.oid,
                    "schemaname": self._picture.schema_name(relation.schema),
                    "relname": relation.name,
                }
