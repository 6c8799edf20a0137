"""The server's own words about what happens, one readable line each, on standard error.

    2026-11-15 14:58:20.123 INFO  waterclock.server.process: stopped

No layer logs the text of a statement or its parameters, so neither are the passwords and secrets in
them; of a statement that fails, its error is logged at most. The one exception is a query of the
system's relations that fails: such queries are written by tools, and hold no secrets.
"""

from __future__ import annotations

import logging
import time
from typing import TextIO

from pyspark.logger import PySparkLogger

_SILENT = "SQLQueryContextLogger"
"""PySpark's own account of each failed query, with its text; `compute.faults` tells what counts."""
_NOISY = ("py4j", "asyncio", "uvicorn", "httpx", "httpcore")


_LINE = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"


def begin_logging(level: str, stream: TextIO) -> None:
    """Log to the stream from now on. Other packages are heard from `warning` on."""
    handler = logging.StreamHandler(stream)
    lines = logging.Formatter(_LINE, "%Y-%m-%d %H:%M:%S")
    lines.converter = time.gmtime
    handler.setFormatter(lines)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("waterclock").setLevel(level.upper())
    PySparkLogger.getLogger(_SILENT).disabled = True  # of the class that PySpark calls it as
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
