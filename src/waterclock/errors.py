"""The errors a user or an operator can meet, and how they are told.

Every one of them names the object, the reason and, where there is one, the remedy. The message is
written in PostgreSQL's manner (lower case, no full stop, no internals); detail and hint are
sentences. The SQLSTATE is part of the class, so that a protocol layer can pass the error on without
knowing it.

A broken invariant of our own is never one of these: it is an `AssertionError`, loud and unhandled.
"""

from __future__ import annotations

from typing import ClassVar


class WaterclockError(Exception):
    """An error of the user or of the world outside. `str(error)` is the one-line message."""

    sqlstate: ClassVar[str] = "XX000"

    def __init__(self, message: str, *, detail: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint


class EngineDown(WaterclockError):
    """The engine that computes is not there, or went away in the middle. Nothing was changed."""

    sqlstate: ClassVar[str] = "58000"
