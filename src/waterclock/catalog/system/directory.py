"""Names to OIDs and back, in one database at one version: what regclass and its like mean.

A bare name is looked for along the search path, the system's schemas first. An object is *visible*
if a bare name finds it, and is written without its schema then.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from waterclock.catalog.system import types as t
from waterclock.catalog.system.errors import (
    CatalogQueryError,
    InvalidText,
    UndefinedFunction,
    UndefinedObject,
    UndefinedSchema,
    UndefinedTable,
)
from waterclock.catalog.system.facts import IMPLICIT_SCHEMAS, PG_CATALOG_OID, Facts
from waterclock.catalog.system.mz import MZ_SCHEMAS
from waterclock.catalog.system.rows.picture import Picture
from waterclock.catalog.system.types import Types

_PLAIN = re.compile(r"[a-z_][a-z0-9_$]*\Z")
_PART = re.compile(r'\s*(?:"((?:[^"]|"")*)"|([^\s".()\[\],]+))\s*')


def name_parts(text: str) -> list[str]:
    """The parts of a name with dots, folded; `InvalidText` if it is not one."""
    parts, at = [], 0
    while True:
        match = _PART.match(text, at)
        if match is None:
            raise InvalidText("invalid name syntax")
        quoted_part, plain = match.groups()
        parts.append(plain.lower() if quoted_part is None else quoted_part.replace('""', '"'))
        at = match.end()
        if at == len(text):
            return parts
        if text[at] != ".":
            raise InvalidText("invalid name syntax")
        at += 1


class Registry:
    """Objects of one kind with their names, each in a schema; on top of those of the system."""

    def __init__(
        self, objects: Iterable[tuple[int, int, str]], below: Registry | None = None
    ) -> None:
        self._below = below
        self._places: dict[int, tuple[int, str]] = {}
        self._oids: dict[tuple[int, str], int] = {}
        self._shared: set[tuple[int, str]] = set()
        for oid, schema, name in objects:
            self._places[oid] = (schema, name)
            if self._oids.setdefault((schema, name), oid) != oid:
                self._shared.add((schema, name))

    def place(self, oid: int) -> tuple[int, str] | None:
        """Schema and name."""
        found = self._places.get(oid)
        return self._below.place(oid) if found is None and self._below is not None else found

    def find(self, schemas: Sequence[int], name: str) -> int | None:
        for schema in schemas:
            oid = self._oids.get((schema, name))
            if oid is None and self._below is not None:
                oid = self._below.find([schema], name)
            if oid is not None:
                return oid
        return None

    def is_shared(self, oid: int) -> bool:
        """Whether another object has the same name, as functions may."""
        return self.place(oid) in self._shared

    def visible(self, oid: int, schemas: Sequence[int]) -> bool:
        """Whether a bare name finds it."""
        place = self.place(oid)
        if place is None or place[0] not in schemas:
            return False
        before = schemas[: schemas.index(place[0])]
        return self.find(before, place[1]) is None


class SystemNames:
    """The names of the system's own objects: made once."""

    def __init__(self, facts: Facts) -> None:
        self.keywords = facts.keywords
        self.schemas: Mapping[int, str] = {row[0]: row[1] for row in facts.rows["pg_namespace"]}
        oids = {name: oid for oid, name in self.schemas.items()}
        named = {
            t.REGPROC: "pg_proc",
            t.REGOPER: "pg_operator",
            t.REGCOLLATION: "pg_collation",
        }
        self.registries = {
            kind: Registry((row[0], row[2], row[1]) for row in facts.rows[table])
            for kind, table in named.items()
        }
        self.registries[t.REGCLASS] = Registry(
            (found.oid, oids[found.schema], found.name) for found in facts.relations
        )
        self.registries[t.REGTYPE] = Registry(
            (found.oid, found.schema, found.name) for found in facts.types.values()
        )
        self.registries[t.REGPROCEDURE] = self.registries[t.REGPROC]
        self.registries[t.REGOPERATOR] = self.registries[t.REGOPER]


class Directory:
    def __init__(self, picture: Picture, system: SystemNames, types: Types) -> None:
        self._types = types
        self._keywords = system.keywords
        self.roles: Mapping[int, str] = {oid: role.name for oid, role in picture.roles.items()}
        self.schemas: Mapping[int, str] = {
            **system.schemas,
            **{schema.oid: schema.name for schema in picture.schemas.values()},
        }
        self._schema_oids = {name: oid for oid, name in self.schemas.items()}
        # A bare name finds the mz_* relations, but they are not listed among the user's own.
        self._quiet = {self._schema_oids[name] for name in MZ_SCHEMAS}
        self._registries = dict(system.registries)
        relations, indexes = picture.relations.values(), picture.indexes.values()
        self._registries[t.REGCLASS] = Registry(
            [
                *((found.oid, found.schema, found.name) for found in relations),
                *((found.oid, found.schema, found.name) for found in indexes),
            ],
            system.registries[t.REGCLASS],
        )
        self._row_types = {found.row_type: found for found in relations if found.row_type}
        self._row_arrays = {
            found.row_array_type: found.row_type for found in relations if found.row_array_type
        }
        self._registries[t.REGTYPE] = Registry(
            [
                *((oid, found.schema, found.name) for oid, found in self._row_types.items()),
                *(
                    (oid, self._row_types[row].schema, f"_{self._row_types[row].name}"[:63])
                    for oid, row in self._row_arrays.items()
                ),
            ],
            system.registries[t.REGTYPE],
        )

    def quote(self, name: str) -> str:
        """The name as SQL has to write it."""
        if _PLAIN.match(name) and name not in self._keywords:
            return name
        return '"' + name.replace('"', '""') + '"'

    def path(self, search_path: Sequence[str], user: str) -> list[int]:
        """The schemas in which a bare name is looked for, in order."""
        named = [user if name == "$user" else name for name in search_path]
        found = [self._schema_oids[name] for name in named if name in self._schema_oids]
        implicit = [self._schema_oids[name] for name in IMPLICIT_SCHEMAS]
        return [oid for oid in implicit if oid not in found] + found

    def visible(self, kind: int, oid: int, path: Sequence[int]) -> bool | None:
        """Whether a bare name finds it; None if there is no such object."""
        registry = self._registries.get(kind)
        if registry is None:
            return True
        place = registry.place(oid)
        if place is None:
            return None
        return place[0] not in self._quiet and registry.visible(oid, path)

    # --- from name to OID -----------------------------------------------------------------------

    def oid(self, kind: int, text: str, path: Sequence[int]) -> int:
        """The object of that name; the error that the type's input gives if there is none."""
        found = self.try_oid(kind, text, path)
        if found is None:
            raise _missing(kind, text)
        return found

    def try_oid(self, kind: int, text: str, path: Sequence[int]) -> int | None:
        if text.strip().isdecimal():
            return int(text)
        if text == "-":
            return 0
        match kind:
            case t.REGTYPE:
                return self._type(text, path)
            case t.REGNAMESPACE:
                return self._schema_oids.get(name_parts(text)[-1])
            case t.REGROLE:
                name = name_parts(text)[-1]
                return next((oid for oid, role in self.roles.items() if role == name), None)
            case t.REGPROCEDURE | t.REGPROC:
                return self._qualified(kind, text.partition("(")[0], path)
            case t.REGOPER | t.REGOPERATOR:
                name = text.partition("(")[0].rpartition(".")[2].strip()
                return self._registries[kind].find(path, name)
            case _:
                return self._qualified(kind, text, path)

    def _qualified(self, kind: int, text: str, path: Sequence[int]) -> int | None:
        registry = self._registries.get(kind)
        if registry is None:
            return None
        parts = name_parts(text)
        if len(parts) == 1:
            return registry.find(path, parts[0])
        schema = self._schema_oids.get(parts[-2])
        return None if schema is None else registry.find([schema], parts[-1])

    def _type(self, text: str, path: Sequence[int]) -> int | None:
        plain = " ".join(re.sub(r"\([^)]*\)", "", text).split())
        name = plain.removesuffix("[]").rstrip()
        oid = self._types.named(name.lower()) if '"' not in name or name == '"char"' else None
        if oid is None:
            oid = self._qualified(t.REGTYPE, name, path)
        if oid is None or name == plain:
            return oid
        if oid in self._row_types:
            return self._row_types[oid].row_array_type or None
        found = self._types.find(oid)
        return found.array if found is not None and found.array else None

    # --- from OID to name -----------------------------------------------------------------------

    def name(self, kind: int, oid: int, path: Sequence[int]) -> str:
        """The name that the type's output shows; the number if there is no such object."""
        if oid == 0:
            return "-"
        match kind:
            case t.REGNAMESPACE:
                found = self.schemas.get(oid)
                return self.quote(found) if found is not None else str(oid)
            case t.REGROLE:
                found = self.roles.get(oid)
                return self.quote(found) if found is not None else str(oid)
            case t.REGTYPE:
                return self.type_name(oid, None, path) if self.has_type(oid) else str(oid)
            case _:
                return self._registered(kind, oid, path)

    def _registered(self, kind: int, oid: int, path: Sequence[int]) -> str:
        registry = self._registries.get(kind)
        place = registry.place(oid) if registry is not None else None
        if registry is None or place is None:
            return str(oid)
        schema, name = place
        shown = name if kind in (t.REGOPER, t.REGOPERATOR) else self.quote(name)
        bare = schema not in self._quiet and registry.visible(oid, path)
        if bare and not registry.is_shared(oid):
            return shown
        return f"{self.quote(self.schemas[schema])}.{shown}"

    def has_type(self, oid: int) -> bool:
        return (
            self._types.find(oid) is not None or oid in self._row_types or oid in self._row_arrays
        )

    def type_name(self, oid: int, modifier: int | None, path: Sequence[int]) -> str:
        """The type as format_type shows it."""
        if oid in self._row_arrays:
            return self.type_name(self._row_arrays[oid], modifier, path) + "[]"
        found = self._types.find(oid)
        if found is not None and found.category == "A" and found.element and oid not in t.VECTORS:
            return self.type_name(found.element, modifier, path) + "[]"
        if found is not None and found.schema == PG_CATALOG_OID:
            return self._types.format(oid, modifier)
        return self._registered(t.REGTYPE, oid, path)


def _missing(kind: int, text: str) -> CatalogQueryError:
    match kind:
        case t.REGCLASS:
            return UndefinedTable(f'relation "{text}" does not exist')
        case t.REGTYPE:
            return UndefinedObject(f'type "{text}" does not exist')
        case t.REGPROC | t.REGPROCEDURE:
            return UndefinedFunction(f'function "{text}" does not exist')
        case t.REGOPER | t.REGOPERATOR:
            return UndefinedFunction(f"operator does not exist: {text}")
        case t.REGNAMESPACE:
            return UndefinedSchema(f'schema "{text}" does not exist')
        case t.REGROLE:
            return UndefinedObject(f'role "{text}" does not exist')
        case _:
            return UndefinedObject(f'"{text}" does not exist')
