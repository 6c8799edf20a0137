"""One database at one version: everything that a query about it may need besides its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from waterclock.catalog.system.directory import Directory, SystemNames
from waterclock.catalog.system.image import CatalogImage, Database
from waterclock.catalog.system.privileges import Privileges
from waterclock.catalog.system.rows.picture import (
    PG_AUTHID,
    PG_CLASS,
    PG_CONSTRAINT,
    PG_DATABASE,
    PG_NAMESPACE,
    PG_PROC,
    PG_TYPE,
    Picture,
    comments,
    picture_of,
)
from waterclock.catalog.system.types import Types

CLASSES = {
    **{"pg_class": PG_CLASS, "pg_type": PG_TYPE, "pg_proc": PG_PROC},
    **{"pg_namespace": PG_NAMESPACE, "pg_constraint": PG_CONSTRAINT},
    **{"pg_database": PG_DATABASE, "pg_authid": PG_AUTHID},
}


@dataclass(frozen=True, slots=True)
class Snapshot:
    picture: Picture
    directory: Directory
    privileges: Privileges
    comments: Mapping[tuple[int, int, int], str]
    """By object, class and number of the column."""
    schema: str
    """Where in DuckDB its tables are."""

    @property
    def version(self) -> int:
        return self.picture.image.version


def snapshot_of(
    image: CatalogImage,
    database: Database,
    system: SystemNames,
    types: Types,
    schema: str,
) -> Snapshot:
    picture = picture_of(image, database)
    return Snapshot(
        picture=picture,
        directory=Directory(picture, system, types),
        privileges=Privileges(picture),
        comments=comments(picture),
        schema=schema,
    )
