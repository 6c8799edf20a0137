"""Results wait on disk, and leave in pieces of limited size."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pyarrow as pa
import pytest

from waterclock.adapter.results import MEMORY_BYTES, ResultTooLarge, Spool, pieces, shaped
from waterclock.pgwire.values.rows import RowEncoder
from waterclock.pgwire.values.zones import UTC_ZONE


def wide(rows: int, width: int) -> pa.Table:
    return pa.table({"n": pa.array(range(rows)), "t": pa.array(["x" * width] * rows)})


def test_what_is_large_waits_in_a_file_that_nobody_sees(tmp_path: Path) -> None:
    table = wide(20_000, 1_000)
    before = pa.total_allocated_bytes()
    held = asyncio.run(Spool(tmp_path).held(table))
    assert held.equals(table)
    assert pa.total_allocated_bytes() - before < MEMORY_BYTES
    assert list(tmp_path.iterdir()) == []


def test_what_is_small_stays(tmp_path: Path) -> None:
    table = wide(10, 10)
    assert asyncio.run(Spool(tmp_path).held(table)) is table


def test_what_is_too_large_is_refused_with_the_name_of_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ResultTooLarge, match="too large") as refused:
        asyncio.run(Spool(tmp_path, 1_000).held(wide(100, 100)))
    assert refused.value.sqlstate == "54000"
    assert "max_result_bytes" in str(refused.value.hint)


def test_pieces_are_small_even_if_the_rows_are_not() -> None:
    table = wide(500, 100_000)
    found = list(pieces(table))
    assert pa.Table.from_batches(found).equals(table)
    assert max(piece.nbytes for piece in found) <= 1 << 20
    assert all(piece.num_rows for piece in found)


@pytest.mark.parametrize("rows", [0, 1, 3, 10_000])
def test_rows_without_columns_are_counted_and_sent(rows: int) -> None:
    found = shaped(pa.table({"c0": pa.repeat(1, rows)}), ())
    assert (found.num_rows, found.num_columns) == (rows, 0)
    encoder = RowEncoder((), (), UTC_ZONE)
    sent = [part for batch in pieces(found) for part in encoder.encode(batch)]
    assert sum(count for count, _ in sent) == rows
    assert b"".join(messages for _, messages in sent) == b"D\0\0\0\6\0\0" * rows
