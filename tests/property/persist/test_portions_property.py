"""What several readers of portions find together is the snapshot, however it is divided."""

from __future__ import annotations

import pickle
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_reading_property import SCHEMA, Triple, histories, small_parts, write

from waterclock.persist.blob.files import FileBlob
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.errors import Damaged
from waterclock.persist.maintenance import Maintenance
from waterclock.persist.portions import Listing, can_travel, listing, portion, unlisted
from waterclock.persist.rows import update_schema, updates
from waterclock.persist.store import Store
from waterclock.testing.examples import examples
from waterclock.testing.persist_world import (
    append,
    batches_of,
    contents,
    create,
    frozen_triples,
    move_since,
    open_store,
)


def found(store: Store, as_of: int, count: int) -> tuple[dict[Any, int], int]:
    """The contents as other processes find them, and how many updates were read for that."""
    batches = batches_of(store, "s")
    blob = pickle.loads(pickle.dumps(store.blob))
    listed = msgspec.msgpack.decode(msgspec.msgpack.encode(listing(batches, as_of)), type=Listing)
    tables = [unlisted(batches, update_schema(SCHEMA), as_of)]
    tables += [each for n in range(count) for each in portion(blob, listed, n, count)]
    counts: Counter[Any] = Counter()
    for table in tables:
        for row, time, diff in frozen_triples(table):
            assert time == as_of
            counts[row] += diff
    read = sum(table.num_rows for table in tables)
    return {row: diff for row, diff in counts.items() if diff}, read


@pytest.mark.semantics(28)
@examples(15)
@given(histories(), st.sampled_from([0, 3, 256]), st.integers(1, 5), st.data())
def test_portions_are_the_snapshot(
    history: list[list[Triple]], inline: int, count: int, data: st.DataObject
) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        pytest.MonkeyPatch.context() as patch,
        open_store(FileBlob(Path(folder))) as store,
    ):
        small_parts(patch, inline)
        create(store, "s", SCHEMA)
        since = 0
        for number, triples in enumerate(history):
            write(store, number, triples)
            if data.draw(st.booleans(), "compact"):
                since = data.draw(st.integers(since, 5 * number + 4), "since")
                move_since(store, "s", since)
                Maintenance(store).run()
        for as_of in range(since, 5 * len(history)):
            assert found(store, as_of, count)[0] == contents(store, "s", as_of)


def test_each_update_is_in_one_portion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(FileBlob(tmp_path)) as store:
        small_parts(monkeypatch, 0)
        create(store, "s", SCHEMA)
        row = (1, "a", 1.0, None)
        append(store, "s", 5, updates(SCHEMA, [(row, 0, 1)] * 17))
        for count in (1, 2, 7, 40):
            assert found(store, 4, count)[1] == 17


def test_only_objects_that_others_can_reach_are_read_elsewhere(tmp_path: Path) -> None:
    assert can_travel(FileBlob(tmp_path))
    assert not can_travel(MemoryBlob())


def test_a_damaged_object_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_store(FileBlob(tmp_path)) as store:
        small_parts(monkeypatch, 0)
        create(store, "s", SCHEMA)
        append(store, "s", 5, updates(SCHEMA, [((1, "a", 1.0, None), 0, 1)]))
        [file] = tmp_path.rglob("*.parquet")
        file.write_bytes(file.read_bytes()[:-10])
        with pytest.raises(Damaged, match="can not be read"):
            found(store, 4, 1)
