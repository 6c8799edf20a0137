"""The inbox of a run: every task reads its own part of the changes, and all of them together."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from waterclock.compute.dataflow.tick import Arranged, Inbox, Tick
from waterclock.persist.rows import DIFF, TIME

SCHEMA = pa.schema([("c0", pa.int64()), (TIME, pa.int64()), (DIFF, pa.int64())])
TICK = Tick(3, 5, first=True, state={"a": Arranged(3, ("run",))})


def given(rows: int) -> pa.Table:
    """Updates whose columns have other names, and a narrower type."""
    columns = [pa.array(range(rows), pa.int32()), [4] * rows, [1] * rows]
    return pa.table(columns, names=["order_id", TIME, DIFF])


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 1, 5, 100])
def test_the_parts_are_the_changes(parts: int, rows: int, tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox")
    inbox.put(TICK, {"in_u1": given(rows), "in_u2": given(2)}, {}, parts)
    pieces = [inbox.delta("in_u1", SCHEMA, part) for part in range(parts)]
    assert {piece.schema for piece in pieces} == {SCHEMA}
    assert pa.concat_tables(pieces)["c0"].to_pylist() == list(range(rows))
    sizes = [piece.num_rows for piece in pieces]
    assert max(sizes) - min(sizes) <= 1


def test_what_did_not_change_is_empty(tmp_path: Path) -> None:
    inbox = Inbox(tmp_path / "inbox")
    inbox.put(TICK, {}, {}, 2)
    assert inbox.tick() == TICK
    assert inbox.delta("in_u1", SCHEMA, 1) == SCHEMA.empty_table()
    inbox.remove()
    assert not inbox.folder.exists()
