"""Upserts under any schedule of bindings, restarts and crashes are what a dictionary would be."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import Column, Int, Schema
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.api import Updates
from waterclock.storage.formats.api import (
    JsonDefinition,
    MessageDefinition,
    TextDefinition,
    UpsertDefinition,
)
from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.testing.examples import examples
from waterclock.testing.record_world import Record, RecordWorld

UPSERT = MessageDefinition(
    origin='topic "t"',
    value=JsonDefinition(encode_schema(Schema((Column("v", Int(64)),)))),
    key=TextDefinition("key"),
    envelope=UpsertDefinition(),
)
KEYS = st.sampled_from([b"a", b"b", b"c", b"d", b"\xff", None])
VALUES = st.one_of(
    st.integers(0, 3).map(lambda v: json.dumps({"v": v}).encode()),
    st.just(None),
    st.just(b"bad"),
)
EVENTS = st.one_of(
    st.tuples(st.just("record"), KEYS, VALUES),
    st.tuples(st.just("step")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("crash"), st.integers(0, 2)),
    st.tuples(st.just("lose"), st.integers(0, 50)),
)


def partition_of(key: bytes | None) -> int:
    return 0 if key is None else key[0] % 2


def model(world: RecordWorld, bound: SourceFrontier) -> tuple[Counter[Any], set[str]]:
    """The rows and the keys in error after these records."""
    state: dict[bytes | None, Any] = {}
    for name, upper in bound.uppers.items():
        for key, value in world.upstream.log[str(name)][:upper]:
            state.pop(key, None)
            if value is not None:
                state[key] = value
    rows: Counter[Any] = Counter()
    wrong = set()
    for key, value in state.items():
        if key is None or key == b"\xff" or value == b"bad":
            unusual = {None: "null", b"\xff": "\\xff"}
            wrong.add(unusual.get(key) or f'key ["{(key or b"").decode()}"]')
        else:
            rows[key.decode(), json.loads(value)["v"]] += 1
    return rows, wrong


def lose_state(world: RecordWorld, which: int) -> None:
    """A file of the state goes, or half of it, while the server is down."""
    files = sorted(world.world.state_folder.rglob("*.arrow"))
    if files:
        path = files[which % len(files)]
        data = path.read_bytes()
        path.unlink()
        if which % 2:
            path.write_bytes(data[: len(data) // 2])
    world.restart()


@pytest.mark.semantics(149)
@examples(60)
@given(st.lists(EVENTS, max_size=40))
def test_upserts_are_a_dictionary(events: list[tuple[Any, ...]]) -> None:
    world = RecordWorld({"t": UPSERT})
    for event in events:
        match event:
            case ("record", key, value):
                record: Record = (key, value)
                world.upstream.append("t", record, partition=partition_of(key))
            case ("step",):
                world.step()
            case ("restart",):
                world.restart()
            case ("compact",):
                world.compact()
            case ("crash", at):
                world.crash(at)
            case ("lose", which):
                lose_state(world, which)
    world.step()
    for time, bound in world.bound.items():
        rows, wrong = model(world, bound)
        assert world.rows("t", time) == rows
        errors = world.errors("t", time)
        assert {key for key, _ in errors} == wrong
        assert all(count == 1 for count in errors.values())


SELECTIONS: dict[str, tuple[list[str], pc.Expression | None, Callable[[Any], bool]]] = {
    "columns": (["v"], None, lambda _: True),
    "rows": (["key", "v"], pc.field("v") > 1, lambda row: row[1] > 1),
    "key only": (["key"], pc.field("key") != "b", lambda row: row[0] != "b"),
    "not sent": (["key"], pc.field("v") < 2, lambda row: row[1] < 2),
    "both": (
        ["v"],
        (pc.field("v") != 0) & (pc.field("key") != "a"),
        lambda r: r[1] and r[0] != "a",
    ),
}
COLUMNS = ("key", "v")
GOOD = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c"]),
        st.one_of(st.none(), st.integers(0, 3)),
        st.booleans(),
    ),
    max_size=25,
)


@pytest.mark.semantics(64, 150)
@examples(40)
@given(GOOD, st.sampled_from(sorted(SELECTIONS)))
def test_filters_and_projections_go_through_upserts(
    events: list[tuple[bytes, int | None, bool]], name: str
) -> None:
    """What is filtered and projected where it is stored is, at every time, the selection of the
    rows that there are then: a row that leaves the selection is taken back, and one that was never
    in it is not.
    """
    columns, condition, is_wanted = SELECTIONS[name]
    world = RecordWorld({"t": UPSERT})
    world.step()
    for key, value, is_step in events:
        data = None if value is None else json.dumps({"v": value}).encode()
        world.upstream.append("t", (key, data), partition=partition_of(key))
        if is_step:
            world.step()
    world.step()
    expected = {}
    for time, bound in world.bound.items():
        found: Counter[Any] = Counter()
        for row, count in model(world, bound)[0].items():
            if is_wanted(row):
                found[tuple(row[COLUMNS.index(column)] for column in columns)] += count
        expected[time] = found
    assert selected(world, columns, condition) == expected


def selected(
    world: RecordWorld, columns: list[str], condition: pc.Expression | None
) -> dict[int, Counter[Any]]:
    """What a subscription to a selection makes of it, at each time at which something was bound."""
    capability = world.world.holds.capability(world.description.outputs["t"])
    subscription = world.world.storage.subscribe_at(
        capability, columns=columns, condition=condition
    )
    updates: list[tuple[Any, ...]] = []
    while isinstance(message := next(subscription), Updates):
        assert message.batch.schema.names[:-2] == columns, "nothing else is sent"
        updates += zip(*(column.to_pylist() for column in message.batch.columns), strict=True)
    subscription.close()
    contents = {}
    for time in world.bound:
        held: Counter[Any] = Counter()
        for *row, at, diff in updates:
            held[tuple(row)] += diff if at <= time else 0
        assert min(held.values(), default=0) >= 0, "nothing is taken back that was not sent"
        contents[time] = +held
    return contents
