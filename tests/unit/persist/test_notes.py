"""Notes: small facts of the layers above, as durable as everything else."""

from __future__ import annotations

from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.log import recover
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.notes import Notes
from waterclock.persist.store import Store


def test_notes_are_kept_by_prefix_and_survive_restarts_and_checkpoints() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    store = Store.open(blob, consensus, "a")
    views, others = Notes(store, "view/"), Notes(store, "other/")
    views.put("u1", b"first")
    views.put("u1", b"second")
    views.put("u2", b"gone")
    others.put("u1", b"apart")
    views.drop("u2")
    views.drop("never there")
    assert views.all() == {"u1": b"second"}
    assert recover(blob, consensus).notes == {"view/u1": b"second", "other/u1": b"apart"}
    checkpoint(store)
    views.put("u3", b"after")
    store.close()
    with Store.open(blob, consensus, "b") as again:
        assert Notes(again, "view/").all() == {"u1": b"second", "u3": b"after"}
        assert Notes(again, "other/").all() == {"u1": b"apart"}


def test_several_notes_change_in_one_entry_or_not_at_all() -> None:
    blob, consensus = MemoryBlob(), MemoryConsensus()
    with Store.open(blob, consensus, "a") as store:
        notes = Notes(store, "view/")
        notes.change({"u1": b"one", "u2": b"two"})
        entries = consensus.end()
        notes.change({"u2": b"changed", "u3": b"three"}, ["u1", "never there"])
        assert consensus.end() == entries + 1
        assert notes.all() == {"u2": b"changed", "u3": b"three"}
        assert store.read(lambda state: notes.noted(state, "u2")) == b"changed"
        assert store.read(lambda state: notes.noted(state, "u1")) is None
