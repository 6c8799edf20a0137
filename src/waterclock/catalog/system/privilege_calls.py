"""Functions about what roles may do.

An object is given by its name or its number, and a role by its name; none is the session's own.
"""

from __future__ import annotations

from waterclock.catalog.system import types as t
from waterclock.catalog.system.context import Contexts
from waterclock.catalog.system.errors import UndefinedDatabase, UndefinedSchema
from waterclock.catalog.system.privileges import exploded

_WRITING = "INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER"
_SEEING = {"any": f"SELECT, {_WRITING}", "write": _WRITING}


class PrivilegeCalls:
    """The functions; `calls` makes them known to DuckDB."""

    def __init__(self, contexts: Contexts) -> None:
        self._contexts = contexts

    def privilege(self, kind: str, role: str, object_: str, privileges: str) -> bool | None:
        context = self._contexts.current
        oid = self._object(kind, object_)
        if oid is None:
            return None
        who = role or context.session.current_user
        return context.snapshot.privileges.allowed(who, kind, oid, privileges)

    def _object(self, kind: str, text: str) -> int | None:
        """The object that a privilege is asked about; None for a number that nothing has."""
        context = self._contexts.current
        directory, picture = context.snapshot.directory, context.snapshot.picture
        if kind in ("table", "any_column", "sequence"):
            oid = directory.oid(t.REGCLASS, text, context.path)
            return oid if directory.visible(t.REGCLASS, oid, context.path) is not None else None
        if text.isdecimal():
            return int(text)
        if kind == "schema":
            found = directory.try_oid(t.REGNAMESPACE, directory.quote(text), context.path)
            if found is None:
                raise UndefinedSchema(f'schema "{text}" does not exist')
            return found
        if kind == "database":
            oids = {database.name: database.oid for database in picture.image.databases}
            if text not in oids:
                raise UndefinedDatabase(f'database "{text}" does not exist')
            return oids[text]
        return 0

    def has_role(self, member: str, role: str, _privilege: str) -> bool:
        context = self._contexts.current
        who = member or context.session.current_user
        return context.snapshot.privileges.has_role(who, role)

    def may_see(self, schema: str, name: str, rule: str) -> bool:
        """Whether information_schema shows the relation to the role."""
        context = self._contexts.current
        who = context.session.current_user
        directory = context.snapshot.directory
        qualified = f"{directory.quote(schema)}.{directory.quote(name)}"
        oid = directory.try_oid(t.REGCLASS, qualified, context.path)
        privileges = context.snapshot.privileges
        if oid is None:
            return False
        if rule == "own":
            return privileges.owns(who, "table", oid)
        return privileges.allowed(who, "table", oid, _SEEING[rule])

    def acts_as(self, role: str) -> bool:
        return self.has_role("", role, "USAGE")

    def aclexplode(self, items: list[str]) -> list[dict[str, object]] | None:
        roles = {name: oid for oid, name in self._contexts.current.snapshot.directory.roles.items()}
        return exploded(items, roles)
