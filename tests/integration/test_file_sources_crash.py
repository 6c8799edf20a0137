"""Killed again and again, a source of files reads each line once, at the time of its binding."""

from __future__ import annotations

import random
import signal
import threading
import time
from pathlib import Path

import pytest

from waterclock.storage.reclock.remap import Remap
from waterclock.storage.sources.files.connector import FILES
from waterclock.testing.crash.files import LINES, REMAP, FilesServer
from waterclock.testing.crash.lives import Life

KILLS = 3


def run(folder: Path, lives_s: float | None, *how: str) -> None:
    """A server's life, which is ended, or ends with the last line."""
    life = Life("files", str(folder), *how)
    try:
        assert life.stdout.readline() == b"running\n"
        if lives_s is None:
            life.stdout.read()
            assert life.wait(600) == 0
            return
        assert life.stdout.readline() == (b"reading\n" if how else b"moved\n")
        time.sleep(lives_s)
    finally:
        life.kill()


def killed_while_it_reads(folder: Path, batches: int) -> int | None:
    """A server's life, which ends when a read has given so many batches; how far it was bound."""
    life = Life("files", str(folder), f"dies={batches}")
    assert life.wait() == -signal.SIGKILL
    life.kill()
    server = FilesServer(folder)
    uppers = server.uppers()
    server.close()
    assert uppers[LINES] != uppers[REMAP], "a binding waits for its data"
    return uppers[REMAP]


class Writer(threading.Thread):
    """Appends lines to two files, in pieces that do not end where lines end."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder
        self.ending = threading.Event()
        self.written: dict[str, list[str]] = {"a": [], "b": []}

    def run(self) -> None:
        pick = random.Random(3)
        number = 0
        with (self.folder / "a").open("a") as a, (self.folder / "b").open("a") as b:
            while not self.ending.is_set():
                name, file = pick.choice([("a", a), ("b", b)])
                lines = [f"line {number + i} {'x' * pick.randrange(200)}" for i in range(5)]
                number += len(lines)
                self.written[name] += lines
                text = "\n".join(lines) + "\n"
                cut = pick.randrange(len(text))
                for part in (text[:cut], text[cut:]):
                    file.write(part)
                    file.flush()
                    time.sleep(0.001)
            a.write("end\n")
        self.written["a"].append("end")


@pytest.mark.slow
@pytest.mark.semantics(113, 151, 164)
@pytest.mark.parametrize(("how", "kills"), [((), KILLS), (("spark",), 1)])
def test_killed_again_and_again(tmp_path: Path, how: tuple[str, ...], kills: int) -> None:
    (tmp_path / "in").mkdir()
    writer = Writer(tmp_path / "in")
    writer.start()
    pick = random.Random(7)
    pending = 0
    try:
        for _ in range(kills):
            run(tmp_path, pick.uniform(0.1, 0.5), *how)
            server = FilesServer(tmp_path)
            uppers = server.uppers()
            pending += uppers[LINES] != uppers[REMAP]
            server.close()
        if not how:
            bound = killed_while_it_reads(tmp_path, 0)
            assert killed_while_it_reads(tmp_path, 1) == bound
    finally:
        writer.ending.set()
        writer.join()
    print(f"{pending} bindings were pending after {kills} kills")
    run(tmp_path, None)
    server = FilesServer(tmp_path)
    try:
        check(server, tmp_path / "in", writer.written, bindings=2 if how else kills + 1)
    finally:
        server.close()


def check(server: FilesServer, folder: Path, written: dict[str, list[str]], bindings: int) -> None:
    updates = FILES.updates(server.updates(REMAP).to_batches())
    remap = Remap.of_updates(updates, more_may_appear=True)
    expected = []
    for name, lines in written.items():
        at = 0
        for line in lines:
            expected.append((line, at, remap.time_of(str(folder / name), at)))
            at += len(line) + 1
    found = server.updates(LINES).to_pydict()
    assert set(found["mz_diff"]) == {1}
    rows = zip(found["text"], found["at"], found["mz_timestamp"], strict=True)
    assert sorted(rows) == sorted(expected)
    assert len({row[2] for row in expected}) >= bindings
