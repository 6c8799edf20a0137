"""ENVELOPE DEBEZIUM with rows that can not be held: they come and go with changes, like rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from waterclock.model.schema import Column, Int, Schema
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.envelopes.transactions import Transactions, json_ends
from waterclock.storage.formats.api import DebeziumDefinition, JsonDefinition, MessageDefinition
from waterclock.storage.sources.decode_errors import FAIL, DecodeErrors
from waterclock.testing.record_world import Record, RecordWorld

ROW = Schema((Column("id", Int(64)), Column("v", Int(16))))
SKIP, INLINE = DecodeErrors(keeps_bytes=True), DecodeErrors(column="error")
Row = dict[str, Any] | None


def world_with(errors: DecodeErrors) -> RecordWorld:
    return RecordWorld({"t": definition(errors)})


def definition(errors: DecodeErrors) -> MessageDefinition:
    return MessageDefinition(
        origin='topic "t"',
        value=JsonDefinition(encode_schema(ROW)),
        envelope=DebeziumDefinition(),
        errors=errors,
    )


def change(
    op: str, before: Row, after: Row, place: tuple[int, int] | None = None, *, wrapped: bool = False
) -> Record:
    source: dict[str, Any] = {"connector": "postgresql", "snapshot": op == "r"}
    if place is not None:
        source["sequence"] = json.dumps([str(place[0]), str(place[1])])
    body: dict[str, Any] = {"op": op, "before": before, "after": after, "source": source}
    return b"k", json.dumps({"payload": body} if wrapped else body).encode()


def row(key: int, value: int) -> Row:
    return {"id": key, "v": value}


TOO_LARGE = 40_000
WRONG = '{"v": 40000, "id": 1}'


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_row_is_an_error_until_a_change_takes_it_away(*, wrapped: bool) -> None:
    world = world_with(FAIL)
    world.upstream.append("t", change("c", None, row(1, 1), (1, 1), wrapped=wrapped))
    world.upstream.append("t", change("c", None, row(2, 2), (1, 2), wrapped=wrapped))
    world.step()
    bad = change("u", row(1, 1), row(1, TOO_LARGE), (1, 3), wrapped=wrapped)
    world.upstream.append("t", bad)
    world.step()
    [(subject, message)] = world.errors("t", world.now)
    assert subject == WRONG
    assert message.startswith('22P02 can not hold a row of topic "t": ')
    assert world.rows("t", world.now) == {(2, 2): 1}, "what it was is gone"
    world.upstream.append("t", bad)
    world.step()
    assert sum(world.errors("t", world.now).values()) == 1, "it was seen"
    world.restart()
    repaired = change("u", row(1, TOO_LARGE), row(1, 5), (1, 4), wrapped=wrapped)
    world.upstream.append("t", repaired)
    world.step()
    assert not world.errors("t", world.now)
    assert world.rows("t", world.now) == {(1, 5): 1, (2, 2): 1}


def test_skipped_rows_and_messages_that_are_no_changes() -> None:
    world = world_with(SKIP)
    bad = change("c", None, row(1, TOO_LARGE), (1, 1))
    world.upstream.append("t", bad, (b"x", b"no json"), (None, b'{"id": 7}'))
    world.upstream.append("t", change("c", None, row(2, 2), (1, 2)))
    world.step()
    assert world.rows("t", world.now) == {(2, 2): 1}
    assert not world.errors("t", world.now)
    one, two, three = sorted(world.skipped(world.now), key=lambda found: found[1])
    assert one[1:5] == (0, b"k", bad[1], WRONG)
    assert two[1:5] == (1, b"x", b"no json", "partition t/0, offset 1")
    assert three[1:4] == (2, None, b'{"id": 7}')
    assert world.statistics.undecodable == 3
    world.restart()
    world.upstream.append("t", change("d", row(1, TOO_LARGE), None, (1, 3)))
    world.step()
    assert {found[1] for found in world.skipped(world.now)} == {1, 2}


def test_what_would_make_other_rows_wrong_is_not_skipped() -> None:
    world = world_with(SKIP)
    world.upstream.append("t", change("u", None, row(1, 1), (1, 1)))
    world.step()
    [(_, text)] = world.errors("t", world.now)
    assert "an update has no row before it" in text
    assert not world.skipped(world.now)


def test_inline_rows() -> None:
    world = world_with(INLINE)
    world.upstream.append("t", change("c", None, row(1, TOO_LARGE), (1, 1)), (b"x", b"no json"))
    world.upstream.append("t", change("c", None, row(2, 2), (1, 2)))
    world.step()
    assert not world.errors("t", world.now)
    found = world.rows("t", world.now)
    assert found[2, 2, None] == 1
    assert sorted(told for *_, told in found if told is not None) == [
        'can not hold a row of topic "t": ' + _reason(found),
        'can not read the value of topic "t", partition 0, offset 1: '
        "JSON is malformed: invalid character (byte 4)",
    ]
    world.restart()
    world.upstream.append("t", change("u", row(1, TOO_LARGE), row(1, 1), (1, 3)))
    world.step()
    assert {found[:2] for found in world.rows("t", world.now)} == {(1, 1), (2, 2), (None, None)}


def _reason(found: Any) -> str:
    [told] = [row[2] for row in found if row[2] is not None and "hold a row" in row[2]]
    return str(told).partition('"t": ')[2]


def test_the_first_copy_may_be_made_again() -> None:
    world = world_with(FAIL)
    copied = [change("r", None, row(1, TOO_LARGE)), change("r", None, row(2, TOO_LARGE))]
    world.upstream.append("t", *copied)
    world.step()
    assert len(world.errors("t", world.now)) == 2
    world.restart()
    world.upstream.append("t", *copied)
    world.step()
    assert set(world.errors("t", world.now).values()) == {1}


def test_different_rows_at_one_place_are_told_apart() -> None:
    world = world_with(FAIL)
    for key in (1, 2):
        world.upstream.append("t", change("c", None, row(key, TOO_LARGE), (1, 1)))
        world.step()
    assert len(world.errors("t", world.now)) == 2


def test_rows_wait_for_their_transaction() -> None:
    """Held back changes are as they were, also over a restart."""
    topics = {
        "ends": MessageDefinition(origin='topic "ends"', value=json_ends()),
        "t": definition(FAIL),
    }
    world = RecordWorld(topics, lambda: Transactions("ends", {"t": "public.t"}), ["t"])

    def part(after: Row, order: int) -> Record:
        body = json.loads(change("c", None, after, (1, order))[1] or b"")
        body["source"] |= {"schema": "public", "table": "t"}
        body["transaction"] = {"id": "9", "total_order": order}
        return b"k", json.dumps(body).encode()

    world.upstream.append("t", part(row(1, TOO_LARGE), 1))
    world.step()
    assert not world.errors("t", world.now)
    world.restart()
    world.upstream.append("t", part(row(2, 2), 2))
    counts = [{"data_collection": "public.t", "event_count": 2}]
    end = {"status": "END", "id": "9", "data_collections": counts}
    world.upstream.append("ends", (None, json.dumps(end).encode()))
    world.step()
    assert [subject for subject, _ in world.errors("t", world.now)] == [WRONG]
    assert world.rows("t", world.now) == {(2, 2): 1}
