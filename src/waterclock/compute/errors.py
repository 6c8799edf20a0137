"""How Compute can refuse a view."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError


class NotMaintainable(WaterclockError):
    """The view uses something that can not be kept up to date incrementally."""

    sqlstate: ClassVar[str] = "0A000"
