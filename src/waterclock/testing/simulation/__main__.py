"""Replay the history of one seed, step by step."""

from __future__ import annotations

import argparse
import sys

from waterclock.testing.simulation.history import STEPS, SimulationFailed, simulate


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.simulation")
    parser.add_argument("seed", type=int)
    parser.add_argument("--steps", type=int, default=STEPS)
    asked = parser.parse_args()
    try:
        world = simulate(asked.seed, steps=asked.steps, tell=print)
    except SimulationFailed as failure:
        print(failure)
        return 1
    for name, count in sorted(world.counts.items()):
        print(f"{count:>8}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
