"""Why a statement can have no time, or not the one that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId


class OutOfTime(WaterclockError):
    """The timeline has come to its end."""

    sqlstate: ClassVar[str] = "54000"


class InvalidAsOf(WaterclockError):
    """The time that was asked for is forgotten by an input, or is not a time."""

    sqlstate: ClassVar[str] = "22023"


class TooStale(WaterclockError):
    """Bounded staleness: not all inputs are complete at a time that is fresh enough.

    `late` are those that are not; whoever knows their names says which.
    """

    sqlstate: ClassVar[str] = "55000"

    def __init__(self, late: Sequence[GlobalId], lack: str, behind_ms: int) -> None:
        """`lack` is what is wrong with them, as the rest of a sentence."""
        super().__init__(
            "",
            detail=f"What is complete is {behind_ms} ms old.",
            hint="Try again, allow more staleness, or SET transaction_isolation ="
            " 'strict serializable' to wait.",
        )
        self.late = tuple(late)
        self._lack = lack
        self.name([str(each) for each in late])

    def name(self, names: Sequence[str]) -> None:
        """Say what is late in these words."""
        self.message = f"{', '.join(dict.fromkeys(names))} {self._lack}"
        self.args = (self.message,)


class InputGone(WaterclockError):
    """An input can not be read at any time any more, because everybody has let go of it."""

    sqlstate: ClassVar[str] = "55000"


class TimelinesDiffer(WaterclockError):
    """The inputs have no time in common."""

    sqlstate: ClassVar[str] = "0A000"

    @classmethod
    def of(cls, timelines: Mapping[str, str]) -> TimelinesDiffer:
        """From the name of each input and that of its timeline."""
        shown = ", ".join(f'{name} is on "{timeline}"' for name, timeline in timelines.items())
        return cls(
            "can not read relations of different timelines together",
            detail=f"Their times can not be compared: {shown}.",
            hint="Read them in queries of their own. Sources that shall be joined need the same"
            " TIMELINE, or none.",
        )
