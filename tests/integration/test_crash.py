"""Storage is killed in the middle of its work, many times over, and keeps every promise.

What exactly is checked after each kill is listed in `waterclock.testing.crash.checker`; how the
rounds work, and why they run in a process of their own, in `waterclock.testing.crash.rounds`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from waterclock.testing.crash.rounds import SABOTAGE

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]

ROUNDS = int(os.environ.get("WATERCLOCK_CRASH_ROUNDS", "100"))
SEED = int(os.environ.get("WATERCLOCK_CRASH_SEED", "1"))


def begun(directory: Path, rounds: int, *options: str) -> subprocess.Popen[str]:
    """The rounds, in a process of their own."""
    command = [sys.executable, "-m", "waterclock.testing.crash", str(directory)]
    return subprocess.Popen(
        [*command, f"--rounds={rounds}", f"--seed={SEED}", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},  # it starts threads when it is imported
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """How it ended, and what it said."""
    said, _ = process.communicate()
    return process.returncode, said


@pytest.fixture(scope="module", autouse=True)
def sabotaged(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[dict[str, subprocess.Popen[str]]]:
    """Few rounds with a loss at the end. They go on beside the many, which often wait."""
    folder = tmp_path_factory.mktemp("sabotaged")
    running = {each: begun(folder / each, 8, f"--sabotage={each}") for each in SABOTAGE}
    yield running
    for process in running.values():
        assert process.stdout is not None
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.semantics(33, 34, 43, 49, 69)
def test_nothing_acknowledged_is_lost_by_kills(tmp_path: Path) -> None:
    status, said = ended(begun(tmp_path, ROUNDS))
    assert status == 0, said
    print(said)
    counts = {name: int(count) for count, name in (line.split("  ", 1) for line in _counts(said))}
    if ROUNDS >= 50:  # enough to have met everything that is worth meeting
        assert all(counts.values()), said
        assert counts["rounds with a merge before the kill"] > ROUNDS // 10, said


def _counts(said: str) -> list[str]:
    return [line.strip() for line in said.splitlines()[1:]]


@pytest.mark.parametrize("what", sorted(SABOTAGE))
def test_a_loss_is_noticed(sabotaged: dict[str, subprocess.Popen[str]], what: str) -> None:
    status, said = ended(sabotaged[what])
    assert status == 1
    assert said.startswith(f"round 8 of seed {SEED} failed")
    assert any(each in said for each in ("Violation", "Damaged", "Missing", "Unavailable")), said
