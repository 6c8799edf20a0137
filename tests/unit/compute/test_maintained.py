"""A group over storage in memory, with a dataflow that computes nothing."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
import pytest

from waterclock.compute.api import ERROR_ROWS
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.job import Ticked
from waterclock.compute.inputs import Input
from waterclock.compute.maintained import Group, Output, View
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.notes import Notes
from waterclock.persist.rows import update_schema, updates
from waterclock.persist.store import Plan, Store
from waterclock.storage.api import Description, ReadCapability, Write
from waterclock.storage.controller import Storage
from waterclock.storage.riders import frontiers

TABLE = GlobalId.user(1)
SCHEMA = Schema((Column("a", Int(64)),))
COLUMNS, ERRORS = update_schema(SCHEMA), update_schema(ERROR_ROWS)
at = EPOCH_MILLIS.frontier


class Idle:
    """A dataflow of so many views that have begun; it says how often it had to compute."""

    def __init__(self, views: int) -> None:
        self.upper = 1
        self.has_begun = True
        self.is_apart = False
        self.computed = 0
        self.merged = 0
        self.due: int | None = None
        self._nothing = Ticked(
            (COLUMNS.empty_table(),) * views, (ERRORS.empty_table(),) * views, {}
        )

    def unchanged(self) -> Ticked:
        return self._nothing

    def compute(self, _upper: int, _deltas: object, _listed: object, *, spread: int) -> Ticked:
        assert spread == 1, "nothing has failed"
        self.computed += 1
        return self._nothing

    def due_before(self, upper: int) -> bool:
        return self.due is not None and self.due < upper

    def commit(self, upper: int, _ticked: Ticked) -> None:
        self.upper = upper

    def merge(self, _since: int) -> None:
        self.merged += 1

    def kept_after(self, _ticked: Ticked) -> dict[str, object]:
        return {}


class World:
    """A table, and a group of three views that read it."""

    def __init__(self) -> None:
        self.store = Store.open(MemoryBlob(), MemoryConsensus(), "test")
        self.storage = Storage(self.store)
        _, self.writer = self.storage.create(TABLE, Description(SCHEMA))
        self.append(1)
        self.readers: list[ReadCapability] = []
        views = [self._view(number) for number in (10, 20, 30)]
        self.dataflow = Idle(len(views))
        notes = Notes(self.store, "view/")
        self.group = Group(self.storage, notes, cast(Dataflow, self.dataflow), views)
        self.group.receive()
        for view in views:
            view.inputs[0].forget(1)

    def _view(self, number: int) -> View:
        reader, _ = self.storage.acquire_capabilities(TABLE, write=False)
        output, errors = GlobalId.user(number), GlobalId.user(number + 1)
        shown, writer = self.storage.create(output, Description(SCHEMA), start=at(0))
        _, wrong = self.storage.create(errors, Description(ERROR_ROWS), start=at(0))
        self.readers.append(shown)
        source = Input(self.storage, reader, 0, contents=True)
        return View(output, (), (source,), (Output(writer, COLUMNS),), Output(wrong, ERRORS))

    def append(self, upper: int, rows: pa.RecordBatch | None = None) -> None:
        table = None if rows is None else pa.Table.from_batches([rows])
        [self.writer] = self.storage.append(Write(self.writer, table, at(upper)))

    def step(self) -> bool:
        self.group.receive()
        return self.group.advance()

    def held(self) -> list[int | None]:
        return [each.capability.frontier.only() for v in self.group.views for each in v.inputs]


@pytest.fixture
def world() -> World:
    return World()


def test_a_step_without_changes_computes_nothing(world: World) -> None:
    assert not world.step(), "the views are as far as the table"
    world.append(5)
    assert world.step()
    assert (world.dataflow.computed, world.dataflow.merged) == (0, 0)
    assert world.group.is_quiet
    for view in world.group.views:
        assert view.outputs[0].writer.frontier.only() == view.errors.writer.frontier.only() == 5


def test_changes_are_known_before_the_step(world: World) -> None:
    world.append(5)
    world.group.receive()
    assert not world.group.has_changes()
    assert world.group.advance()
    world.append(6, updates(SCHEMA, [((1,), 5, 1)]))
    assert not world.group.has_changes(), "nothing was received yet"
    world.group.receive()
    assert world.group.has_changes()
    assert world.group.advance()
    assert world.dataflow.computed == 1
    assert not world.group.is_quiet
    world.dataflow.due = 8
    world.append(8)
    world.group.receive()
    assert not world.group.has_changes()
    world.append(9)
    world.group.receive()
    assert world.group.has_changes(), "time alone changes something"


@pytest.mark.semantics(45)
def test_inputs_are_held_as_far_back_as_the_outputs_are_readable(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[Plan[object]] = []
    commit = Store.commit

    def counted(store: Store, plan: Plan[object]) -> object:
        commits.append(plan)
        return commit(store, plan)

    world.append(9)
    assert world.step()
    monkeypatch.setattr(Store, "commit", counted)
    world.group.release_inputs()
    assert world.held() == [0, 0, 0]
    assert not commits, "to look is no commit"
    for time, reader in zip((4, 6, 20), list(world.readers), strict=True):
        world.storage.downgrade_capability(reader, at(time))
    commits.clear()
    world.group.release_inputs()
    assert world.held() == [4, 4, 4], "as the one that is held back furthest"
    assert len(commits) == 1
    assert world.group.since == 4
    world.group.release_inputs()
    assert len(commits) == 1


def test_an_output_that_nobody_reads_holds_nothing_back(world: World) -> None:
    world.append(9)
    assert world.step()
    for reader in world.readers:
        world.storage.drop_capability(reader)
    held = [view.outputs[0].writer for view in world.group.views]
    found = frontiers(world.storage, held)
    assert all(since.is_empty for since, _ in found.values())
    world.group.release_inputs()
    assert world.held() == [8, 8, 8]
