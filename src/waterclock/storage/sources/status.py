"""What a source says of itself: how it is, and how much it has done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId


class Health(StrEnum):
    """How a source is. The value is what users are shown."""

    STARTING = "starting"
    RUNNING = "running"
    STALLED = "stalled"
    """Something upstream does not work at present; it is tried again."""
    FAILED = "failed"
    """It can not go on, whatever is tried."""
    FINISHED = "finished"
    """Everything there is has been read, and nothing more will come."""


@dataclass(frozen=True, slots=True)
class Status:
    """The health of a source since a moment, and what is wrong, if anything is.

    A warning is about a source that goes on: something that the user should know, and that does not
    go away by itself.
    """

    health: Health
    since_ms: int
    error: WaterclockError | None = None
    warning: WaterclockError | None = None

    def is_same(self, other: Status) -> bool:
        """Whether a user would see no difference."""
        return (
            self.health is other.health
            and str(self.error) == str(other.error)
            and str(self.warning) == str(other.warning)
        )


@dataclass(frozen=True, slots=True)
class Statistics:
    """What a source has done since the server started, and where it stands.

    Offsets are sums over the partitions, and None where these say nothing. `lag_ms` is how long ago
    the contents were complete.
    While the first contents are read, `first_rows_known` is about how many rows they have, if
    anybody knows, and `first_rows_read` how many of these are here; they are seen when all are.
    """

    messages: int = 0
    bytes: int = 0
    updates: int = 0
    undecodable: int = 0
    """How many messages could not be read."""
    skipped: int = 0
    """How many messages are skipped now, and stand in the relation for these."""
    offsets_known: int | None = 0
    offsets_committed: int | None = 0
    lag_ms: int | None = None
    first_rows_known: int | None = None
    first_rows_read: int | None = None

    @property
    def lag_offsets(self) -> int:
        """How many offsets are known upstream and not here."""
        return max(0, (self.offsets_known or 0) - (self.offsets_committed or 0))


@dataclass(frozen=True, slots=True)
class SourceReport:
    """A source's status and statistics. `failed` has the collections of those of its outputs that
    can not go on, while the others do.
    """

    id: GlobalId
    status: Status
    statistics: Statistics
    failed: Mapping[GlobalId, Status] = field(default_factory=dict)
