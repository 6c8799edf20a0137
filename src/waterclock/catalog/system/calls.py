"""The functions that DuckDB calls back into Python for, all named `wc_...`.

They answer what a table could not: names along the session's search path, definitions, settings,
privileges; and what DuckDB does differently from PostgreSQL. They run on the thread that runs the
query, so that thread's `Context` says for whom. An error of theirs is kept there as well, because
DuckDB passes on only its text.
"""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import duckdb
from duckdb import sqltypes as d
from duckdb.func import FunctionNullHandling

from waterclock.catalog.system import client_calls, text_calls
from waterclock.catalog.system import types as t
from waterclock.catalog.system.activity import TEXTS, TIMES, activity_rows, require_may_stop
from waterclock.catalog.system.directory import Directory
from waterclock.catalog.system.errors import (
    InvalidValue,
    QueryCancelled,
    UndefinedDatabase,
    UndefinedObject,
    UndefinedSchema,
)
from waterclock.catalog.system.facts import PG_CATALOG, Facts
from waterclock.catalog.system.privileges import exploded
from waterclock.catalog.system.session import Cancellation, SessionFacts
from waterclock.catalog.system.snapshot import CLASSES, Snapshot
from waterclock.catalog.system.text_calls import formatted
from waterclock.errors import WaterclockError

_WRITING = "INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER"
_SEEING = {"any": f"SELECT, {_WRITING}", "write": _WRITING}
_ENCODINGS = {0: "SQL_ASCII", 6: "UTF8"}
_WITH_EFFECTS = ("set_config", "sleep", "stop")
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, slots=True)
class SettingChange:
    """What set_config did: `local` to the transaction, or for the session."""

    name: str
    value: str
    local: bool


@dataclass(slots=True)
class Context:
    """For whom a query runs."""

    snapshot: Snapshot
    session: SessionFacts
    cancellation: Cancellation
    path: list[int]
    failure: WaterclockError | None = None
    changes: list[SettingChange] = field(default_factory=list)


class Calls:
    """The functions, and the context of each thread."""

    def __init__(self, facts: Facts, types: t.Types) -> None:
        self._local = threading.local()
        self._types = types
        self._functions = {row[0]: row for row in facts.rows["pg_proc"]}
        self._proc_columns = {
            column.name: place for place, column in enumerate(_relation_columns(facts, "pg_proc"))
        }
        self._system_indexes = {row[0]: row for row in facts.rows["pg_index"]}
        self._facts = facts

    def enter(self, context: Context) -> None:
        self._local.context = context

    def leave(self) -> None:
        self._local.context = None

    @property
    def _context(self) -> Context:
        context = self._local.context
        assert isinstance(context, Context), "a call outside a query"
        return context

    @property
    def _directory(self) -> Directory:
        return self._context.snapshot.directory

    def register(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Make the functions known to DuckDB."""
        texts = connection.list_type(d.VARCHAR)
        acl = connection.list_type(
            connection.struct_type(
                {
                    "grantor": d.UINTEGER,
                    "grantee": d.UINTEGER,
                    "privilege_type": d.VARCHAR,
                    "is_grantable": d.BOOLEAN,
                }
            )
        )
        oid, text, number, boolean = d.UINTEGER, d.VARCHAR, d.INTEGER, d.BOOLEAN
        named = {"name": text, "statement": text, "made": d.TIMESTAMP}
        kinds = {"parameter_types": connection.list_type(oid), "from_sql": boolean}
        statements = connection.list_type(connection.struct_type({**named, **kinds}))
        flags = {"is_holdable": boolean, "is_binary": boolean, "is_scrollable": boolean}
        cursors = connection.list_type(connection.struct_type({**named, **flags}))
        told = {**dict.fromkeys(TEXTS, text), **dict.fromkeys(TIMES, d.TIMESTAMP)}
        sessions = connection.list_type(connection.struct_type({"pid": number, **told}))
        signatures: list[tuple[Callable[..., Any], list[Any] | None, Any]] = [
            (self.format_type, [oid, number], text),
            (self.role_name, [oid], text),
            (self.constraint, [oid], text),
            (self.view, [oid], text),
            (self.index, [oid, number, boolean], text),
            (self.nothing, [oid], text),
            (self.empty, [oid], text),
            (self.unknown, [d.BIGINT], d.BIGINT),
            (self.arguments, [oid], text),
            (self.result, [oid], text),
            (self.comment, [oid, text, number], text),
            (self.visible, [number, oid], boolean),
            (self.to_reg, [number, text], oid),
            (self.reg_in, [number, text], oid),
            (self.reg_out, [number, oid], text),
            (self.is_table, [oid], boolean),
            (self.size, [d.BIGINT], text),
            (self.current_schemas, [boolean], texts),
            (self.current_setting, [text, boolean], text),
            (self.session_setting, [text, text], text),
            (self.setting_source, [text, text], text),
            (self.set_config, [text, text, boolean], text),
            (self.encoding_name, [number], text),
            (self.encoding_number, [text], number),
            (self.sleep, [d.DOUBLE], text),
            (self.privilege, [text, text, text, text], boolean),
            (self.has_role, [text, text, text], boolean),
            (self.may_see, [text, text, text], boolean),
            (self.acts_as, [text], boolean),
            (self.aclexplode, [texts], acl),
            (self.session_statements, [number], statements),
            (self.session_cursors, [number], cursors),
            (self.sessions, [number], sessions),
            (self.stop, [number, boolean], boolean),
            (text_calls.divisor, [d.BIGINT], d.BIGINT),
            (text_calls.shifted, [d.BIGINT, text, d.BIGINT, number], d.BIGINT),
            (text_calls.integer_in, [text], d.BIGINT),
            (text_calls.boolean_in, [text], boolean),
            (text_calls.lower_case, [text], text),
            (text_calls.upper_case, [text], text),
            (text_calls.character, [number], text),
            (text_calls.split_part, [text, text, number], text),
            (text_calls.repeated, [text, number], text),
            (text_calls.padded, [text, number, text, boolean], text),
            (text_calls.array_in, [text], texts),
            (text_calls.array_out, [texts], text),
            (text_calls.join, [texts, text, text], text),
            (text_calls.string_to_array, [text, text], texts),
            (text_calls.substring, [text, number, number], text),
            (text_calls.regexp_substring, [text, text], text),
            (text_calls.regexp_replace, [text, text, text, text], text),
            (text_calls.regexp_match, [text, text], texts),
            (text_calls.regexp_split, [text, text], texts),
            (text_calls.initcap, [text], text),
            (self.quote_ident, [text], text),
            (text_calls.quote_literal, [text], text),
            (text_calls.parse_ident, [text, boolean], texts),
            (client_calls.power, [d.DOUBLE, d.DOUBLE], d.DOUBLE),
            (client_calls.jsonb, [text], text),
            (client_calls.encoded, [d.BLOB, text], text),
            (client_calls.moment_text, [d.TIMESTAMP, text, text], text),
            (self.type_names, [connection.list_type(oid)], text),
            (self.format, None, text),
        ]
        for function, arguments, result in signatures:
            connection.create_function(
                f"wc_{function.__name__}",
                self._guarded(function),
                arguments,
                result,
                null_handling=FunctionNullHandling.SPECIAL,
                side_effects=function.__name__ in _WITH_EFFECTS,
            )

    def _guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, null for a null argument unless it says otherwise, its errors kept."""
        tolerant = function.__name__ in _NULL_TOLERANT

        def call(*arguments: Any) -> Any:
            if not tolerant and any(argument is None for argument in arguments):
                return None
            try:
                return function(*arguments)
            except WaterclockError as error:
                self._context.failure = error
                raise

        # DuckDB counts the parameters of the function itself, unless it takes any number.
        return call if tolerant and function.__name__ == "format" else wraps(function)(call)

    # --- objects --------------------------------------------------------------------------------

    def type_names(self, oids: Sequence[int]) -> str:
        return ", ".join(self.format_type(oid, None) or "" for oid in oids)

    def format_type(self, oid: int | None, modifier: int | None) -> str | None:
        if oid is None:
            return None
        if oid == 0:
            return "-"
        context = self._context
        directory = context.snapshot.directory
        return (
            directory.type_name(oid, modifier, context.path) if directory.has_type(oid) else "???"
        )

    def role_name(self, oid: int) -> str:
        return self._context.snapshot.picture.role_name(oid)

    def constraint(self, oid: int) -> str | None:
        found = self._context.snapshot.picture.constraints.get(oid)
        return found.definition if found is not None else None

    def view(self, oid: int) -> str:
        found = self._context.snapshot.picture.relations.get(oid)
        if found is None or found.definition is None:
            return "Not a view"
        return found.definition

    def index(self, oid: int, column: int, pretty: bool) -> str | None:
        context = self._context
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
        return self._directory.quote(picture.relations[found.relation].columns[key.column - 1].name)

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
            f"CREATE {unique}INDEX {self._directory.quote(index.name)} ON {table.schema}."
            f"{self._directory.quote(table.name)} USING btree ({', '.join(keys)})"
        )

    def nothing(self, _oid: int) -> None:
        return None

    def empty(self, _oid: int) -> str:
        return ""

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
        comments = self._context.snapshot.comments
        if catalog:
            return comments.get((oid, CLASSES.get(catalog, 0), column))
        return next((text for key, text in comments.items() if key[::2] == (oid, 0)), None)

    def visible(self, kind: int, oid: int) -> bool | None:
        context = self._context
        return context.snapshot.directory.visible(kind, oid, context.path)

    def to_reg(self, kind: int, text: str) -> int | None:
        context = self._context
        return context.snapshot.directory.try_oid(kind, text, context.path)

    def reg_in(self, kind: int, text: str) -> int:
        context = self._context
        return context.snapshot.directory.oid(kind, text, context.path)

    def reg_out(self, kind: int, oid: int) -> str:
        context = self._context
        return context.snapshot.directory.name(kind, oid, context.path)

    def is_table(self, oid: int) -> bool:
        found = self._context.snapshot.picture.relations.get(oid)
        return found is not None and found.kind.value in ("table", "source")

    def size(self, count: int) -> str:
        value, unit = count, 0
        while abs(value) >= 10240 and unit < len(_UNITS) - 1:
            value = (value + 512) // 1024 if unit else round(value / 1024)
            unit += 1
        return f"{value} {_UNITS[unit]}"

    # --- the session ----------------------------------------------------------------------------

    def current_schemas(self, implicit: bool) -> list[str]:
        context = self._context
        directory = context.snapshot.directory
        shown = [
            directory.schemas[oid]
            for oid in context.path
            if directory.schemas[oid] in context.session.search_path
            or directory.schemas[oid] == context.session.current_user
        ]
        return [PG_CATALOG, *shown] if implicit and PG_CATALOG not in shown else shown

    def current_setting(self, name: str, missing_ok: bool) -> str | None:
        context = self._context
        key = name.lower()
        for change in reversed(context.changes):
            if change.name.lower() == key:
                return change.value
        found = context.session.settings.get(key)
        if found is not None:
            return found
        if key == "search_path":
            return ", ".join(
                context.snapshot.directory.quote(part) for part in context.session.search_path
            )
        for setting in context.snapshot.picture.image.settings:
            if setting.name.lower() == key:
                return setting.value
        if missing_ok:
            return None
        raise UndefinedObject(f'unrecognized configuration parameter "{name}"')

    def session_setting(self, name: str, default: str | None) -> str | None:
        found = self.current_setting(name, True)
        return default if found is None else found

    def session_statements(self, _: int) -> list[dict[str, Any]]:
        return [
            {
                **{"name": each.name, "statement": each.statement, "made": _in_utc(each.prepared)},
                **{"parameter_types": list(each.parameter_types), "from_sql": each.from_sql},
            }
            for each in self._context.session.statements
        ]

    def session_cursors(self, _: int) -> list[dict[str, Any]]:
        return [
            {
                **{"name": each.name, "statement": each.statement, "made": _in_utc(each.opened)},
                **{"is_holdable": each.is_holdable, "is_binary": each.is_binary},
                "is_scrollable": each.is_scrollable,
            }
            for each in self._context.session.cursors
        ]

    def sessions(self, _: int) -> list[dict[str, Any]]:
        return activity_rows(self._context.session.sessions(), self.acts_as)

    def stop(self, pid: int, ends: bool) -> bool:
        """Cancel what a session runs, or end it."""
        context = self._context
        for other in context.session.sessions():
            if other.pid == pid:
                roles, current = context.snapshot.picture.image.roles, context.session.current_user
                require_may_stop(other.user, current, roles, self.acts_as, ends=ends)
        return context.session.stop(pid, ends)

    def setting_source(self, name: str, default: str | None) -> str | None:
        return "session" if name.lower() in self._context.session.settings else default

    def set_config(self, name: str | None, value: str | None, local: bool | None) -> str:
        if name is None:
            raise InvalidValue("SET requires parameter name")
        self.current_setting(name, missing_ok="." in name)
        change = SettingChange(name, value or "", bool(local))
        self._context.changes.append(change)
        return change.value

    def encoding_name(self, number: int) -> str:
        return _ENCODINGS.get(number, "")

    def encoding_number(self, name: str) -> int:
        plain = re.sub(r"[^a-z0-9]", "", name.lower())
        known = {re.sub(r"[^a-z0-9]", "", n.lower()): number for number, n in _ENCODINGS.items()}
        return known.get(plain, known["utf8"] if plain == "unicode" else -1)

    def sleep(self, seconds: float) -> str:
        if self._context.cancellation.wait(max(seconds, 0)):
            raise QueryCancelled("canceling statement due to user request")
        return ""

    # --- privileges -----------------------------------------------------------------------------

    def privilege(self, kind: str, role: str, object_: str, privileges: str) -> bool | None:
        context = self._context
        oid = self._object(kind, object_)
        if oid is None:
            return None
        who = role or context.session.current_user
        return context.snapshot.privileges.allowed(who, kind, oid, privileges)

    def _object(self, kind: str, text: str) -> int | None:
        """The object that a privilege is asked about; None for a number that nothing has."""
        context = self._context
        directory, picture = context.snapshot.directory, context.snapshot.picture
        if kind in ("table", "any_column", "sequence"):
            oid = directory.oid(t.REGCLASS, text, context.path)
            return oid if directory.visible(t.REGCLASS, oid, context.path) is not None else None
        if text.isdecimal():
            return int(text)
        if kind == "schema":
            found = directory.try_oid(t.REGNAMESPACE, self._directory.quote(text), context.path)
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
        context = self._context
        who = member or context.session.current_user
        return context.snapshot.privileges.has_role(who, role)

    def may_see(self, schema: str, name: str, rule: str) -> bool:
        """Whether information_schema shows the relation to the role."""
        context = self._context
        who = context.session.current_user
        qualified = f"{self._directory.quote(schema)}.{self._directory.quote(name)}"
        oid = self._directory.try_oid(t.REGCLASS, qualified, context.path)
        privileges = context.snapshot.privileges
        if oid is None:
            return False
        if rule == "own":
            return privileges.owns(who, "table", oid)
        return privileges.allowed(who, "table", oid, _SEEING[rule])

    def acts_as(self, role: str) -> bool:
        return self.has_role("", role, "USAGE")

    def aclexplode(self, items: list[str]) -> list[dict[str, object]] | None:
        roles = {name: oid for oid, name in self._context.snapshot.directory.roles.items()}
        return exploded(items, roles)

    # --- names in text ------------------------------------------------------------------------

    def quote_ident(self, text: str) -> str:
        return self._directory.quote(text)

    def format(self, *values: str | None) -> str | None:
        return formatted(self._directory.quote, *values)


_NULL_TOLERANT = frozenset(
    {"format_type", "join", "string_to_array", "substring", "format", "set_config"}
    | {"session_setting", "setting_source"}
)


def _relation_columns(facts: Facts, name: str) -> Sequence[Any]:
    relation = facts.relation(PG_CATALOG, name)
    assert relation is not None
    return relation.columns


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    """As times with a zone are held."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)
