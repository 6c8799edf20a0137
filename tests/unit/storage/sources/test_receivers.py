"""Sources whose messages come once: messages and binding are durable together, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from waterclock.model.schema import Schema
from waterclock.storage.api import Write
from waterclock.storage.envelopes.plain import Plain
from waterclock.storage.reclock.progress import SourceFrontier
from waterclock.storage.reclock.shape import KAFKA
from waterclock.storage.sources.api import (
    Kind,
    Messages,
    Received,
    Receiver,
    Surroundings,
    message_schema,
)
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.ingestion import Ingestion, Outcome
from waterclock.storage.sources.recency import Demand
from waterclock.storage.sources.status import Health
from waterclock.storage.sources.unchanged import unchanged
from waterclock.testing.source_world import KIND, OUTPUT, ROWS, Crash, SourceWorld, unreachable


@dataclass
class Radio:
    """A sender. It plays what was sent since a place that the listener has noted, and forgets what
    it has played to somebody who has said that it is durable.
    """

    sent: list[str] = field(default_factory=list)
    forgotten: int = 0
    at_once: int = 100
    fault: TransientFault | None = None
    warning: TransientFault | None = None
    opened: int = 0


class Set:
    """Implements `Receiver` and `Recalls`."""

    def __init__(self, radio: Radio) -> None:
        self._radio = radio
        self._place = 0
        radio.opened += 1

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {OUTPUT: ROWS}

    @property
    def is_linearizable(self) -> bool:
        return False

    def start(self) -> SourceFrontier:
        return SourceFrontier({0: 0}, True)

    def recall(self, notes: Mapping[str, bytes], complete_at_ms: int | None) -> None:
        del complete_at_ms
        self._place = int(notes.get("place", b"0"))

    def resume(self, frontier: SourceFrontier) -> None:
        assert frontier.uppers[0] == self._place, "the notes are those of the binding"

    def receive(self) -> Received:
        radio = self._radio
        if radio.fault is not None:
            raise radio.fault
        begin = self._place
        assert begin >= radio.forgotten, "what was forgotten is not asked for"
        texts = radio.sent[begin : begin + radio.at_once]
        self._place = end = begin + len(texts)
        frontier = SourceFrontier({0: end}, True)
        if not texts:
            return Received(frontier, warning=radio.warning)
        columns = [pa.array(texts), pa.array(range(begin, end)), pa.array([1] * len(texts))]
        batch = pa.record_batch(columns, schema=message_schema(ROWS))
        return Received(
            frontier,
            [Messages(OUTPUT, 0, batch)],
            {"place": b"%d" % end},
            radio.warning,
            has_more=end < len(radio.sent),
        )

    def commit(self, frontier: SourceFrontier) -> None:
        self._radio.forgotten = frontier.uppers[0]

    def close(self) -> None:
        pass


class Scene:
    def __init__(self) -> None:
        self.world = SourceWorld()
        self.radio = Radio()
        self.description = self.world.create(
            KIND, b"", KAFKA.schema, {OUTPUT: ROWS}, with_errors=True
        )
        self.ingestion = self.started()

    def started(self) -> Ingestion:
        kind = Kind(KAFKA, lambda _d, _s: Set(self.radio), lambda _d, _o: Plain())
        return self.world.ingestion(self.description, {KIND: kind}, Surroundings(self.world.clock))

    def restart(self) -> None:
        self.world.open()
        self.ingestion = self.started()

    def step(self) -> Outcome:
        return self.world.step(self.ingestion)

    def texts(self) -> dict[str, int]:
        """The messages with their times; each is there once."""
        updates = self.world.updates(self.description.outputs[OUTPUT])
        assert set(updates.values()) <= {1}
        return {row[0]: time for row, time in updates}


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.semantics(99)
def test_a_source_that_a_write_has_moved_on_binds_later_and_loses_nothing(scene: Scene) -> None:
    """Neither messages nor the note about the place, without which they would come again."""
    scene.radio.sent.append("a")
    scene.step()
    store, output = scene.world.store, scene.description.outputs[OUTPUT]
    read_at = (scene.world.upper(output) or 0) - 1
    store.commit(unchanged(store, [scene.description], [((output,), read_at)], read_at + 9000))
    scene.radio.sent.append("b")
    scene.step()
    assert scene.texts()["b"] == read_at + 9001
    scene.restart()
    scene.radio.sent.append("c")
    scene.step()
    assert set(scene.texts()) == {"a", "b", "c"}


def test_without_news_it_only_says_how_far_it_is_complete(scene: Scene) -> None:
    scene.radio.sent.append("a")
    scene.step()
    scene.radio.sent.append("b")
    wanted = scene.world.now + 700
    quiet = Demand(wanted, is_first=False, wants_head=False, wants_news=False)
    assert scene.ingestion.step(quiet).changed_at is None
    assert scene.world.upper(scene.description.outputs[OUTPUT]) == wanted + 1
    assert set(scene.texts()) == {"a"}
    scene.step()
    assert set(scene.texts()) == {"a", "b"}


def test_it_is_told_from_what_can_be_read_again(scene: Scene) -> None:
    assert isinstance(Set(scene.radio), Receiver)


def test_messages_are_bound_when_they_come(scene: Scene) -> None:
    scene.radio.sent += ["a", "b"]
    first = scene.step()
    scene.radio.sent.append("c")
    second = scene.step()
    assert first.changed_at is not None
    assert scene.texts() == {"a": first.changed_at, "b": first.changed_at, "c": second.changed_at}
    assert scene.radio.forgotten == 3
    assert scene.step().changed_at is None
    done = scene.ingestion.report().statistics
    assert (done.messages, done.updates, done.offsets_committed) == (3, 6, 3)


def test_the_rest_is_taken_at_once(scene: Scene) -> None:
    scene.radio.sent += list("abc")
    scene.radio.at_once = 2
    assert scene.step().again_ms == 0
    assert scene.step().again_ms is None
    assert len(scene.texts()) == 3


@pytest.mark.semantics(113, 114, 151)
@pytest.mark.parametrize("crashes_after", range(6))
def test_a_crash_anywhere(scene: Scene, crashes_after: int) -> None:
    """Every append is tried. None of them has a binding without its data, or data without it."""
    left = crashes_after

    def crashes(_writes: Sequence[Write]) -> bool:
        nonlocal left
        left -= 1
        return left < 0

    scene.world.crash_at = crashes
    for text in "abcd":
        scene.radio.sent.append(text)
        with suppress(Crash):
            scene.step()
        if scene.world.crash_at is None:
            break
    scene.world.crash_at = None
    scene.restart()
    remap, data = scene.description.remap, scene.description.outputs[OUTPUT]
    assert scene.world.upper(remap) == scene.world.upper(data)
    scene.step()
    assert sorted(scene.texts()) == sorted(scene.radio.sent)
    [(row, _)] = [
        each for each, diff in scene.world.updates(remap).items() if diff > 0 and each[0][1] != 0
    ][-1:]
    assert row == (0, len(scene.radio.sent))


def test_it_stalls_and_goes_on(scene: Scene) -> None:
    scene.step()
    scene.radio.fault = unreachable()
    before = scene.world.upper(scene.description.remap)
    assert scene.step().again_ms
    assert scene.ingestion.status.health is Health.STALLED
    assert scene.world.upper(scene.description.remap) == before, "nothing is complete meanwhile"
    scene.radio.fault = None
    scene.radio.sent.append("a")
    scene.step()
    assert list(scene.texts()) == ["a"]
    assert scene.radio.opened == 2


def test_a_warning_is_in_the_status_while_it_runs(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    scene.step()
    scene.radio.warning = unreachable()
    with caplog.at_level(logging.WARNING):
        scene.step()
        scene.step()
    status = scene.ingestion.status
    assert (status.health, status.error) == (Health.RUNNING, None)
    assert status.warning is scene.radio.warning
    assert len(caplog.records) == 1
    scene.radio.warning = None
    scene.step()
    assert scene.ingestion.status.warning is None


@pytest.mark.semantics(138, 139)
def test_recent_reads_are_refused(scene: Scene) -> None:
    demand = Demand(scene.world.now + 5, is_first=True, wants_head=True, wants_news=True)
    scene.radio.sent.append("a")
    scene.ingestion.step(demand)
    assert scene.ingestion.refusal is not None
    assert scene.ingestion.refusal.sqlstate == "0A000"
    assert list(scene.texts()) == ["a"]
