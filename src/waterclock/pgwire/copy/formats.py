"""Which decoder reads a COPY FROM."""

from __future__ import annotations

from typing import assert_never

from waterclock.adapter.api import CopyFormat, CopyIn
from waterclock.pgwire.copy.binary import BinaryDecoder
from waterclock.pgwire.copy.csv import CsvDecoder
from waterclock.pgwire.copy.decoding import CHUNK_BYTES, CopyDecoder
from waterclock.pgwire.copy.text import TextDecoder
from waterclock.pgwire.values.zones import Zone


def decoder_of(target: CopyIn, zone: Zone, chunk_bytes: int = CHUNK_BYTES) -> CopyDecoder:
    """A decoder for the data that the statement wants; it works on so many bytes at once."""
    match target.options.format:
        case CopyFormat.TEXT:
            return TextDecoder(target, zone, chunk_bytes)
        case CopyFormat.CSV:
            return CsvDecoder(target, zone, chunk_bytes)
        case CopyFormat.BINARY:
            return BinaryDecoder(target, chunk_bytes)
        case _:
            assert_never(target.options.format)
