"""Upserts whose server is killed around its commits: contents and state on disk stay as one."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path

import pytest

from waterclock.model.ids import GlobalId
from waterclock.storage.api import Progress, Updates
from waterclock.storage.sources.ledger import STATES
from waterclock.testing.crash.lives import Life
from waterclock.testing.crash.upserts import ERRORS, ROWS, TOTAL, UpsertServer, record


def live(folder: Path, *arguments: str) -> int | None:
    life = Life("upserts", str(folder), *arguments)
    try:
        return life.wait(120)
    finally:
        life.kill()


def contents(server: UpsertServer, collection: GlobalId) -> Counter[tuple[object, ...]]:
    found: Counter[tuple[object, ...]] = Counter()
    subscription = server.storage.subscribe_at(server.holds.capability(collection))
    for message in subscription:
        match message:
            case Updates(batch):
                for *row, _, diff in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    found[tuple(row)] += diff
            case Progress(frontier) if frontier.is_empty:
                break
    subscription.close()
    return Counter({row: count for row, count in found.items() if count})


def state_folders(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "state" / str(ROWS)).iterdir())


@pytest.mark.semantics(149)
def test_killed_around_commits(tmp_path: Path) -> None:
    folders = []
    for kill in ("after=5", "before=4", "before=7", "after=4", "before=3", "after=2"):
        assert live(tmp_path, kill) == -signal.SIGKILL
        folders += state_folders(tmp_path)
    assert len(set(folders)) == 1, "the state is opened again each time, and never made anew"
    files = sorted((tmp_path / "state").rglob("*.arrow"))
    files[0].write_bytes(b"a disk that lies")
    assert live(tmp_path, "before=5") == -signal.SIGKILL
    [healed] = state_folders(tmp_path)
    assert healed not in folders, "what is damaged is thrown away"
    assert live(tmp_path) == 0
    wanted: dict[bytes, bytes] = {}
    for offset in range(TOTAL):
        key, value = record(offset)
        assert key is not None
        wanted.pop(key, None)
        if value is not None:
            wanted[key] = value
    rows = {(k.decode(), int(v[6:-1])): 1 for k, v in wanted.items() if v != b"no json"}
    wrong = {f'key ["{k.decode()}"]' for k, v in wanted.items() if v == b"no json"}
    server = UpsertServer(tmp_path)
    try:
        assert contents(server, ROWS) == rows
        assert {key for key, _ in contents(server, ERRORS)} == wrong
        assert wrong, "errors are part of it"
        assert [k for k in server.store.read(lambda s: list(s.notes)) if k.startswith(STATES)]
    finally:
        server.close()
