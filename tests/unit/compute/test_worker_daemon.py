"""The process that Python's workers are forked from, spoken to as the JVM does."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Daemon:
    """A running one; `address` is where it is asked for workers."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        assert process.stdout is not None
        self.address = process.stdout.read(*struct.unpack("!i", process.stdout.read(4)))

    def worker(self) -> tuple[socket.socket, int]:
        """A connection to a new worker, and the number of its process."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.address)
        [pid] = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
        return connection, pid


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short name, for the name of a socket has room for a hundred characters."""
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@contextmanager
def started(module: str, folder: Path) -> Iterator[Daemon]:
    told = {
        "PYTHON_UNIX_DOMAIN_ENABLED": "true",
        "PYTHON_WORKER_FACTORY_SOCK_DIR": str(folder),
        "SPARK_REUSE_WORKER": "1",
        "OMP_NUM_THREADS": "1",  # as Spark has it
    }
    process = subprocess.Popen(
        [sys.executable, "-m", module, "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **told},
    )
    try:
        yield Daemon(process)
    finally:
        process.kill()
        process.communicate()


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 120
    while Path(f"/proc/{pid}").exists():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize(
    ("module", "is_quiet"), [("waterclock.compute.worker_daemon", True), ("pyspark.daemon", False)]
)
def test_a_worker_that_is_left_ends_without_a_word(
    folder: Path, module: str, is_quiet: bool
) -> None:
    """Spark's own says a lot then: if that changes, there is less to do here."""
    with started(module, folder) as daemon:
        connection, pid = daemon.worker()
        connection.close()
        assert ended(pid)
        said = daemon.process.communicate()[1].decode()  # which closes its input: it is to end
    assert said == "" if is_quiet else "BrokenPipeError" in said


def test_workers_share_what_was_imported(folder: Path) -> None:
    with started("waterclock.compute.worker_daemon", folder) as daemon:
        first, one = daemon.worker()
        second, other = daemon.worker()
        assert one != other
        for pid in (daemon.process.pid, one, other):
            assert "/pyarrow/" in Path(f"/proc/{pid}/maps").read_text()
        first.close()
        second.close()
