"""The command line of the TPC-H check."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

from waterclock.compute.spark import open_session
from waterclock.server.java import find_java
from waterclock.testing.tpch.check import Check, Disagreement


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.tpch")
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--times", type=int, default=3, help="times in each batch")
    parser.add_argument("--spark-every", type=int, default=10, help="compare with Spark as well")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*", help="these queries, not all")
    parser.add_argument("--apart", action="store_true", help="each query in a job of its own")
    asked = parser.parse_args()
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    numbers = asked.only or list(range(1, 23))
    groups = [[number] for number in numbers] if asked.apart else [numbers]
    with tempfile.TemporaryDirectory() as folder:
        try:
            check = Check(open_session("local[2]"), Path(folder), asked.scale, groups, asked.seed)
            print(f"planned in {check.report.planning_s:.1f} s,", flush=True)
            print(f"loaded in {check.report.loading_s:.1f} s", flush=True)
            for number in range(asked.batches):
                check.batch(asked.times, spark=number % asked.spark_every == 0)
                print(f"batch {number}: {check.report.steps_s[-1]:.2f} s", flush=True)
            check.close()
        except Disagreement as wrong:
            print(f"wrong: {wrong}")
            return 1
        print("\n".join(check.report.lines()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
