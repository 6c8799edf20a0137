"""Batches that many get are encoded once, and each as its own options say."""

from __future__ import annotations

import pyarrow as pa

from waterclock.adapter.api import ColumnDescription, CopyFormat, CopyOptions, text_options
from waterclock.model.pg_types import INT4, TEXT
from waterclock.pgwire.copy.encoding import CopyEncoder
from waterclock.pgwire.shared import SharedEncodings
from waterclock.pgwire.values.zones import zone_named

COLUMNS = (ColumnDescription("a", INT4), ColumnDescription("b", TEXT))


def batch(*rows: tuple[int, str | None]) -> pa.RecordBatch:
    first, second = zip(*rows, strict=True)
    return pa.record_batch([pa.array(first, pa.int32()), pa.array(second)], names=["a", "b"])


def encoder(options: CopyOptions) -> CopyEncoder:
    return CopyEncoder(COLUMNS, options, zone_named("UTC"))


def data(pieces: object) -> bytes:
    return b"".join(bytes(piece) for _, piece in pieces)  # type: ignore[attr-defined]


def test_the_same_batch_is_encoded_once() -> None:
    shared, rows = SharedEncodings(), batch((1, "x"), (2, None))
    first = shared.encode(encoder(text_options()), rows)
    assert shared.encode(encoder(text_options()), rows) is first
    assert data(first) == data(encoder(text_options()).encode(rows))


def test_other_options_and_other_batches_are_others() -> None:
    shared, rows = SharedEncodings(), batch((1, "x"), (2, None))
    for options in (text_options(), text_options(null="?"), CopyOptions(CopyFormat.BINARY)):
        one = encoder(options)
        assert data(shared.encode(one, rows)) == data(one.encode(rows))
    one = encoder(text_options())
    for number in range(200):  # more than are kept, and ids of those that are gone come again
        another = batch((number, "y"))
        assert data(shared.encode(one, another)) == data(one.encode(another))


def test_large_batches_are_not_kept() -> None:
    shared, one = SharedEncodings(), encoder(text_options())
    large = batch(*((n, "z") for n in range(5_000)))
    assert data(shared.encode(one, large)) == data(one.encode(large))
    assert not shared._kept
