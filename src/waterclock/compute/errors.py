"""How Compute can refuse a view, or fail to maintain it."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError


class NotMaintainable(WaterclockError):
    """The view uses something that can not be kept up to date incrementally."""

    sqlstate: ClassVar[str] = "0A000"


class FrontiersDiffer(WaterclockError):
    """The inputs of a view are not all at one frontier, or its output is already beyond it."""

    sqlstate: ClassVar[str] = "22023"


class IndexBehind(WaterclockError):
    """The rows of an index are not there yet, or not again."""

    sqlstate: ClassVar[str] = "55000"


class ReadCancelled(WaterclockError):
    """Somebody gave up waiting for the contents of a collection."""

    sqlstate: ClassVar[str] = "57014"
