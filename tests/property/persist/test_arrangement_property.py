"""An arrangement answers like a plain list of updates, whatever has happened to its files."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.persist.arrangement import layout as layout_module
from waterclock.persist.arrangement import merging
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover, partition_numbers, partitions
from waterclock.persist.arrangement.layout import HASH, Layout
from waterclock.persist.arrangement.trace import Trace
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.hashing import hash_rows
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.examples import examples

pytestmark = pytest.mark.slow

Row = tuple[Any, ...]

INTS = st.none() | st.integers(-2, 2)
TEXTS = st.none() | st.sampled_from(["", "a", "b", "a longer text than eight bytes"])
DECIMALS = st.none() | st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-99999999.99")])
FLOATS = st.none() | st.sampled_from([0.0, -0.0, 1.5, float("nan")])
LISTS = st.none() | st.lists(INTS, max_size=2)
STRUCTS = st.none() | st.builds(lambda x, y: {"x": x, "y": y}, INTS, TEXTS)


@dataclass(frozen=True)
class Shape:
    """A layout and the values of its key and value columns."""

    layout: Layout
    columns: tuple[st.SearchStrategy[Any], ...]


SHAPES = {
    "int": Shape(Layout.of({"k": pa.int64()}, {}), (INTS,)),
    "text": Shape(Layout.of({"k": pa.string()}, {"v": pa.int32()}), (TEXTS, INTS)),
    "composite": Shape(
        Layout.of({"k": pa.int16(), "l": pa.string()}, {"v": pa.float64()}), (INTS, TEXTS, FLOATS)
    ),
    "decimal": Shape(
        Layout.of({"k": pa.decimal128(10, 2)}, {"v": pa.list_(pa.int64())}), (DECIMALS, LISTS)
    ),
    "no key": Shape(
        Layout.of({}, {"v": pa.struct({"x": pa.int64(), "y": pa.string()})}), (STRUCTS,)
    ),
    "accumulators": Shape(Layout.of({"k": pa.string()}, {}, (DIFF, "total")), (TEXTS,)),
}

DISTORTIONS = {
    "true hashes": lambda hashes: hashes,
    "few hashes": lambda hashes: hashes % np.uint64(3) * np.uint64(2**63 // 2),
    "one hash": lambda hashes: hashes * np.uint64(0),
}


@dataclass
class World:
    """An arrangement beside the list of all updates it was given."""

    folder: Path
    shape: Shape
    arrangement: Arrangement = field(init=False)
    updates: list[tuple[Row, int, tuple[int, ...]]] = field(default_factory=list)
    since: int = 0

    def __post_init__(self) -> None:
        self.arrangement = Arrangement.open(self.folder, self.shape.layout, 0)

    def step(self, data: st.DataObject, *, committed: bool) -> None:
        """One step with random updates, written by a random number of partitions."""
        lower = self.arrangement.upper
        upper = lower + data.draw(st.integers(1, 3), "span")
        made = data.draw(st.lists(self._update(lower, upper), max_size=12), "updates")
        count = data.draw(st.sampled_from([1, 1, 2, 3]), "partitions")
        layout = self.shape.layout
        table = layout.arranged(table_of(layout, made))
        owners = partition_numbers(table[HASH].to_numpy(), count)
        written = []
        for number, hashes in enumerate(partitions(count)):
            cover = Cover(lower, upper, hashes)
            part = table.filter(pa.array(owners == number))
            if write_run(self.folder, layout, cover, part, piece_rows=2) is not None:
                written.append(cover)
        if committed:
            self.arrangement.advance(upper, written)
            self.updates += made

    def merge(self, data: st.DataObject) -> None:
        """A merge that ends, or that is given up in the middle."""
        self.since = data.draw(st.integers(self.since, self.arrangement.upper), "since")
        pauses = data.draw(st.none() | st.integers(0, 4), "pauses")
        work = self.arrangement.merge(self.since, piece_rows=2)
        for number, _ in enumerate(work):
            if number == pauses:
                work.close()  # type: ignore[attr-defined]

    def restart(self, data: st.DataObject) -> None:
        """The end of the process, maybe with a step that was written and not committed."""
        if data.draw(st.booleans(), "in the middle of a step"):
            self.step(data, committed=False)
        upper = self.arrangement.upper
        self.arrangement = Arrangement.open(self.folder, self.shape.layout, upper)

    def check(self, data: st.DataObject) -> None:
        """Scans and lookups, of everything or one partition, here and as if in another process."""
        layout = self.shape.layout
        keys = [row[: len(layout.key)] for row, _, _ in self.updates]
        wanted = data.draw(st.lists(st.sampled_from(keys), max_size=5), "keys") if keys else []
        hashes = layout.hashes(key_table(layout, wanted))
        with self.arrangement.trace() as trace:
            assert consolidated(self._found(trace.scan()), self.since) == self._expected()
            elsewhere = Trace.open(self.folder, layout, trace.covers)
            parts = partitions(data.draw(st.integers(1, 3), "views"))
            views = [elsewhere.within(part.low, part.high) for part in parts]
            scanned = [batch for view in views for batch in view.scan()]
            assert consolidated(self._found(scanned), self.since) == self._expected()
            for source in ([trace], views):
                found = [b for view in source for b in view.lookup(hashes).to_batches()]
                # By hash: everything that was asked for, and nothing with another hash.
                assert {h for b in found for h in b[HASH].to_pylist()} <= set(hashes.tolist())
                answer = only(self._found(found), wanted, len(layout.key))
                expected = only(self.updates, wanted, len(layout.key))
                assert consolidated(answer, self.since) == consolidated(expected, self.since)
            trace.verify()

    def _update(self, lower: int, upper: int) -> st.SearchStrategy[Any]:
        diffs = st.tuples(*(st.integers(-2, 2) for _ in self.shape.layout.diffs))
        return st.tuples(st.tuples(*self.shape.columns), st.integers(lower, upper - 1), diffs)

    def _expected(self) -> Counter[Any]:
        return consolidated(self.updates, self.since)

    def _found(self, batches: Iterable[pa.RecordBatch]) -> list[tuple[Row, int, tuple[int, ...]]]:
        layout, found = self.shape.layout, []
        for batch in batches:
            hashes = batch[HASH].to_pylist()
            assert hashes == sorted(hashes)
            assert hashes == layout.hashes(batch).tolist()
            for row in batch.to_pylist():
                values = tuple(row[name] for name in layout.row_names)
                found.append((values, row[TIME], tuple(row[name] for name in layout.diffs)))
        return found


def table_of(layout: Layout, made: list[tuple[Row, int, tuple[int, ...]]]) -> pa.Table:
    schema = layout.schema.remove(0)
    rows = [(*row, time, *diffs) for row, time, diffs in made]
    columns = [pa.array([row[i] for row in rows], f.type) for i, f in enumerate(schema)]
    return pa.table(columns, schema=schema)


def key_table(layout: Layout, keys: list[Row]) -> pa.Table:
    # A column of its own, so that a table without key columns still has rows.
    columns = {f.name: pa.array([k[i] for k in keys], f.type) for i, f in enumerate(layout.key)}
    return pa.table({**columns, "number": pa.array(range(len(keys)), pa.int64())})


def consolidated(updates: list[tuple[Row, int, tuple[int, ...]]], since: int) -> Counter[Any]:
    """The sums of the diffs of each row at each time, rows being equal if they print equal."""
    sums: dict[tuple[str, int], tuple[int, ...]] = {}
    for row, time, diffs in updates:
        key = repr(row), max(time, since)
        before = sums.get(key, (0,) * len(diffs))
        sums[key] = tuple(a + b for a, b in zip(before, diffs, strict=True))
    return Counter((*key, total) for key, total in sums.items() if any(total))


def only(
    updates: list[tuple[Row, int, tuple[int, ...]]], keys: list[Row], width: int
) -> list[tuple[Row, int, tuple[int, ...]]]:
    """The updates of those keys: what a caller does with the answer of a lookup."""
    wanted = {repr(key) for key in keys}
    return [update for update in updates if repr(update[0][:width]) in wanted]


@pytest.mark.parametrize("distortion", DISTORTIONS)
@pytest.mark.parametrize("shape", SHAPES)
@examples(15)
@given(data=st.data())
def test_an_arrangement_is_the_list_of_its_updates(
    shape: str, distortion: str, data: st.DataObject
) -> None:
    def distorted(columns: list[pa.Array], length: int) -> Any:
        return DISTORTIONS[distortion](hash_rows(columns, length))

    actions = st.sampled_from(["step", "step", "step", "step", "merge", "merge", "restart"])
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(layout_module, "hash_rows", distorted)
        patch.setattr(merging, "FEWEST", 2)
        world = World(Path(folder), SHAPES[shape])
        for action in data.draw(st.lists(actions, max_size=14), "actions"):
            match action:
                case "step":
                    world.step(data, committed=True)
                case "merge":
                    world.merge(data)
                case "restart":
                    world.restart(data)
        world.check(data)
