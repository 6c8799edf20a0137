"""The advisory locks that one session takes, gives back, and sees.

Those of a transaction are given back when it ends, and when it fails: then back to the newest
savepoint, as PostgreSQL does, for what was done since is undone at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from waterclock.adapter.advisory_locks import Lock, Mode, Owner, Patience
from waterclock.adapter.api import Notice
from waterclock.adapter.settings import milliseconds
from waterclock.catalog.system.session import Cancellation, LockKey, ShownLock

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession


class SessionLocks:
    """Implements `catalog.system.session.SessionLocks`."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session
        self._table = session.front.locks
        self._owner = Owner(session.startup.process_id)

    def lock(
        self,
        key: LockKey,
        cancellation: Cancellation,
        *,
        is_shared: bool,
        for_transaction: bool,
        waits: bool,
    ) -> bool:
        timeout_ms = milliseconds(self._session.settings.get("lock_timeout"))
        patience = Patience(lambda: cancellation.cancelled, timeout_ms / 1000 or None)
        with cancellation.calling(self._table.wake):
            return self._table.acquire(
                self._owner,
                self._lock(key, is_shared=is_shared),
                for_transaction=for_transaction,
                patience=patience if waits else None,
                is_over=patience.is_over,
            )

    def unlock(self, key: LockKey, *, is_shared: bool) -> bool:
        lock = self._lock(key, is_shared=is_shared)
        is_given_back = self._table.release(self._owner, lock)
        if not is_given_back:
            warning = f"you don't own a lock of type {lock.mode.value}"
            self._session.notify(Notice(warning, "WARNING", "01000"))
        return is_given_back

    def unlock_all(self) -> None:
        self._table.release_all(self._owner)

    def shown(self) -> list[ShownLock]:
        return self._table.shown()

    def blocking(self, pid: int) -> list[int]:
        return self._table.blocking(pid)

    @property
    def is_waiting(self) -> bool:
        return self._owner.wait is not None

    # The life of the session

    @property
    def of_transaction(self) -> int:
        """How many locks the transaction has taken so far."""
        return len(self._owner.transaction)

    def end_transaction(self, kept: int = 0) -> None:
        """Give back what the transaction took, except for the first locks."""
        self._table.end_transaction(self._owner, kept)

    def close(self) -> None:
        """The session is over."""
        self._table.close(self._owner)

    def _lock(self, key: LockKey, *, is_shared: bool) -> Lock:
        session = self._session
        database = session.front.core.current.database(session.startup.database)
        return Lock(database.oid, key, Mode.SHARED if is_shared else Mode.ALONE)
