"""The command line of the crash test."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from waterclock.testing.crash.rounds import SABOTAGE, Failed, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.crash")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sabotage", choices=sorted(SABOTAGE))
    asked = parser.parse_args()
    began = time.monotonic()
    try:
        counts = run(asked.directory, asked.rounds, asked.seed, asked.sabotage)
    except Failed as failure:
        print(
            f"round {failure.round} of seed {asked.seed} failed; the data is in {asked.directory}"
        )
        print(failure.reason)
        return 1
    print(f"{asked.rounds} rounds of seed {asked.seed} in {time.monotonic() - began:.1f} s")
    for name, count in sorted(counts.items()):
        print(f"{count:>8}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
