"""The command line: compare entries of the table, all or those of some names."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import time

from waterclock.compute.spark import open_session
from waterclock.server.java import find_java
from waterclock.testing.services import PostgresServer
from waterclock.testing.sql_oracle.calls import all_calls, cast_calls
from waterclock.testing.sql_oracle.comparing import Tally, compare_scalars
from waterclock.testing.sql_oracle.engine import Engine, tuned
from waterclock.testing.sql_oracle.oracle import connected
from waterclock.testing.sql_oracle.relational import compare_relational


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.sql_oracle")
    parser.add_argument("names", nargs="*", help="only functions and operators of these names")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timezone", default="UTC")
    parser.add_argument("--refusals", action="store_true", help="list what is not supported")
    asked = parser.parse_args()
    logging.getLogger("waterclock").setLevel(logging.CRITICAL)
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    spark = open_session("local[2]")
    spark.sparkContext.setLogLevel("OFF")
    tally = Tally()
    begun = time.monotonic()
    with PostgresServer() as server, connected(server, asked.timezone) as oracle:
        engine = Engine(tuned(spark), asked.timezone)
        every = [*all_calls(), *cast_calls()]
        calls = [c for c in every if not asked.names or c.entry.name in asked.names]
        compare_relational(engine, oracle, calls, tally, asked.seed)
        compare_scalars(engine, oracle, calls, tally, asked.seed)
    print("\n".join(tally.lines()))
    if asked.refusals:
        print("\n".join(f"{call}: {why}" for call, why in tally.refused.items()))
    print(f"{time.monotonic() - begun:.1f} s")
    spark.stop()
    return 1 if tally.differences else 0


if __name__ == "__main__":
    sys.exit(main())
