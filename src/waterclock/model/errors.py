"""What can be wrong with a value or a request at the level of the model.

Each class names one broken precondition, so that a caller can tell them apart without reading
the message. When one of them is raised, nothing has changed: the model is made of values.
"""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError


class NotATime(WaterclockError):
    """The value is no element of the lattice it was offered to."""

    sqlstate: ClassVar[str] = "22023"


class ForeignTime(WaterclockError):
    """Times of two different timelines were put in relation with each other."""

    sqlstate: ClassVar[str] = "22023"

    def __init__(self, one: str, other: str) -> None:
        super().__init__(
            f'cannot relate a time of timeline "{one}" to a time of timeline "{other}"',
            hint="Bring both to one timeline by reclocking first.",
        )
        self.timelines = (one, other)


class NotPartitionProgress(WaterclockError):
    """The frontier does not have the form of one upper offset per partition."""

    sqlstate: ClassVar[str] = "22023"


class TimeForgotten(WaterclockError):
    """The time is not at or after since: compaction may have blurred it. It never comes back."""

    sqlstate: ClassVar[str] = "22023"


class TimeUnwritten(WaterclockError):
    """The time is at or after upper: it is not complete yet. Waiting may help."""

    sqlstate: ClassVar[str] = "22023"


class FrontierRegression(WaterclockError):
    """A frontier that may only advance was asked to move back or sideways."""

    sqlstate: ClassVar[str] = "22023"


class NoProgress(WaterclockError):
    """An append names the upper that the collection already has, so its window is empty."""

    sqlstate: ClassVar[str] = "22023"


class UpdateOutsideWindow(WaterclockError):
    """An appended update is before the old upper, or at or after the new one."""

    sqlstate: ClassVar[str] = "22023"


class NegativeMultiplicity(WaterclockError):
    """A version that was to be shown to a user holds some data fewer than zero times."""

    sqlstate: ClassVar[str] = "XX000"


class MalformedId(WaterclockError):
    """The text or the number does not name an object."""

    sqlstate: ClassVar[str] = "22P02"


class InvalidType(WaterclockError):
    """A column type has a parameter that no such type can have."""

    sqlstate: ClassVar[str] = "22023"


class InvalidName(WaterclockError):
    """The name is empty."""

    sqlstate: ClassVar[str] = "42602"


class DuplicateColumn(WaterclockError):
    """Two columns, or two fields of one struct, have the same name."""

    sqlstate: ClassVar[str] = "42701"


class ReservedName(WaterclockError):
    """The name belongs to a column that the database itself adds."""

    sqlstate: ClassVar[str] = "42939"


class UnknownColumn(WaterclockError):
    """The schema has no column of that name."""

    sqlstate: ClassVar[str] = "42703"
