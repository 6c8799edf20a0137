"""Storage is killed in the middle of its work, many times over, and keeps every promise.

What exactly is checked after each kill is listed in `waterclock.testing.crash.checker`; how the
rounds work, and why they run in a process of their own, in `waterclock.testing.crash.rounds`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long]

ROUNDS = int(os.environ.get("WATERCLOCK_CRASH_ROUNDS", "100"))
SEED = int(os.environ.get("WATERCLOCK_CRASH_SEED", "1"))


def crash(directory: Path, rounds: int, *options: str) -> tuple[int, str]:
    """Run the rounds; how it ended, and what it said."""
    command = [sys.executable, "-m", "waterclock.testing.crash", str(directory)]
    done = subprocess.run(
        [*command, f"--rounds={rounds}", f"--seed={SEED}", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # it starts threads when it is imported
    )
    return done.returncode, done.stdout


@pytest.mark.semantics(33, 34, 43, 49, 69)
def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path) -> None:
    status, said = crash(tmp_path, ROUNDS)
    assert status == 0, said
    print(said)
    counts = {name: int(count) for count, name in (line.split("  ", 1) for line in _counts(said))}
    if ROUNDS >= 50:  # enough to have met everything that is worth meeting
        assert all(counts.values()), said
        assert counts["rounds with a merge before the kill"] > ROUNDS // 10, said


def _counts(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines()[1:]]


@pytest.mark.parametrize("what", ["blobs", "entries"])
def test_a_loss_is_noticed(tmp_path: Path, what: str) -> None:
    status, said = crash(tmp_path, 8, f"--sabotage={what}")
    assert status == 1
    assert said.startswith(f"round 8 of seed {SEED} failed")
    assert any(each in said for each in ("Violation", "Damaged", "Missing", "Unavailable")), said
