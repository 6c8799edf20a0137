"""Processes that are killed, forked from one that has imported all that they need.

Most of them live for less time than Python takes to import what a server is made of. So that is
done once, in a process that does nothing else and has no threads, and each life is a fork of it.
It runs the `main` of a module just as `python -m` does.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import BinaryIO

_PACKAGE = "waterclock.testing.crash"
_MODULES = ("files", "kafka", "kinesis", "postgres_source", "pubnub", "s3", "sources", "upserts")


class Life:
    """A process, from its start to its end. What it prints can be read from `stdout`."""

    def __init__(self, module: str, *arguments: str) -> None:
        """`module` is one of this package, to be started with the arguments."""
        assert module in _MODULES, "it is among what is imported before"
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([f"{_PACKAGE}.{each}" for each in _MODULES])
        reader, writer = context.Pipe(duplex=False)
        self._process = context.Process(target=_live, args=(module, arguments, writer), daemon=True)
        self._process.start()
        writer.close()
        self.stdout: BinaryIO = open(os.dup(reader.fileno()), "rb")  # noqa: SIM115
        reader.close()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """Its exit code, or what killed it, negative; None if it lives on after that time."""
        self._process.join(timeout_s)
        return self._process.exitcode

    def kill(self) -> None:
        """End it, if it has not ended, and let go of it."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self.stdout.close()


def _live(module: str, arguments: Sequence[str], said: Connection) -> None:
    os.dup2(said.fileno(), 1)
    said.close()
    sys.argv = [module, *arguments]
    importlib.import_module(f"{_PACKAGE}.{module}").main()
