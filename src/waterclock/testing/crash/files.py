"""A server with a source of files, to be killed (`lines`).

    python -m waterclock.testing.crash.files DIR [spark] [dies=N]

It reads the lines of the files in `DIR/in`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from waterclock.storage.sources.api import Surroundings
from waterclock.storage.sources.files.connector import FILES, NAME, OUTPUT, connector_of, encoded
from waterclock.storage.sources.files.definition import FilesDefinition
from waterclock.testing.crash.lines import (
    LINES,
    MESSAGES,
    REMAP,
    LinesServer,
    LinesSource,
    now_ms,
)

__all__ = ["LINES", "REMAP", "FilesServer", "main"]


class FilesServer(LinesServer):
    """A server with a source of the files in the folder `in` of the given one."""

    def __init__(self, folder: Path) -> None:
        definition = FilesDefinition(location=str(folder / "in"), messages=MESSAGES)
        surroundings = Surroundings(now_ms)
        rows = connector_of(definition, surroundings).outputs[OUTPUT]
        source = LinesSource(NAME, encoded(definition), OUTPUT, rows, FILES, surroundings)
        super().__init__(folder, source)


def main() -> None:
    folder = Path(sys.argv[1])
    server = FilesServer(folder)
    server.run(sys.argv[2:], folder)
    server.close()


if __name__ == "__main__":
    main()
