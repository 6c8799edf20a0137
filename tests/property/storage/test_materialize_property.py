"""Updates and statements of progress, in any order and any number of times, mean the same."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import Column, Schema, Text
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.formats.api import (
    JsonDefinition,
    MaterializeDefinition,
    MessageDefinition,
)
from waterclock.testing.examples import examples
from waterclock.testing.record_world import RecordWorld

NATIVE = MessageDefinition(
    origin='topic "t"',
    value=JsonDefinition(encode_schema(Schema((Column("v", Text()),)))),
    envelope=MaterializeDefinition(),
)
TIMES = 6


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[tuple[str, int], int], list[dict[str, Any]]]:
    """Updates, one diff for each row and time; and all messages that tell of them."""
    pairs = st.tuples(st.sampled_from("xyz"), st.integers(0, TIMES - 1))
    diffs = st.integers(-2, 3).filter(bool)
    updates = draw(st.dictionaries(pairs, diffs, max_size=10))
    cuts = sorted({0, TIMES, *draw(st.lists(st.integers(1, TIMES - 1), max_size=3))})
    messages: list[dict[str, Any]] = [
        {"updates": [{"data": {"v": v}, "time": t, "diff": d}]} for (v, t), d in updates.items()
    ]
    if messages and draw(st.booleans()):
        messages = [{"updates": [u for m in messages for u in m["updates"]]}]
    for lower, upper in itertools.pairwise(cuts):
        held = Counter(t for (_, t) in updates if lower <= t < upper)
        counts = [{"time": t, "count": c} for t, c in held.items()]
        end = [] if upper == TIMES and draw(st.booleans()) else [upper]
        messages.append({"progress": {"lower": [lower], "upper": end, "counts": counts}})
    return updates, messages


@pytest.mark.semantics(142, 143)
@examples(100)
@given(histories(), st.randoms(use_true_random=False), st.data())
def test_any_order_and_any_repetition(
    history: tuple[dict[tuple[str, int], int], list[dict[str, Any]]], pick: Any, data: st.DataObject
) -> None:
    updates, messages = history
    sent = messages + [m for m in messages if pick.random() < 0.4]
    pick.shuffle(sent)
    world = RecordWorld({"t": NATIVE})
    states = [state_before(updates, end) for end in range(TIMES + 1)]
    reached = 0
    for message in sent:
        world.upstream.append("t", (None, json.dumps(message).encode()))
        match data.draw(st.sampled_from(["step", "wait", "restart", "crash"])):
            case "step":
                world.step()
                reached = states.index(world.rows("t", world.now), reached)
            case "restart":
                world.restart()
            case "crash":
                world.crash(data.draw(st.integers(0, 2)))
    world.step()
    assert world.rows("t", world.now) == states[TIMES]
    assert not world.errors("t", world.now)


def state_before(updates: dict[tuple[str, int], int], end: int) -> Counter[Any]:
    """What has accumulated before a time."""
    found: Counter[Any] = Counter()
    for (value, time), diff in updates.items():
        if time < end:
            found[(value,)] += diff
    return Counter({row: count for row, count in found.items() if count})


def test_what_contradicts_itself_ends_the_source() -> None:
    world = RecordWorld({"t": NATIVE})
    update = {"updates": [{"data": {"v": "x"}, "time": 1, "diff": 1}]}
    progress = {"progress": {"lower": [0], "upper": [2], "counts": []}}
    for message in (update, progress):
        world.upstream.append("t", (None, json.dumps(message).encode()))
    assert "more updates than the statement of progress says" in world.failing_step()
