"""Responses sent to the client as they come, and COPY data taken from it.

Rows are pulled only when the client has read what was sent: between slices the sender waits for the
connection to drain. An iterator that is not taken to its end, because of an error or because the
client went, is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

import pyarrow as pa

from waterclock.adapter.api import AtHand, Batches, CopyFormat, CopyIn, CopyOut, Format, Rows
from waterclock.pgwire import backend
from waterclock.pgwire.codec import decode
from waterclock.pgwire.copy.encoding import CopyEncoder
from waterclock.pgwire.copy.formats import decoder_of
from waterclock.pgwire.errors import BadMessage, CopyRefused, Disconnected
from waterclock.pgwire.messages import CopyData, CopyDone, CopyFail, Flush, Sync, Terminate
from waterclock.pgwire.shared import SharedEncodings
from waterclock.pgwire.values.few import FEW_ROWS
from waterclock.pgwire.values.rows import RowEncoder, formats_for
from waterclock.pgwire.values.zones import Zone
from waterclock.pgwire.wire import Wire

T = TypeVar("T")


@asynccontextmanager
async def closing(items: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """The iterator, closed at the end of the block if it can be."""
    try:
        yield items
    finally:
        close = getattr(items, "aclose", None)
        if close is not None:
            await close()


class Encoders:
    """Makes encoders of rows, and keeps the last: who asks again mostly asks for the same."""

    def __init__(self) -> None:
        self._last: RowEncoder | None = None

    def encoder(self, rows: Rows, zone: Zone) -> RowEncoder:
        """An encoder for the rows as they were asked for."""
        formats = formats_for(rows.columns, rows.formats)
        last = self._last
        if last is None or not last.is_for(rows.columns, formats, zone):
            last = self._last = RowEncoder(rows.columns, formats, zone)
        return last


async def send_rows(
    wire: Wire, rows: Rows, encoder: RowEncoder, *, describe: bool, limit: int
) -> None:
    """Send rows, and either that they are all or, after `limit` of them, that there may be more."""
    if describe:
        wire.send(backend.row_description(rows.columns, encoder.formats))
    if isinstance(rows.batches, AtHand):
        count = await _send_at_once(wire, encoder, rows.batches)
    else:
        count = await _send_batches(wire, encoder.encode, rows.batches)
    assert not limit or count <= limit, "more rows than were asked for"
    if limit and count == limit:
        wire.send(backend.PORTAL_SUSPENDED)
    else:
        wire.send(backend.command_complete(f"{rows.tag} {count}" if rows.counted else rows.tag))


async def send_copy(wire: Wire, copy: CopyOut, zone: Zone, shared: SharedEncodings) -> None:
    """Send rows as COPY data."""
    encoder = CopyEncoder(copy.columns, copy.options, zone)
    wire.send(backend.copy_out_response(encoder.format, len(copy.columns)))
    wire.send(encoder.start())
    encode = partial(shared.encode, encoder)
    count = await _send_batches(wire, encode, copy.batches, encoder.first)
    wire.send(encoder.end() if count else encoder.first(memoryview(encoder.end())))
    wire.send(backend.COPY_DONE)
    wire.send(backend.command_complete(f"COPY {count}"))


async def _send_at_once(wire: Wire, encoder: RowEncoder, batches: AtHand) -> int:
    """Send rows that are there; few of them without a pause."""
    count = 0
    for batch in batches.taken():
        for rows, messages in encoder.encode(batch):
            wire.send(messages)
            count += rows
            if count > FEW_ROWS:
                await wire.drain()
    return count


async def _send_batches(
    wire: Wire,
    encode: Callable[[pa.RecordBatch], Iterable[tuple[int, memoryview]]],
    batches: Batches,
    first: Callable[[memoryview], bytes] | None = None,
) -> int:
    """Send the rows; `first` changes the messages that the first of them comes with."""
    count = 0
    async with closing(batches) as open_batches:
        async for batch in open_batches:
            for rows, messages in encode(batch):
                wire.send(first(messages) if first is not None and not count else messages)
                count += rows
                await wire.drain()
    return count


async def receive_copy(wire: Wire, copy: CopyIn, zone: Zone) -> None:
    """Ask for COPY data and hand the rows on, until the client has no more."""
    binary = copy.options.format is CopyFormat.BINARY
    wire.send(backend.copy_in_response(Format(int(binary)), len(copy.columns)))
    try:
        await _receive_rows(wire, copy, zone)
    except BaseException:
        await copy.sink.abort()
        raise
    wire.send(backend.command_complete(await copy.sink.finish()))


async def _receive_rows(wire: Wire, copy: CopyIn, zone: Zone) -> None:
    decoder = decoder_of(copy, zone)
    while True:
        frame = await copy.sink.stoppable(wire.receive)
        match decode(frame):
            case CopyData(data):
                for batch in decoder.feed(data):
                    await copy.sink.append(batch)
            case CopyDone():
                for batch in decoder.finish():
                    await copy.sink.append(batch)
                return
            case CopyFail(reason):
                raise CopyRefused(f"COPY from stdin failed: {reason}")
            case Flush() | Sync():
                pass  # clients of the extended protocol send them before they know
            case Terminate():
                raise Disconnected
            case _:
                raise BadMessage(
                    f"unexpected message type 0x{frame.kind:02X} during COPY from stdin"
                )
