"""What a PostgreSQL 15 knows of itself: its relations, their columns, its types and functions.

The facts are a data file, written by `scripts/catalog_facts.py` from a real server. To them come
Waterclock's two own types and the mz_* relations. Read once, never changed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from waterclock.catalog.system.mz import MZ_RELATIONS, MZ_SCHEMAS
from waterclock.model import pg_types

PG_CATALOG, INFORMATION_SCHEMA = "pg_catalog", "information_schema"
PG_CATALOG_OID = 11
SYSTEM_OWNER = 10
"""The role that owns the system's objects in the facts."""
FIRST_MZ_OID = 15000
"""The mz_* relations are numbered from here on, between PostgreSQL's objects and the users'."""
IMPLICIT_SCHEMAS = (PG_CATALOG, *MZ_SCHEMAS)
"""Searched for a bare name before the schemas of the search path."""
SYSTEM_SCHEMAS = frozenset({*IMPLICIT_SCHEMAS, INFORMATION_SCHEMA})

Row = Sequence[Any]


@dataclass(frozen=True, slots=True)
class FactColumn:
    name: str
    type: int
    modifier: int = pg_types.NO_MODIFIER
    not_null: bool = False
    collation: int = 0
    dimensions: int = 0
    storage: str = ""


@dataclass(frozen=True, slots=True)
class FactRelation:
    oid: int
    schema: str
    name: str
    kind: str
    """PostgreSQL's relkind."""
    columns: tuple[FactColumn, ...]


@dataclass(frozen=True, slots=True)
class FactType:
    """A row of pg_type, as far as values of the type are concerned."""

    oid: int
    name: str
    schema: int
    length: int
    by_value: bool
    kind: str
    category: str
    preferred: bool
    element: int
    array: int
    base: int
    modifier: int
    collation: int
    align: str
    storage: str


@dataclass(frozen=True, slots=True)
class Facts:
    relations: tuple[FactRelation, ...]
    types: Mapping[int, FactType]
    rows: Mapping[str, tuple[Row, ...]]
    """Rows of pg_catalog's tables that are the same in every database, by the table's name."""
    reserved: frozenset[str]
    """Words that can not be names of columns."""
    keywords: frozenset[str]
    """Words that names have to be quoted for."""
    keys: Mapping[int, frozenset[int]]
    """The numbers of the columns of each relation's primary key."""
    columns: Mapping[tuple[str, str], FactRelation]
    """The relations that can be queried, by schema and name."""

    def relation(self, schema: str, name: str) -> FactRelation | None:
        return self.columns.get((schema, name))

    def type_named(self, name: str) -> FactType | None:
        """The type of that name in pg_type."""
        return next((found for found in self.types.values() if found.name == name), None)


# Functions without arguments that give the same rows always; they are found by that name in FROM.
_KEYWORDS = FactRelation(
    0,
    PG_CATALOG,
    "pg_get_keywords()",
    "v",
    (
        *(FactColumn("word", 25), FactColumn("catcode", 18), FactColumn("barelabel", 16)),
        *(FactColumn("catdesc", 25), FactColumn("baredesc", 25)),
    ),
)
_EXTENSIONS = FactRelation(
    0,
    PG_CATALOG,
    "pg_available_extensions()",
    "v",
    (FactColumn("name", 19), FactColumn("default_version", 25), FactColumn("comment", 25)),
)
_EXTENSION_VERSIONS = FactRelation(
    0,
    PG_CATALOG,
    "pg_available_extension_versions()",
    "v",
    (
        *(FactColumn("name", 19), FactColumn("version", 25), FactColumn("superuser", 16)),
        *(FactColumn("trusted", 16), FactColumn("relocatable", 16), FactColumn("schema", 19)),
        *(FactColumn("requires", 1003), FactColumn("comment", 25)),
    ),
)
_SET_FUNCTIONS = (_KEYWORDS, _EXTENSIONS, _EXTENSION_VERSIONS)


@cache
def load_facts() -> Facts:
    """What the data file says, which nobody changes. To read it takes some tens of milliseconds."""
    text = resources.files(__package__).joinpath("postgres15.json").read_text(encoding="utf-8")
    data = json.loads(text)
    relations = tuple(_relations(data.pop("relations"))) + _mz_relations()
    keywords = tuple(data.pop("keywords"))
    rows = {name: tuple(table["rows"]) for name, table in data.items()}
    rows["pg_type"] += tuple(_own_types(data["pg_type"]["columns"], rows["pg_type"]))
    rows["pg_namespace"] += tuple(
        [FIRST_MZ_OID - 1 - number, name, SYSTEM_OWNER, None]
        for number, name in enumerate(MZ_SCHEMAS)
    )
    types = {found.oid: found for found in _types(data["pg_type"]["columns"], rows["pg_type"])}
    rows[_KEYWORDS.name] = keywords
    queried = {
        (found.schema, found.name): found
        for found in (*relations, *_SET_FUNCTIONS)
        if found.kind in "rv"
    }
    reserved = frozenset(row[0] for row in keywords if row[1] == "R")
    special = frozenset(row[0] for row in keywords if row[1] != "U")
    names = data["pg_constraint"]["columns"]
    relation, kind, key = (names.index(n) for n in ("conrelid", "contype", "conkey"))
    keys = {row[relation]: frozenset(row[key]) for row in rows["pg_constraint"] if row[kind] == "p"}
    return Facts(relations, types, rows, reserved, special, keys, queried)


def _relations(found: list[Any]) -> Iterator[FactRelation]:
    for oid, schema, name, kind, columns in found:
        yield FactRelation(
            oid, schema, name, kind, tuple(FactColumn(*column) for column in columns)
        )


def _mz_relations() -> tuple[FactRelation, ...]:
    return tuple(
        FactRelation(
            FIRST_MZ_OID + number,
            schema,
            name,
            "v",
            tuple(FactColumn(column, type_) for column, type_ in columns),
        )
        for number, (schema, name, columns) in enumerate(MZ_RELATIONS)
    )


def _own_types(columns: list[str], rows: Sequence[Row]) -> Iterator[Row]:
    """Rows for the types that PostgreSQL does not have, modelled on bigint and its array."""
    by_oid = {row[0]: row for row in rows}
    for info in pg_types.TYPES:
        if info.oid in by_oid:
            continue
        for model, changes in (
            (20, {"oid": info.oid, "typname": info.name, "typarray": info.array_oid}),
            (1016, {"oid": info.array_oid, "typname": f"_{info.name}", "typelem": info.oid}),
        ):
            row = dict(zip(columns, by_oid[model], strict=True)) | changes
            yield [row[column] for column in columns]


def _types(columns: list[str], rows: Sequence[Row]) -> Iterator[FactType]:
    wanted = (
        *("oid", "typname", "typnamespace", "typlen", "typbyval", "typtype", "typcategory"),
        *("typispreferred", "typelem", "typarray", "typbasetype", "typtypmod", "typcollation"),
        *("typalign", "typstorage"),
    )
    places = [columns.index(name) for name in wanted]
    for row in rows:
        yield FactType(*(row[place] for place in places))
