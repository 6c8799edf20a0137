"""What goes wrong in the protocol itself, and how any error is told to the client."""

from __future__ import annotations

from typing import ClassVar

from waterclock.adapter.api import ConstraintViolated, Notice, SessionEnded
from waterclock.errors import WaterclockError
from waterclock.sql.errors import SqlFault


class ProtocolViolation(SessionEnded):
    """The client's bytes can not be understood, so nothing after them can: the connection ends."""

    sqlstate: ClassVar[str] = "08P01"


class BadMessage(WaterclockError):
    """A message is wrong in itself. The next one can still be found, so the connection goes on."""

    sqlstate: ClassVar[str] = "08P01"


class UnsupportedMessage(WaterclockError):
    """A message that PostgreSQL has and we have not."""

    sqlstate: ClassVar[str] = "0A000"


class WrongPassword(SessionEnded):
    """The client did not prove that it knows the password, or there is none."""

    sqlstate: ClassVar[str] = "28P01"


class InvalidAuthorization(SessionEnded):
    """The client may not connect this way."""

    sqlstate: ClassVar[str] = "28000"


class BadCopyData(WaterclockError):
    """The data of COPY FROM is not in its format."""

    sqlstate: ClassVar[str] = "22P04"


class CopyRefused(WaterclockError):
    """The client itself gave up a COPY FROM."""

    sqlstate: ClassVar[str] = "57014"


class IdleTooLong(SessionEnded):
    """The client has been silent for longer than it may be."""

    sqlstate: ClassVar[str] = "57P05"


class IdleInTransaction(IdleTooLong):
    """The client has been silent for too long and holds a transaction open."""

    sqlstate: ClassVar[str] = "25P03"


class AuthenticationTimeout(SessionEnded):
    """The client took too long to say who it is."""

    sqlstate: ClassVar[str] = "57014"


class ShutDown(SessionEnded):
    """The server stops."""

    sqlstate: ClassVar[str] = "57P01"


class InternalError(SessionEnded):
    """An invariant of ours broke. The log says which."""

    sqlstate: ClassVar[str] = "XX000"


class Unforeseen(WaterclockError):
    """An invariant of ours broke while a statement ran. Only that statement has failed."""

    sqlstate: ClassVar[str] = "XX000"


class Disconnected(Exception):
    """The client is gone. Nobody is told, because nobody is there."""


def error_fields(error: WaterclockError, *, fatal: bool = False) -> dict[str, str]:
    """The fields of ErrorResponse, by their letters. Notes of the error are its context."""
    severity = "FATAL" if fatal else "ERROR"
    fields = {"S": severity, "V": severity, "C": error.sqlstate, "M": error.message}
    optional: dict[str, object] = {"D": error.detail, "H": error.hint}
    if isinstance(error, SqlFault):
        optional["P"] = error.position
    if isinstance(error, ConstraintViolated):
        optional |= {
            "s": error.schema,
            "t": error.table,
            "c": error.column,
            "n": error.constraint,
        }
    optional["W"] = "\n".join(getattr(error, "__notes__", ())) or None
    return fields | {letter: str(value) for letter, value in optional.items() if value is not None}


def notice_fields(notice: Notice) -> dict[str, str]:
    """The fields of NoticeResponse, by their letters."""
    fields = {
        "S": notice.severity,
        "V": notice.severity,
        "C": notice.sqlstate,
        "M": notice.message,
    }
    optional = {"D": notice.detail, "H": notice.hint}
    return fields | {letter: value for letter, value in optional.items() if value is not None}
