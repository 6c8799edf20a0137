"""The process that the engine is: Spark's JVM, and the Python workers that it has started.

Its end is noticed when it happens: the kernel tells (a pidfd). The JVM may also live on without its
Spark context, after an error inside Spark; that is no engine any more, and asking is the only way
to know. When an engine is gone, everything that it has left behind goes too: workers that still
write must not meet those of the next one, and PySpark must forget what it knows of the old JVM.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from waterclock.compute.engine import Spark

WORKERS = "WATERCLOCK_WORKERS"
"""The environment variable with the file where Python's daemons leave their process ids."""
NOTED = "workers"
"""That file, in the folder of the engine's temporary files."""
_STOP_S = 10.0


class EngineProcess(Protocol):
    """An engine that was started."""

    spark: Spark

    def wait(self, timeout_s: float) -> bool:
        """Wait until it has ended, but not for longer; whether it has."""

    def has_ended(self) -> bool:
        """Whether it has ended. Answers at once."""

    def is_serving(self) -> bool:
        """Ask it whether it can run jobs. May hang if it does, and raise if it has gone."""

    def stop(self) -> None:
        """End it in order if that is quick, else as `kill` does."""

    def kill(self) -> None:
        """End it and what it has started, and forget all that PySpark knows of it."""


class SparkProcess:
    """Implements `EngineProcess` by the JVM that PySpark has started in this process."""

    def __init__(self, spark: Spark, scratch: Path | None = None) -> None:
        """`scratch` has the engine's temporary files, which go with it."""
        self.spark = spark
        self._scratch = scratch
        gateway: Any = spark.sparkContext._gateway
        self._process: subprocess.Popen[bytes] | None = gateway.proc
        self._fd = _pidfd(self._process)

    def wait(self, timeout_s: float) -> bool:
        if self._process is None:  # somebody else's: there is nobody to ask
            time.sleep(timeout_s)
            return False
        if self._fd is None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
            return self.has_ended()
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def is_serving(self) -> bool:
        context: Any = self.spark.sparkContext
        return not context._jsc.sc().isStopped()

    def stop(self) -> None:
        ending = threading.Thread(target=self._stop_context, daemon=True)
        ending.start()
        ending.join(_STOP_S)
        self.kill()

    def _stop_context(self) -> None:
        with suppress(Exception):  # it goes in any case
            self.spark.stop()

    def kill(self) -> None:
        from waterclock.compute.spark import forget_spark

        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            self._process.wait()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        if self._scratch is not None:
            kill_workers(self._scratch / NOTED)
            shutil.rmtree(self._scratch, ignore_errors=True)
        forget_spark()


def _pidfd(process: subprocess.Popen[bytes] | None) -> int | None:
    """What becomes readable when the process ends; None where there is no such thing."""
    if process is None or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(process.pid)
    except OSError:
        return None


def kill_workers(noted: Path) -> None:
    """End Python's daemons and all that they have forked, also those that are stopped."""
    if not noted.exists():
        return
    for group in {int(line) for line in noted.read_text().split()}:
        if _is_somebody_elses(group):
            continue
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


def _is_somebody_elses(number: int) -> bool:
    """Whether the process with that id is no daemon of ours: ids are used again."""
    try:
        command = Path(f"/proc/{number}/cmdline").read_bytes()
    except OSError:
        return False
    return bool(command) and b"worker_daemon" not in command
