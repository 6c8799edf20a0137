"""The rehearsal of an engine: it can be cut short anywhere, and nothing of it is left running."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.compute import rehearsal as rehearsal_module
from waterclock.compute.evaluate import Evaluator
from waterclock.compute.live_session import LiveSession
from waterclock.compute.rehearsal import Rehearsal

pytestmark = pytest.mark.slow


def is_running() -> bool:
    return any(thread.name == "rehearsal" for thread in threading.enumerate())


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stopped has ended then, however slow the machine is."""
    monkeypatch.setattr(rehearsal_module, "_PATIENCE_S", 600.0)


def check_clean(spark: SparkSession, folder: Path) -> None:
    assert not is_running()
    assert not [*folder.glob("*")]
    deadline = time.monotonic() + 240
    while spark.sparkContext.statusTracker().getActiveJobsIds():  # Spark tells of it a bit later
        assert time.monotonic() < deadline, "a job is left"
        time.sleep(0.01)


def test_nothing_is_left_wherever_it_is_cut_short(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluator = Evaluator(LiveSession.of(spark), tmp_path / "queries")
    for delay_s in (0.0, 0.1, 0.3, 0.6, 600.0):
        caplog.clear()
        rehearsal = Rehearsal(LiveSession.of(spark).current(), evaluator, tmp_path / "state")
        with caplog.at_level("INFO", "waterclock.compute.rehearsal"):
            rehearsal.start()
            deadline = time.monotonic() + delay_s
            while is_running() and time.monotonic() < deadline:
                time.sleep(0.01)
            rehearsal.stop()
        check_clean(spark, tmp_path / "state")
    assert "cut short" not in caplog.text, "the last one had all the time that it needed"


def test_a_job_that_runs_is_cancelled(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The query would take years, so it runs when it is stopped, however fast the machine is."""
    monkeypatch.setattr(
        rehearsal_module, "_QUERY", "SELECT SUM(HASH(id)) AS n FROM RANGE(0, 1000000000000000)"
    )
    asked = threading.Event()
    evaluator = Evaluator(LiveSession.of(spark), tmp_path / "queries")
    evaluate = evaluator.evaluate

    def evaluating(*arguments: Any) -> Any:
        asked.set()
        return evaluate(*arguments)

    monkeypatch.setattr(evaluator, "evaluate", evaluating)
    rehearsal = Rehearsal(LiveSession.of(spark).current(), evaluator, tmp_path / "state")
    with caplog.at_level("INFO", "waterclock.compute.rehearsal"):
        rehearsal.start()
        assert asked.wait(240)
        while not spark.sparkContext.statusTracker().getActiveJobsIds():
            assert is_running()
            time.sleep(0.01)
        rehearsal.stop()
    check_clean(spark, tmp_path / "state")
    assert "cut short" in caplog.text
