"""One server per data directory, told by the kernel."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from waterclock.persist import spill
from waterclock.persist.directory import DataDirectory
from waterclock.persist.errors import DataInUse, Unavailable
from waterclock.persist.store import Store
from waterclock.testing.persist_world import (
    append,
    contents,
    create,
    numbers,
    open_store,
    snapshot_batches,
)

HOLD = """
import sys
from pathlib import Path
from waterclock.persist import spill
from waterclock.persist.directory import DataDirectory
held = DataDirectory(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another process that has the directory open."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"held\n"
            yield process
        finally:
            process.kill()


def opened(path: Path) -> tuple[DataDirectory, Store]:
    directory = DataDirectory(path)
    return directory, open_store(directory.blob, directory.consensus)


def closed(directory: DataDirectory, store: Store) -> None:
    store.close()
    directory.release()


@pytest.mark.semantics(43)
def test_a_directory_is_made_and_keeps_its_data(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    directory, store = opened(path)
    create(store, "s")
    append(store, "s", 1, numbers([(n, 0, 1) for n in range(2000)]))
    append(store, "s", 2, numbers([(0, 1, -1)]))
    closed(directory, store)
    assert {entry.name for entry in path.iterdir()} >= {"LOCK", "log.db", "blobs"}
    directory, store = opened(path)
    assert contents(store, "s", 1) == {(n,): 1 for n in range(1, 2000)}
    closed(directory, store)


def test_a_second_opener_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        with pytest.raises(DataInUse, match=f"in use by process {process.pid}$") as refusal:
            DataDirectory(tmp_path)
        assert str(tmp_path) in refusal.value.message
        assert refusal.value.hint is not None


def test_the_lock_of_a_killed_server_is_free(tmp_path: Path) -> None:
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait(120)
        directory = DataDirectory(tmp_path)
        assert (tmp_path / "LOCK").read_text() == f"{os.getpid()}\n"
        directory.consensus.close()
        directory.release()


def test_the_same_process_can_not_open_it_twice_but_again(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(DataInUse, match=f"process {os.getpid()}"):
        DataDirectory(tmp_path)
    first.consensus.close()
    first.release()
    second = DataDirectory(tmp_path)
    second.consensus.close()
    second.release()


def test_what_a_crash_left_half_written_is_removed(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    first.consensus.close()
    first.release()
    leftover = tmp_path / "blobs" / "tmp~" / "leftover"
    leftover.write_bytes(b"half")
    second = DataDirectory(tmp_path)
    assert not leftover.exists()
    second.consensus.close()
    second.release()


def test_temporary_files_are_in_the_directory_and_a_killed_servers_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "IN_MEMORY_ROWS", 100)
    first = DataDirectory(tmp_path)
    store = Store.open(first.blob, first.consensus, "first", scratch=first.scratch)
    create(store, "s")
    append(store, "s", 1, numbers([(n, 0, -1) for n in range(300)]))
    reading = snapshot_batches(store, "s", 0)
    assert next(reading).num_rows
    [spilled] = (tmp_path / "scratch").iterdir()
    assert list(spilled.iterdir())
    store.close()
    first.release()  # as when it is killed: the reader is not closed
    second = DataDirectory(tmp_path)
    assert list(second.scratch.iterdir()) == []
    second.consensus.close()
    second.release()
    reading.close()


def test_a_path_that_can_not_be_a_directory_is_named(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("in the way")
    for bad in (path, path / "below"):
        with pytest.raises(Unavailable, match="could not open data directory") as refusal:
            DataDirectory(bad)
        assert str(bad) in refusal.value.message
        assert refusal.value.hint == "Choose a directory that this user may write to."


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is forbidden to root")
def test_a_directory_that_may_not_be_written_to_is_named(tmp_path: Path) -> None:
    path = tmp_path / "sealed"
    path.mkdir(mode=0o500)
    with pytest.raises(Unavailable, match=f'directory "{path}": Permission denied'):
        DataDirectory(path)


def test_a_failure_while_opening_frees_the_lock(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("in the way")
    with pytest.raises(Unavailable):
        DataDirectory(tmp_path)
    (tmp_path / "blobs").unlink()
    directory = DataDirectory(tmp_path)
    directory.consensus.close()
    directory.release()


def modes(path: Path) -> set[str]:
    return {
        f"{'folder' if each.is_dir() else 'file'} {stat.S_IMODE(each.stat().st_mode):o}"
        for each in (path, *path.rglob("*"))
    }


def test_what_is_made_is_for_nobody_else(tmp_path: Path) -> None:
    """Also where the process lets others look into all that it makes."""
    before = os.umask(0o000)
    try:
        directory = DataDirectory(tmp_path / "data")
        store = Store.open(directory.blob, directory.consensus, "first")
        create(store, "s")
        append(store, "s", 1, numbers([(n, 0, 1) for n in range(3000)]))
        assert modes(tmp_path / "data") == {"folder 700", "file 600"}
        store.close()
        directory.release()
    finally:
        os.umask(before)


def test_what_others_could_look_into_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "data"
    filled(path)
    (path / "views" / "state").mkdir(parents=True)
    (path / "views" / "state" / "run").touch()
    (path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").touch(0o644)
    for each in path.rglob("*"):
        each.chmod(0o755 if each.is_dir() else 0o644)
    path.chmod(0o755)
    filled(path)
    (path / "link").unlink()
    assert modes(path) == {"folder 700", "file 600"}
    assert modes(tmp_path / "elsewhere") == {"file 644"}


def filled(path: Path) -> None:
    directory = DataDirectory(path)
    Store.open(directory.blob, directory.consensus, "somebody").close()
    directory.release()
