"""Several plans as one, so that what they do becomes durable in one entry of the log or not at all.

This is how a layer above makes its own facts and the commands of the layers below it happen
together: there is no moment, and no crash, between them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from waterclock.persist.records import AnyEvent
from waterclock.persist.state import State
from waterclock.persist.store import Plan


def together(plans: Iterable[Plan[Any]]) -> Plan[list[Any]]:
    """All plans, or none if one raises; the answers are in the order of the plans.

    Each of them sees the state before any of the others has changed it, so no two may be about the
    same shard's same capability, the same new shard, or the same note.
    """
    parts = list(plans)

    def plan(state: State) -> tuple[list[AnyEvent], list[Any]]:
        events: list[AnyEvent] = []
        answers: list[Any] = []
        for part in parts:
            wanted, answer = part(state)
            events += wanted
            answers.append(answer)
        return events, answers

    return plan
