"""Large contents that are left where they are: what is listed, and how long it stays."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist import inline
from waterclock.persist.blob.files import FileBlob
from waterclock.persist.portions import portion
from waterclock.persist.rows import DIFF, TIME, updates
from waterclock.storage.api import Description, ReadCapability, Write
from waterclock.storage.contents import blob_for_others, is_complete, try_contents
from waterclock.storage.controller import Storage
from waterclock.testing.persist_world import open_store

NUMBERS = Schema((Column("n", Int(64)),))
IT = GlobalId.user(1)


@pytest.fixture
def filled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Storage, ReadCapability]]:
    """Ten rows in an object, and one in the log that takes one of them back, at times 1 and 3."""
    storage = Storage(open_store(FileBlob(tmp_path)))
    read, write = storage.create(IT, Description(NUMBERS))
    with monkeypatch.context() as patch:
        patch.setattr(inline, "INLINE_ROWS", 0)
        rows = updates(NUMBERS, [((n,), 1, 1) for n in range(10)])
        [write] = storage.append(Write(write, rows, EPOCH_MILLIS.frontier(2)))
    gone = updates(NUMBERS, [((4,), 3, -1)])
    storage.append(Write(write, gone, EPOCH_MILLIS.frontier(5)))
    yield storage, read
    storage.close()


def test_objects_are_listed_and_the_rest_is_at_hand(
    filled: tuple[Storage, ReadCapability],
) -> None:
    storage, read = filled
    found = try_contents(storage, read, 4, at_least=5)
    assert found is not None
    assert found.rows == 11
    assert found.here.to_pylist() == [{"n": 4, TIME: 4, DIFF: -1}]
    blob = blob_for_others(storage)
    assert blob is not None
    listed = [row for batch in portion(blob, found.listing, 0, 1) for row in batch.to_pylist()]
    assert listed == [{"n": n, TIME: 4, DIFF: 1} for n in range(10)]
    found.close()
    earlier = try_contents(storage, read, 2, at_least=5)
    assert earlier is not None
    assert earlier.here.num_rows == 0, "what is later is not there"
    earlier.close()


def test_objects_stay_until_it_is_closed(filled: tuple[Storage, ReadCapability]) -> None:
    storage, read = filled
    store = storage._store
    found = try_contents(storage, read, 4, at_least=1)
    assert found is not None
    [key] = [piece.key for piece in found.listing.pieces]
    with store._lock:
        assert store._live_pins()[key] == 1
    found.close()
    found.close()
    with store._lock:
        assert not store._live_pins()


def test_few_rows_are_not_left_there(filled: tuple[Storage, ReadCapability]) -> None:
    storage, read = filled
    assert try_contents(storage, read, 4, at_least=11) is None
    with storage._store._lock:
        assert not storage._store._live_pins()


def test_what_is_complete(filled: tuple[Storage, ReadCapability]) -> None:
    storage, read = filled
    assert is_complete(storage, read, 4)
    assert not is_complete(storage, read, 5)


def test_what_only_this_process_has_is_not_listed() -> None:
    storage = Storage(open_store())
    read, _ = storage.create(IT, Description(NUMBERS))
    assert blob_for_others(storage) is None
    assert try_contents(storage, read, 0, at_least=0) is None
    storage.close()
