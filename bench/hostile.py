"""What a quiet session notices of statements that ask for too much, as a table.

    python bench/hostile.py [--seconds 3] [--only TEXT]

Two quiet sessions, each in a process of its own, ask `SELECT 1` and read a row by its index, over
and over. Beside them each hostile statement (`waterclock.testing.hostile`) is sent again and again
for some seconds. The bar: both stay under 100 ms at the 99th percentile, and the hostile session
is kept.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

from report import Report

from waterclock.server.java import find_java
from waterclock.testing.hostile import HOSTILE, QUIET, QuietSession, run, set_up
from waterclock.testing.server_process import ServerProcess

BAR_MS = 100.0


def percentile(latencies: list[float], share: float) -> float:
    """Of sorted latencies; 0 if there are none."""
    return latencies[min(int(len(latencies) * share), len(latencies) - 1)] if latencies else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="for each statement, at least")
    parser.add_argument("--only", default="", help="those with this in their names")
    arguments = parser.parse_args()
    os.environ.setdefault("JAVA_HOME", str(find_java(os.environ).home))
    report = Report("A quiet session beside hostile statements")
    with tempfile.TemporaryDirectory() as folder, ServerProcess(Path(folder) / "data") as server:
        with server.connect() as connection:
            set_up(connection)
        sessions = {name: QuietSession(server.dsn, query) for name, query in QUIET.items()}
        try:
            table(report, server.dsn, sessions, arguments.seconds, arguments.only)
        finally:
            for session in sessions.values():
                session.stop()
    report.exit()


def table(
    report: Report, dsn: str, sessions: dict[str, QuietSession], seconds: float, only: str
) -> None:
    heads = "".join(f"{name + ', p50':>18}{'p99':>9}{'max':>9}" for name in sessions)
    print(f"  {'beside':<36}{heads}   ended after", flush=True)
    for session in sessions.values():
        session.latencies_ms()
    time.sleep(seconds)
    row(report, "nothing", sessions, "")
    for hostile in HOSTILE:
        if only not in hostile.name:
            continue
        began, outcomes = time.perf_counter(), []
        while not outcomes or time.perf_counter() < began + seconds:
            outcomes.append(run(dsn, hostile))
        last = outcomes[-1]
        row(report, hostile.name, sessions, f"{last.seconds:.2f} s, {last.sqlstate}")
        if not all(each.session_kept and each.sqlstate in hostile.ends for each in outcomes):
            report.missed.append(f"{hostile.name}: {last.sqlstate}, {last.message[:60]}")


def row(report: Report, name: str, sessions: dict[str, QuietSession], ended: str) -> None:
    cells = ""
    for quiet, session in sessions.items():
        found = session.latencies_ms()
        p50, p99 = percentile(found, 0.5), percentile(found, 0.99)
        cells += f"{p50:>15.2f} ms{p99:>6.1f} ms{percentile(found, 1.0):>6.0f} ms"
        if not found or p99 > BAR_MS:
            report.missed.append(f"{quiet} beside {name}: p99 {p99:.0f} ms")
    print(f"  {name:<36}{cells}   {ended}", flush=True)


if __name__ == "__main__":
    main()
