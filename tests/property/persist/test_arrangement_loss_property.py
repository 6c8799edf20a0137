"""State that has lost a file, or part of one, is never taken for state in which nothing happened.

An arrangement goes through steps that write nothing, one run, or a run for each partition, through
merges, and through steps that are never committed. Opened with the extent of its last commit it is
as it was. With any one of its files removed, cut, replaced by another or changed at its end it is
refused, or as it was nevertheless.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover, partition_numbers, partitions
from waterclock.persist.arrangement.layout import HASH, Layout
from waterclock.persist.arrangement.run import Run
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.errors import Damaged
from waterclock.persist.rows import DIFF, TIME
from waterclock.testing.examples import examples

LAYOUT = Layout.of({"k": pa.int64()}, {"v": pa.string()})
START = 5


def rows(data: st.DataObject, lower: int, upper: int) -> pa.Table:
    keys = data.draw(st.lists(st.integers(0, 9), max_size=8), "keys")
    times = [data.draw(st.integers(lower, upper - 1), "time") for _ in keys]
    values = pa.array([f"v{key}" for key in keys], pa.string())
    ones = pa.array([1] * len(keys), pa.int64())
    table = pa.table(
        [pa.array(keys, pa.int64()), values, pa.array(times, pa.int64()), ones],
        names=["k", "v", TIME, DIFF],
    )
    return LAYOUT.arranged(table.cast(LAYOUT.schema.remove(0)))


def step(data: st.DataObject, arrangement: Arrangement, *, committed: bool = True) -> None:
    """A step as a dataflow does it: in one task, or in several that all write."""
    lower = arrangement.upper
    upper = lower + data.draw(st.integers(1, 3), "span")
    table = rows(data, lower, upper)
    parts = data.draw(st.sampled_from([1, 1, 2, 3]), "parts")
    owners = partition_numbers(table[HASH].to_numpy(), parts)
    written = []
    for number, hashes in enumerate(partitions(parts)):
        cover = Cover(arrangement.extent.tip, upper, hashes)
        part = table.filter(pa.array(owners == number))
        if write_run(arrangement.folder, LAYOUT, cover, part, always=parts > 1) is not None:
            written.append(cover)
    if committed:
        arrangement.advance(upper, written)


def contents(arrangement: Arrangement) -> list[tuple[object, ...]]:
    with arrangement.trace() as trace:
        found = pa.Table.from_batches(list(trace.scan()), LAYOUT.schema).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def removed(_: st.DataObject, file: Path, __: list[Path]) -> None:
    file.unlink()


def cut(data: st.DataObject, file: Path, _: list[Path]) -> None:
    whole = file.read_bytes()
    file.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 1), "size")])


def replaced(data: st.DataObject, file: Path, files: list[Path]) -> None:
    shutil.copy(data.draw(st.sampled_from(files), "by"), file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


def changed(data: st.DataObject, file: Path, _: list[Path]) -> None:
    cover = Cover.try_parse(file.name)
    assert cover is not None
    whole = bytearray(file.read_bytes())
    begin = Run.open(file.parent, LAYOUT, cover).size
    whole[data.draw(st.integers(begin, len(whole) - 1), "place")] ^= 1 << data.draw(
        st.integers(0, 7), "bit"
    )
    file.write_bytes(bytes(whole))


LOSSES: dict[str, Callable[[st.DataObject, Path, list[Path]], None]] = {
    "removed": removed,
    "cut": cut,
    "replaced": replaced,
    "changed": changed,
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@examples(60)
@given(data=st.data())
def test_a_loss_is_noticed(loss: str, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        arrangement = Arrangement.new(Path(name) / "state", LAYOUT, START)
        for _ in range(data.draw(st.integers(1, 8), "steps")):
            step(data, arrangement)
            if arrangement.is_mergeable and data.draw(st.booleans(), "merge"):
                for _ in arrangement.merge(arrangement.upper):
                    pass
        if data.draw(st.booleans(), "in the middle of a step"):
            step(data, arrangement, committed=False)
        before, extent, upper = contents(arrangement), arrangement.extent, arrangement.upper
        with arrangement.trace() as trace:
            files = [arrangement.folder / cover.name for cover in trace.covers]
        opened = Arrangement.open(arrangement.folder, LAYOUT, upper, extent)
        assert contents(opened) == before
        if not files:
            return
        LOSSES[loss](data, data.draw(st.sampled_from(files), "file"), files)
        try:
            found = contents(Arrangement.open(arrangement.folder, LAYOUT, upper, extent))
        except Damaged:
            return
        assert found == before
        assert loss not in ("removed", "cut"), "the file is not needed"


def test_state_of_another_time_is_refused(tmp_path: Path) -> None:
    """An older copy of the folder, and a newer one whose runs were merged past the commit."""
    arrangement = Arrangement.new(tmp_path / "now", LAYOUT, 0)
    noted = []
    for upper in range(1, 6):
        table = LAYOUT.arranged(
            pa.table({"k": [upper], "v": ["x"], TIME: [upper - 1], DIFF: [1]}).cast(
                LAYOUT.schema.remove(0)
            )
        )
        write_run(arrangement.folder, LAYOUT, Cover(upper - 1, upper), table)
        arrangement.advance(upper, [Cover(upper - 1, upper)])
        noted.append((upper, arrangement.extent))
        if upper == 2:
            shutil.copytree(arrangement.folder, tmp_path / "old")
    for _ in arrangement.merge(0):
        pass
    with pytest.raises(Damaged, match="missing"):
        Arrangement.open(tmp_path / "old", LAYOUT, *noted[-1])
    with pytest.raises(Damaged, match="missing"):
        Arrangement.open(arrangement.folder, LAYOUT, *noted[1])
    opened = Arrangement.open(arrangement.folder, LAYOUT, *noted[-1])
    assert contents(opened) == contents(arrangement)
