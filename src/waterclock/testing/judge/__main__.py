"""The command line of the judge: cases from seeds, one after the other, until told to stop.

A case with a difference is made smaller while the same form still differs, and printed as SQL.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from waterclock.testing.brief_spark import BRIEFLY, ROOM
from waterclock.testing.judge.cases import Case, drawn_case
from waterclock.testing.judge.choices import Choices, Record, smaller
from waterclock.testing.judge.runner import Difference, Runner, Tally
from waterclock.testing.judge.systems import System
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

_RESTART_EVERY = 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.judge")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--count", type=int, help="how many; without end if not given")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument("--shrink-seconds", type=float, default=60, help="for each difference")
    asked = parser.parse_args()
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    os.environ.setdefault("WATERCLOCK_SPARK", f"spark.driver.extraJavaOptions={BRIEFLY} {ROOM}")
    tally, wrong = Tally(), 0
    with (
        tempfile.TemporaryDirectory() as folder,
        PostgresServer() as postgres,
        ServerProcess(Path(folder) / "data") as server,
    ):
        runner = runner_over(server, postgres, tally)
        try:
            for seed in itertools.islice(itertools.count(asked.seed), asked.count):
                if until is not None and time.monotonic() > until:
                    break
                choices = Choices(seed)
                case = drawn_case(choices)
                differences = runner.run(case, with_restart=seed % _RESTART_EVERY == 0)
                if differences:
                    wrong += 1
                    small = shrunk(runner, choices.record, differences[0], asked.shrink_seconds)
                    print(described(seed, small, runner.run(small), differences[0]), flush=True)
        except KeyboardInterrupt:
            print("stopped")
        runner.close()
    print("\n".join(tally.lines()))
    print(f"{wrong} cases differ")
    return 1 if wrong else 0


def runner_over(server: ServerProcess, postgres: PostgresServer, tally: Tally) -> Runner:
    """A runner with a connection to each."""

    def connected() -> System:
        return System(server.connect())

    def restart() -> System:
        if server.exit_code is None:
            server.stop()
        server.start()
        return connected()

    database = postgres.create_database(f"judge_{time.time_ns()}")
    theirs = System(psycopg.connect(database, autocommit=True))
    return Runner(connected(), theirs, tally, restart)


def shrunk(runner: Runner, record: Record, first: Difference, seconds: float) -> Case:
    """The smallest case found in that time in which the same form still differs."""
    until = time.monotonic() + seconds

    def fails(candidate: Record) -> bool:
        differences = runner.run(drawn_case(Choices(candidate)))
        return any(_kind(each) == _kind(first) for each in differences)

    best = record
    improved = True
    while improved and time.monotonic() < until:
        improved = False
        for candidate in smaller(best):
            if time.monotonic() > until:
                break
            if fails(candidate):
                best, improved = candidate, True
                break
    return drawn_case(Choices(best))


def _kind(difference: Difference) -> tuple[str, str]:
    """What must stay the same while a case is made smaller."""
    text = difference.text
    return difference.form, text[:5] if text[:1].isalnum() and text[4:5].isalnum() else ""


def described(seed: int, case: Case, differences: list[Difference], first: Difference) -> str:
    """The case as SQL, and what differs."""
    lines = [f"-- seed {seed}: {first.form}: {first.text[:300]}"]
    lines += [f"{table.created};" for table in case.tables]
    lines += [f"{statement};" for statement in case.rows]
    if any(each.form not in ("query", "prepared") for each in differences):
        lines += [f"{statement};" for step in case.history for statement in step.all]
        lines += [
            f"-- the view m{number} is\n{query.sql};" for number, query in enumerate(case.queries)
        ]
    for each in differences[:2]:
        lines += [f"-- {each.form}: {each.text[:600]}", f"{each.sql};"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
