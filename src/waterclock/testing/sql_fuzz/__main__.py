"""The command line: seeds, one after the other."""

from __future__ import annotations

import argparse
import itertools
import logging
import os
import sys
import time

from waterclock.compute.spark import open_session
from waterclock.server.java import find_java
from waterclock.testing.services import PostgresServer
from waterclock.testing.sql_fuzz.runner import Findings, check_seed
from waterclock.testing.sql_oracle.engine import Engine, tuned
from waterclock.testing.sql_oracle.oracle import connected


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.sql_fuzz")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, help="how many; without end if not given")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    asked = parser.parse_args()
    logging.getLogger("waterclock").setLevel(logging.CRITICAL)
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    spark = open_session("local[2]")
    spark.sparkContext.setLogLevel("OFF")
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    findings = Findings()
    with PostgresServer() as server, connected(server) as oracle:
        engine = Engine(tuned(spark))
        try:
            for seed in itertools.islice(itertools.count(asked.seed), asked.count):
                if until is not None and time.monotonic() > until:
                    break
                known = len(findings.differences)
                check_seed(engine, oracle, seed, findings)
                for each in findings.differences[known:]:
                    print(each, flush=True)
        except KeyboardInterrupt:
            print("stopped")
    print(findings.line())
    spark.stop()
    return 1 if findings.differences else 0


if __name__ == "__main__":
    sys.exit(main())
