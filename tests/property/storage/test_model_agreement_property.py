"""The two forms of a history, in the product: storage and compute answer what the model says.

The model speaks of any timeline. Durable collections are on total orders only, so there the laws of
partial orders become those of whole numbers; that nothing else gets in is proven here as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.compute.snapshot import contents_at, lacking
from waterclock.model.collection import EMPTY, CollectionVersion, Update, difference
from waterclock.model.errors import NotATime
from waterclock.model.lattice import EpochMillis, Product
from waterclock.model.timeline import EPOCH_MILLIS, Time, Timeline
from waterclock.model.updates import advance, advance_all, consolidate, read, updates_of
from waterclock.persist.consolidate import consolidate as consolidate_rows
from waterclock.persist.rows import row_schema
from waterclock.storage.api import Description, ReadCapability, WriteCapability
from waterclock.storage.controller import Storage
from waterclock.testing.examples import examples
from waterclock.testing.storage_world import (
    SCHEMA,
    TABLE,
    MemoryWorld,
    Row,
    Triple,
    at,
    batch,
    drain,
    refused,
    triples_of,
    user,
    write,
)
from waterclock.testing.strategies import GRID

SPAN = 12
"""Histories take place at times below this."""
ROWS = st.tuples(st.integers(0, 2), st.sampled_from(["a", None]))
TRIPLES = st.lists(
    st.tuples(ROWS, st.integers(0, SPAN - 1), st.sampled_from([1, 1, 2, -1])), max_size=14
)
CUTS = st.lists(st.integers(1, SPAN - 1), max_size=3).map(lambda cuts: sorted({*cuts, SPAN}))
Version = CollectionVersion[Row]


def moments(since: int = 0) -> list[Time[int]]:
    return [EPOCH_MILLIS.time(n) for n in range(since, SPAN)]


def updates(triples: Iterable[Triple]) -> list[Update[Row, int]]:
    return [Update(row, EPOCH_MILLIS.time(time), diff) for row, time, diff in triples]


def stored(storage: Storage, number: int, triples: list[Triple], cuts: list[int]) -> ReadCapability:
    """A collection with this history, written in windows that end at the cuts."""
    reader, writer = storage.create(user(number), TABLE)
    start = 0
    for end in cuts:
        window = [each for each in triples if start <= each[1] < end]
        [writer] = storage.append(write(writer, end, *window))
        start = end
    return reader


def story(storage: Storage, reader: ReadCapability) -> dict[int, frozenset[Update[Row, int]]]:
    """What a subscription tells: the updates at each time; the snapshot is at the first."""
    with closing(storage.subscribe_at(reader)) as subscription:
        told = triples_of(drain(subscription))
    all_of_them = [(row, time, diff) for (row, time), diff in told.items()]
    return {
        moment.value: frozenset(u for u in updates(all_of_them) if u.time == moment)
        for moment in moments()
    }


def version(storage: Storage, reader: ReadCapability, time: Time[int]) -> Version:
    """The product's own read, signs included."""
    with closing(storage.subscribe_at(reader, as_of=at(time.value))) as subscription:
        told = triples_of(drain(subscription))
    counts: Counter[Row] = Counter()
    for (row, when), diff in told.items():
        if when <= time.value:
            counts[row] += diff
    return CollectionVersion(counts)


@pytest.mark.semantics(18, 19, 21, 22)
@examples(60)
@given(TRIPLES, CUTS)
def test_versions_and_updates_of_a_collection_determine_each_other(
    triples: list[Triple], cuts: list[int]
) -> None:
    with closing(MemoryWorld().storage) as storage:
        reader = stored(storage, 1, triples, cuts)
        versions = {each: version(storage, reader, each) for each in moments()}
        for moment, found in versions.items():
            assert found == read(updates(triples), moment), "exactly the updates up to the time"
        told = story(storage, reader)
        before: Version = EMPTY
        for moment in moments():  # at the first of them, the difference to nothing
            assert told[moment.value] == difference(moment, before, versions[moment])
            before = versions[moment]
        again = updates_of(versions.__getitem__, moments())
        assert again == consolidate(updates(triples))
        rewritten = [(u.data, u.time.value, u.diff) for u in again]
        second = stored(storage, 2, rewritten, [SPAN])
        assert {each: version(storage, second, each) for each in moments()} == versions


@pytest.mark.semantics(12, 18)
@examples(60)
@given(TRIPLES, CUTS, st.integers(0, SPAN - 1))
def test_the_rows_of_a_query_are_those_of_the_model(
    triples: list[Triple], cuts: list[int], time: int
) -> None:
    with closing(MemoryWorld().storage) as storage:
        reader = stored(storage, 1, triples, cuts)
        expected = read(updates(triples), EPOCH_MILLIS.time(time))
        if any(count < 0 for count in expected.counts.values()):
            with pytest.raises(Exception, match="negative number of times"):
                contents_at(storage, reader, time, row_schema(SCHEMA))
            return
        found = contents_at(storage, reader, time, row_schema(SCHEMA))
        rows = zip(*(column.to_pylist() for column in found.columns), strict=True)
        assert Counter(rows) == Counter(expected.rows())


@pytest.mark.semantics(17)
@examples(60)
@given(TRIPLES, TRIPLES, st.integers(0, SPAN))
def test_the_difference_of_two_versions_is_the_models(
    old: list[Triple], new: list[Triple], time: int
) -> None:
    """It corrects a view that is computed again, and leaves alone what is right already."""
    moment = EPOCH_MILLIS.time(time)
    before, after = (table([(row, time, diff) for row, _, diff in each]) for each in (old, new))
    found = triples_in(lacking(before, after, time))
    versions: list[Version] = [EMPTY.apply(updates(each)) for each in (old, new)]
    assert frozenset(updates(found)) == difference(moment, *versions)
    assert len(found) == len({row for row, _, _ in found}), "one for each row that changes"
    assert versions[0].apply(updates(found)) == versions[1]


@pytest.mark.semantics(29, 30, 31, 32)
@examples(80)
@given(TRIPLES, st.integers(0, SPAN))
def test_compaction_moves_times_as_the_model_does(triples: list[Triple], since: int) -> None:
    found = triples_in(consolidate_rows(table(triples), since=since))
    assert frozenset(updates(found)) == advance_all(updates(triples), at(since))
    assert len(found) <= len(triples)
    for row, time, diff in triples:
        [(_, moved, _)] = triples_in(consolidate_rows(table([(row, time, diff)]), since=since))
        assert moved == advance(EPOCH_MILLIS.time(time), at(since)).value
        readers = range(since, SPAN + 2)
        seen = [time <= reader for reader in readers]
        same = [t for t in range(SPAN + 2) if [t <= reader for reader in readers] == seen]
        assert moved == max(same), "the latest that nobody at or after since can tell from it"


@pytest.mark.semantics(28, 29)
@examples(40)
@given(TRIPLES, CUTS, st.integers(0, SPAN - 1))
def test_what_is_kept_after_compaction_is_what_the_model_keeps(
    triples: list[Triple], cuts: list[int], since: int
) -> None:
    """Also in what storage writes anew, and not only in what it hands out."""
    world = MemoryWorld()
    with closing(world.storage) as storage:
        reader = stored(storage, 1, triples, cuts)
        reader = storage.downgrade_capability(reader, at(since))
        while storage.maintain():
            pass
        for moment in moments(since):
            assert version(storage, reader, moment) == read(updates(triples), moment)


@pytest.mark.semantics(20, 29)
def test_no_collection_is_on_a_partial_order(world: MemoryWorld) -> None:
    """So no corner of a grid can be counted twice, and no frontier has two elements."""
    storage = world.storage
    for timeline in (GRID, Timeline(EPOCH_MILLIS.id, Product(EpochMillis(), EpochMillis()))):
        with refused(world, NotATime):
            storage.create(user(1), Description(SCHEMA, timeline=timeline))  # type: ignore[arg-type]
    reader, writer = storage.create(user(1), TABLE)
    disguised = Timeline(EPOCH_MILLIS.id, GRID.lattice)
    for frontier in (disguised.frontier((3, 4)), disguised.frontier((3, 4), (4, 3))):
        with refused(world, NotATime):
            storage.downgrade_capability(reader, frontier)  # type: ignore[arg-type]
        with refused(world, NotATime):
            storage.subscribe_at(reader, as_of=frontier)  # type: ignore[arg-type]
        with refused(world, NotATime):
            storage.append(write(writer, frontier))  # type: ignore[arg-type]
    reader, writer = storage.acquire_capabilities(user(1))
    assert isinstance(reader, ReadCapability)
    assert isinstance(writer, WriteCapability)
    assert (reader.frontier, writer.frontier) == (at(0), at(0))


@pytest.mark.semantics(20)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=4))
def test_a_frontier_of_our_timelines_has_one_element(values: list[int]) -> None:
    """The other timelines that there are, those that sources bring with them, are total as well."""
    for timeline in (EPOCH_MILLIS, Timeline("theirs", EPOCH_MILLIS.lattice)):
        assert timeline.frontier(*values).elements == (min(values),)


def table(triples: list[Triple]) -> pa.Table:
    return pa.Table.from_batches([batch(*triples)])


def triples_in(found: pa.Table) -> list[Triple]:
    *columns, times, diffs = (column.to_pylist() for column in found.columns)
    return list(zip(zip(*columns, strict=True), times, diffs, strict=True))


@pytest.fixture
def world() -> Iterable[MemoryWorld]:
    made = MemoryWorld()
    yield made
    made.storage.close()
