"""A server with a PubNub source, to be killed: `python -m ...crash.pubnub DIR [COUNT] [dies=N]`.

It follows the channel of the definition in `DIR/definition` until so many rows are durable as COUNT
says, or for ever. With N it kills itself when something has arrived so many times
and is not durable (`mortal`). What it did is judged by whoever opens the data.
"""

from __future__ import annotations

import sys
from pathlib import Path

from waterclock.storage.sources.pubnub.connector import KIND, NAME, OUTPUT
from waterclock.testing.crash.mortal import taken_from
from waterclock.testing.crash.one_source import OneSourceServer


def opened(folder: Path) -> OneSourceServer:
    """The server's data."""
    return OneSourceServer(folder, NAME, KIND, OUTPUT)


def main() -> None:
    asked = sys.argv[1:]
    dies_after = taken_from(asked)
    folder, *wanted = asked
    server = opened(Path(folder))
    count = int(wanted[0]) if wanted else None
    print("running", flush=True)
    server.run(None, lambda _: count is not None and len(server.rows()) >= count, dies_after)
    server.close()


if __name__ == "__main__":
    main()
