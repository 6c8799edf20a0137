"""The sessions of the server as the catalog shows them, and who may stop what they run.

A role sees what sessions of roles do that it may act as; of others, only that they are there.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

from waterclock.catalog.errors import PermissionDenied
from waterclock.catalog.system.image import Role
from waterclock.catalog.system.session import SessionActivity

TEXTS = (
    *("datname", "usename", "application_name", "client_addr", "state", "query"),
    *("wait_event_type", "wait_event"),
)
TIMES = ("backend_start", "xact_start", "query_start", "state_change")
_HIDDEN = "<insufficient privilege>"

ActsAs = Callable[[str], bool]
"""Whether whoever asks may act as the role of that name."""


def activity_rows(sessions: Iterable[SessionActivity], acts_as: ActsAs) -> list[dict[str, Any]]:
    """What is shown of each, by the names that pg_stat_activity has for it."""
    return [_shown(each, is_open=acts_as(each.user)) for each in sessions]


def _shown(session: SessionActivity, *, is_open: bool) -> dict[str, Any]:
    return {
        "pid": session.pid,
        "datname": session.database,
        "usename": session.user,
        "application_name": session.application_name,
        "client_addr": session.client_address if is_open else None,
        "state": session.state if is_open else None,
        "wait_event_type": session.wait_event_type if is_open else None,
        "wait_event": session.wait_event if is_open else None,
        "query": session.query if is_open else _HIDDEN,
        **{name: _in_utc(getattr(session, name)) if is_open else None for name in TIMES},
    }


def _in_utc(moment: datetime.datetime | None) -> datetime.datetime | None:
    return None if moment is None else moment.astimezone(datetime.UTC).replace(tzinfo=None)


def require_may_stop(
    user: str, current_user: str, roles: Iterable[Role], acts_as: ActsAs, *, ends: bool
) -> None:
    """Raise unless the current role may stop what a session of another user runs."""
    superusers = {role.name for role in roles if role.superuser}
    if current_user in superusers:
        return
    verb, what, done = ("terminate", "process", "terminated")
    if not ends:
        verb, what, done = ("cancel", "query", "canceled")
    if user in superusers:
        raise PermissionDenied(f"must be a superuser to {verb} superuser {what}")
    if not acts_as(user):
        raise PermissionDenied(
            f"must be a member of the role whose {what} is being {done}"
            " or member of pg_signal_backend"
        )
