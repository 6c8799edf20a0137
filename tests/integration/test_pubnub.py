"""PubNub sources against a service that speaks its API over HTTP."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from waterclock.model.ids import GlobalId
from waterclock.runtime import SYSTEM
from waterclock.storage.formats.api import Included, JsonDefinition, MessageDefinition
from waterclock.storage.reclock.remap import Remap, RemapUpdate
from waterclock.storage.reclock.shape import PUBNUB
from waterclock.storage.sources.api import Surroundings
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.pubnub.answers import Cursor, HistoryRefused
from waterclock.storage.sources.pubnub.connector import KIND, NAME, OUTPUT, Pubnub
from waterclock.storage.sources.pubnub.creation import Wanted, define
from waterclock.storage.sources.pubnub.definition import decoded
from waterclock.storage.sources.pubnub.filling import AskHistory
from waterclock.storage.sources.pubnub.following import KEPT_MS
from waterclock.storage.sources.pubnub.service import Channel, Service
from waterclock.storage.sources.status import Health
from waterclock.testing.pubnub import CHANNEL, KEY, PubnubService, pubnub_service
from waterclock.testing.source_world import Crash, SourceWorld

pytestmark = pytest.mark.service
MESSAGES = MessageDefinition(
    origin=f'channel "{CHANNEL}"',
    value=JsonDefinition(),
    include=(Included("offset", "timetoken"), Included("partition", "region")),
)
POLL_S = 0.2


class Scene:
    """A source of the channel, in a world whose server a test kills."""

    def __init__(self, service: PubnubService, **wanted: Any) -> None:
        self.service = service
        self.world = SourceWorld()
        given = Wanted(KEY, CHANNEL, service.url, **wanted)
        definition = define(given, None, MESSAGES)
        [rows] = Pubnub(definition, self.surroundings).outputs.values()
        self.description = self.world.create(
            NAME, definition.encoded(), PUBNUB.schema, {OUTPUT: rows}, with_errors=True
        )
        self.start()

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(lambda: self.world.now)

    def start(self) -> None:
        kind = replace(KIND, open=self._open)
        self.ingestion = self.world.ingestion(self.description, {NAME: kind}, self.surroundings)

    def _open(self, definition: bytes, surroundings: Surroundings) -> Pubnub:
        """The connector, with polls that do not last."""

        def service(channel: Channel) -> Service:
            return Service(channel, poll_s=POLL_S)

        return Pubnub(decoded(definition), surroundings, service)

    def kill(self) -> None:
        """As kill -9 does: what was received and not committed is gone."""
        self.ingestion.close()
        self.world.open()
        self.start()

    def die(self) -> None:
        """Go on until the server dies."""
        deadline = time.monotonic() + 60
        with pytest.raises(Crash):
            self._step_until(deadline)

    def _step_until(self, deadline: float) -> None:
        while time.monotonic() < deadline:
            self.step()
            assert self.ingestion.status.health is Health.RUNNING

    def step(self) -> None:
        self.world.step(self.ingestion, later_ms=1)

    @property
    def data(self) -> GlobalId:
        return self.description.outputs[OUTPUT]

    @property
    def rows(self) -> list[tuple[Any, int]]:
        """The payloads with their timetokens, by the time of their binding."""
        found = []
        for ((payload, timetoken, _), time_bound), diff in self.world.updates(self.data).items():
            assert diff == 1, f"{payload} is there {diff} times"
            found.append((time_bound, timetoken, json.loads(payload)))
        return [
            (payload, timetoken) for _, timetoken, payload in sorted(found, key=lambda r: r[:2])
        ]

    @property
    def payloads(self) -> list[Any]:
        return [payload for payload, _ in self.rows]

    def until(self, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 120
        while not is_there():
            assert time.monotonic() < deadline, (len(self.payloads), self.ingestion.status)
            self.step()
            time.sleep(0.005)

    def until_payloads(self, expected: list[Any]) -> None:
        self.until(lambda: len(self.payloads) >= len(expected))
        assert self.payloads == expected

    def until_asked(self, times: int, count: int) -> None:
        """Until history was asked so often, or more messages than that are there."""
        self.until(lambda: self.service.count("/v3/history") >= times or len(self.payloads) > count)

    def until_more_than(self, count: int) -> None:
        self.until(lambda: len(self.payloads) > count)

    @property
    def warning(self) -> str | None:
        warning = self.ingestion.status.warning
        return None if warning is None else str(warning.detail)

    def remap(self) -> Remap:
        rows = self.world.updates(self.description.remap)
        updates = [
            RemapUpdate(PUBNUB._element(row), time, diff) for (row, time), diff in rows.items()
        ]
        return Remap.of_updates(updates, more_may_appear=True)


@pytest.fixture
def service() -> Iterator[PubnubService]:
    with pubnub_service() as found:
        yield found


@pytest.fixture
def scene(service: PubnubService) -> Iterator[Scene]:
    made = Scene(service)
    with closing(made.ingestion):
        yield made
        made.ingestion.close()


@pytest.mark.semantics(155, 168)
def test_messages_and_progress(scene: Scene, service: PubnubService) -> None:
    scene.step()
    assert scene.ingestion.status.health is Health.RUNNING
    service.wait_for_subscriber()
    sent = [service.publish({"n": n}) for n in range(5)]
    scene.until_payloads([{"n": n} for n in range(5)])
    assert [timetoken for _, timetoken in scene.rows] == sent
    sent += service.publish_all(*range(50))
    scene.until(lambda: len(scene.rows) == 55)
    assert [timetoken for _, timetoken in scene.rows] == sent
    bindings = scene.remap().bindings
    assert set(bindings[-1].frontier.uppers) == {4}
    assert bindings[-1].frontier.uppers[4] >= sent[-1]
    regions = {row[2] for row, _ in scene.world.updates(scene.data)}
    assert regions == {4}
    done = scene.ingestion.report().statistics
    assert (done.messages, done.lag_offsets) == (55, 0)
    assert scene.warning is None


def test_a_message_that_is_published_over_http(scene: Scene, service: PubnubService) -> None:
    scene.step()
    payload = urllib.parse.quote('{"a b": "ü/?&"}', safe="")
    path = f"/publish/pub/{KEY}/0/{CHANNEL}/0/{payload}?uuid=me&seqn=3"
    with urllib.request.urlopen(service.url + path) as response:
        assert json.load(response)[1] == "Sent"
    scene.until_payloads([{"a b": "ü/?&"}])


def test_what_was_published_before_the_first_poll_is_there(service: PubnubService) -> None:
    service.publish("too early")
    scene = Scene(service)
    with closing(scene.ingestion):
        service.publish("in time")
        scene.until_payloads(["in time"])


@pytest.mark.semantics(113, 114, 151)
def test_binding_and_data_are_one_commit(scene: Scene, service: PubnubService) -> None:
    scene.step()
    sent: list[Any] = []
    for number in range(6):
        sent.append(number)
        service.publish(number)
        filled = {scene.data, scene.description.remap}

        def crashes(writes: Any, filled: set[GlobalId] = filled) -> bool:
            named = {write.capability.id for write in writes if write.updates is not None}
            assert not named & filled or filled <= named, "both or none"
            return bool(named & filled)

        scene.world.crash_at = crashes
        scene.die()
        scene.kill()
        scene.until_payloads(sent)


def test_connections_that_break_in_the_middle_of_an_answer(
    scene: Scene, service: PubnubService
) -> None:
    scene.step()
    service.breaks = 1
    service.publish_all(*range(20))
    scene.until_payloads(list(range(20)))
    assert scene.ingestion.status.health is Health.RUNNING
    service.breaks = 4  # more than is tried at once
    service.publish_all(*range(20, 40))
    scene.until_payloads(list(range(40)))
    assert service.breaks == 0
    assert scene.warning is None


def test_answers_that_come_again(scene: Scene, service: PubnubService) -> None:
    scene.step()
    service.repeats = 3
    service.publish_all("a", "b", "a")
    scene.until(lambda: service.repeats == 0 and len(scene.rows) >= 3)
    service.publish("end")
    scene.until(lambda: "end" in scene.payloads)
    assert scene.payloads == ["a", "b", "a", "end"], "equal payloads are different messages"


def test_another_region(scene: Scene, service: PubnubService) -> None:
    scene.step()
    service.publish_all(1, 2)
    scene.until_payloads([1, 2])
    service.region = 7
    service.publish_all(3, 4)
    scene.until_payloads([1, 2, 3, 4])
    service.publish(5, region=4)
    scene.until_payloads([1, 2, 3, 4, 5])
    assert set(scene.remap().bindings[-1].frontier.uppers) == {4, 7}
    scene.kill()
    service.publish(6)
    scene.until_payloads([1, 2, 3, 4, 5, 6])


def test_more_than_the_queue_holds_comes_from_history(scene: Scene, service: PubnubService) -> None:
    scene.step()
    service.publish_all(*range(1000))
    scene.until_payloads(list(range(1000)))
    assert scene.warning is None
    assert service.count("/v3/history") > 0


def test_history_that_is_late(scene: Scene, service: PubnubService) -> None:
    service.history_lag_s = 1.0
    scene.step()
    service.publish_all(*range(250))
    scene.until_payloads(list(range(250)))
    assert scene.warning is None


@pytest.mark.parametrize("history", ["auto", "off"])
def test_without_history_a_gap_is_a_warning_that_stays(
    service: PubnubService, history: str
) -> None:
    service.has_history = False
    scene = Scene(service, history=history)
    with closing(scene.ingestion):
        scene.step()
        service.publish_all(*range(150))
        scene.until_payloads(list(range(50, 150)))
        status = scene.ingestion.status
        assert status.health is Health.RUNNING
        assert status.warning is not None
        assert str(status.warning) == f'messages of channel "{CHANNEL}" may be missing'
        assert "more had been published" in str(scene.warning)
        assert "It has happened once" in str(scene.warning)
        service.publish_all(*range(150))
        scene.until(lambda: len(scene.payloads) == 200)
        assert "It has happened 2 times" in str(scene.warning)
    scene.kill()
    with closing(scene.ingestion):
        scene.step()
        assert "It has happened 2 times" in str(scene.warning)


def test_a_pause_that_is_too_long_for_the_queue(scene: Scene, service: PubnubService) -> None:
    scene.step()
    service.publish("before")
    scene.until_payloads(["before"])
    scene.ingestion.close()
    service.publish_all(*range(130))
    service.ahead_s = KEPT_MS / 1000 + 60
    service.forget()
    scene.kill()
    service.publish("after")
    scene.until_payloads(["before", *range(130), "after"])
    assert scene.warning is None


def test_crashes_while_a_gap_is_filled(scene: Scene, service: PubnubService) -> None:
    scene.step()
    service.publish("before")
    scene.until_payloads(["before"])
    service.publish_all(*range(5000))
    kills = 0
    while (count := len(scene.payloads)) <= 5000:
        asked = service.count("/v3/history")
        scene.until_asked(asked + 3, 5000)
        scene.kill()
        scene.until_more_than(count)
        scene.kill()
        kills += 2
    assert kills > 2
    assert scene.payloads == ["before", *range(5000)]
    assert scene.warning is None


def test_a_start_in_the_past(service: PubnubService) -> None:
    service.publish("long ago")
    begin = SYSTEM.wall_ms() + 1
    while SYSTEM.wall_ms() <= begin:
        pass
    service.publish_all(*range(300))
    service.forget()
    scene = Scene(service, start_ms=begin)
    with closing(scene.ingestion):
        scene.until_payloads(list(range(300)))


@pytest.mark.parametrize("status", [403, 429, 500, 302])
def test_a_service_that_refuses_lets_the_source_stall(
    scene: Scene, service: PubnubService, status: int
) -> None:
    scene.step()
    service.publish(1)
    scene.until_payloads([1])
    service.status = status
    scene.until(lambda: scene.ingestion.status.health is Health.STALLED)
    error = scene.ingestion.status.error
    assert f"answered with {status}: as told" in str(error)
    bound_at = scene.world.upper(scene.data)
    for _ in range(3):
        scene.step()
    assert scene.world.upper(scene.data) == bound_at, "nothing is complete meanwhile"
    service.status = 200
    service.publish(2)
    scene.until_payloads([1, 2])
    assert scene.ingestion.status.health is Health.RUNNING


def test_closing_does_not_wait_for_a_poll(service: PubnubService) -> None:
    channel = Channel(service.url, KEY, CHANNEL, "me")
    with closing(Service(channel)) as asked:
        end = asked.end()
    definition = define(Wanted(KEY, CHANNEL, service.url), None, MESSAGES)
    connector = Pubnub(definition, Surroundings(SYSTEM.wall_ms))
    connector.receive()
    service.wait_for_subscriber()
    began = time.monotonic()
    connector.close()
    assert time.monotonic() - began < 20
    assert end.region == 4


def test_what_the_service_is_asked(service: PubnubService) -> None:
    service.auth = "s3cret&"
    channel = Channel(service.url, KEY, CHANNEL, "me", service.auth)
    with closing(Service(channel, poll_s=0.05)) as asked:
        end = asked.end()
        assert asked.poll(end) is None
        assert asked.poll(end) is None, "on another connection"
        token = service.publish({"n": 1}, meta={"m": 2})
        answer = asked.poll(end)
        assert answer is not None
        assert answer.messages[0].timetoken == token
        [stored] = asked.history(AskHistory(token - 1, token)).messages
        assert (stored.payload, stored.meta, stored.issuer) == (b'{"n": 1}', b'{"m": 2}', "tester")
        assert asked.history(AskHistory(token, token + 5)).messages == ()
        service.has_history = False
        with pytest.raises(HistoryRefused, match="Storage is not enabled"):
            asked.history(AskHistory(0, token))
    assert "s3cret" not in repr(channel)
    denied = Service(replace(channel, auth="wrong"))
    with closing(denied), pytest.raises(TransientFault) as raised:
        denied.poll(Cursor(5, 4))
    assert "403: Forbidden" in str(raised.value)
    assert "wrong" not in f"{raised.value} {raised.value.detail} {raised.value.hint}"


def test_nobody_listens() -> None:
    asked = Service(Channel("http://127.0.0.1:1", KEY, CHANNEL, "me"))
    with closing(asked), pytest.raises(TransientFault, match="could not ask the PubNub service"):
        asked.end()
