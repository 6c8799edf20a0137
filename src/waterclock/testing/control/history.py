"""What clients did and what they were told: the history that a checker judges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

Row = tuple[Any, ...]
Rows = Counter[Row]
Change = tuple[str, Row, int]
"""A table, a row, and how often it came or went. No two transactions make the same change."""
Tables = Mapping[str, Rows]
Definition = Callable[[Tables], Rows]
"""What a view has to hold, by the contents of the tables."""


class Outcome(Enum):
    """What a client knows of its transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"
    """It was cancelled, or the server died: it has happened whole, or not at all."""


@dataclass(frozen=True, slots=True)
class Read:
    """What was seen of a relation; with `only`, of its rows with that value in the last column."""

    relation: str
    rows: Rows
    only: int | None = None


@dataclass(slots=True)
class Transaction:
    """One transaction of a client. Moments are numbers in the order of what happened."""

    number: int
    session: str
    begun: int
    texts: list[str] = field(default_factory=list)
    reads: list[Read] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    ended: int | None = None
    outcome: Outcome = Outcome.UNKNOWN

    def __str__(self) -> str:
        what = "; ".join(self.texts)
        return f"#{self.number} of {self.session} [{self.begun}, {self.ended}]: {what}"


@dataclass(slots=True)
class Followed:
    """What a subscription told: updates, and up to where they are complete."""

    relation: str
    begun: int
    updates: list[tuple[Row, int, int]] = field(default_factory=list)
    start: int | None = None
    """The time of the contents that came first; nothing is said of earlier ones."""
    complete_to: int | None = None


class History:
    """Everything that happened in one simulation."""

    def __init__(self) -> None:
        self.transactions: list[Transaction] = []
        self.followed: list[Followed] = []
        self.log: list[str] = []
        self.counts: Counter[str] = Counter()
        self.last_moment = 0

    def moment(self) -> int:
        """A number that is greater than all before."""
        self.last_moment += 1
        return self.last_moment

    def begin(self, session: str) -> Transaction:
        """A client begins a transaction."""
        made = Transaction(len(self.transactions) + 1, session, self.moment())
        self.transactions.append(made)
        return made

    def end(self, transaction: Transaction, outcome: Outcome) -> None:
        """The client was told, or will never be."""
        transaction.outcome = outcome
        transaction.ended = self.moment()
