"""`waterclock serve`: a server in this process, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import uvloop

from waterclock.server.configuration import Configuration
from waterclock.server.logs import begin_logging
from waterclock.server.process import serve
from waterclock.storage.background import favour_callers

_THREADS = 64
"""Threads for what statements wait for; most of them wait for the engine."""


def run(configuration: Configuration) -> None:
    """Serve until a signal comes. Raises what keeps the server from starting."""
    # Also what Java and the processes that it starts make is for nobody else.
    os.umask(0o077)
    begin_logging(configuration.log_level, sys.stderr)
    favour_callers()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="waterclock-statement")
        runner.get_loop().set_default_executor(pool)
        runner.run(serve(configuration, sys.stdout))
