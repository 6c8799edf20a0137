"""How a source, a view or an index is: whether it can be read, since when, and what is to blame.

Decided from what is known of it (`decide`), and of nothing else: what it is by itself, the first
error among the data that it is made from, and the sources behind it that have failed or stalled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId

IN_ERROR = "error"
"""It has no value, because of data in it or in what it is made from."""
RUNNING, STALLED, FAILED = "running", "stalled", "failed"


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that keeps a relation from being read: in which object it is, and what it is."""

    blamed: GlobalId
    error: WaterclockError


@dataclass(frozen=True, slots=True)
class ObjectHealth:
    """The health of one object since a moment."""

    status: str
    since_ms: int
    error: WaterclockError | None = None
    blamed: GlobalId | None = None

    @property
    def is_error(self) -> bool:
        """Whether it can not be read because of an error."""
        return self.status == IN_ERROR

    def is_same(self, other: ObjectHealth | None) -> bool:
        """Whether a user would see no difference but in the moment."""
        return other is not None and (self.status, str(self.error), self.blamed) == (
            other.status,
            str(other.error),
            other.blamed,
        )


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an object. `status` and `problem` are its own, as a source or as a view.

    `wrong` is the first error in its data or in that of its inputs; `failed` and `stalled` are the
    sources behind it that can not go on, or do not at present.
    """

    status: str = RUNNING
    problem: WaterclockError | None = None
    wrong: Cause | None = None
    failed: Sequence[Cause] = ()
    stalled: Sequence[Cause] = ()


def decide(own: GlobalId, known: Known) -> tuple[str, Cause | None]:
    """The status of an object, and its cause if it is not well.

    What makes reads fail comes before what makes them wait. A source that has failed says so
    itself; what is made from it is in error.
    """
    if known.status == FAILED and known.problem is not None:
        return FAILED, Cause(own, known.problem)
    if known.wrong is not None:
        return IN_ERROR, known.wrong
    if known.failed:
        return IN_ERROR, known.failed[0]
    if known.problem is not None:
        return known.status, Cause(own, known.problem)
    if known.stalled and known.status == RUNNING:
        return STALLED, known.stalled[0]
    return known.status, None
