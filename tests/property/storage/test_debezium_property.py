"""Changes of Debezium that come again, in any way a connector sends them again, count once."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.envelopes.transactions import Transactions, json_ends
from waterclock.storage.formats.api import (
    DebeziumDefinition,
    JsonDefinition,
    MessageDefinition,
)
from waterclock.testing.examples import examples
from waterclock.testing.record_world import Record, RecordWorld

ROW = Schema((Column("id", Int(64)), Column("v", Text())))
DEBEZIUM = MessageDefinition(
    origin='topic "t"', value=JsonDefinition(encode_schema(ROW)), envelope=DebeziumDefinition()
)


@dataclass
class Upstream:
    """A database with a table, and what a connector sends of it.

    Each entry of `sent` has the number of changes that the table had with it, so that the contents
    after any part of the log are known whatever came again.
    """

    connector: str
    keyed: bool
    place: int = 0
    live: dict[int, str] = field(default_factory=dict)
    events: list[Record] = field(default_factory=list)
    states: list[Counter[Any]] = field(default_factory=lambda: [Counter()])
    sent: list[int] = field(default_factory=list)
    """The number of each event that was sent, in the order of sending."""

    def position(self) -> dict[str, Any]:
        if self.connector == "postgresql":
            lsns = json.dumps([str(self.place - 1), str(self.place)])
            return {"connector": "postgresql", "sequence": lsns, "schema": "public", "table": "t"}
        file, gtid = f"bin.{self.place // 10:06d}", f"{'0' * 8}-0000-0000-0000-{'0' * 12}"
        found = {"connector": "mysql", "file": file, "pos": self.place % 10, "row": 0}
        return found | ({"gtid": f"{gtid}:{self.place}"} if self.connector == "gtid" else {})

    def change(self, identity: int, value: str | None, *, same_place: bool) -> None:
        """Write, update or delete a row."""
        before = self.live.get(identity)
        if before == value:
            return
        if not (same_place and self.events):
            self.place += 1
        op = "c" if before is None else "d" if value is None else "u"
        self._event(op, identity, before, value, self.position())
        self.live.pop(identity, None)
        if value is not None:
            self.live[identity] = value
        self.states.append(Counter(self.live.items()))

    def _event(
        self, op: str, identity: int, before: str | None, after: str | None, source: dict[str, Any]
    ) -> None:
        body = {
            "op": op,
            "before": None if before is None else {"id": identity, "v": before},
            "after": None if after is None else {"id": identity, "v": after},
            "source": {
                **source,
                "snapshot": "true" if op == "r" else "false",
                "ts_ms": 1000 + self.place,
            },
            "ts_ms": len(self.sent),
        }
        whole = body if identity % 2 else {"schema": {}, "payload": body}
        key = str(identity).encode() if self.keyed else None
        self.events.append((key, json.dumps(whole).encode()))

    def copy(self, count: int) -> None:
        """Begin with a copy of a table of so many rows."""
        for identity in range(100, 100 + count):
            self.live[identity] = "copied"
            self._event("r", identity, None, "copied", {"connector": "postgresql"})
            self.states.append(Counter(self.live.items()))


EVENTS = st.one_of(
    st.tuples(
        st.just("change"),
        st.integers(0, 4),
        st.one_of(st.none(), st.sampled_from("xyz")),
        st.booleans(),
    ),
    st.tuples(st.just("send"), st.integers(1, 5)),
    st.tuples(st.just("again"), st.integers(1, 6)),
    st.tuples(st.just("step")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("crash"), st.integers(0, 2)),
)


@pytest.mark.semantics(144, 145, 146)
@examples(80)
@given(
    st.sampled_from(["postgresql", "mysql", "gtid"]),
    st.integers(0, 3),
    st.lists(EVENTS, max_size=40),
)
def test_replays_change_nothing(connector: str, copied: int, events: list[tuple[Any, ...]]) -> None:
    world = RecordWorld({"t": DEBEZIUM})
    upstream = Upstream(connector, keyed=True)
    upstream.copy(copied)
    reached = 0

    def send(first: int, last: int) -> None:
        for number in range(first, min(last, len(upstream.events))):
            world.upstream.append("t", upstream.events[number])
            upstream.sent.append(number)

    for event in events:
        match event:
            case ("change", identity, value, same_place):
                upstream.change(identity, value, same_place=same_place)
            case ("send", count):
                send(reached, reached + count)
                reached = max([reached, *(n + 1 for n in upstream.sent)])
            case ("again", count) if reached and not (reached > copied > reached - count):
                send(max(0, reached - count), reached)  # the connector goes back, as after a crash
                world.upstream.append("t", (b"1", None))
                upstream.sent.append(0)
            case ("step",):
                world.step()
            case ("restart",):
                world.restart()
            case ("compact",):
                world.compact()
            case ("crash", at):
                world.crash(at)
    world.step()
    for time, bound in world.bound.items():
        sent = upstream.sent[: bound.uppers.get("t/0", 0)]
        state = upstream.states[max((n + 1 for n in sent), default=0)]
        assert world.rows("t", time) == state
        assert not world.errors("t", time)


TABLES = {"a": "public.a", "b": "public.b"}


@dataclass
class Bank:
    """Transactions over two tables, each of which writes the same number to both."""

    sent: dict[str, list[Record]] = field(
        default_factory=lambda: {"a": [], "b": [], "transactions": []}
    )
    count: int = 0

    def transact(self, writes: list[int]) -> None:
        """A transaction: for each write a row in that table, the number of the transaction."""
        self.count += 1
        identity = f"{self.count}:{len(writes)}"  # as PostgreSQL's: the place is the event's own
        for order, table in enumerate(writes):
            name = "ab"[table]
            place = json.dumps([str(self.count), str(order)])
            body = {
                "op": "c",
                "after": {"id": self.count, "v": str(order)},
                "source": {
                    "connector": "postgresql",
                    "sequence": place,
                    "schema": "public",
                    "table": name,
                    "snapshot": "false",
                },
                "transaction": {"id": f"{self.count}:{order}", "total_order": order + 1},
            }
            self.sent[name].append((b"k", json.dumps(body).encode()))
        counts = [
            {"data_collection": table, "event_count": writes.count(i)}
            for i, table in enumerate(TABLES.values())
            if writes.count(i)
        ]
        begin = {"status": "BEGIN", "id": identity}
        end = {
            "status": "END",
            "id": identity,
            "event_count": len(writes),
            "data_collections": [*counts, {"data_collection": "public.other", "event_count": 1}],
        }
        for each in (begin, end):
            self.sent["transactions"].append((b"k", json.dumps(each).encode()))


BANK_EVENTS = st.one_of(
    st.tuples(st.just("transact"), st.lists(st.integers(0, 1), max_size=3)),
    st.tuples(st.just("send"), st.sampled_from(["a", "b", "transactions"]), st.integers(1, 4)),
    st.tuples(st.just("again"), st.sampled_from(["a", "b", "transactions"]), st.integers(1, 4)),
    st.tuples(st.just("step")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("crash"), st.integers(0, 2)),
)


@pytest.mark.semantics(153, 161, 163)
@examples(80)
@given(st.lists(BANK_EVENTS, max_size=50))
def test_transactions_are_seen_whole_and_in_order(events: list[tuple[Any, ...]]) -> None:
    topics = {
        "a": DEBEZIUM,
        "b": DEBEZIUM,
        "transactions": MessageDefinition(origin="topic", value=json_ends()),
    }
    world = RecordWorld(
        topics, lambda: Transactions("transactions", TABLES, ("a", "b")), ("a", "b")
    )
    bank = Bank()
    reached = dict.fromkeys(bank.sent, 0)
    for event in events:
        match event:
            case ("transact", writes):
                bank.transact(writes)
            case ("send", topic, count):
                new = bank.sent[topic][reached[topic] : reached[topic] + count]
                world.upstream.append(topic, *new)
                reached[topic] += len(new)
            case ("again", topic, count):
                old = bank.sent[topic][max(0, reached[topic] - count) : reached[topic]]
                world.upstream.append(topic, *old)
            case ("step",):
                world.step()
            case ("restart",):
                world.restart()
            case ("compact",):
                world.compact()
            case ("crash", at):
                world.crash(at)
    for topic, records in bank.sent.items():
        world.upstream.append(topic, *records[reached[topic] :])
    world.step()
    expected = whole_states(bank)
    last = 0
    for time in sorted(world.bound):
        state = (world.rows("a", time), world.rows("b", time))
        last = expected.index(state, last)  # raises if it is no state, or an earlier one
    assert state == expected[-1]


def whole_states(bank: Bank) -> list[tuple[Counter[Any], Counter[Any]]]:
    """What the tables hold after each transaction."""
    found: list[tuple[Counter[Any], Counter[Any]]] = [(Counter(), Counter())]
    for number in range(1, bank.count + 1):
        a, b = (Counter(each) for each in found[-1])
        for counts, name in ((a, "a"), (b, "b")):
            for _, value in bank.sent[name]:
                row = json.loads(value or b"")["after"]
                if row["id"] == number:
                    counts[row["id"], row["v"]] += 1
        found.append((a, b))
    return found
