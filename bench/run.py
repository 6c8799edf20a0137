"""Run every benchmark, one after the other; ends with an error if one of them missed a bar."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCHMARKS = (
    *("persist.py", "arrangement.py", "history.py", "steps.py", "idle.py", "catalog.py"),
    *("server.py", "hostile.py", "kafka.py", "postgres.py", "freshness.py", "recency.py"),
)


def main() -> None:
    folder = Path(__file__).parent
    missed = [
        name
        for name in BENCHMARKS
        if subprocess.run([sys.executable, folder / name], check=False).returncode
    ]
    if missed:
        sys.exit(f"\nbars missed in: {', '.join(missed)}")


if __name__ == "__main__":
    main()
