"""Messages with times of their own, in any order and any number of times, through any crash: the
output on a timeline of its own has each update at the time that it says, and is complete as far as
statements say.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import Column, Schema, Text
from waterclock.model.timeline import timeline_named
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.formats.api import (
    JsonDefinition,
    MaterializeDefinition,
    MessageDefinition,
)
from waterclock.storage.sources.status import Health
from waterclock.testing.examples import examples
from waterclock.testing.record_world import RecordWorld

OWN = timeline_named("own")
NATIVE = MessageDefinition(
    origin='topic "t"',
    value=JsonDefinition(encode_schema(Schema((Column("v", Text()),)))),
    envelope=MaterializeDefinition(keeps_times=True),
)
TIMES = 6
Updates = dict[tuple[str, int], int]


def update(value: str, time: int, diff: int = 1) -> bytes:
    return json.dumps({"updates": [{"data": {"v": value}, "time": time, "diff": diff}]}).encode()


def progress(lower: int, upper: int | None, counts: dict[int, int]) -> bytes:
    said = [{"time": time, "count": count} for time, count in counts.items()]
    end = [] if upper is None else [upper]
    return json.dumps({"progress": {"lower": [lower], "upper": end, "counts": said}}).encode()


@st.composite
def histories(draw: st.DrawFn) -> tuple[Updates, list[int], bool]:
    """Updates, one diff for each row and time; where statements end, and whether the last is for
    good.
    """
    pairs = st.tuples(st.sampled_from("xyz"), st.integers(0, TIMES - 1))
    updates = draw(st.dictionaries(pairs, st.integers(-2, 3).filter(bool), max_size=10))
    cuts = sorted({0, TIMES, *draw(st.lists(st.integers(1, TIMES - 1), max_size=3))})
    return updates, cuts, draw(st.booleans())


def messages_of(updates: Updates, cuts: list[int], ends: bool) -> list[bytes]:
    found = [update(value, time, diff) for (value, time), diff in updates.items()]
    for lower, upper in itertools.pairwise(cuts):
        counts = Counter(t for (_, t) in updates if lower <= t < upper)
        found.append(progress(lower, None if ends and upper == TIMES else upper, counts))
    return found


def expected(updates: Updates, upper: int | None) -> Counter[tuple[tuple[Any, ...], int]]:
    before = {k: diff for k, diff in updates.items() if upper is None or k[1] < upper}
    return Counter({((value,), time): diff for (value, time), diff in before.items()})


@pytest.mark.semantics(10, 13, 103, 142, 143)
@examples(100)
@given(histories(), st.randoms(use_true_random=False), st.data())
def test_every_update_is_at_its_own_time(
    history: tuple[Updates, list[int], bool], pick: Any, data: st.DataObject
) -> None:
    updates, cuts, ends = history
    messages = messages_of(updates, cuts, ends)
    sent = messages + [m for m in messages if pick.random() < 0.4]
    pick.shuffle(sent)
    world = RecordWorld({"t": NATIVE}, timeline=OWN)
    output = world.description.outputs["t"]
    for message in sent:
        world.upstream.append("t", (None, message))
        match data.draw(st.sampled_from(["step", "wait", "restart", "crash"])):
            case "step":
                world.step()
            case "restart":
                world.restart()
            case "crash":
                world.crash(data.draw(st.integers(0, 2)))
        upper = world.world.upper(output)
        assert upper is None or upper in cuts or ends  # which may be told after the last update
        assert world.world.updates(output) == expected(updates, upper)
    world.step()
    assert world.world.upper(output) == (None if ends else TIMES)
    assert world.world.updates(output) == expected(updates, None)
    assert not world.world.updates(world.description.errors["t"])


def test_what_can_not_be_read_is_an_error_from_the_first_open_time_on() -> None:
    world = RecordWorld({"t": NATIVE}, timeline=OWN)
    output, errors = world.description.outputs["t"], world.description.errors["t"]
    for message in (b"{", update("x", 1), progress(0, 3, {1: 1})):
        world.upstream.append("t", (None, message))
    world.step()
    assert world.world.upper(output) == world.world.upper(errors) == 4
    assert [time for _, time in world.world.updates(errors)] == [3]
    for message in (update("y", 3), progress(3, 4, {3: 1})):  # too late for its time
        world.upstream.append("t", (None, message))
    world.step()
    assert world.world.updates(output) == {(("x",), 1): 1, (("y",), 4): 1}
    assert world.world.upper(output) == world.world.upper(errors) == 5


@pytest.mark.parametrize("time", [-1, 2**62])
def test_what_is_no_time_ends_the_source(time: int) -> None:
    world = RecordWorld({"t": NATIVE}, timeline=OWN)
    world.upstream.append("t", (None, update("x", time)))
    assert "is not a time" in world.failing_step()


@pytest.mark.semantics(105)
def test_a_statement_for_good_finishes_the_source() -> None:
    world = RecordWorld({"t": NATIVE}, timeline=OWN)
    for message in (update("x", 7), progress(0, None, {7: 1})):
        world.upstream.append("t", (None, message))
    world.step()
    assert world._ingestion.status.health is Health.FINISHED
    for each in world.description.collections:
        assert world.world.upper(each) is None
    assert world.world.updates(world.description.outputs["t"]) == {(("x",), 7): 1}
    world.restart()
    world.step()
    assert world._ingestion.status.health is Health.FINISHED
