"""The command line of the fuzzer: seeds, one after the other, until it is told to stop.

A case that fails is made smaller and printed as an entry for the file of known cases.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.logger import PySparkLogger

from waterclock.compute.spark import open_session
from waterclock.server.java import find_java
from waterclock.testing.fuzz.case import Case, drawn, to_text
from waterclock.testing.fuzz.runner import Failure, Runner, Tally
from waterclock.testing.fuzz.shrink import shrunk


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.fuzz")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, help="how many seeds; without end if not given")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument("--shrink-minutes", type=float, default=3.0, help="for each failure")
    parser.add_argument("--temporal", action="store_true", help="with conditions on mz_now()")
    parser.add_argument("--verbose", action="store_true", help="tell each seed")
    asked = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    spark = open_session("local[2]")
    spark.sparkContext.setLogLevel("OFF")
    PySparkLogger.getLogger("SQLQueryContextLogger").disabled = True
    tally = Tally()
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    seeds = itertools.count(asked.seed)
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(spark, Path(folder))
        try:
            for seed in itertools.islice(seeds, asked.count):
                if until is not None and time.monotonic() > until:
                    break
                if asked.verbose:
                    print(f"seed {seed}", flush=True)
                case = drawn(seed, temporal=asked.temporal)
                _run(runner, seed, case, tally, 60 * asked.shrink_minutes)
        except KeyboardInterrupt:
            print("stopped")
    print("\n".join(tally.lines()))
    spark.stop()
    return 1 if tally.failures else 0


def _run(runner: Runner, seed: int, case: Case, tally: Tally, shrink_s: float) -> None:
    known = len(tally.failures)
    runner.check(case, tally)
    for failure in tally.failures[known:]:
        _tell(seed, failure, until_small(runner, failure.case, shrink_s), runner)


def until_small(runner: Runner, case: Case, seconds: float) -> Case:
    """The case as small as it gets in that time."""
    return shrunk(case, _within(seconds, lambda smaller: runner.complaint(smaller) is not None))


def _within(seconds: float, fails: Callable[[Case], bool]) -> Callable[[Case], bool]:
    end = time.monotonic() + seconds
    return lambda case: time.monotonic() < end and fails(case)


def _tell(seed: int, failure: Failure, small: Case, runner: Runner) -> None:
    print(f"seed {seed} failed: {failure.complaint}")
    print(f"  {failure.case.queries[0].sql}")
    print(f"made smaller: {runner.complaint(small) or 'it no longer fails'}")
    print(f'"seed {seed}": {to_text(small)}', flush=True)


if __name__ == "__main__":
    sys.exit(main())
