"""The rows about the system itself, from the facts: made once for a database and an owner.

In the facts the system belongs to PostgreSQL's first role; here it belongs to the role that the
image names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from waterclock.catalog.system.facts import (
    FIRST_MZ_OID,
    INFORMATION_SCHEMA,
    PG_CATALOG,
    SYSTEM_OWNER,
    Facts,
    Row,
)
from waterclock.catalog.system.rows.information import InformationRows
from waterclock.catalog.system.rows.information_system import system_information
from waterclock.catalog.system.rows.objects import fact_attributes
from waterclock.catalog.system.rows.picture import Picture, quoted_role
from waterclock.catalog.system.rows.tables import Key, Layout, Layouts
from waterclock.catalog.system.types import Types

_OWNER_COLUMNS = {
    **{"pg_class": "relowner", "pg_type": "typowner", "pg_proc": "proowner"},
    **{"pg_namespace": "nspowner", "pg_opclass": "opcowner", "pg_opfamily": "opfowner"},
    **{"pg_operator": "oprowner", "pg_collation": "collowner", "pg_language": "lanowner"},
    **{"pg_tablespace": "spcowner"},
}
_FACTS_OWNER = "postgres"


class SystemRows:
    def __init__(self, facts: Facts, types: Types, layouts: Layouts) -> None:
        self._facts = facts
        self._types = types
        self._layouts = layouts
        self._made: dict[tuple[Key, str, int, str], pa.Table | None] = {}

    def table(self, key: Key, picture: Picture) -> pa.Table | None:
        """The system's rows of a relation; None if there are none."""
        owner = picture.image.system_owner
        place = (key, picture.database.name, owner, picture.role_name(owner))
        if place not in self._made:
            rows = self._rows(key, picture)
            self._made[place] = self._layouts[key].table(rows) if rows else None
        return self._made[place]

    def _rows(self, key: Key, picture: Picture) -> list[Any]:
        layout = self._layouts[key]
        schema, name = key
        if schema == INFORMATION_SCHEMA:
            information = InformationRows(picture, self._types)
            found = system_information(information, self._facts).get(name, iter(()))
            return [layout.row(values) for values in found]
        if schema != PG_CATALOG:
            return []
        if name == "pg_attribute":
            return [
                layout.row(values)
                for relation in self._facts.relations
                for values in fact_attributes(relation, self._types)
            ]
        rows = [self._owned(name, layout, row, picture) for row in self._facts.rows.get(name, ())]
        return rows + self._mz_classes(layout, picture) if name == "pg_class" else rows

    def _owned(self, name: str, layout: Layout, row: Row, picture: Picture) -> list[Any]:
        values = list(row)
        owner = picture.image.system_owner
        column = _OWNER_COLUMNS.get(name)
        if column is not None and values[layout.names.index(column)] == SYSTEM_OWNER:
            values[layout.names.index(column)] = owner
        shown = quoted_role(picture.role_name(owner))
        for place, value in enumerate(values):
            if layout.names[place].endswith("acl") and value is not None:
                values[place] = [item.replace(_FACTS_OWNER, shown) for item in value]
        return values

    def _mz_classes(self, layout: Layout, picture: Picture) -> list[Any]:
        schemas: Mapping[str, int] = {row[1]: row[0] for row in self._facts.rows["pg_namespace"]}
        return [
            layout.row(
                {
                    "oid": found.oid,
                    "relname": found.name,
                    "relnamespace": schemas[found.schema],
                    "relowner": picture.image.system_owner,
                    "reltuples": -1.0,
                    "relkind": found.kind,
                    "relnatts": len(found.columns),
                    "relhasrules": True,
                    "relpersistence": "p",
                    "relreplident": "n",
                    "relispopulated": True,
                }
            )
            for found in self._facts.relations
            if found.oid >= FIRST_MZ_OID
        ]
