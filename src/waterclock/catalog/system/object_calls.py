"""Functions about the objects of the catalog: their names, definitions, comments.

Names are those along the search path of the session that asks. Functions and indexes of the system
itself are found among the facts, and everything else in the snapshot of the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from waterclock.catalog.system import types as t
from waterclock.catalog.system.context import Contexts
from waterclock.catalog.system.errors import UndefinedDatabase
from waterclock.catalog.system.facts import PG_CATALOG, Facts
from waterclock.catalog.system.image import RelationKind
from waterclock.catalog.system.snapshot import CLASSES
from waterclock.catalog.system.text_calls import formatted

_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


class ObjectCalls:
    """The functions; `calls` makes them known to DuckDB."""

    def __init__(self, facts: Facts, contexts: Contexts) -> None:
        self._contexts = contexts
        self._functions = {row[0]: row for row in facts.rows["pg_proc"]}
        self._proc_columns = {
            column.name: place for place, column in enumerate(_relation_columns(facts, "pg_proc"))
        }
        self._system_indexes = {row[0]: row for row in facts.rows["pg_index"]}
        self._facts = facts

    def type_names(self, oids: Sequence[int]) -> str:
        return ", ".join(self.format_type(oid, None) or "" for oid in oids)

    def format_type(self, oid: int | None, modifier: int | None) -> str | None:
        if oid is None:
            return None
        if oid == 0:
            return "-"
        context = self._contexts.current
        directory = context.snapshot.directory
        return (
            directory.type_name(oid, modifier, context.path) if directory.has_type(oid) else "???"
        )

    def role_name(self, oid: int) -> str:
        return self._contexts.current.snapshot.picture.role_name(oid)

    def constraint(self, oid: int) -> str | None:
        found = self._contexts.current.snapshot.picture.constraints.get(oid)
        return found.definition if found is not None else None

    def view(self, oid: int) -> str:
        found = self._contexts.current.snapshot.picture.relations.get(oid)
        if found is None or found.definition is None:
            return "Not a view"
        return found.definition

    def index(self, oid: int, column: int, pretty: bool) -> str | None:
        context = self._contexts.current
        picture = context.snapshot.picture
        found = picture.indexes.get(oid)
        if found is None:
            return self._system_index(oid, column)
        if column == 0 and pretty:
            relation = picture.relations[found.relation]
            qualified = ".".join(
                context.snapshot.directory.quote(part)
                for part in (picture.schema_name(relation.schema), relation.name)
            )
            shown = context.snapshot.directory.name(t.REGCLASS, relation.oid, context.path)
            return found.definition.replace(f" ON {qualified} ", f" ON {shown} ", 1)
        if column == 0:
            return found.definition
        if column > len(found.keys):
            return ""
        key = found.keys[column - 1]
        if key.expression is not None:
            return key.expression
        return self._contexts.directory.quote(
            picture.relations[found.relation].columns[key.column - 1].name
        )

    def _system_index(self, oid: int, column: int) -> str | None:
        row = self._system_indexes.get(oid)
        if row is None:
            return None
        relations = {found.oid: found for found in self._facts.relations}
        index, table = relations[oid], relations[row[1]]
        keys = [table.columns[number - 1].name for number in row[15]]
        if column:
            return keys[column - 1] if column <= len(keys) else ""
        unique = "UNIQUE " if row[4] else ""
        return (
            f"CREATE {unique}INDEX {self._contexts.directory.quote(index.name)} ON {table.schema}."
            f"{self._contexts.directory.quote(table.name)} USING btree ({', '.join(keys)})"
        )

    def nothing(self, _oid: int) -> None:
        return None

    def empty(self, _oid: int) -> str:
        return ""

    def stored_bytes(self, oid: int) -> int | None:
        """What is stored of a relation; not known of indexes and of the system's own."""
        context = self._contexts.current
        found = context.snapshot.picture.relations.get(oid)
        if found is None:
            return None
        return 0 if found.kind is RelationKind.VIEW else context.session.stored_bytes(found.id)

    def database_bytes(self, oid: int) -> int | None:
        """What is stored of all relations of a database; null if there is none."""
        context = self._contexts.current
        image = context.snapshot.picture.image
        if not any(each.oid == oid for each in image.databases):
            return None
        schemas = {each.oid for each in image.schemas if each.database == oid}
        stored = (each for each in image.relations if each.kind is not RelationKind.VIEW)
        sizes = (context.session.stored_bytes(e.id) for e in stored if e.schema in schemas)
        return sum(size or 0 for size in sizes)

    def database_named(self, name: str) -> int:
        databases = self._contexts.current.snapshot.picture.image.databases
        found = next((each.oid for each in databases if each.name == name), None)
        if found is None:
            raise UndefinedDatabase(f'database "{name}" does not exist')
        return found

    def unknown(self, _value: int) -> None:
        return None

    def arguments(self, oid: int) -> str | None:
        row = self._functions.get(oid)
        if row is None:
            return None
        types = row[self._proc_columns["proallargtypes"]] or row[self._proc_columns["proargtypes"]]
        modes = row[self._proc_columns["proargmodes"]] or ["i"] * len(types)
        names = row[self._proc_columns["proargnames"]] or [""] * len(types)
        words = {"o": "OUT ", "b": "INOUT ", "v": "VARIADIC "}
        return ", ".join(
            f"{words.get(mode, '')}{name + ' ' if name else ''}{self.format_type(oid, None)}"
            for oid, mode, name in zip(types, modes, names, strict=False)
            if mode != "t"
        )

    def result(self, oid: int) -> str | None:
        row = self._functions.get(oid)
        if row is None or row[self._proc_columns["prokind"]] == "p":
            return None
        shown = self.format_type(row[self._proc_columns["prorettype"]], None)
        return f"SETOF {shown}" if row[self._proc_columns["proretset"]] else shown

    def comment(self, oid: int, catalog: str, column: int) -> str | None:
        comments = self._contexts.current.snapshot.comments
        if catalog:
            return comments.get((oid, CLASSES.get(catalog, 0), column))
        return next((text for key, text in comments.items() if key[::2] == (oid, 0)), None)

    def visible(self, kind: int, oid: int) -> bool | None:
        context = self._contexts.current
        return context.snapshot.directory.visible(kind, oid, context.path)

    def to_reg(self, kind: int, text: str) -> int | None:
        context = self._contexts.current
        return context.snapshot.directory.try_oid(kind, text, context.path)

    def reg_in(self, kind: int, text: str) -> int:
        context = self._contexts.current
        return context.snapshot.directory.oid(kind, text, context.path)

    def reg_out(self, kind: int, oid: int) -> str:
        context = self._contexts.current
        return context.snapshot.directory.name(kind, oid, context.path)

    def is_table(self, oid: int) -> bool:
        found = self._contexts.current.snapshot.picture.relations.get(oid)
        return found is not None and found.kind.value in ("table", "source")

    def size(self, count: int) -> str:
        value, unit = count, 0
        while abs(value) >= 10240 and unit < len(_UNITS) - 1:
            value = (value + 512) // 1024 if unit else round(value / 1024)
            unit += 1
        return f"{value} {_UNITS[unit]}"

    def quote_ident(self, text: str) -> str:
        return self._contexts.directory.quote(text)

    def format(self, *values: str | None) -> str | None:
        return formatted(self._contexts.directory.quote, *values)


def _relation_columns(facts: Facts, name: str) -> Sequence[Any]:
    relation = facts.relation(PG_CATALOG, name)
    assert relation is not None
    return relation.columns
