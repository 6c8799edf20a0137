"""The lines of COPY data: which newline is in use, where a line ends, and when data ends.

The first newline decides for all: a line feed, a carriage return, or both. Another one later is an
error, because it would be silent corruption. A line of nothing but `\\.` ends the data.
"""

from __future__ import annotations

import re

from waterclock.pgwire.errors import BadCopyData
from waterclock.pgwire.values.errors import invalid_encoding

END_MARK = "\\."


class LineBuffer:
    """Collects bytes and gives out text up to the last newline that has come.

    `section` matches what may hold newlines that end nothing, such as a quoted part of a field, and
    `opening` the character that begins one.
    """

    def __init__(self, section: str, opening: str, *, csv: bool) -> None:
        pattern = f"{section}|{opening}|[\r\n]"
        self._breaks = re.compile(pattern.encode(), re.DOTALL)
        self._csv = csv
        self._parts: list[bytes] = []
        self._size = 0
        self.newline: str | None = None

    def add(self, data: bytes) -> int:
        """Take bytes; how many there are now."""
        self._parts.append(data)
        self._size += len(data)
        return self._size

    def take(self, *, last: bool) -> str:
        """The text up to and including the last newline, or all of it if no more will come."""
        data = b"".join(self._parts)
        if self.newline is None:
            self.newline = self._find_newline(data, last)
        end = len(data) if last else self._after_last_newline(data)
        rest = data[end:]
        self._parts, self._size = ([rest] if rest else []), len(rest)
        return _decoded(data[:end])

    def _after_last_newline(self, data: bytes) -> int:
        if self.newline is None:
            return 0
        place = data.rfind(self.newline.encode())
        return place + len(self.newline) if place >= 0 else 0

    def _find_newline(self, data: bytes, last: bool) -> str | None:
        for match in self._breaks.finditer(data):
            if len(match[0]) == 1 and match[0] not in (b"\r", b"\n"):
                break  # a section that has not come to its end
            if match[0] == b"\n":
                return "\n"
            if match[0] == b"\r":
                following = data[match.end() : match.end() + 1]
                if not following and not last:
                    break  # the line feed may be on its way
                return "\r\n" if following == b"\n" else "\r"
        return "\n" if last else None

    def check(self, line: str) -> None:
        """Refuse a line that has a stray newline character outside of sections."""
        for char, name, escape in (("\n", "newline", "\\n"), ("\r", "carriage return", "\\r")):
            if char not in line:
                continue
            if self._csv:
                raise BadCopyData(
                    f"unquoted {name} found in data",
                    hint=f"Use quoted CSV field to represent {name}.",
                )
            raise BadCopyData(
                f"literal {name} found in data", hint=f'Use "{escape}" to represent {name}.'
            )


def _decoded(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError as fault:
        raise invalid_encoding(data[fault.start : fault.start + 4]) from None
    if "\0" in text:
        raise invalid_encoding(b"\0")
    return text
