"""The words in which Compute is spoken to, and in which it answers.

A view is one or several results over the same inputs. A result is either written to a collection of
storage (a materialized view), or arranged under keys in Compute's own state (an index); then its
collection in storage has no columns and no rows, and stands for its frontiers alone.

What is wrong with the data of a view is data too: rows of `ERROR_ROWS` in a collection beside the
outputs. A view has a value at a time iff that collection is empty then, and so are those of all
views it is made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.storage.api import ERROR_ROWS as ERROR_ROWS

FRONTIERS_ONLY = Schema(())
"""The columns of a collection that stands for an index."""


@dataclass(frozen=True, slots=True)
class Result:
    """SQL over collections named by their ids, the columns it gives, and an index's keys."""

    sql: str
    schema: Schema
    keys: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class View:
    """What to maintain, and the columns of the collections it reads."""

    inputs: Mapping[GlobalId, Schema]
    results: tuple[Result, ...]


class Health(StrEnum):
    """How a view is doing."""

    HYDRATING = "hydrating"
    """Its first contents are being computed."""
    REBUILDING = "rebuilding"
    """Its state was lost, or is that of another version: it is computed again. The outputs stay."""
    RUNNING = "running"
    STALLED = "stalled"
    """The last step failed; it will be tried again."""
    FINISHED = "finished"
    """Its inputs will never change again, and neither will it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far it is with the first contents of a view, or with state that was lost."""

    rows: int
    """How many updates of the inputs have been read."""
    tasks_done: int
    tasks: int
    """How many tasks there are, as far as is known; 0 while the inputs are being read."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a view that is stepped has yet to take in."""

    view: GlobalId
    reads: frozenset[GlobalId]
    """The collections behind it, on however long a way."""
    rows: int
    size: int
    """About how many updates wait, and how many bytes they take in memory."""
    age_ms: int
    """How long it has been behind; 0 if its times are not those of the clock."""
    taken: int
    """How many updates it has taken in since it was opened."""


@dataclass(frozen=True, slots=True)
class Status:
    """How a view is doing, how far it is, and what stopped it."""

    health: Health
    upper: int
    rows: int
    """How many updates its state holds."""
    problem: str | None = None
    progress: Progress | None = None
    """While it is hydrating or rebuilding."""
    rebuilt: str | None = None
    """Why its state was computed again, if it was since the server started."""
