"""The command line: replay scripts, print counts, and write what differs into a report.

Scripts read the environment by `\\getenv`: set there what they ask for. The exit code is 1 if rows
differ or Waterclock broke.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from waterclock.testing.brief_spark import BRIEFLY, ROOM
from waterclock.testing.script_files.replay import Record, Replay
from waterclock.testing.script_files.report import counts, full, summary
from waterclock.testing.script_files.servers import Servers
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.script_files")
    parser.add_argument("files", nargs="+", type=Path, help="scripts for psql")
    parser.add_argument("--views", action="store_true", help="queries as views and maintained too")
    parser.add_argument(
        "--before",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="a script that psql runs in PostgreSQL first; its tables are copied",
    )
    parser.add_argument("--report", type=Path, help="where to write all that is not the same")
    parser.add_argument("--seconds", type=float, default=60, help="the limit for a statement")
    asked = parser.parse_args()
    os.environ.setdefault("WATERCLOCK_SPARK", f"spark.driver.extraJavaOptions={BRIEFLY} {ROOM}")
    records: list[Record] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        PostgresServer() as postgres,
        ServerProcess(Path(folder) / "data") as server,
    ):
        servers = Servers(postgres, server, asked.seconds)
        errors = servers.prepare(asked.before)
        replay = Replay(servers, os.environ, with_views=asked.views)
        for file in asked.files:
            begun = time.monotonic()
            record = replay.run(file.name, file.read_text(errors="replace"))
            record.seconds = time.monotonic() - begun
            records.append(record)
            notes = [
                f"psql gave {len(errors)} errors in the scripts before.",
                *(f"Not copied: {why}" for why in replay.mirror.impossible.values()),
                *(f"Waterclock's log: {line[:300]}" for line in servers.complaints[:50]),
            ]
            print(f"{file.name}: {record.seconds:.0f} s", flush=True)
            if asked.report is not None:
                asked.report.write_text("\n".join([*full(records, notes), ""]))
        replay.close()
    print("\n".join([*counts(records), *summary(records)]))
    return 1 if any(record.is_wrong for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
