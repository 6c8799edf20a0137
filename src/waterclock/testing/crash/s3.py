"""A server with a source of objects, to be killed (`lines`).

    python -m waterclock.testing.crash.s3 DIR ENDPOINT BUCKET [spark] [dies=N]

It reads the lines of the objects in the bucket, few at a time.
"""

from __future__ import annotations

import sys
from pathlib import Path

from waterclock.storage.reclock.shape import S3
from waterclock.storage.sources.api import Surroundings
from waterclock.storage.sources.s3 import connector
from waterclock.storage.sources.s3.connector import NAME, OUTPUT, rows_of
from waterclock.testing.crash.lines import LinesServer, LinesSource, now_ms
from waterclock.testing.s3_source import definition, settings

_MANY = 5


class ObjectsServer(LinesServer):
    """A server with a source of the objects in a bucket."""

    def __init__(self, folder: Path, endpoint: str, bucket: str) -> None:
        connector._MANY = _MANY
        wanted = definition(bucket)
        connection = settings(endpoint)
        surroundings = Surroundings(now_ms, connection=lambda _: connection)
        rows = rows_of(wanted, surroundings).schema
        source = LinesSource(NAME, wanted.encoded(), OUTPUT, rows, S3, surroundings)
        super().__init__(folder, source)


def main() -> None:
    folder, endpoint, bucket, *more = sys.argv[1:]
    server = ObjectsServer(Path(folder), endpoint, bucket)
    server.run(more, Path(folder))
    server.close()


if __name__ == "__main__":
    main()
