"""Why a statement can have no time, or not the one that was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from waterclock.errors import WaterclockError


class OutOfTime(WaterclockError):
    """The timeline has come to its end."""

    sqlstate: ClassVar[str] = "54000"


class InvalidAsOf(WaterclockError):
    """The time that was asked for is forgotten by an input, or is not a time."""

    sqlstate: ClassVar[str] = "22023"


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
