"""Brokers that a test owns whole, without a network: what they have, and what goes wrong there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import MessageDefinition, TextDefinition
from waterclock.storage.sources.api import ConnectionSettings, Surroundings
from waterclock.storage.sources.kafka.cluster import Topic
from waterclock.storage.sources.kafka.definition import KafkaDefinition

TOPIC = "orders"


class Error:
    """As the library tells of one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def name(self) -> str:
        return self._name

    def str(self) -> str:
        return f"Broker: {self._name}"


@dataclass
class Event:
    """A record, or something that a consumer is told instead of one."""

    place: int
    at: int
    text: bytes | None = b""
    named: bytes | None = None
    fault: Error | None = None
    millis: int | None = None
    told: list[tuple[str, bytes | None]] | None = None

    def partition(self) -> int:
        return self.place

    def offset(self) -> int:
        return self.at

    def key(self) -> bytes | None:
        return self.named

    def value(self) -> bytes | None:
        return self.text

    def error(self) -> Error | None:
        return self.fault

    def timestamp(self) -> tuple[int, int]:
        return (0, -1) if self.millis is None else (1, self.millis)

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.told


def end_of(partition: int, offset: int) -> Event:
    return Event(partition, offset, fault=Error("_PARTITION_EOF"))


class FakeConsumer:
    """Gives the events of a list, some at a time."""

    def __init__(self, events: Iterable[Event], at_once: int = 3) -> None:
        self.events = list(events)
        self.at_once = at_once
        self.settings: dict[str, Any] = {}
        self.assigned: list[tuple[int, int]] = []
        self.paused: set[int] = set()
        self.committed: dict[int, int] = {}
        self.is_closed = False

    def __call__(self, settings: dict[str, Any]) -> Any:
        self.settings = settings
        return self

    def assign(self, places: list[Any]) -> None:
        self.assigned = [(each.partition, each.offset) for each in places]

    def unassign(self) -> None:
        self.assigned = []

    def pause(self, places: list[Any]) -> None:
        self.paused |= {each.partition for each in places}

    def resume(self, places: list[Any]) -> None:
        self.paused -= {each.partition for each in places}

    def poll(self, timeout: float) -> Event | None:
        del timeout
        return self.events.pop(0) if self.events else None

    def consume(self, count: int, timeout: float) -> list[Event]:
        del timeout
        taken = min(count, self.at_once)
        found, self.events = self.events[:taken], self.events[taken:]
        return found

    def commit(self, offsets: list[Any], asynchronous: bool) -> None:
        assert asynchronous
        self.committed = {each.partition: each.offset for each in offsets}

    def close(self) -> None:
        self.is_closed = True


@dataclass
class FakeCluster:
    """Implements what is used of `Cluster`."""

    id: str | None = "first"
    """None if there is no topic."""
    begins: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    stops: dict[int, int] = field(default_factory=lambda: {0: 10, 1: 5})
    undecided: dict[int, int] = field(default_factory=dict)
    """How many records of a partition are behind an open transaction."""
    times: dict[int, int | None] = field(default_factory=dict)
    asked_ms: int | None = None
    is_closed: bool = False

    def __call__(self, name: str, settings: Any) -> Any:
        del name, settings
        return self

    def topic(self, name: str) -> Topic | None:
        return None if self.id is None else Topic(name, self.id, tuple(self.stops))

    def earliest(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        assert topic == TOPIC
        return {p: self.begins[p] for p in partitions}

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        assert topic == TOPIC
        return {p: self.stops[p] for p in partitions}

    def heads(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        assert topic == TOPIC
        return {p: self.stops[p] + self.undecided.get(p, 0) for p in partitions}

    def at(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int | None]:
        assert topic == TOPIC
        self.asked_ms = time_ms
        return {p: self.times.get(p) for p in partitions}

    def close(self) -> None:
        self.is_closed = True


CONNECTION = ConnectionSettings("k", "kafka", {"broker": "nowhere:9092"})
MESSAGES = MessageDefinition(origin=f'topic "{TOPIC}"', value=TextDefinition())


def definition() -> KafkaDefinition:
    return KafkaDefinition(
        connection=str(GlobalId.user(1)),
        topic=TOPIC,
        topic_id="first",
        start={0: 0, 1: 0},
        group="g",
        messages=MESSAGES,
    )


def surroundings() -> Surroundings:
    return Surroundings(lambda: 1_000_000, None, lambda _id: CONNECTION)
