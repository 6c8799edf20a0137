"""The rehearsal of an engine: it can be cut short anywhere, and nothing of it is left running."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.evaluate import Evaluator
from waterclock.compute.rehearsal import Rehearsal

pytestmark = pytest.mark.slow


def is_running() -> bool:
    return any(thread.name == "rehearsal" for thread in threading.enumerate())


def test_nothing_is_left_wherever_it_is_cut_short(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    evaluator = Evaluator(spark, tmp_path / "queries")
    cut_short = 0
    for delay_s in (0.0, 0.1, 0.3, 0.6, 30.0):
        caplog.clear()
        rehearsal = Rehearsal(spark, evaluator, tmp_path / "state")
        with caplog.at_level("INFO", "waterclock.compute.rehearsal"):
            rehearsal.start()
            deadline = time.monotonic() + delay_s
            while is_running() and time.monotonic() < deadline:
                time.sleep(0.01)
            rehearsal.stop()
        assert not is_running()
        assert not spark.sparkContext.statusTracker().getActiveJobsIds()
        assert not [*(tmp_path / "state").glob("*")]
        cut_short += "cut short" in caplog.text
    assert cut_short, "a job was cancelled"
    assert "cut short" not in caplog.text, "the last one had all the time that it needed"
