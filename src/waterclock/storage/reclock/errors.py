"""What can be wrong with what a source says about its progress."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError


class UpstreamRegressed(WaterclockError):
    """The system upstream has less than it had: something that was read is not there any more.

    It is definite. Going on would lose data silently, or show other data at times that are settled.
    """

    sqlstate: ClassVar[str] = "55000"
