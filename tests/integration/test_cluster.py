"""Views on a real Spark cluster: a master, two workers, and one of them is lost in a step.

All 22 queries of TPC-H, compared from scratch at every time. In a process of its own, since a
process has one Spark session.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1800)]

BATCHES = 3
TIMES = 1 + 2 * BATCHES


@pytest.mark.semantics(44)
def test_views_are_right_on_a_cluster_that_loses_a_worker() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "waterclock.testing.cluster", "--batches", str(BATCHES)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert "lost a worker, 1 left" in done.stdout
    assert f"batch {BATCHES - 1}:" in done.stdout, "it went on after the loss"
    assert f" {22 * TIMES} comparisons" in done.stdout
