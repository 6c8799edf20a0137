"""The words in which Storage is spoken to, and in which it answers.

All of them are values. A capability shows the collection and frontier it is for, and is identified
by its token: who presents the token has the right, so capabilities can be handed to others. The
value is what its holder last knew; Storage keeps what is true and refuses a capability that is not
as stated.

What each append takes and gives are structs: a frozen dataclass takes several times as long to
make.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, NewType

import msgspec
import pyarrow as pa

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS, Timeline
from waterclock.persist.records import Right

Token = NewType("Token", str)

ERROR_ROWS = Schema(
    (Column("key", Text(), nullable=False), Column("message", Text(), nullable=False))
)
"""The columns of a collection of what is wrong with another: which of its rows, as text, and what
is wrong with them: a SQLSTATE, a blank, and the message. The other one has a value at a time iff
this one is empty then.
"""


class ReadCapability(msgspec.Struct, frozen=True, gc=False):
    """Holds the collection's since at or before `frontier`."""

    right: ClassVar[Right] = Right.READ

    token: Token
    id: GlobalId
    frontier: Frontier[int]


class WriteCapability(msgspec.Struct, frozen=True, gc=False):
    """Holds the collection's upper at or before `frontier`."""

    right: ClassVar[Right] = Right.WRITE

    token: Token
    id: GlobalId
    frontier: Frontier[int]


class Writers(StrEnum):
    """Who fills a collection."""

    HOLDER = "holder"
    """Whoever holds its write capability, which anybody can acquire: a table."""
    CREATOR = "creator"
    """Whoever has created it, such as a view its output; nobody else can acquire the right."""
    STORAGE = "storage"
    """Storage itself, from outside: a source. Nobody else ever gets to write."""


@dataclass(frozen=True, slots=True)
class Description:
    """What collection to create."""

    schema: Schema
    writers: Writers = Writers.HOLDER
    timeline: Timeline[int] = EPOCH_MILLIS


class Write(msgspec.Struct, frozen=True, gc=False):
    """What one Append does to one collection.

    `updates` has the collection's columns, then `mz_timestamp` and `mz_diff`; None means that
    nothing happened.
    """

    capability: WriteCapability
    updates: pa.Table | pa.RecordBatch | None
    new_frontier: Frontier[int]


@dataclass(frozen=True, slots=True)
class Updates:
    """Some updates, in the columns selected by the subscription, each at its own time."""

    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Progress:
    """All updates at times not at or after `upper` have been sent."""

    upper: Frontier[int]


Message = Updates | Progress


def held_after(upper: Frontier[int]) -> Frontier[int]:
    """Where to hold a capability once everything before `upper` has been received.

    That is the last complete time, not `upper` itself: compaction may move every earlier update to
    the time of the hold, so only times after the hold keep their own. A subscription without
    snapshot as of this frontier goes on exactly where the old one ended.
    """
    bound = upper.only()
    if bound is None:
        return upper
    assert bound > 0, "nothing is complete before the least time"
    return upper.timeline.frontier(bound - 1)
