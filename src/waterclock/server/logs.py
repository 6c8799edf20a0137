"""The server's own words about what happens, one readable line each, on standard error.

    2026-11-15 14:58:20.123 INFO  waterclock.server.process: stopped

No layer logs the text of a statement or its parameters, so neither are the passwords and secrets in
them. The messages of exceptions may quote either, whoever raises them. So of an exception the log
has its type and where it was raised, and its message only at `debug`: `Lines` sees to that, for all
loggers. Messages that layers write themselves name objects, conditions and SQLSTATEs.
"""

from __future__ import annotations

import logging
import time
import traceback
from types import TracebackType
from typing import TextIO, TypeAlias

from pyspark.logger import PySparkLogger

_SILENT = "SQLQueryContextLogger"
"""PySpark's own account of each failed query, with its text; `compute.faults` tells what counts."""
_NOISY = ("py4j", "asyncio", "uvicorn", "httpx", "httpcore")


_LINE = "%(asctime)s.%(msecs)03d %(levelname)-7s %(name)s: %(message)s"


Raised: TypeAlias = (
    tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]
)


class Lines(logging.Formatter):
    """Formats records; of exceptions without their messages, unless they are `told`."""

    def __init__(self, *, told: bool) -> None:
        super().__init__(_LINE, "%Y-%m-%d %H:%M:%S")
        self.converter = time.gmtime
        self._told = told

    def formatException(self, ei: Raised) -> str:
        """Where it was raised, and what caused it: types and frames."""
        if self._told or ei[1] is None:
            return super().formatException(ei)
        lines: list[str] = []
        error: BaseException | None = ei[1]
        seen: set[int] = set()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if lines:
                lines.append("raised while handling, or because of:\n")
            lines += traceback.format_tb(error.__traceback__)
            sqlstate = getattr(error, "sqlstate", None)
            stated = f" ({sqlstate})" if isinstance(sqlstate, str) else ""
            lines.append(f"{type(error).__module__}.{type(error).__qualname__}{stated}\n")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "".join(lines).rstrip()


def begin_logging(level: str, stream: TextIO) -> None:
    """Log to the stream from now on. Other packages are heard from `warning` on."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(Lines(told=level == "debug"))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("waterclock").setLevel(level.upper())
    PySparkLogger.getLogger(_SILENT).disabled = True  # of the class that PySpark calls it as
    for name in _NOISY:
        logging.getLogger(name).setLevel(logging.WARNING)
