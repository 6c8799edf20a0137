"""The tables, in an in-process DuckDB.

A table is made when a query first asks for it: once if no version changes it, else once for each
version of the catalog, in a DuckDB schema that belongs to one database at one version. So a new
version costs nothing until somebody looks, and then only what they look at. A version is let go
when a newer one is there and no query uses it any more.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import duckdb
import pyarrow as pa

from waterclock.catalog.system.binding.sources import FIXED
from waterclock.catalog.system.calls import Calls
from waterclock.catalog.system.directory import SystemNames
from waterclock.catalog.system.errors import UndefinedDatabase
from waterclock.catalog.system.facts import INFORMATION_SCHEMA, PG_CATALOG, Facts
from waterclock.catalog.system.image import CatalogImage, Database
from waterclock.catalog.system.mz import MZ_RELATIONS
from waterclock.catalog.system.rows.information import InformationRows
from waterclock.catalog.system.rows.mz import MzRows
from waterclock.catalog.system.rows.objects import ObjectRows
from waterclock.catalog.system.rows.pg import PgRows
from waterclock.catalog.system.rows.picture import Picture, picture_of
from waterclock.catalog.system.rows.system import SystemRows
from waterclock.catalog.system.rows.tables import Key, Layouts
from waterclock.catalog.system.snapshot import Snapshot, snapshot_of
from waterclock.catalog.system.types import Types

CATALOG_MEMORY_MB = 512
"""Memory limit of DuckDB for all queries together, and of each query's rows in Python."""


@dataclass(slots=True)
class _Version:
    """A snapshot with the tables that were made of it so far, and how many queries use it."""

    snapshot: Snapshot
    tables: set[Key] = field(default_factory=set)
    users: int = 0
    replaced: bool = False


class Store:
    def __init__(
        self, facts: Facts, types: Types, calls: Calls, memory_mb: int = CATALOG_MEMORY_MB
    ) -> None:
        """What would take more memory fails: nothing is written to disk instead."""
        self._facts = facts
        self._types = types
        self._names = SystemNames(facts)
        self._layouts = Layouts(facts, types)
        self._system = SystemRows(facts, types, self._layouts)
        limits: dict[str, str | bool | int | float | list[str]] = {
            "threads": "1",
            "memory_limit": f"{memory_mb}MiB",
            "temp_directory": "",
        }
        self._connection = duckdb.connect(":memory:", config=limits)
        calls.register(self._connection)
        self._connection.execute(f"CREATE SCHEMA {FIXED}")
        self._lock = threading.Lock()
        self._versions: dict[str, _Version] = {}
        self._fixed: set[Key] = set()
        self._schemas_made = 0
        self.versioned = self._versioned()

    def close(self) -> None:
        self._connection.close()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        return self._connection.cursor()

    @contextmanager
    def using(
        self, image: CatalogImage, database_name: str, relations: Iterable[Key]
    ) -> Iterator[Snapshot]:
        """The database at the image's version, with the tables of these relations in place."""
        with self._lock:
            version = self._version(image, database_name)
            self._make_tables(version, relations)
            version.users += 1
        try:
            yield version.snapshot
        finally:
            with self._lock:
                version.users -= 1
                self._drop_if_unused(version)

    # --- versions -------------------------------------------------------------------------------

    def _version(self, image: CatalogImage, database_name: str) -> _Version:
        found = self._versions.get(database_name)
        if found is not None and found.snapshot.version == image.version:
            return found
        database = next((d for d in image.databases if d.name == database_name), None)
        if database is None:
            raise UndefinedDatabase(f'database "{database_name}" does not exist')
        self._schemas_made += 1
        schema = f"v{self._schemas_made}"
        snapshot = snapshot_of(image, database, self._names, self._types, schema)
        self.cursor().execute(f"CREATE SCHEMA {schema}")
        made = self._versions[database_name] = _Version(snapshot)
        if found is not None:
            found.replaced = True
            self._drop_if_unused(found)
        return made

    def _drop_if_unused(self, version: _Version) -> None:
        if version.replaced and not version.users:
            self.cursor().execute(f"DROP SCHEMA {version.snapshot.schema} CASCADE")

    # --- tables ---------------------------------------------------------------------------------

    def _make_tables(self, version: _Version, relations: Iterable[Key]) -> None:
        picture = version.snapshot.picture
        wanted = set(relations)
        missing = sorted((wanted & self.versioned) - version.tables)
        if missing:
            rows = self._rows(picture)
            for key in missing:
                layout = self._layouts[key]
                table = layout.table(map(layout.row, rows[key]))
                below = self._system.table(key, picture)
                self._create(
                    version.snapshot.schema,
                    key,
                    table if below is None else pa.concat_tables([below, table]),
                )
                version.tables.add(key)
        for key in sorted(wanted - self.versioned - self._fixed):
            below = self._system.table(key, picture)
            layout = self._layouts[key]
            self._create(FIXED, key, layout.schema.empty_table() if below is None else below)
            self._fixed.add(key)

    def _create(self, schema: str, key: Key, table: pa.Table) -> None:
        cursor = self.cursor()
        name = f'{schema}."{".".join(key)}"'
        if not table.num_rows:
            cursor.execute(f"CREATE TABLE {name} ({self._layouts[key].ddl})")
            return
        cursor.register("incoming", table)
        cursor.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        cursor.unregister("incoming")

    def _rows(self, picture: Picture) -> Mapping[Key, Iterator[Mapping[str, Any]]]:
        """The rows of the catalog's objects, by table; made as they are asked for."""
        schemas = {name: schema for schema, name, _ in MZ_RELATIONS}
        objects = ObjectRows(picture, self._facts, self._types).tables()
        rest = PgRows(picture).tables()
        information = InformationRows(picture, self._types).tables()
        mz = MzRows(picture.image, self._facts, self._types).tables()
        return {
            **{(PG_CATALOG, name): rows for name, rows in {**objects, **rest}.items()},
            **{(INFORMATION_SCHEMA, name): rows for name, rows in information.items()},
            **{(schemas[name], name): rows for name, rows in mz.items()},
        }

    def _versioned(self) -> frozenset[Key]:
        empty = CatalogImage(0, (Database(1, "u1", "", 0),), (), 0)
        return frozenset(self._rows(picture_of(empty, empty.databases[0])))
