"""Killed again and again, a source of objects reads each line once, at the time of its binding."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

import pytest

from waterclock.storage.reclock.remap import Remap
from waterclock.storage.reclock.shape import S3
from waterclock.testing.crash.lines import ERRORS, LINES, REMAP
from waterclock.testing.crash.lives import Life
from waterclock.testing.crash.s3 import ObjectsServer
from waterclock.testing.s3_source import Clients, settings
from waterclock.testing.services import S3Server

pytestmark = [pytest.mark.service, pytest.mark.slow]
BUCKET = "killed"
KILLS = 3


class Writer(threading.Thread):
    """Writes objects under keys in no order, until it is told to end."""

    def __init__(self, clients: Clients) -> None:
        super().__init__()
        self.s3 = clients.s3
        self.ending = threading.Event()
        self.written: dict[str, list[str]] = {}

    def run(self) -> None:
        pick = random.Random(3)
        while not self.ending.is_set():
            key = f"{pick.randrange(10)}/{len(self.written)}"
            self.put(key, [f"{key} line {i}" for i in range(pick.randrange(1, 5))])
        self.put("0/end", ["end"])

    def put(self, key: str, lines: list[str]) -> None:
        body = "".join(f"{line}\n" for line in lines).encode()
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
        self.written[key] = lines


def killed_while_it_reads(folder: Path, endpoint: str, batches: int) -> int | None:
    """A server's life, which ends when a read has given so many batches; how far it was bound."""
    life = Life("s3", str(folder), endpoint, BUCKET, f"dies={batches}")
    assert life.wait() == -signal.SIGKILL
    life.kill()
    server = ObjectsServer(folder, endpoint, BUCKET)
    uppers = server.uppers()
    server.close()
    assert uppers[LINES] != uppers[REMAP], "a binding waits for its data"
    return uppers[REMAP]


@pytest.mark.semantics(113, 151, 155, 164)
def test_a_source_of_objects_is_killed(tmp_path: Path, s3_server: S3Server) -> None:
    clients, endpoint = Clients(settings(s3_server.endpoint)), s3_server.endpoint
    clients.s3.create_bucket(Bucket=BUCKET)
    writer = Writer(clients)
    writer.start()
    pick = random.Random(7)
    try:
        for _ in range(KILLS):
            life = Life("s3", str(tmp_path), endpoint, BUCKET)
            assert life.stdout.readline() == b"running\n"
            assert life.stdout.readline() == b"moved\n"
            time.sleep(pick.uniform(0.1, 0.5))
            life.kill()
        bound = killed_while_it_reads(tmp_path, endpoint, 0)
        assert killed_while_it_reads(tmp_path, endpoint, 1) == bound
    finally:
        writer.ending.set()
        writer.join()
    life = Life("s3", str(tmp_path), endpoint, BUCKET)
    assert b"running\n" in life.stdout.read()
    assert life.wait(600) == 0
    life.kill()
    server = ObjectsServer(tmp_path, endpoint, BUCKET)
    try:
        check(server, writer.written)
    finally:
        server.close()


def check(server: ObjectsServer, written: dict[str, list[str]]) -> None:
    """Everything that was read before the end is there once, at the time of its binding."""
    updates = S3.updates(server.updates(REMAP).to_batches())
    remap = Remap.of_updates(updates, more_may_appear=True)
    found = server.updates(LINES).to_pydict()
    assert set(found["mz_diff"]) == {1}
    times: dict[str, set[int]] = {}
    rows: dict[str, list[tuple[int, str]]] = {}
    for text, at, moment in zip(found["text"], found["at"], found["mz_timestamp"], strict=True):
        key = "0/end" if text == "end" else text.partition(" ")[0]
        times.setdefault(key, set()).add(moment)
        rows.setdefault(key, []).append((at, text))
    bound = {binding.time: binding.frontier for binding in remap.bindings}
    for key, lines in written.items():
        if key in rows:  # what comes after the line that ends it may not be
            assert [text for _, text in sorted(rows[key])] == lines
            [moment] = times[key]
            assert moment == remap.time_of(key, 0)
            assert bound[moment].uppers[key] == sum(len(line) + 1 for line in lines)
    end = server.uppers()[LINES]
    assert end is not None
    last = remap.at(end - 1)  # a later binding may not have been read when it ended
    assert last is not None
    assert last.total == sum(len(text) + 1 for text in found["text"])
    assert max(len(frontier.uppers) for frontier in bound.values()) <= 7
    assert server.updates(ERRORS).num_rows == 0
    assert len(bound) > KILLS
