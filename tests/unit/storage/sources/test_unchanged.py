"""Commits that are only right if sources are as they were, and the sources under them."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from waterclock.model.ids import GlobalId
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import SourceDescription
from waterclock.storage.sources.ingestion import Ingestion
from waterclock.storage.sources.unchanged import SourceChanged, SourceMoved, unchanged
from waterclock.testing.source_world import KIND, OUTPUT, ROWS, Crash, SourceWorld, Upstream


class Stage:
    """A source, and commits that depend on what was read of it."""

    def __init__(self) -> None:
        self.world = SourceWorld()
        self.upstream = Upstream({0: ["a"]})
        self.description: SourceDescription = self.world.create(
            KIND, b"", KAFKA.schema, {OUTPUT: ROWS}, with_errors=True
        )
        self.output = self.description.outputs[OUTPUT]
        self.source: Ingestion = self.opened()
        self.step()

    def opened(self) -> Ingestion:
        return self.world.ingestion(self.description, {KIND: self.upstream.kind()})

    def step(self) -> None:
        self.world.step(self.source)
        assert self.source.status.error is None, self.source.status

    def upper(self) -> int:
        found = self.world.upper(self.output)
        assert found is not None
        return found

    def commit(self, read_at: int, until: int, read: Collection[GlobalId] = ()) -> None:
        reads = [(read or (self.output,), read_at)]
        store = self.world.store
        store.commit(unchanged(store, [self.description], reads, until))


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.mark.semantics(99)
def test_a_source_that_has_not_changed_is_complete_at_the_time_of_the_commit(stage: Stage) -> None:
    read_at = stage.upper() - 1
    stage.commit(read_at, read_at + 5000)
    uppers = {stage.world.upper(each) for each in stage.description.collections}
    assert uppers == {read_at + 5001}, "all of its collections move together"
    assert stage.world.contents(stage.output, read_at + 5000) == {("a",): 1}


@pytest.mark.semantics(99, 160)
def test_what_comes_later_gets_a_later_time(stage: Stage) -> None:
    """Also while the clock of the source is behind what was committed."""
    read_at = stage.upper() - 1
    stage.commit(read_at, read_at + 5000)
    stage.upstream.partitions[0].append("b")
    stage.step()
    assert stage.world.contents(stage.output, read_at + 5000) == {("a",): 1}
    times = {time for (row, time) in stage.world.updates(stage.output) if row == ("b",)}
    assert times == {read_at + 5001}
    stage.step()  # and it goes on without news
    with pytest.raises(SourceChanged):
        stage.commit(read_at, stage.upper() + 1)


@pytest.mark.semantics(99)
def test_what_has_come_since_refuses_the_commit(stage: Stage) -> None:
    read_at = stage.upper() - 1
    stage.upstream.partitions[0].append("b")
    stage.step()
    upper = stage.upper()
    with pytest.raises(SourceChanged):
        stage.commit(read_at, upper)
    with pytest.raises(SourceChanged):
        stage.commit(read_at, upper, [stage.description.remap])
    assert stage.upper() == upper
    stage.commit(upper - 1, upper)


@pytest.mark.semantics(99)
def test_a_change_at_the_time_of_the_commit_refuses_it_and_one_after_it_does_not(
    stage: Stage,
) -> None:
    read_at = stage.upper() - 1
    stage.upstream.partitions[0].append("b")
    stage.step()
    changed_at = stage.upper() - 1
    for early in (read_at, changed_at - 1):
        with pytest.raises(SourceChanged):
            stage.commit(early, changed_at)
    stage.commit(read_at, changed_at - 1)
    stage.commit(changed_at, changed_at + 1)  # it was read with the change


@pytest.mark.semantics(99)
def test_a_binding_whose_data_is_missing_refuses_the_commit(stage: Stage) -> None:
    """The data belongs at the time of the binding, which the commit would be beyond."""
    read_at = stage.upper() - 1
    stage.upstream.partitions[0].append("b")
    stage.upstream.breaks_after = 0
    with pytest.raises(Crash):
        stage.step()
    stage.world.open()
    stage.source = stage.opened()
    with pytest.raises(SourceChanged, match="taking in"):
        stage.commit(read_at, read_at + 10_000)
    stage.step()
    assert stage.world.contents(stage.output, stage.upper() - 1) == {("a",): 1, ("b",): 1}


@pytest.mark.semantics(99)
def test_a_finished_source_never_changes_and_one_that_is_gone_has(stage: Stage) -> None:
    read_at = stage.upper() - 1
    stage.upstream.is_final = True
    stage.step()
    stage.commit(read_at, read_at + 10_000)
    for collection in stage.description.collections:
        kept = stage.world.holds.capability(collection)
        stage.world.storage.drop_capability(kept)
    with pytest.raises(SourceChanged):
        stage.commit(read_at, read_at + 10_000)


@pytest.mark.semantics(99)
def test_a_source_that_moves_while_it_is_looked_up_is_looked_up_again(stage: Stage) -> None:
    read_at, store = stage.upper() - 1, stage.world.store
    plan = unchanged(store, [stage.description], [((stage.output,), read_at)], read_at + 5000)
    stage.step()
    upper = stage.upper()
    with pytest.raises(SourceMoved):
        store.commit(plan)
    assert stage.upper() == upper


def test_a_source_goes_on_after_a_restart(stage: Stage) -> None:
    read_at = stage.upper() - 1
    stage.commit(read_at, read_at + 5000)
    stage.world.open()
    stage.source = stage.opened()
    stage.upstream.partitions[0].append("b")
    stage.step()
    assert stage.world.contents(stage.output, stage.upper() - 1) == {("a",): 1, ("b",): 1}
