"""What a shard answers is what the model answers, whatever was merged and however it is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.model.updates import consolidate, read
from waterclock.persist import compaction, parts, spill
from waterclock.persist import inline as inline_form
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.maintenance import Maintenance
from waterclock.persist.parts import Selection
from waterclock.persist.rows import update_schema, updates
from waterclock.persist.store import Store
from waterclock.testing.examples import examples
from waterclock.testing.persist_world import (
    SAMPLES,
    append,
    batches_of,
    changes_of,
    contents,
    create,
    frozen,
    model_updates,
    move_since,
    open_store,
    rows_of,
    schema_of,
    snapshot_batches,
)

Triple = tuple[tuple[Any, ...], int, int]
NAMES = ("i32", "label", "f64", "path")
SCHEMA = schema_of(NAMES)


@dataclass(frozen=True)
class Asked:
    """A selection, and what it means for one row."""

    selection: Selection
    keeps: Callable[[tuple[Any, ...]], bool]

    def of(self, triples: Iterable[Triple]) -> list[Triple]:
        """The selected updates, frozen."""
        names = NAMES if self.selection.columns is None else self.selection.columns
        places = [NAMES.index(name) for name in names]
        return [
            (tuple(frozen(row[place]) for place in places), time, diff)
            for row, time, diff in triples
            if self.keeps(row)
        ]


CONDITIONS: list[tuple[pc.Expression | None, Callable[[tuple[Any, ...]], bool]]] = [
    (None, lambda _: True),
    (pc.field("i32") > 0, lambda row: row[0] is not None and row[0] > 0),
    (pc.field("i32") == 2**31 - 1, lambda row: row[0] == 2**31 - 1),
    (pc.field("label") == "a", lambda row: row[1] == "a"),
    (pc.field("label").is_null(), lambda row: row[1] is None),
    (pc.field("f64") < 1.0, lambda row: row[2] is not None and row[2] < 1.0),
    (~(pc.field("f64") <= 1.0), lambda row: row[2] is not None and not row[2] <= 1.0),
    (
        (pc.field("i32") < 0) | pc.field("f64").is_null(),
        lambda row: row[2] is None or (row[0] is not None and row[0] < 0),
    ),
    (pc.field("path").is_valid(), lambda row: row[3] is not None),
]
COLUMNS = [None, (), ("label",), ("path", "i32"), ("f64",), NAMES]
ASKED = st.builds(
    lambda columns, condition: Asked(Selection(columns, condition[0]), condition[1]),
    st.sampled_from(COLUMNS),
    st.sampled_from(CONDITIONS),
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[Triple]]:
    """For each of several appends of five times, its updates."""
    pool = draw(st.lists(rows_of(NAMES), min_size=1, max_size=6))
    found = []
    for number in range(draw(st.integers(1, 6))):
        times = st.integers(5 * number, 5 * number + 4)
        diffs = st.sampled_from([1, 1, 1, 2, -1])
        triple = st.tuples(st.sampled_from(pool), times, diffs)
        found.append(draw(st.lists(triple, max_size=8)))
    return found


def small_parts(patch: pytest.MonkeyPatch, inline: int) -> None:
    """So few rows in everything that every way through the code is taken."""
    patch.setattr(inline_form, "INLINE_ROWS", inline)
    patch.setattr(parts, "PART_ROWS", 3)
    patch.setattr(spill, "IN_MEMORY_ROWS", 5)
    patch.setattr(compaction, "FEWEST", 2)
    patch.setattr(compaction, "TINY_ROWS", 1)
    patch.setitem(parts.PARQUET_WRITE, "row_group_size", 2)


def write(store: Store, number: int, triples: list[Triple]) -> None:
    append(store, "s", 5 * (number + 1), updates(SCHEMA, triples))


def check_everything(
    store: Store, triples: list[Triple], since: int, upper: int, asked: Asked
) -> None:
    selected = asked.of(triples)
    for as_of in range(since, upper):
        expected = read(model_updates(selected), EPOCH_MILLIS.time(as_of)).counts
        assert contents(store, "s", as_of, asked.selection) == dict(expected)
    for start in {since + 1, (since + upper) // 2 + 1, upper - 1} - set(range(since + 1)):
        for end in (upper, None, (start + upper) // 2):
            wanted = [t for t in selected if start <= t[1] and (end is None or t[1] < end)]
            found = changes_of(store, "s", start, end, asked.selection)
            assert len(found) == len(set(found))
            assert set(model_updates(found)) == consolidate(model_updates(wanted))


@pytest.mark.semantics(16, 23, 28, 30, 33)
@examples(15)
@given(histories(), ASKED, st.sampled_from([0, 3, 256]), st.data())
def test_a_shard_reads_as_the_model(
    history: list[list[Triple]], asked: Asked, inline: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch, open_store() as store:
        small_parts(patch, inline)
        create(store, "s", SCHEMA)
        maintenance = Maintenance(store)
        since, known = 0, []
        for number, triples in enumerate(history):
            write(store, number, triples)
            known += triples
            upper = 5 * (number + 1)
            if data.draw(st.booleans(), "compact"):
                since = data.draw(st.integers(since, upper - 1), "since")
                move_since(store, "s", since)
                before = contents(store, "s", since, asked.selection)
                maintenance.run()
                assert contents(store, "s", since, asked.selection) == before
        check_everything(store, known, since, upper, asked)


@pytest.mark.semantics(28, 32)
@pytest.mark.slow
@examples(8)
@given(histories(), st.data())
def test_merging_step_by_step_never_changes_an_answer(
    history: list[list[Triple]], data: st.DataObject
) -> None:
    everything = Asked(Selection(), lambda _: True)
    with pytest.MonkeyPatch.context() as patch, open_store() as store:
        small_parts(patch, 0)
        patch.setattr(compaction, "STEP_ROWS", 3)
        create(store, "s", SCHEMA)
        known: list[Triple] = []
        maintenance = Maintenance(store)
        since = 0
        for number, triples in enumerate(history):
            write(store, number, triples)
            known += triples
            since = data.draw(st.integers(since, 5 * number + 4), "since")
            move_since(store, "s", since)
            for _ in range(data.draw(st.integers(0, 4), "steps")):
                maintenance.step()
                for as_of in (since, 5 * number + 4):
                    expected = read(model_updates(everything.of(known)), EPOCH_MILLIS.time(as_of))
                    assert contents(store, "s", as_of) == dict(expected.counts)
        rows = sum(batch.rows for batch in batches_of(store, "s"))
        maintenance.run()
        assert sum(batch.rows for batch in batches_of(store, "s")) <= rows <= len(known)
        check_everything(store, known, since, 5 * len(history), everything)


class CountingBlob(MemoryBlob):
    """Counts the bytes that readers take."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes_read = 0

    def open(self, key: str) -> pa.NativeFile:
        return pa.PythonFile(_Counted(super().open(key), self), mode="r")


class _Counted:
    """As much of a file as Arrow needs to read one."""

    def __init__(self, inner: pa.NativeFile, blob: CountingBlob) -> None:
        self._inner, self._blob = inner, blob

    def read(self, size: int = -1) -> bytes:
        data: bytes = self._inner.read(size)
        self._blob.bytes_read += len(data)
        return data

    def seek(self, place: int, whence: int = 0) -> int:
        moved: int = self._inner.seek(place, whence)
        return moved

    def tell(self) -> int:
        place: int = self._inner.tell()
        return place

    def close(self) -> None:
        self._inner.close()

    @property
    def closed(self) -> bool:
        return bool(self._inner.closed)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False


def test_statistics_keep_most_of_a_shard_from_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parts.PARQUET_WRITE, "row_group_size", 2000)
    schema = Schema((Column("n", Int(64)), Column("noise", Int(64))))
    count = 100_000
    noise = np.random.default_rng(1).integers(0, 2**62, count)
    table = pa.table(
        [np.arange(count), noise, np.zeros(count, np.int64), np.ones(count, np.int64)],
        schema=update_schema(schema),
    )
    blob = CountingBlob()
    with open_store(blob) as store:
        create(store, "s", schema)
        append(store, "s", 1, table)

        def cost(selection: Selection) -> tuple[int, int]:
            blob.bytes_read = 0
            found = sum(b.num_rows for b in snapshot_batches(store, "s", 0, selection))
            return found, blob.bytes_read

        rows, everything = cost(Selection())
        assert rows == count
        few, little = cost(Selection(None, pc.field("n").isin([70_000, 70_001])))
        one, less = cost(Selection(("noise",), pc.field("n") == 70_000))
        none, least = cost(Selection(None, pc.field("n") > count))
        assert (few, one, none) == (2, 1, 0)
        assert little < everything / 5
        assert less < everything / 5
        assert least < everything / 5


def test_the_samples_cover_what_conditions_ask_for() -> None:
    rows = [tuple(SAMPLES[name][1][i % len(SAMPLES[name][1])] for name in NAMES) for i in range(8)]
    rows.append((None,) * len(NAMES))
    for _, keeps in CONDITIONS:
        assert any(keeps(row) for row in rows)
