"""What the text of SQL is made of.

A token says which characters it covers (`start` and `end`, from 0) and what it stands for: `value`
is the folded name of a word, the characters of a string without quotes and escapes, the digits of a
number. A fault in the text is a token too, the last one: it is raised when a parser gets there, so
that an earlier mistake is told first.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from waterclock.sql.errors import SqlFault


class Kind(Enum):
    WORD = "word"
    """A name or key word without quotes, folded to lower case."""
    QUOTED = "quoted name"
    STRING = "string"
    BITS = "bit string"
    """The digits with `b` or `x` in front."""
    INTEGER = "integer"
    DECIMAL = "decimal"
    PARAMETER = "parameter"
    """The value is the number behind the `$`."""
    OPERATOR = "operator"
    """Brackets, commas, dots, colons and semicolons too."""
    END = "end"
    FAULT = "fault"


class Token(NamedTuple):
    kind: Kind
    value: str
    start: int
    end: int
    fault: SqlFault | None = None

    @property
    def position(self) -> int:
        """Where it starts, as a client is told."""
        return self.start + 1
