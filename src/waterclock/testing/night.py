"""Everything that draws from a seed, with fresh seeds, for as long as there is time.

    python -m waterclock.testing.night [--minutes 60] [--only damage,simulation] [--seed N]

The fixed seeds of CI find what breaks; fresh ones find what was never right. The runs take turns,
each time with another seed. One that fails does not end the night: at the end, or when it is
interrupted, all failures are listed with the command that does the same again. What a run says is
in a file of the folder that is printed first.

To add a run, add it to `RUNS`: a command line in which `{seed}` is replaced, and environment.
"""

from __future__ import annotations

import argparse
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

_PYTHON = "python"
_LONGEST_S = 1800


@dataclass(frozen=True, slots=True)
class Run:
    """A check that takes a seed."""

    command: str
    environment: dict[str, str] = field(default_factory=dict)

    def words(self, seed: int) -> list[str]:
        return self.command.format(seed=seed).split()

    def settings(self, seed: int) -> dict[str, str]:
        return {name: value.format(seed=seed) for name, value in self.environment.items()}

    def replay(self, seed: int) -> str:
        """What to type to do the same again."""
        settings = [f"{name}={value}" for name, value in self.settings(seed).items()]
        return " ".join([*settings, *self.words(seed)])


RUNS: dict[str, Run] = {
    "simulation": Run("python -m waterclock.testing.simulation {seed}"),
    "damage": Run("python -m waterclock.testing.damage --seed {seed} --trials 300"),
    "power": Run("python -m waterclock.testing.power_loss --seed {seed} --trials 300"),
    "crash": Run(
        "python -m pytest --timeout=0 -q tests/integration/test_crash.py",
        {"WATERCLOCK_CRASH_SEED": "{seed}", "WATERCLOCK_CRASH_ROUNDS": "100"},
    ),
    "views": Run(
        "python -m pytest --timeout=0 -q tests/integration/test_compute_crash.py",
        {"WATERCLOCK_CRASH_SEED": "{seed}", "WATERCLOCK_VIEW_KILLS": "18"},
    ),
    "server": Run(
        "python -m pytest --timeout=0 -q tests/integration/test_server_kill.py",
        {"WATERCLOCK_KILL_SEED": "{seed}", "WATERCLOCK_KILL_ROUNDS": "4"},
    ),
    "histories": Run(
        "python -m waterclock.testing.serial.record --seed {seed} --reads 2000 --faults 6"
    ),
}
"""By name. Runs that are quick are done as often as those that are not."""


def passes(run: Run, seed: int, log: Path) -> bool:
    """Do it once, with what it says in a file."""
    words = run.words(seed)
    words[0] = sys.executable if words[0] == _PYTHON else words[0]
    with log.open("w") as said:
        try:
            done = subprocess.run(
                words,
                env=os.environ | run.settings(seed),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                timeout=_LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            said.write(f"it took longer than {_LONGEST_S} s\n")
            return False
    return done.returncode == 0


def night(names: Sequence[str], minutes: float, first_seed: int, folder: Path) -> list[str]:
    """Let the runs take turns until the time is over; the commands of those that failed."""
    deadline = time.monotonic() + 60 * minutes
    done: Counter[str] = Counter()
    failed: list[str] = []
    seed = first_seed
    try:
        while time.monotonic() < deadline:
            for name in names:
                if time.monotonic() >= deadline:
                    break
                log = folder / f"{name}-{seed}.log"
                if passes(RUNS[name], seed, log):
                    log.unlink()
                else:
                    failed.append(RUNS[name].replay(seed))
                    print(f"FAILED {name}: {failed[-1]}  (said: {log})", flush=True)
                done[name] += 1
            seed += 1
    except KeyboardInterrupt:
        pass
    print(", ".join(f"{count} of {name}" for name, count in done.items()))
    return failed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.night")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", default=",".join(RUNS), help="some of: %(default)s")
    parser.add_argument("--seed", type=int, help="the first; otherwise one that is drawn")
    asked = parser.parse_args()
    names = asked.only.split(",")
    if unknown := set(names) - RUNS.keys():
        parser.error(f"there is no run {min(unknown)}")
    seed = asked.seed if asked.seed is not None else secrets.randbelow(1_000_000_000)
    folder = Path(tempfile.mkdtemp(prefix="waterclock-night-"))
    print(f"from seed {seed} on, {asked.minutes:g} minutes; what fails is kept in {folder}")
    failed = night(names, asked.minutes, seed, folder)
    for command in failed:
        print(f"replay: {command}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
