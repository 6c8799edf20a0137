"""Random queries over random histories: maintained views against Spark from scratch.

`make fuzz` runs on with other seeds. What it finds is put, made small, into `fuzz_cases.json`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from waterclock.testing.fuzz.case import drawn, from_parts, to_text
from waterclock.testing.fuzz.runner import Runner, Tally
from waterclock.testing.fuzz.sabotage import SABOTAGE, sabotaged
from waterclock.testing.fuzz.shrink import shrunk

pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(3600)]

KNOWN = json.loads((Path(__file__).parent / "fuzz_cases.json").read_text())
SEEDS = int(os.environ.get("WATERCLOCK_FUZZ_SEEDS", "10"))


@pytest.fixture(scope="module")
def runner(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    refusals = PySparkLogger.getLogger("SQLQueryContextLogger")
    spark.sparkContext.setLogLevel("OFF")  # queries that fail on some rows do so on purpose
    refusals.disabled = True
    yield Runner(spark, tmp_path_factory.mktemp("fuzz"))
    refusals.disabled = False
    spark.sparkContext.setLogLevel("ERROR")


@pytest.mark.parametrize("name", KNOWN)
def test_what_once_failed_is_right(name: str, runner: Runner) -> None:
    case, tally = from_parts(KNOWN[name]), Tally()
    runner.check(case, tally)
    assert [failure.complaint for failure in tally.failures] == []
    assert tally.maintained == len(case.queries), tally.lines()


@pytest.mark.semantics(44, 95, 112)
def test_random_views_are_their_sql_at_every_time(runner: Runner) -> None:
    tally = Tally()
    for seed in range(SEEDS):
        runner.check(drawn(seed), tally)
    print("\n".join(tally.lines()))
    failed = [f"{each.complaint}\n{to_text(each.case)}" for each in tally.failures]
    assert not failed, "\n".join(failed)
    assert tally.maintained >= 0.9 * tally.queries, tally.lines()
    assert tally.compared_times >= 3 * tally.maintained
    assert not tally.raised, tally.lines()


@pytest.mark.parametrize("name", SABOTAGE)
def test_a_planted_bug_is_found(name: str, runner: Runner) -> None:
    tally = Tally()
    with sabotaged(name):
        for seed in range(6):
            runner.check(drawn(seed), tally)
            if tally.failures:
                break
    found = [failure.complaint for failure in tally.failures]
    assert any(complaint.startswith("at ") for complaint in found), found


def test_a_failing_case_is_made_small(runner: Runner) -> None:
    """A case in which two rows of four matter, and one of two conditions."""
    rows = [[1, 1], [2, 2], [2, 3], [3, 4]]
    case = from_parts(
        {
            "relations": {"u1": "a INT, b INT"},
            "queries": ["SELECT count(*) FROM u1 WHERE a = 2 AND b < 9"],
            "rows": [["u1", row, time, None, 1] for time, row in enumerate(rows)],
            "uppers": [2, 4],
        }
    )
    with sabotaged("a reduction that retracts nothing"):
        assert runner.complaint(case) is not None
        small = shrunk(case, lambda smaller: runner.complaint(smaller) is not None)
    assert len(small.lives) == 1
    assert len(small.steps.uppers) == 1
    assert runner.complaint(small) is None, "it fails because of the bug alone"
