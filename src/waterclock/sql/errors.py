"""What can be wrong with the text of a statement, and where.

A position counts characters from 1, over the whole text that was sent, as in the P field of
PostgreSQL's protocol: a client shows the line and puts a mark under the character.
"""

from __future__ import annotations

from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.model.pg_types import UnknownType


class SqlFault(WaterclockError):
    """Base of the errors that a place in the text is to blame for; None if it is the whole."""

    sqlstate: ClassVar[str] = "42601"

    def __init__(
        self,
        message: str,
        position: int | None = None,
        *,
        detail: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.position = position


class SyntaxFault(SqlFault):
    """The text is not a statement."""


class InvalidEscape(SqlFault):
    """A backslash sequence in a string does not stand for a character."""

    sqlstate: ClassVar[str] = "22025"


class InvalidBytes(SqlFault):
    """Byte escapes in a string do not add up to characters."""

    sqlstate: ClassVar[str] = "22021"


class InvalidTypeModifier(SqlFault):
    """The numbers behind a type's name are out of range."""

    sqlstate: ClassVar[str] = "22023"


class InvalidParameter(SqlFault):
    """There is no such option for the object."""

    sqlstate: ClassVar[str] = "22023"


class UnknownTypeName(SqlFault, UnknownType):
    """No type has that name."""

    sqlstate: ClassVar[str] = "42704"


class ReservedName(SqlFault):
    """A role can not have that name."""

    sqlstate: ClassVar[str] = "42939"


class FeatureNotSupported(SqlFault):
    """PostgreSQL has it, Waterclock has not."""

    sqlstate: ClassVar[str] = "0A000"

    @classmethod
    def of(cls, what: str, position: int | None = None) -> FeatureNotSupported:
        return cls(f"{what} is not supported", position)


class UnsupportedType(FeatureNotSupported):
    """PostgreSQL has the type; here, at most the system's own relations have it."""
