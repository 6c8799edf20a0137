"""How much memory Spark's Python workers take, all together, at their worst.

Pages of files that several of them have mapped are counted once, divided among them; so what is
reported is what the machine has to spare for them. Linux only: elsewhere nothing is found. Where
there should be workers and none is found, that is an error, and not a small figure.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from waterclock.compute import worker_daemon

_LOOK_S = 0.1
_DAEMON = worker_daemon.__name__.encode()
"""Workers are forked from a process that runs this module, and look like it."""


def _parents() -> dict[int, int]:
    """Process -> its parent, for all that there are."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                stat = (entry / "stat").read_text()
                found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def _workers() -> list[int]:
    """The Python workers below this process."""
    parents = _parents()
    found = []
    for process in parents:
        above = process
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            with suppress(OSError):
                if _DAEMON in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0"):
                    found.append(process)
    return found


def _taken(process: int) -> int:
    """The bytes that a process takes, with its share of what it shares."""
    with suppress(OSError):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return 0


class WorkerMemory:
    """Looks again and again while something runs; `peak` is the most that was seen, in bytes."""

    def __init__(self) -> None:
        self.peak = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> WorkerMemory:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        assert self.peak or not Path("/proc").is_dir() or error, "no Python worker was found"

    def _watch(self) -> None:
        while True:
            self.peak = max(self.peak, sum(map(_taken, _workers())))
            if self._done.wait(_LOOK_S):
                return
