"""Killed again and again, a PubNub source has each message once, where it was received."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from pathlib import Path

import pytest

from waterclock.storage.formats.api import Included, JsonDefinition, MessageDefinition
from waterclock.storage.sources.pubnub.creation import Wanted, define
from waterclock.storage.sources.pubnub.position import losses_noted
from waterclock.storage.sources.stamping import SOURCE_WIDE, SourceNotes
from waterclock.testing.crash.lives import Life
from waterclock.testing.crash.one_source import NOTES, OneSourceServer
from waterclock.testing.crash.pubnub import opened
from waterclock.testing.pubnub import CHANNEL, KEY, PubnubService, pubnub_service

pytestmark = [pytest.mark.service, pytest.mark.slow]
KILLS = 4
MESSAGES = MessageDefinition(
    origin="the channel", value=JsonDefinition(), include=(Included("offset", "timetoken"),)
)


class Publisher(threading.Thread):
    """Publishes numbers, a few at once and in bursts that no queue holds. Sometimes the service
    breaks an answer off, gives one again, or has us move.
    """

    def __init__(self, service: PubnubService) -> None:
        super().__init__()
        self.service = service
        self.ending = threading.Event()
        self.timetokens: list[int] = []

    def publish(self, count: int) -> None:
        begin = len(self.timetokens)
        self.timetokens += self.service.publish_all(*range(begin, begin + count))

    def run(self) -> None:
        pick = random.Random(5)
        while not self.ending.wait(pick.uniform(0.005, 0.05)):
            match pick.randrange(12):
                case 0:
                    self.publish(pick.randrange(120, 300))
                case 1:
                    self.service.breaks = 1
                case 2:
                    self.service.repeats = 1
                case 3:
                    self.service.region = 11 - self.service.region
                case _:
                    self.publish(pick.randrange(1, 10))


def killed(folder: Path, lives_s: float) -> None:
    """A server's life, which is ended after a while."""
    life = Life("pubnub", str(folder))
    try:
        assert life.stdout.readline() == b"running\n"
        time.sleep(lives_s)
        assert life.wait(0) is None, "it is killed before the end"
    finally:
        life.kill()


def killed_with_what_it_received(folder: Path, times: int) -> None:
    """A server's life, which ends when something has arrived so many times, and is not durable."""
    life = Life("pubnub", str(folder), f"dies={times}")
    assert life.wait(120) == -signal.SIGKILL
    life.kill()


def require_together(folder: Path) -> None:
    """A binding is never there without its data."""
    server = opened(folder)
    remap, rows = server.uppers()
    server.close()
    assert remap == rows


@pytest.mark.semantics(113, 114, 151)
def test_killed_again_and_again(tmp_path: Path) -> None:
    pick = random.Random(7)
    with pubnub_service() as service:
        wanted = Wanted(KEY, CHANNEL, service.url)
        definition = define(wanted, None, MESSAGES)
        (tmp_path / "definition").write_bytes(definition.encoded())
        publisher = Publisher(service)
        publisher.publish(1)
        publisher.start()
        try:
            for _ in range(KILLS):
                killed(tmp_path, pick.uniform(0.2, 0.7))
                require_together(tmp_path)
            for times in range(3):
                killed_with_what_it_received(tmp_path, times)
                require_together(tmp_path)
        finally:
            publisher.ending.set()
            publisher.join()
        service.breaks = service.repeats = 0
        publisher.publish(1)
        life = Life("pubnub", str(tmp_path), str(len(publisher.timetokens)))
        try:
            assert life.wait(120) == 0
        finally:
            life.kill()
    check(opened(tmp_path), publisher.timetokens)


def check(server: OneSourceServer, timetokens: list[int]) -> None:
    """Everything is there once, at the time of a binding."""
    rows = server.rows()
    bindings = server.bindings()
    batches = [message.batch for message in server._updates(NOTES)]
    server.close()
    assert {diff for *_, diff in rows} == {1}
    found = {timetoken: json.loads(payload) for payload, timetoken, _, _ in rows}
    assert len(found) == len(rows), "nothing is there twice"
    assert found == {timetoken: n for n, timetoken in enumerate(timetokens)}
    assert {time_bound for *_, time_bound, _ in rows} <= {b.time for b in bindings.bindings}
    assert not losses_noted(SourceNotes(batches).of(SOURCE_WIDE)).last
    print(f"{len(rows)} messages in {len(bindings.bindings)} bindings")
