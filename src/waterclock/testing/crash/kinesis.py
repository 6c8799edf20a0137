"""A server with a Kinesis source, to be killed.

    python -m waterclock.testing.crash.kinesis DIR ENDPOINT ROWS [DIES]

It reads the stream of the definition in `DIR/definition` until it has appended ROWS. With DIES it
kills itself when a read has given so many batches (`mortal`). What it did is judged by whoever
opens the data.
"""

from __future__ import annotations

import sys
from pathlib import Path

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.kinesis.connector import KIND, NAME, OUTPUT
from waterclock.testing.crash.one_source import OneSourceServer


def opened(folder: Path) -> OneSourceServer:
    """The server's data."""
    return OneSourceServer(folder, NAME, KIND, OUTPUT)


def settings_of(endpoint: str) -> ConnectionSettings:
    """A connection to the server that speaks Kinesis."""
    options = {"access key id": "test", "secret access key": "test", "endpoint": endpoint}
    return ConnectionSettings("aws", "aws", options)


def main() -> None:
    folder, endpoint, wanted, *dies = sys.argv[1:]
    server = opened(Path(folder))
    left = int(wanted) - len(server.rows())
    dies_after = int(dies[0]) if dies else None
    server.run(settings_of(endpoint), lambda done: done.messages >= left, dies_after)
    server.close()


if __name__ == "__main__":
    main()
