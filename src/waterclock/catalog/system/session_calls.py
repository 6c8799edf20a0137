"""Functions about the session that asks: its settings, statements, cursors; and about the others.

What set_config changes is noted in the context and seen by the calls after it; the session itself
is changed by whoever asked the query, when it is answered.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

from waterclock.catalog.system.activity import activity_rows, require_may_stop
from waterclock.catalog.system.context import Contexts, SettingChange
from waterclock.catalog.system.errors import InvalidValue, QueryCancelled, UndefinedObject
from waterclock.catalog.system.facts import PG_CATALOG
from waterclock.catalog.system.session import LockKey, SessionLocks

_ENCODINGS = {0: "SQL_ASCII", 6: "UTF8"}


class SessionCalls:
    """The functions; `acts_as` says whether the session has the privileges of a role."""

    def __init__(self, contexts: Contexts, acts_as: Callable[[str], bool]) -> None:
        self._contexts = contexts
        self._acts_as = acts_as

    def current_schemas(self, implicit: bool) -> list[str]:
        context = self._contexts.current
        directory = context.snapshot.directory
        shown = [
            directory.schemas[oid]
            for oid in context.path
            if directory.schemas[oid] in context.session.search_path
            or directory.schemas[oid] == context.session.current_user
        ]
        return [PG_CATALOG, *shown] if implicit and PG_CATALOG not in shown else shown

    def current_setting(self, name: str, missing_ok: bool) -> str | None:
        context = self._contexts.current
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
            for each in self._contexts.current.session.statements
        ]

    def session_cursors(self, _: int) -> list[dict[str, Any]]:
        return [
            {
                **{"name": each.name, "statement": each.statement, "made": _in_utc(each.opened)},
                **{"is_holdable": each.is_holdable, "is_binary": each.is_binary},
                "is_scrollable": each.is_scrollable,
            }
            for each in self._contexts.current.session.cursors
        ]

    def sessions(self, _: int) -> list[dict[str, Any]]:
        return activity_rows(self._contexts.current.session.sessions(), self._acts_as)

    def stop(self, pid: int, ends: bool) -> bool:
        """Cancel what a session runs, or end it."""
        context = self._contexts.current
        for other in context.session.sessions():
            if other.pid == pid:
                roles, current = context.snapshot.picture.image.roles, context.session.current_user
                require_may_stop(other.user, current, roles, self._acts_as, ends=ends)
        return context.session.stop(pid, ends)

    def lock(self, first: int, second: int, kind: int, how: str) -> bool:
        """Take an advisory lock; `how` has the words that make it another than the usual one."""
        return self._locks.lock(
            _lock_key(first, second, kind),
            self._contexts.current.cancellation,
            is_shared="shared" in how,
            for_transaction="xact" in how,
            waits="try" not in how,
        )

    def unlock(self, first: int, second: int, kind: int, how: str) -> bool:
        return self._locks.unlock(_lock_key(first, second, kind), is_shared="shared" in how)

    def unlock_all(self, _: int) -> str:
        self._locks.unlock_all()
        return ""

    def locks(self, _: int) -> list[dict[str, Any]]:
        known = self._contexts.current.session.locks
        return [
            {
                **{"database": each.database, "classid": each.key.class_id},
                **{"objid": each.key.object_id, "objsubid": each.key.kind},
                **{"pid": each.pid, "mode": each.mode},
                "waitstart": None if each.waits_since is None else _in_utc(each.waits_since),
            }
            for each in (() if known is None else known.shown())
        ]

    def holds(self, _: int) -> list[dict[str, Any]]:
        return [
            {
                **{"holder": each.holder, "kind": each.kind, "owner": each.owner},
                **{"object_id": each.object_id, "since": each.since, "lease_ms": each.lease_ms},
                "expires_at": None if each.expires_ms is None else _moment(each.expires_ms),
            }
            for each in self._contexts.current.session.holds()
        ]

    def blocking(self, pid: int) -> list[int]:
        known = self._contexts.current.session.locks
        return [] if known is None else list(known.blocking(pid))

    @property
    def _locks(self) -> SessionLocks:
        found = self._contexts.current.session.locks
        assert found is not None, "whoever takes locks has a place for them"
        return found

    def setting_source(self, name: str, default: str | None) -> str | None:
        return "session" if name.lower() in self._contexts.current.session.settings else default

    def set_config(self, name: str | None, value: str | None, local: bool | None) -> str:
        if name is None:
            raise InvalidValue("SET requires parameter name")
        self.current_setting(name, missing_ok="." in name)
        context = self._contexts.current
        checked = context.session.checked_setting(name, value or "")
        context.changes.append(SettingChange(name, checked, bool(local)))
        return checked

    def encoding_name(self, number: int) -> str:
        return _ENCODINGS.get(number, "")

    def encoding_number(self, name: str) -> int:
        plain = re.sub(r"[^a-z0-9]", "", name.lower())
        known = {re.sub(r"[^a-z0-9]", "", n.lower()): number for number, n in _ENCODINGS.items()}
        return known.get(plain, known["utf8"] if plain == "unicode" else -1)

    def sleep(self, seconds: float) -> str:
        if self._contexts.current.cancellation.wait(max(seconds, 0)):
            raise QueryCancelled("canceling statement due to user request")
        return ""


def _lock_key(first: int, second: int, kind: int) -> LockKey:
    return LockKey.of(first, None if kind == 1 else second)


def _moment(millis: int) -> datetime.datetime:
    return _in_utc(datetime.datetime.fromtimestamp(millis / 1000, datetime.UTC))


def _in_utc(moment: datetime.datetime) -> datetime.datetime:
    """As times with a zone are held."""
    return moment.astimezone(datetime.UTC).replace(tzinfo=None)
