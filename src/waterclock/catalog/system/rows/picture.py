"""The part of a `CatalogImage` that one database's sessions see, with what is looked up in it.

pg_catalog and information_schema show one database; mz_* show all. Roles and clusters belong to
none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from waterclock.catalog.system.image import (
    CatalogImage,
    Constraint,
    ConstraintKind,
    Database,
    Grant,
    Index,
    Relation,
    RelationKind,
    Role,
    Schema,
)

T = TypeVar("T")

RELKINDS = {
    RelationKind.TABLE: "r",
    RelationKind.SOURCE: "r",
    RelationKind.SOURCE_PROGRESS: "r",
    RelationKind.VIEW: "v",
    RelationKind.MATERIALIZED_VIEW: "m",
}
"""A source is shown as a table, because clients look for what they can read among those."""


@dataclass(frozen=True, slots=True)
class Picture:
    image: CatalogImage
    database: Database
    schemas: Mapping[int, Schema]
    relations: Mapping[int, Relation]
    indexes: Mapping[int, Index]
    constraints: Mapping[int, Constraint]
    roles: Mapping[int, Role]
    indexes_on: Mapping[int, tuple[Index, ...]]
    constraints_on: Mapping[int, tuple[Constraint, ...]]

    def role_name(self, oid: int) -> str:
        role = self.roles.get(oid)
        return role.name if role is not None else f"unknown (OID={oid})"

    def schema_name(self, oid: int) -> str:
        return self.schemas[oid].name


def picture_of(image: CatalogImage, database: Database) -> Picture:
    schemas = {schema.oid: schema for schema in image.schemas if schema.database == database.oid}
    indexes = tuple(index for index in image.indexes if index.schema in schemas)
    constraints = tuple(found for found in image.constraints if found.schema in schemas)
    return Picture(
        image=image,
        database=database,
        schemas=schemas,
        relations={
            found.oid: _shown(found) for found in image.relations if found.schema in schemas
        },
        indexes={index.oid: index for index in indexes},
        constraints={found.oid: found for found in constraints},
        roles={role.oid: role for role in image.roles},
        indexes_on=_grouped((index.relation, index) for index in indexes),
        constraints_on=_grouped((found.relation, found) for found in constraints),
    )


def _grouped(pairs: Iterable[tuple[int, T]]) -> dict[int, tuple[T, ...]]:
    groups: dict[int, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}


PG_CLASS, PG_TYPE, PG_PROC, PG_NAMESPACE, PG_DATABASE = 1259, 1247, 1255, 2615, 1262
PG_CONSTRAINT, PG_REWRITE, PG_AUTHID = 2606, 2618, 1260
SHARED_CLASSES = (PG_DATABASE, PG_AUTHID)
"""The catalogs that all databases share."""


def comments(picture: Picture) -> dict[tuple[int, int, int], str]:
    """All comments, by object, catalog, and number of the column or 0."""
    found: dict[tuple[int, int, int], str | None] = {}
    for relation in picture.relations.values():
        found[relation.oid, PG_CLASS, 0] = relation.comment
        for number, column in enumerate(relation.columns, start=1):
            found[relation.oid, PG_CLASS, number] = column.comment
    for index in picture.indexes.values():
        found[index.oid, PG_CLASS, 0] = index.comment
    for schema in picture.schemas.values():
        found[schema.oid, PG_NAMESPACE, 0] = schema.comment
    for constraint in picture.constraints.values():
        found[constraint.oid, PG_CONSTRAINT, 0] = constraint.comment
    for database in picture.image.databases:
        found[database.oid, PG_DATABASE, 0] = database.comment
    for role in picture.image.roles:
        found[role.oid, PG_AUTHID, 0] = role.comment
    return {key: text for key, text in found.items() if text is not None}


def has_foreign_key(picture: Picture, relation: Relation) -> bool:
    """Whether a foreign key starts or ends at the relation; PostgreSQL has triggers for that."""
    return any(
        found.kind is ConstraintKind.FOREIGN_KEY
        and relation.oid in (found.relation, found.foreign_relation)
        for found in picture.constraints.values()
    )


# The order in which PostgreSQL writes the letters of an access control list.
_LETTERS = "arwdDxtXUCTcsA"


def acl_items(grants: tuple[Grant, ...], role_names: Mapping[int, str]) -> list[str] | None:
    """The grants in PostgreSQL's text form; None, which means the defaults, if there are none."""
    if not grants:
        return None
    return [
        f"{quoted_role(role_names.get(grant.grantee, ''))}={_letters(grant)}"
        f"/{quoted_role(role_names.get(grant.grantor, ''))}"
        for grant in grants
    ]


def _letters(grant: Grant) -> str:
    return "".join(
        letter + ("*" if letter in grant.grantable else "")
        for letter in sorted(grant.privileges, key=_LETTERS.index)
    )


def quoted_role(name: str) -> str:
    """A role's name in an access control list: quoted unless it is all letters and digits."""
    plain = all(letter.isalnum() or letter == "_" for letter in name)
    return name if plain else '"' + name.replace('"', '""') + '"'


def _shown(relation: Relation) -> Relation:
    """The relation as PostgreSQL shows it: no column of a view is said never to be null."""
    if relation.kind not in (RelationKind.VIEW, RelationKind.MATERIALIZED_VIEW):
        return relation
    columns = tuple(replace(column, nullable=True) for column in relation.columns)
    return replace(relation, columns=columns)
