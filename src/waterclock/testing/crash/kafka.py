"""A server with a Kafka source, to be killed: `python -m ...crash.kafka DIR ADDRESS TOTAL DIES`.

It reads the topic of the definition in `DIR/definition` until everything before TOTAL, a sum of
offsets, has been read. With DIES it kills itself when a read has given so many batches (`mortal`).
What it did is judged by whoever opens the data.
"""

from __future__ import annotations

import sys
from pathlib import Path

from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.kafka.connector import KIND, NAME
from waterclock.storage.sources.kafka.definition import OUTPUT
from waterclock.testing.crash.one_source import OneSourceServer


def opened(folder: Path) -> OneSourceServer:
    """The server's data."""
    return OneSourceServer(folder, NAME, KIND, OUTPUT)


def main() -> None:
    folder, address, wanted, *dies = sys.argv[1:]
    server, total = opened(Path(folder)), int(wanted)
    connection = ConnectionSettings("k", "kafka", {"broker": address})
    dies_after = int(dies[0]) if dies else None
    server.run(connection, lambda done: (done.offsets_committed or 0) >= total, dies_after)
    server.close()


if __name__ == "__main__":
    main()
