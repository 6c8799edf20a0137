"""What a writer was about to do and what it was told, in a file that outlives it.

One file belongs to one thread, which writes before and after each command. A record is handed to
the kernel by one call, so killing the process loses none that was written; only the last one of a
file can be cut short, and is then as if it had not been written.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from waterclock.persist.records import Bound
from waterclock.testing.reference import Command, Given, Row

_LENGTH = 4


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The server is open."""


class Asked(msgspec.Struct, frozen=True, tag=True):
    """The command is about to be given."""

    command: Command


class Answered(msgspec.Struct, frozen=True, tag=True):
    """The command before this record was acknowledged, and gave these capabilities."""

    given: Given = ()


class Seen(msgspec.Struct, frozen=True, tag=True):
    """What a reader was told: everything from `as_of` up to `upper`."""

    shard: str
    as_of: int
    upper: Bound
    counts: tuple[tuple[Row, int, int], ...]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """The command before this record raised an error, which none of them should."""

    error: str


Entry = Opened | Asked | Answered | Seen | Refused

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)


class Journal:
    """The writing end."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, entry: Entry) -> None:
        data = _encoder.encode(entry)
        os.write(self._file, len(data).to_bytes(_LENGTH, "big") + data)


def read_journal(path: Path) -> Iterator[Entry]:
    """All records that are whole."""
    data = path.read_bytes()
    start = 0
    while start + _LENGTH <= len(data):
        size = int.from_bytes(data[start : start + _LENGTH], "big")
        start += _LENGTH
        if start + size > len(data):
            return
        yield _decoder.decode(data[start : start + size])
        start += size
