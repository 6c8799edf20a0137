"""What can be wrong with a statement besides its text."""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.sources.status import SourceReport


class StatementCancelled(WaterclockError):
    """Somebody asked the statement to stop."""

    sqlstate: ClassVar[str] = "57014"


class CollectionGone(WaterclockError):
    """What the statement reads was dropped while it ran. It may be resolved anew and run again."""

    sqlstate: ClassVar[str] = "42P01"

    def __init__(self) -> None:
        super().__init__(
            "a relation that the statement uses has been dropped",
            detail="It was dropped while the statement ran.",
        )


class OutcomeUnknown(WaterclockError):
    """The statement was stopped while its change was being made durable, and that takes long."""

    sqlstate: ClassVar[str] = "40003"


class DeadlockDetected(WaterclockError):
    """Whoever waited would wait for ever, as those do who wait for each other."""

    sqlstate: ClassVar[str] = "40P01"


class LockTimeout(WaterclockError):
    """A lock was not free for as long as the session wants to wait."""

    sqlstate: ClassVar[str] = "55P03"


class ViewInError(WaterclockError):
    """The view has no value at that time, because of what its inputs hold."""

    sqlstate = "22000"
    owner: GlobalId | None = None
    """The view or source that has the error, if it is known."""

    @classmethod
    def of(
        cls, message: str, row: str, view: str | None = None, hint: str | None = None
    ) -> ViewInError:
        """From a row of a view's errors: a SQLSTATE, a blank, and the message."""
        code, _, text = message.partition(" ")
        where = "" if view is None else f", in {view}"
        error = cls(
            text,
            detail=f"The row is {row}{where}.",
            hint=hint or "The view is readable again once the offending rows are deleted.",
        )
        error.sqlstate = code  # type: ignore[misc]
        return error


class SourceFailed(WaterclockError):
    """What is read comes from a source that can not go on, so it will not be complete."""

    sqlstate: ClassVar[str] = "55000"

    @classmethod
    def of(cls, report: SourceReport) -> SourceFailed:
        """From the report of a source that has failed."""
        error = report.status.error
        assert error is not None, "a source that has failed says why"
        return cls(f"source has failed: {error.message}", detail=error.detail, hint=error.hint)


class DuplicateStatement(WaterclockError):
    """A prepared statement has that name already."""

    sqlstate: ClassVar[str] = "42P05"


class UnknownStatement(WaterclockError):
    """No prepared statement has that name."""

    sqlstate: ClassVar[str] = "26000"


class DuplicateCursor(WaterclockError):
    """A portal or cursor has that name already."""

    sqlstate: ClassVar[str] = "42P03"


class UnknownCursor(WaterclockError):
    """No portal or cursor has that name."""

    sqlstate: ClassVar[str] = "34000"


class TooManyStatements(WaterclockError):
    """Only one statement can be prepared at a time."""

    sqlstate: ClassVar[str] = "42601"


class NotInBlock(WaterclockError):
    """The statement only makes sense in a transaction block."""

    sqlstate: ClassVar[str] = "25P01"


class Unsupported(WaterclockError):
    """A feature that Waterclock does not have."""

    sqlstate: ClassVar[str] = "0A000"


class UnknownSavepoint(WaterclockError):
    """No savepoint has that name."""

    sqlstate: ClassVar[str] = "3B001"


class InvalidTime(WaterclockError):
    """What was given is no time of the timeline."""

    sqlstate: ClassVar[str] = "22023"


class NewerThanTransaction(WaterclockError):
    """Something did not exist yet at the time at which the transaction reads; done again, it will
    read later."""

    sqlstate: ClassVar[str] = "40001"


class ObjectInUse(WaterclockError):
    """Somebody is connected to it, or acts as it."""

    sqlstate: ClassVar[str] = "55006"
