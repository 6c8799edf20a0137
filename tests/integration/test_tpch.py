"""All 22 queries of TPC-H as maintained views, compared from scratch at every time.

At a fifth of the scale that `make tpch` runs, so that it takes minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from waterclock.testing.tpch.check import Check

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]

SCALE = 0.002
BATCHES = 50
TIMES = 3


@pytest.mark.semantics(44, 95)
def test_all_queries_are_right_at_every_time(spark: SparkSession, tmp_path: Path) -> None:
    check = Check(spark, tmp_path, SCALE)
    for batch in range(BATCHES):
        check.batch(TIMES, spark=batch == BATCHES - 1)
    check.close()
    print("\n".join(check.report.lines()))
    assert check.report.times == 1 + BATCHES * TIMES
    assert check.report.comparisons == 22 * check.report.times
    assert check.report.spark_times == 1
    changing = [number for number, changes in check.report.output_changes.items() if changes]
    assert len(changing) >= 20, "the changes must reach what the queries select"
