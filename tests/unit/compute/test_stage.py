"""A stage without Spark: operators that do the same are run once, and each keeps its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest

from waterclock.compute.dataflow.operators import ReduceOperator
from waterclock.compute.dataflow.sending import Sending
from waterclock.compute.dataflow.shape import Shape
from waterclock.compute.dataflow.stage import REPORTS, WRITTEN, Placed, Stage
from waterclock.compute.dataflow.stream import unpacked
from waterclock.compute.dataflow.tick import Arranged, Inbox, Tick
from waterclock.compute.kernels.aggregates import Aggregate, Function
from waterclock.compute.kernels.reduce import ReduceSpec
from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.rows import DIFF, TIME

STAMP = [(TIME, pa.int64()), (DIFF, pa.int64())]
INPUT = pa.schema([("c0", pa.int64()), ("c1", pa.int64()), *STAMP])
TOTALS = pa.schema([("c0", pa.int64()), ("c1", pa.int64()), *STAMP])
SUM = Aggregate("c1", Function.SUM, "c1", pa.int64())
MOST = Aggregate("c1", Function.COUNT, "c1", pa.int64())
NAMES = ("a_op0_0", "b_op0_0", "c_op0_0")


def placed(aggregate: Aggregate, name: str) -> Placed:
    operator = ReduceOperator(ReduceSpec(("c0",), (aggregate,)), INPUT)
    return Placed(operator, ((("in", True),),), name, TOTALS, (f"{name}_0",), (f"{name}_0",))


SHARED = Placed(
    placed(SUM, "a_op0").operator,
    ((("in", True),),),
    "a_op0",
    TOTALS,
    NAMES[:1],
    NAMES[:1],
    twins=(NAMES[1:2], NAMES[2:]),
)


class Told(Inbox):
    """An inbox that has a tick and nothing else."""

    def __init__(self, folder: Path, tick: Tick) -> None:
        super().__init__(folder)
        self._tick = tick

    def tick(self) -> Tick:
        return self._tick


@pytest.fixture
def state(tmp_path: Path) -> dict[str, Arrangement]:
    [layout] = SHARED.operator.layouts
    return {name: Arrangement.new(tmp_path / name, layout, 0) for name in NAMES}


def stepped(
    folder: Path, state: Mapping[str, Arrangement], upper: int, rows: list[tuple[int, ...]]
) -> list[dict[str, int]]:
    """One step, committed; gives the output's changes."""
    outgoing = {**{name: shape.updates for name, shape in REPORTS.items()}, "a_op0": TOTALS}
    stage = Stage(folder, folder, (SHARED,), {}, outgoing, Sending())
    lower = state[NAMES[0]].upper
    tick = Tick(lower, upper, lower == 0, dict(_arranged(state)))
    tables = {name: shape.updates.empty_table() for name, shape in REPORTS.items()}
    tables["in"] = pa.table(list(zip(*rows, strict=True)), schema=INPUT)
    batches = list(stage.run(Told(folder, tick), tables))
    found = unpacked(batches, {name: Shape(schema) for name, schema in outgoing.items()})
    written = {(note["arrangement"], note["run"]) for note in found[WRITTEN].to_pylist()}
    for name, arrangement in state.items():
        covers = [Cover.try_parse(run) for whose, run in written if whose == name]
        arrangement.advance(upper, [cover for cover in covers if cover is not None])
    assert {name for name, _ in written} == set(state)
    shown: list[dict[str, int]] = found["a_op0"].to_pylist()
    return shown


def _arranged(state: Mapping[str, Arrangement]) -> Iterator[tuple[str, Arranged]]:
    for name, arrangement in state.items():
        with arrangement.trace() as trace:
            yield name, Arranged(arrangement.extent.tip, tuple(c.name for c in trace.covers))


def contents(arrangement: Arrangement) -> list[dict[str, int]]:
    with arrangement.trace() as trace:
        rows = [row for batch in trace.scan() for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row[TIME], row["c0"]))


def files_of(folder: Path) -> list[set[int]]:
    """For each arrangement the files that its runs are in."""
    return [{path.stat().st_ino for path in (folder / name).iterdir()} for name in NAMES]


def test_twins_have_their_state_in_one_file(tmp_path: Path, state: dict[str, Arrangement]) -> None:
    first = stepped(tmp_path, state, 2, [(7, 5, 0, 1), (7, 1, 1, 1), (7, 1, 1, 1), (8, 3, 1, 0)])
    assert {tuple(row.values()) for row in first} == {(7, 5, 0, 1), (7, 5, 1, -1), (7, 7, 1, 1)}
    second = stepped(tmp_path, state, 3, [(7, 5, 2, -1)])
    assert {tuple(row.values()) for row in second} == {(7, 7, 2, -1), (7, 2, 2, 1)}
    one, *others = files_of(tmp_path)
    assert len(one) == 2
    assert others == [one, one]
    assert contents(state[NAMES[0]]) == contents(state[NAMES[1]]) == contents(state[NAMES[2]])


def test_a_twin_that_merges_leaves_the_others_alone(
    tmp_path: Path, state: dict[str, Arrangement]
) -> None:
    for time in range(4):
        stepped(tmp_path, state, time + 1, [(7, 1, time, 1)])
    before = contents(state[NAMES[1]])
    for _ in state[NAMES[0]].merge(4):
        pass
    assert len(files_of(tmp_path)[0]) == 1
    assert contents(state[NAMES[1]]) == before
    state[NAMES[1]].check()
    assert {"c0": 7, "c1": 5, TIME: 4, DIFF: 1} in stepped(tmp_path, state, 5, [(7, 1, 4, 1)])


def test_twins_whose_runs_end_elsewhere_have_files_of_their_own(
    tmp_path: Path, state: dict[str, Arrangement]
) -> None:
    stepped(tmp_path, state, 2, [(7, 5, 0, 1)])
    [layout] = SHARED.operator.layouts
    late = Arrangement.new(tmp_path / NAMES[2], layout, 1)  # it began later, with nothing
    state[NAMES[2]] = late
    late.advance(2)
    assert late.extent.tip == 0
    stepped(tmp_path, state, 3, [(7, 1, 2, 1)])
    with late.trace() as trace:
        assert [(cover.lower, cover.upper) for cover in trace.covers] == [(0, 3)]
    one, other, alone = files_of(tmp_path)
    assert one == other
    assert alone.isdisjoint(one)


def test_what_differs_is_no_twin() -> None:
    sums = placed(SUM, "a_op0")
    assert sums.does_the_same_as(placed(SUM, "b_op0"))
    assert not sums.does_the_same_as(placed(MOST, "b_op0"))
    other = Placed(sums.operator, ((("in", False),),), "b_op0", TOTALS, ("b_op0_0",), ("b_op0_0",))
    assert not sums.does_the_same_as(other)
