"""Compute is killed in the middle of its work, and goes on as if nothing had happened.

The same history is played in two directories, in one of them by processes that are killed again and
again: in the middle of jobs, of first contents and of merges, and between any two of the writes
that make up a step. In the end every update of every output must be the same, time by time, and no
view may have had to compute its state again: a kill loses nothing.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.testing.crash.views import FIRST, LARGEST, POINTS, STEP, TOTALS, World

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(0)]

KILLS = int(os.environ.get("WATERCLOCK_VIEW_KILLS", "9"))
SEED = int(os.environ.get("WATERCLOCK_CRASH_SEED", "1"))
STEPS = max(30, 4 * KILLS)
_ALWAYS = (
    *("hydration", "job", "in a merge", "while sharing", "before a merge", "before the write"),
    *("open", "after the write", "after a step"),
)
assert sorted(_ALWAYS) == sorted(POINTS), "every place is tried in every run"


def kills(count: int) -> list[str]:
    """Where to kill, how often the place is passed before, and after how many milliseconds."""
    choose = random.Random(SEED)
    chosen = [_ALWAYS[n] if n < len(_ALWAYS) else choose.choice([*POINTS]) for n in range(count)]
    drawn = []
    for point in chosen:
        passes = 1 if point in ("hydration", "open") else choose.randrange(1, 5)
        drawn.append(f"{point}:{passes}:{choose.randrange(400)}")
    return drawn


def play(directory: Path, steps: int, kill: str) -> tuple[int, str]:
    """Go on with the directory in a process of its own; how it ended, and what it said.

    It is not waited for what the process leaves behind: its JVM, and the tasks in there, may go on
    for a moment while the next one has begun.
    """
    command = [sys.executable, "-m", "waterclock.testing.crash.views", str(directory)]
    log = directory.with_suffix(".log")
    with log.open("w") as said:
        done = subprocess.run(
            [*command, f"--steps={steps}", f"--seed={SEED}", f"--kill={kill}"],
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            check=False,
        )
    return done.returncode, log.read_text()


@pytest.mark.semantics(75)
def test_outputs_after_kills_are_those_of_a_run_without(
    spark: SparkSession, tmp_path: Path
) -> None:
    killed = 0
    for kill in kills(KILLS):
        status, said = play(tmp_path / "killed", STEPS, kill)
        assert status in (-9, 0), f"{kill}: {said}"
        assert "rebuilt" not in said, f"{kill}: {said}"
        killed += status == -9
    assert killed >= KILLS - max(1, KILLS // 5), "most of the kills must happen"
    whole, crashed = World(tmp_path / "whole", spark, SEED), None
    try:
        whole.run(STEPS)
        crashed = World(tmp_path / "killed", spark, SEED)
        assert all(status.rebuilt is None for status in crashed.statuses())
        crashed.run(STEPS)
        for output in (TOTALS, LARGEST):
            for collection in (output, type(output).user(output.number + 1)):
                assert crashed.history(collection) == whole.history(collection)
            assert len(whole.history(output)) > 100, "the history must be worth comparing"
        for time in range(FIRST, FIRST + STEP * (STEPS - 1)):
            assert crashed.indexed(time) == whole.indexed(time), f"at {time}"
    finally:
        whole.close()
        if crashed is not None:
            crashed.close()
