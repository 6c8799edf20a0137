"""Holds of reads in memory over durable ones."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from waterclock.adapter.errors import CollectionGone
from waterclock.adapter.holds import Holds
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.storage.api import Description
from waterclock.storage.controller import Storage

ONE, TWO = GlobalId.user(1), GlobalId.user(2)


@pytest.fixture
def storage() -> Iterator[Storage]:
    opened = Storage.open(MemoryBlob(), MemoryConsensus(), background=False)
    yield opened
    opened.close()


@pytest.mark.semantics(102)
def test_compaction_goes_as_far_as_reads_allow(storage: Storage) -> None:
    holds = Holds(storage)
    for collection in (ONE, TWO):
        reader, _ = storage.create(collection, Description(Schema((Column("n", Int(64)),))))
        holds.adopt(reader)

    def since(collection: GlobalId) -> int | None:
        return holds.capability(collection).frontier.only()

    hold = holds.take([ONE])
    holds.allow_compaction(10)
    assert (since(ONE), since(TWO)) == (0, 10)
    hold.move(7)
    holds.allow_compaction(20)
    assert (since(ONE), since(TWO)) == (7, 20)
    hold.close()
    hold.close()
    holds.allow_compaction(15)
    assert (since(ONE), since(TWO)) == (15, 20)
    late = holds.take([ONE, TWO])
    assert late.times == {ONE: 15, TWO: 20}
    assert late.join([ONE], 15)
    assert not late.join([ONE, TWO], 15), "one of them is held at a later time only"
    reader, _ = storage.acquire_capabilities(ONE, write=False)
    assert reader.frontier == EPOCH_MILLIS.frontier(15)


def test_what_was_dropped_can_not_be_held(storage: Storage) -> None:
    holds = Holds(storage)
    reader, _ = storage.create(ONE, Description(Schema(())))
    holds.adopt(reader)
    holds.forget(ONE)
    with pytest.raises(CollectionGone):
        holds.take([ONE])
