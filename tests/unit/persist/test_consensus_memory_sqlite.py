"""The logs that need no server, and what SQLite alone promises."""

from __future__ import annotations

import contextlib
import json
import signal
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from waterclock.persist.consensus import sqlite
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.consensus.sqlite import SqliteConsensus
from waterclock.persist.errors import Damaged, Unavailable
from waterclock.testing.conformance.consensus import ConsensusConformance, OpenLog, fill


class TestMemoryConsensus(ConsensusConformance):
    @pytest.fixture
    def open_log(self) -> OpenLog:
        log = MemoryConsensus()
        return lambda: log


class TestSqliteConsensus(ConsensusConformance):
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "log.db"

    @pytest.fixture
    def open_log(self, path: Path) -> OpenLog:
        return lambda: SqliteConsensus(path, busy_timeout_ms=60_000, page_bytes=100)

    def test_every_commit_is_synced(self, path: Path) -> None:
        with contextlib.closing(SqliteConsensus(path)) as log:
            connection = log._connection
            assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
            assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
            assert not connection.in_transaction
            log.append(1, b"x")
            assert not connection.in_transaction

    def test_a_read_that_rests_holds_no_lock(self, path: Path) -> None:
        with contextlib.closing(SqliteConsensus(path, page_bytes=100)) as log:
            fill(log, 50)
            reader = log.read(1)
            next(reader)
            (busy, _, _) = log._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            assert busy == 0
            assert len(list(reader)) == 49

    def test_a_locked_file_is_unavailable(self, path: Path) -> None:
        with (
            contextlib.closing(SqliteConsensus(path, busy_timeout_ms=20)) as log,
            contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other,
        ):
            log.append(1, b"a")
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable, match="locked"):
                log.append(2, b"b")
            assert list(log.read(1)) == [(1, b"a")]
            other.execute("ROLLBACK")
            log.append(2, b"b")

    def test_a_folder_that_does_not_exist_is_unavailable(self, tmp_path: Path) -> None:
        with pytest.raises(Unavailable, match="could not open log"):
            SqliteConsensus(tmp_path / "missing" / "log.db")

    @pytest.mark.parametrize("size", [1_000, 100_000])
    def test_a_file_that_is_not_a_database_is_damaged(self, path: Path, size: int) -> None:
        path.write_bytes(b"not a database. " * (size // 16))
        with pytest.raises(Damaged, match=r"log\.db") as caught:
            SqliteConsensus(path)
        assert caught.value.hint is not None

    def test_broken_pages_are_damage(self, path: Path) -> None:
        with contextlib.closing(SqliteConsensus(path)) as log:
            fill(log, 5)
            for position in range(6, 60):
                log.append(position, b"x" * 5_000)
        whole = path.read_bytes()
        path.write_bytes(whole[:8_192] + b"\xff" * (len(whole) - 8_192))
        with pytest.raises(Damaged), contextlib.closing(SqliteConsensus(path)) as log:
            list(log.read(1))

    def test_a_write_ahead_log_in_use_has_its_full_size_at_once(self, path: Path) -> None:
        wal = path.with_name("log.db-wal")
        with contextlib.closing(SqliteConsensus(path)) as log:
            fill(log, 63)
            assert wal.stat().st_size < 1_000_000, "not worth while yet"
            log.append(64, b"x" * 4_000)
            size = wal.stat().st_size
            assert size >= 1000 * 8192
            for position in range(65, 900):
                log.append(position, b"x" * 4_000)
            assert wal.stat().st_size <= size + 100_000
            assert [position for position, _ in log.read(1)] == [*range(1, 900)]

    def test_a_write_ahead_log_that_can_not_grow_is_no_obstacle(
        self, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        grow = ("BEGIN IMMEDIATE", "INSERT INTO missing VALUES (0)")
        monkeypatch.setattr(sqlite, "_GROW", grow)
        with contextlib.closing(SqliteConsensus(path)) as log:
            fill(log, 100)
            assert log.end() == 101
        with contextlib.closing(SqliteConsensus(path)) as log:
            assert len(list(log.read(1))) == 100

    def test_the_write_ahead_log_does_not_grow_without_end(self, path: Path) -> None:
        with contextlib.closing(SqliteConsensus(path)) as log:
            for position in range(1, 60):
                log.append(position, bytes(500_000))
                log.truncate(position)
            assert path.with_name("log.db-wal").stat().st_size < 12 << 20
            assert path.stat().st_size < 12 << 20


RACE = """
    import json, sys
    from pathlib import Path
    from waterclock.persist.consensus.sqlite import SqliteConsensus
    from waterclock.persist.errors import PositionTaken

    racer, rounds = sys.argv[2], int(sys.argv[3])
    log = SqliteConsensus(Path(sys.argv[1]), busy_timeout_ms=60_000)
    won, lost = [], 0
    while len(won) < rounds:
        position = log.end()
        try:
            log.append(position, f"{racer}:{len(won)}".encode())
        except PositionTaken:
            lost += 1
        else:
            won.append([position, f"{racer}:{len(won)}"])
        if len(won) % 20 == 0 and position > 30:
            log.truncate(position - 30)
    log.close()
    print(json.dumps(won))
"""

APPEND_FOR_EVER = """
    import itertools, sys
    from pathlib import Path
    from waterclock.persist.consensus.sqlite import SqliteConsensus

    log = SqliteConsensus(Path(sys.argv[1]))
    for position in itertools.count(1):
        log.append(position, position.to_bytes(4, "big") * 1250)
        print(position, flush=True)
"""


def script(source: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(source), *arguments]


def test_processes_race_on_one_file(tmp_path: Path) -> None:
    path, rounds, racers = tmp_path / "log.db", 100, 3
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    script(RACE, str(path), str(racer), str(rounds)), stdout=subprocess.PIPE
                )
            )
            for racer in range(racers)
        ]
        outputs = [process.communicate(timeout=120)[0] for process in processes]
        assert [process.returncode for process in processes] == [0] * racers
    won = sorted((position, entry) for output in outputs for position, entry in json.loads(output))
    assert [position for position, _ in won] == list(range(1, racers * rounds + 1))
    with contextlib.closing(SqliteConsensus(path)) as log:
        assert log.end() == racers * rounds + 1
        retained = [(position, entry.decode()) for position, entry in log.read(1)]
    assert retained == won[-len(retained) :]


def test_a_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with subprocess.Popen(script(APPEND_FOR_EVER, str(path)), stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(100)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout]
    with contextlib.closing(SqliteConsensus(path)) as log:
        found = list(log.read(1))
        assert len(acknowledged) <= len(found) <= len(acknowledged) + 1
        assert found == [(n, n.to_bytes(4, "big") * 1250) for n in range(1, len(found) + 1)]
        log.append(log.end(), b"on we go")
