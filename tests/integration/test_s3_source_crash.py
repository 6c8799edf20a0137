"""Killed again and again, a source of objects reads each line once, at the time of its binding."""

from __future__ import annotations

import random
import signal
from pathlib import Path
from typing import Any

import pytest

from waterclock.testing.crash.lives import Life
from waterclock.testing.crash.s3 import MANY, opened
from waterclock.testing.s3_source import Clients, definition, settings
from waterclock.testing.services import S3Server

BUCKET = "killed"
DEATHS = (0, 1, MANY, 0, 3)
"""How many batches the first read of each life gives before it ends."""


class Writer:
    """Writes objects under keys in no order."""

    def __init__(self, clients: Clients) -> None:
        self.s3 = clients.s3
        self.pick = random.Random(3)
        self.written: dict[str, list[str]] = {}

    @property
    def lines(self) -> int:
        return sum(map(len, self.written.values()))

    def write(self, count: int) -> None:
        for _ in range(count):
            key = f"{self.pick.randrange(10)}/{len(self.written)}"
            lines = [f"{key} line {i}" for i in range(self.pick.randrange(1, 5))]
            body = "".join(f"{line}\n" for line in lines).encode()
            self.s3.put_object(Bucket=BUCKET, Key=key, Body=body)
            self.written[key] = lines


def killed(folder: Path, endpoint: str, dies: int) -> int | None:
    """A life that ends in a read; how far the source was bound."""
    life = Life("s3", str(folder), endpoint, "1000000", str(dies))
    assert life.wait(300) == -signal.SIGKILL
    life.kill()
    server = opened(folder)
    bound, complete = server.uppers()
    server.close()
    assert bound != complete, "a binding waits for its data"
    return bound


def live(folder: Path, endpoint: str, rows: int) -> None:
    """A life that ends when there are so many rows."""
    life = Life("s3", str(folder), endpoint, str(rows))
    assert life.wait(300) == 0
    life.kill()


def rows_of(folder: Path) -> list[tuple[Any, ...]]:
    server = opened(folder)
    found = server.rows()
    server.close()
    return found


@pytest.mark.service
@pytest.mark.slow
@pytest.mark.semantics(113, 151, 155, 164)
def test_a_source_of_objects_is_killed(tmp_path: Path, s3_server: S3Server) -> None:
    clients, endpoint = Clients(settings(s3_server.endpoint)), s3_server.endpoint
    clients.s3.create_bucket(Bucket=BUCKET)
    (tmp_path / "definition").write_bytes(definition(BUCKET).encoded())
    writer = Writer(clients)
    for dies in DEATHS:
        before = len(rows_of(tmp_path))
        writer.write(10)
        bound = killed(tmp_path, endpoint, dies)
        assert killed(tmp_path, endpoint, 0) == bound, "a binding is read before the next is made"
        live(tmp_path, endpoint, before + 1)
    live(tmp_path, endpoint, writer.lines)
    check(tmp_path, writer.written)


def check(folder: Path, written: dict[str, list[str]]) -> None:
    """Everything is there once, at the time of its binding, and the progress is small."""
    server = opened(folder)
    remap, found = server.bindings(), server.rows()
    server.close()
    assert {diff for *_, diff in found} == {1}
    rows: dict[str, list[tuple[int, str, int]]] = {}
    for text, at, moment, _ in found:
        rows.setdefault(text.partition(" ")[0], []).append((at, text, moment))
    assert {key: [text for _, text, _ in sorted(lines)] for key, lines in rows.items()} == written
    bound = {binding.time: binding.frontier for binding in remap.bindings}
    for key, lines in rows.items():
        [moment] = {time for _, _, time in lines}
        assert moment == remap.time_of(key, 0)
        assert bound[moment].uppers[key] == sum(len(line) + 1 for line in written[key])
    last = remap.bindings[-1].frontier
    assert last.total == sum(len(text) + 1 for text, *_ in found)
    assert max(len(frontier.uppers) for frontier in bound.values()) == MANY + 1
    assert len(bound) > len(written) / MANY
