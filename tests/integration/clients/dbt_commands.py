"""The commands of dbt that a project needs, one after the other in one process of dbt's Python."""

from __future__ import annotations

import sys

from dbt.cli.main import dbtRunner

COMMANDS = (("seed",), ("run",), ("test",), ("docs", "generate"), ("run",))


def main() -> int:
    done = []
    for command in COMMANDS:
        result = dbtRunner().invoke(["--no-use-colors", *command, "--profiles-dir", "."])
        if not result.success:
            print(f"dbt {' '.join(command)} failed: {result.exception}", file=sys.stderr)
            return 1
        done.append(" ".join(command))
    print(f"done: {', '.join(done)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
