"""The sessions as others see them, and how others stop what they run.

`pg_stat_activity` shows every session, with the number by which `pg_cancel_backend` and
`pg_terminate_backend` know it; who may see or stop it is for the catalog to say. All this is asked
from other threads than those of the sessions, so what is shown of one may be a moment old.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from waterclock.adapter.api import Notice, TransactionStatus
from waterclock.catalog.system.session import SessionActivity

if TYPE_CHECKING:
    from waterclock.adapter.session import SqlSession

_IDLE = {
    TransactionStatus.IDLE: "idle",
    TransactionStatus.OPEN: "idle in transaction",
    TransactionStatus.FAILED: "idle in transaction (aborted)",
}


def activity_of(session: SqlSession) -> SessionActivity:
    """What a session is doing."""
    status = session.status
    in_transaction = session.is_active or status is not TransactionStatus.IDLE
    return SessionActivity(
        pid=session.startup.process_id,
        database=session.startup.database,
        user=session.startup.user,
        application_name=session.settings.get("application_name"),
        client_address=session.startup.client_address,
        backend_start=session.started,
        xact_start=session.transaction.started if in_transaction else None,
        query_start=_moment(session.began_s),
        state_change=_moment(session.began_s if session.is_active else session.ended_s),
        state="active" if session.is_active else _IDLE[status],
        query=session.asked,
        wait_event_type="Lock" if session.locks.is_waiting else None,
        wait_event="advisory" if session.locks.is_waiting else None,
    )


def _moment(seconds: float | None) -> datetime.datetime | None:
    return None if seconds is None else datetime.datetime.fromtimestamp(seconds, datetime.UTC)


def stop(session: SqlSession, pid: int, *, ends: bool) -> bool:
    """Cancel what a session runs, or end it; false, with a warning, if there is no such session."""
    sessions = session.front.all_sessions()
    found = next((each for each in sessions if each.startup.process_id == pid), None)
    warning = None
    if found is None:
        warning = f"PID {pid} is not a PostgreSQL server process"
    elif not ends:
        found.cancel()
    elif found.startup.hang_up is None:
        warning = f"session {pid} has no connection that could be ended"
    else:
        found.startup.hang_up()
    if warning is not None:
        session.notify(Notice(warning, "WARNING", "01000"))
    return warning is None
