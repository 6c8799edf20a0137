"""Any byte of a data directory that is flipped, cut off or missing is reported, or does no harm."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from waterclock.persist.blob.files import FileBlob
from waterclock.persist.consensus.sqlite import SqliteConsensus
from waterclock.persist.consensus.witness import SYNC_EVERY, Witness, read_witness
from waterclock.persist.directory import DataDirectory
from waterclock.persist.errors import Damaged
from waterclock.persist.places import Places
from waterclock.testing import damage

TRIALS = int(os.environ.get("WATERCLOCK_DAMAGE_TRIALS", "120"))
SEED = int(os.environ.get("WATERCLOCK_DAMAGE_SEED", "1"))


@pytest.mark.timeout(600)
def test_no_damage_is_silent() -> None:
    with damage.memory_folder() as folder:
        outcomes = damage.run(folder, SEED, TRIALS)
    assert outcomes["reported"] > TRIALS // 3
    assert outcomes["the same"] > TRIALS // 20, "some bytes mean nothing"


def test_without_the_witness_damage_would_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So the trials above are worth something."""

    def forgets(log: SqliteConsensus, witness: Witness | None) -> Witness:
        if witness is not None:
            witness.close()
        return Witness.create(log._path, 0)

    monkeypatch.setattr(SqliteConsensus, "_compared", forgets)
    with pytest.raises(damage.Silent):
        damage.run(tmp_path, 1, 400)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def filled(log: Path, entries: int) -> None:
    with closing(SqliteConsensus(log)) as consensus:
        end = consensus.end()
        for position in range(end, end + entries):
            consensus.append(position, b"x" * 100)


def test_a_write_ahead_log_that_ends_early_is_damage(log: Path) -> None:
    """SQLite ends the log at the first frame whose checksum does not fit, and says nothing."""
    with closing(SqliteConsensus(log)) as consensus:
        for position in range(1, 60):
            consensus.append(position, b"x" * 3000)
        wal = log.with_name("log.db-wal").read_bytes()
        database = log.read_bytes()
        witness = Witness.path_of(log).read_bytes()
    middle = len(wal) // 2
    flipped = wal[:middle] + bytes(byte ^ 0x55 for byte in wal[middle : middle + 3])
    log.with_name("log.db-wal").write_bytes(flipped + wal[middle + 3 :])
    log.write_bytes(database)
    Witness.path_of(log).write_bytes(witness)
    with pytest.raises(Damaged, match="acknowledged entries are missing") as caught:
        SqliteConsensus(log)
    assert caught.value.detail is not None
    assert "entry 59 was acknowledged" in caught.value.detail


@pytest.mark.parametrize("slot", [0, 1])
def test_one_slot_of_the_witness_is_enough(log: Path, slot: int) -> None:
    filled(log, 7)
    path = Witness.path_of(log)
    data = bytearray(path.read_bytes())
    data[512 * slot + 9] ^= 1
    path.write_bytes(data)
    assert read_witness(log) == (7 if slot == 0 else 6)
    filled(log, 2)
    assert read_witness(log) == 9


def test_a_missing_witness_is_damage(log: Path) -> None:
    filled(log, 3)
    Witness.path_of(log).unlink()
    with pytest.raises(Damaged, match=r"log\.db-head"):
        SqliteConsensus(log)


def test_a_log_of_an_older_version_gets_a_witness(log: Path) -> None:
    filled(log, 3)
    Witness.path_of(log).unlink()
    with closing(sqlite3.connect(log)) as connection:
        connection.execute("PRAGMA user_version = 0")
    filled(log, 1)
    assert read_witness(log) == 4


def test_a_log_that_is_gone_is_not_made_anew(log: Path) -> None:
    filled(log, 3)
    log.unlink()
    with pytest.raises(Damaged, match="is missing"):
        SqliteConsensus(log)
    assert not log.exists()


def test_a_directory_without_log_that_is_not_new_is_damage(tmp_path: Path) -> None:
    FileBlob(tmp_path / "blobs").put("shard/u1/1-x.parquet", b"data")
    with pytest.raises(Damaged, match="is missing"):
        DataDirectory(tmp_path)


def test_a_damaged_note_of_places_is_told(tmp_path: Path) -> None:
    (tmp_path / "PLACES").write_bytes(b'{"log": \xff')
    with pytest.raises(Damaged, match="PLACES"):
        Places().claim(tmp_path)


def test_the_witness_is_never_ahead(log: Path) -> None:
    """It moves after the entry is durable; a failure to write it loses nothing but its news."""
    with closing(SqliteConsensus(log)) as consensus:
        for position in range(1, SYNC_EVERY + 5):
            consensus.append(position, b"x")
            assert read_witness(log) == position
        consensus._witness.close()
        consensus._witness = Witness(os.open("/dev/full", os.O_RDWR), 0)
        consensus.append(SYNC_EVERY + 5, b"x")
        assert consensus.end() == SYNC_EVERY + 6
    assert read_witness(log) == SYNC_EVERY + 4
    filled(log, 1)
    assert read_witness(log) == SYNC_EVERY + 6
