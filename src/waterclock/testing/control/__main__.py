"""Replay the simulation of one seed, or look for seeds that fail."""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from waterclock.testing.control.run import USUAL, SimulationFailed, Size, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.control")
    parser.add_argument("seed", type=int)
    parser.add_argument("--seeds", type=int, default=1, help="how many, from that one on")
    parser.add_argument("--clients", type=int, default=USUAL.clients)
    parser.add_argument("--transactions", type=int, default=USUAL.transactions)
    parser.add_argument("--tell", action="store_true", help="print what happened")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(asked.seed, asked.seed + asked.seeds):
        try:
            history = simulate(seed, Size(asked.clients, asked.transactions))
        except SimulationFailed as failure:
            print(failure)
            failed.append(seed)
            continue
        counts += history.counts
        if asked.tell:
            print("\n".join(history.log))
    for name, count in sorted(counts.items()):
        print(f"{count:>8}  {name}")
    if failed:
        print(f"{len(failed)} of {asked.seeds} failed: {failed}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
