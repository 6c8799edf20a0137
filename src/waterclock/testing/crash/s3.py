"""A server with a source of objects, to be killed.

    python -m waterclock.testing.crash.s3 DIR ENDPOINT ROWS [DIES]

It reads the bucket of the definition in `DIR/definition`, few objects at a time, until it has
appended ROWS. With DIES it kills itself when a read has given so many batches (`mortal`). What it
did is judged by whoever opens the data.
"""

from __future__ import annotations

import sys
from pathlib import Path

from waterclock.storage.sources.s3 import connector
from waterclock.storage.sources.s3.connector import KIND, NAME, OUTPUT
from waterclock.testing.crash.one_source import OneSourceServer
from waterclock.testing.s3_source import settings

MANY = 5
"""Objects bound at once."""


def opened(folder: Path) -> OneSourceServer:
    """The server's data."""
    return OneSourceServer(folder, NAME, KIND, OUTPUT)


def main() -> None:
    folder, endpoint, wanted, *dies = sys.argv[1:]
    connector._MANY = MANY
    server = opened(Path(folder))
    left = int(wanted) - len(server.rows())
    dies_after = int(dies[0]) if dies else None
    server.run(settings(endpoint), lambda done: done.messages >= left, dies_after)
    server.close()


if __name__ == "__main__":
    main()
