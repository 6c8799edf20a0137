"""The process that Spark's Python workers are forked from, with all that they need imported.

Spark starts one such process for each JVM and asks it for a worker whenever none is idle; a worker
that was idle for a minute is ended. Left to itself each worker imports what it needs after the
fork, most of a second, and looks through all of that for garbage after every task, some thirty
milliseconds. Here the imports happen once, before any fork, and what they made is no concern of the
garbage collector any more; workers share its memory.

What is imported may start no thread that workers would miss after the fork. Arrow and NumPy, the
only ones that might, see to that by themselves.

It leaves its process id, which is that of the group of all its workers, where the server asks for
it, so that none of them outlives its JVM: one that is stopped or stuck would not notice.

A worker whose JVM has hung up, since a job was cancelled or Spark has ended, has nobody left to
answer to, and ends without a word. Everything else is Spark's own daemon.
"""

from __future__ import annotations

import gc
import importlib
import os
import socket
from collections.abc import Callable

from pyspark import daemon

_IMPORTED = (
    "pyspark.worker",
    "pyspark.sql.pandas.serializers",
    "waterclock.compute.dataflow.stage",
    "waterclock.compute.evaluate",
)
_NOTED = "WATERCLOCK_WORKERS"
"""The environment variable with the file for the process id (see `server.engine_process`)."""
_RAISES = "PYTHON_DAEMON_KILL_WORKER_ON_FLUSH_FAILURE"
"""With this in the environment a worker that can not answer says so by an exception."""

Worker = Callable[[socket.socket, bool], int]


def quietly(worker: Worker) -> Worker:
    """The worker, which ends this process when the other side has gone."""

    def working(connection: socket.socket, authenticated: bool) -> int:
        try:
            return worker(connection, authenticated)
        except (BrokenPipeError, ConnectionResetError):
            os._exit(0)

    return working


def main() -> None:
    """Import, then fork workers until the JVM ends."""
    if noted := os.environ.get(_NOTED):
        with open(noted, "a", encoding="ascii") as file:
            file.write(f"{os.getpid()}\n")
    gc.disable()
    for name in _IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    gc.enable()
    os.environ[_RAISES] = "1"
    daemon.worker = quietly(daemon.worker)  # type: ignore[assignment]
    daemon.manager()


if __name__ == "__main__":
    main()
