"""The night run takes turns with fresh seeds, and says how to repeat what failed."""

from __future__ import annotations

from pathlib import Path

import pytest

from waterclock.testing import night
from waterclock.testing.night import RUNS, Run

GOOD = Run("python -c assert({seed}>0)")
BAD = Run("python -c print({seed});assert({seed}!=8)", {"SOME_SEED": "{seed}"})


def test_failures_are_told_with_what_repeats_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = iter([0.0, *([1.0] * 8), *([100.0] * 9)])
    monkeypatch.setattr(night.time, "monotonic", lambda: next(clock))
    monkeypatch.setitem(RUNS, "good", GOOD)
    monkeypatch.setitem(RUNS, "bad", BAD)
    monkeypatch.setattr(night.subprocess, "run", _without_timeout(night.subprocess.run))
    failed = night.night(["good", "bad"], 1, 7, tmp_path)
    assert failed == ["SOME_SEED=8 python -c print(8);assert(8!=8)"]
    assert [path.name for path in tmp_path.iterdir()] == ["bad-8.log"]
    assert "of good" in capsys.readouterr().out


def _without_timeout(run):  # type: ignore[no-untyped-def]
    def called(*words, timeout, **options):  # type: ignore[no-untyped-def]
        del timeout  # it would ask the clock
        return run(*words, **options)

    return called


@pytest.mark.parametrize("name", ["simulation", "damage"])
def test_the_runs_exist(name: str, tmp_path: Path) -> None:
    """Two of those that are quick."""
    short = Run(RUNS[name].command.replace("300", "5"))
    assert night.passes(short, 3, tmp_path / "log"), (tmp_path / "log").read_text()
