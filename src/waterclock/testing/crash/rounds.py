"""Round after round: start a writer, kill it, check what it left, go on with that.

All rounds share one data directory. The kill comes at a random moment after the start of the
writer: sometimes while it opens and recovers, mostly while its threads append, merge, sweep and cut
the log. That is after a while and after some work, so that a round is worth something however fast
the machine is. Delays and commands are drawn from the seed; how the threads interleave is not, so a
seed gives the same kind of run again, not the same run. The directory of a failed run is left as it
is.

The driver imports everything once and then only forks: a child that writes, and after it a child
that checks. It touches no data itself. A process with threads can not be forked safely, and the
work with Arrow and Storage starts some; so that work is done in children only, which end with it,
and the driver wants a process of its own, not that of a test runner.

A kill loses what a process has in memory, not what the kernel has: this proves the order of writes
and commits, not that the disk keeps what was synced.
"""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

from waterclock.testing.crash.checker import check, journals, load
from waterclock.testing.crash.writer import write_until_killed
from waterclock.testing.thresholds import small_thresholds

EARLY_S = 0.06
"""A kill within that time meets a writer that is still opening, or has just begun."""
LATE_S = 0.4
MOST_WORK = 30_000
"""What journals may have to hold, in bytes, before a writer that has begun is killed."""


@dataclass(frozen=True, slots=True)
class Failed(Exception):
    """A round did not go as it must."""

    round: int
    reason: str


def run(directory: Path, rounds: int, seed: int, sabotage: str | None = None) -> dict[str, int]:
    """Do so many rounds in the directory and tell how often what was met. Raises `Failed`.

    `sabotage` damages the data after the last kill, to see that it is noticed.
    """
    random = Random(seed)
    directory.mkdir(parents=True, exist_ok=True)
    gc.collect()
    gc.freeze()  # no child need look for garbage in what was imported
    for number in range(1, rounds + 1):
        early = random.random() < 0.2
        delay_s = random.uniform(0, EARLY_S) if early else random.uniform(EARLY_S, LATE_S)
        work = 0 if early else random.randint(MOST_WORK // 30, MOST_WORK)
        _kill_after(directory, number, delay_s, work, random.getrandbits(32))
        if sabotage is not None and number == rounds:
            SABOTAGE[sabotage](directory / "data")
        _check_in_child(directory, number, random.getrandbits(32))
        for path in journals(directory):
            path.unlink()
    return dict(load(directory).counts)


def _kill_after(directory: Path, number: int, delay_s: float, work: int, seed: int) -> None:
    memory = load(directory)

    def write() -> None:
        write_until_killed(directory, memory.reference, memory.next_number, seed)

    child = _fork(directory, write)
    time.sleep(delay_s)
    while _has_not_ended(child) and sum(each.stat().st_size for each in journals(directory)) < work:
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    said = (directory / "stderr").read_text()
    if not os.WIFSIGNALED(status) or os.WTERMSIG(status) != signal.SIGKILL or said:
        raise Failed(number, f"the writer ended by itself or complained:\n{said}")


def _has_not_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _check_in_child(directory: Path, number: int, seed: int) -> None:
    _, status = os.waitpid(_fork(directory, lambda: check(directory, seed)), 0)
    said = (directory / "stderr").read_text()
    if status != 0 or said:
        raise Failed(number, said)


def _fork(directory: Path, work: Callable[[], object]) -> int:
    """Do the work in a child, which says only what went wrong."""
    assert threading.active_count() == 1, "only a process without threads can be forked"
    (directory / "stderr").write_text("")  # it may be killed before it does anything itself
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        _prepare(directory)
        with small_thresholds():
            work()
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _prepare(directory: Path) -> None:
    said = os.open(directory / "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(said, 2)
    scratch = directory / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    tempfile.tempdir = str(scratch)


def _lose_entries(data: Path) -> None:
    """As if acknowledged entries at the end of the log had never become durable."""
    with sqlite3.connect(data / "log.db") as log:
        log.execute("DELETE FROM log WHERE position > (SELECT max(position) FROM log) - 5")
    log.close()


def _lose_blob(data: Path) -> None:
    """As if an object had not become durable although the log refers to it."""
    for path in sorted((data / "blobs" / "shard").rglob("*.parquet")):
        path.unlink()


SABOTAGE: dict[str, Callable[[Path], None]] = {"entries": _lose_entries, "blobs": _lose_blob}
