"""Names of collections that are never reused.

A `GlobalId` means one collection for ever, through renames, drops and restarts. The catalog
hands the numbers out; this is only the value, which says whether a user or the system made the
object and which one it was. It does not say what kind of object it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

from waterclock.model.errors import MalformedId

MAX_ID_NUMBER = 2**63 - 1
_TEXT = re.compile(r"([us])([1-9][0-9]{0,18})")


class IdKind(StrEnum):
    """Who made the object. The value is the first letter of the text form."""

    SYSTEM = "s"
    USER = "u"


@dataclass(frozen=True, slots=True, order=True)
class GlobalId:
    """The id of one collection, ordered by kind and then by number; written `u12` or `s3`."""

    kind: IdKind
    number: int
    _text: str = field(init=False, repr=False, compare=False)
    """Kept, because ids are written and looked up at every step."""

    def __post_init__(self) -> None:
        if type(self.number) is not int or not 1 <= self.number <= MAX_ID_NUMBER:
            raise MalformedId(f"not a number of an object: {self.number!r}")
        object.__setattr__(self, "_text", f"{self.kind.value}{self.number}")

    @classmethod
    def user(cls, number: int) -> GlobalId:
        """The id of a user's object."""
        return cls(IdKind.USER, number)

    @classmethod
    def system(cls, number: int) -> GlobalId:
        """The id of an object of the database itself."""
        return cls(IdKind.SYSTEM, number)

    @classmethod
    def parse(cls, text: str) -> GlobalId:
        """The id with exactly that text form; `MalformedId` if there is none."""
        match = _TEXT.fullmatch(text)
        if match is None:
            raise MalformedId(
                f'not an object id: "{text}"',
                hint="An id is the letter u or s and a number, such as u12.",
            )
        return cls(IdKind(match[1]), int(match[2]))

    def __str__(self) -> str:
        return self._text

    def __hash__(self) -> int:
        return hash(self._text)
