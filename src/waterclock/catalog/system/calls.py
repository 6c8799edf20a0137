"""The functions that DuckDB calls back into Python for, all named `wc_...`.

They answer what a table could not: names along the session's search path, definitions, settings,
privileges; and what DuckDB does differently from PostgreSQL. They run on the thread that runs the
query, so that thread's `Context` says for whom. An error of theirs is kept there as well, because
DuckDB passes on only its text.

Here is only how DuckDB is told of them; what they do is in `..._calls`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import duckdb
from duckdb import sqltypes as d
from duckdb.func import FunctionNullHandling

from waterclock.catalog.system import client_calls, text_calls
from waterclock.catalog.system.activity import TEXTS, TIMES
from waterclock.catalog.system.context import Context, Contexts
from waterclock.catalog.system.facts import Facts
from waterclock.catalog.system.object_calls import ObjectCalls
from waterclock.catalog.system.privilege_calls import PrivilegeCalls
from waterclock.catalog.system.session_calls import SessionCalls
from waterclock.errors import WaterclockError

_WITH_EFFECTS = ("set_config", "current_setting", "sleep", "stop", "lock", "unlock", "unlock_all")
"""Those that are called for each row, in the order in which a query has them."""
_NULL_TOLERANT = frozenset(
    {"format_type", "join", "string_to_array", "substring", "format", "set_config"}
    | {"session_setting", "setting_source"}
)


class Calls:
    """The functions, and the context of each thread."""

    def __init__(self, facts: Facts) -> None:
        self._contexts = Contexts()
        self._objects = ObjectCalls(facts, self._contexts)
        self._privileges = PrivilegeCalls(self._contexts)
        self._session = SessionCalls(self._contexts, self._privileges.acts_as)

    def enter(self, context: Context) -> None:
        self._contexts.enter(context)

    def leave(self) -> None:
        self._contexts.leave()

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
        numbers = {**dict.fromkeys(("database", "classid", "objid"), oid), "objsubid": d.SMALLINT}
        held = {**numbers, "pid": number, "mode": text, "waitstart": d.TIMESTAMP}
        locks = connection.list_type(connection.struct_type(held))
        kept = {**dict.fromkeys(("holder", "kind", "owner", "object_id"), text)}
        kept |= {"since": d.BIGINT, "lease_ms": d.BIGINT, "expires_at": d.TIMESTAMP}
        holds = connection.list_type(connection.struct_type(kept))
        lock_key = [d.BIGINT, number, number]
        signatures: list[tuple[Callable[..., Any], list[Any] | None, Any]] = [
            (self._objects.format_type, [oid, number], text),
            (self._objects.role_name, [oid], text),
            (self._objects.constraint, [oid], text),
            (self._objects.view, [oid], text),
            (self._objects.index, [oid, number, boolean], text),
            (self._objects.nothing, [oid], text),
            (self._objects.empty, [oid], text),
            (self._objects.stored_bytes, [oid], d.BIGINT),
            (self._objects.database_bytes, [oid], d.BIGINT),
            (self._objects.database_named, [text], oid),
            (self._objects.unknown, [d.BIGINT], d.BIGINT),
            (self._objects.arguments, [oid], text),
            (self._objects.result, [oid], text),
            (self._objects.comment, [oid, text, number], text),
            (self._objects.visible, [number, oid], boolean),
            (self._objects.to_reg, [number, text], oid),
            (self._objects.reg_in, [number, text], oid),
            (self._objects.reg_out, [number, oid], text),
            (self._objects.is_table, [oid], boolean),
            (self._objects.size, [d.BIGINT], text),
            (self._session.current_schemas, [boolean], texts),
            (self._session.current_setting, [text, boolean], text),
            (self._session.session_setting, [text, text], text),
            (self._session.setting_source, [text, text], text),
            (self._session.set_config, [text, text, boolean], text),
            (self._session.encoding_name, [number], text),
            (self._session.encoding_number, [text], number),
            (self._session.sleep, [d.DOUBLE], text),
            (self._privileges.privilege, [text, text, text, text], boolean),
            (self._privileges.has_role, [text, text, text], boolean),
            (self._privileges.may_see, [text, text, text], boolean),
            (self._privileges.acts_as, [text], boolean),
            (self._privileges.aclexplode, [texts], acl),
            (self._session.session_statements, [number], statements),
            (self._session.session_cursors, [number], cursors),
            (self._session.sessions, [number], sessions),
            (self._session.stop, [number, boolean], boolean),
            (self._session.lock, [*lock_key, text], boolean),
            (self._session.unlock, [*lock_key, text], boolean),
            (self._session.unlock_all, [number], text),
            (self._session.locks, [number], locks),
            (self._session.holds, [number], holds),
            (self._session.blocking, [number], connection.list_type(number)),
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
            (self._objects.quote_ident, [text], text),
            (text_calls.quote_literal, [text], text),
            (text_calls.parse_ident, [text, boolean], texts),
            (client_calls.power, [d.DOUBLE, d.DOUBLE], d.DOUBLE),
            (client_calls.jsonb, [text], text),
            (client_calls.encoded, [d.BLOB, text], text),
            (client_calls.moment_text, [d.TIMESTAMP, text, text], text),
            (self._objects.type_names, [connection.list_type(oid)], text),
            (self._objects.format, None, text),
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
                self._contexts.current.failure = error
                raise

        # DuckDB counts the parameters of the function itself, unless it takes any number.
        return call if tolerant and function.__name__ == "format" else wraps(function)(call)
