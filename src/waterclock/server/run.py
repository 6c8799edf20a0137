"""`waterclock serve`: a server in this process, until it is told to stop."""

from __future__ import annotations

import asyncio
import os
import sys

import uvloop

from waterclock.server.configuration import Configuration
from waterclock.server.logs import begin_logging
from waterclock.server.process import serve
from waterclock.storage.background import favour_callers


def run(configuration: Configuration) -> None:
    """Serve until a signal comes. Raises what keeps the server from starting."""
    # Also what Java and the processes that it starts make is for nobody else.
    os.umask(0o077)
    begin_logging(configuration.log_level, sys.stderr)
    favour_callers()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(configuration, sys.stdout))
