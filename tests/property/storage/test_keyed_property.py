"""Rows by key on disk are a dictionary, whatever is committed, lost, damaged or opened again."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from waterclock.persist.arrangement.writing import ascending_hashes
from waterclock.storage.envelopes.keyed import HashedRows, KeyedRows
from waterclock.storage.sources.api import StatePlace
from waterclock.testing.examples import examples
from waterclock.testing.keyed_model import KeyedModel, Row

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("v", pa.string())])
KEYS = st.tuples(st.sampled_from(["a", "b", "c", None]), st.sampled_from([1, 2, None]))
ROWS = st.dictionaries(KEYS, st.tuples(st.sampled_from(["x", "y", None]), st.booleans()))
EVENTS = st.one_of(
    st.tuples(st.just("step"), ROWS, st.sampled_from(["committed", "unknown", "refused"])),
    st.tuples(st.just("settle")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("damage"), st.integers(0, 50), st.integers(0, 10_000)),
)


def given_rows(held: KeyedRows, rows: list[Row]) -> tuple[HashedRows, np.ndarray]:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=SCHEMA)
    hashes = held.hashes(table)
    order = ascending_hashes(hashes)
    return HashedRows(table.take(pa.array(order)), hashes[order]), order


def step(held: KeyedRows, model: KeyedModel, rows: dict[Any, Any]) -> list[tuple[Row, bool]]:
    """Look up and write what a binding would; what is to be committed with it."""
    if not rows:
        return []
    wanted = [((*key, value), is_there) for key, (value, is_there) in rows.items()]
    hashed, order = given_rows(held, [row for row, _ in wanted])
    found = held.find(hashed).to_pydict()
    assert sorted(zip(*found.values(), strict=True), key=repr) == sorted(model.find(rows), key=repr)
    held.write(hashed, np.array([is_there for _, is_there in wanted])[order])
    return wanted


def damage(folder: Path, which: int, at: int) -> None:
    """Change a byte of a file, as a disk may do while no process looks."""
    files = sorted(folder.rglob("*.arrow"))
    if files:
        path = files[which % len(files)]
        data = bytearray(path.read_bytes())
        data[at % len(data)] ^= 0x55
        path.unlink()
        path.write_bytes(data)


@examples(60)
@given(st.lists(EVENTS, max_size=30))
def test_rows_on_disk_are_a_dictionary(events: list[tuple[Any, ...]]) -> None:
    model = KeyedModel(SCHEMA, 2)
    record: bytes | None = None
    with tempfile.TemporaryDirectory(prefix="waterclock-test-") as name:
        folder = Path(name)
        held = KeyedRows(SCHEMA, 2)
        held.open(StatePlace(folder), model.contents)
        for event in [*events, ("restart",), ("step", {("a", 1): ("x", True)}, "committed")]:
            match event:
                case ("step", rows, outcome):
                    wanted = step(held, model, rows)
                    if outcome != "refused":
                        model.write(wanted)
                        record = held.record
                    if outcome != "committed":
                        held.open(StatePlace(folder, record), model.contents)
                case ("settle",):
                    record = held.record
                    held.settle()
                case ("damage", which, at):
                    held.close()
                    damage(folder, which, at)
                    held = KeyedRows(SCHEMA, 2)
                    held.open(StatePlace(folder, record), model.contents)
                case ("restart",):
                    held.close()
                    held = KeyedRows(SCHEMA, 2)
                    held.open(StatePlace(folder, record), model.contents)
        if model.rows:
            step(held, model, dict.fromkeys(model.rows, ("z", True)))
