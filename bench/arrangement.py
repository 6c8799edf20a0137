"""What state on disk costs: lookups in runs against a search in memory, opening, merging.

    python bench/arrangement.py [--rows 10000000] [--rounds 3] [--keys 1000000]

Bars: looking many keys up in one run, with all their rows, takes at most four times as long as
NumPy takes to sort the keys and find only their places in one sorted array in memory; opening takes
as long at the full number of rows as at a hundredth of it, within a factor of 5.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from report import Report, in_turns

from waterclock.persist.arrangement.arrangement import Arrangement
from waterclock.persist.arrangement.cover import Cover
from waterclock.persist.arrangement.layout import HASH, Layout
from waterclock.persist.arrangement.merging import merge
from waterclock.persist.arrangement.trace import Trace
from waterclock.persist.arrangement.writing import write_run
from waterclock.persist.hashing import Hashes
from waterclock.persist.rows import DIFF, TIME

LAYOUT = Layout.of({"customer": pa.int64()}, {"price": pa.float64(), "day": pa.date32()})


def updates(first: int, rows: int, moment: int) -> pa.Table:
    random = np.random.default_rng(first)
    return pa.table(
        {
            "customer": np.arange(first, first + rows),
            "price": random.random(rows).round(2),
            "day": pa.array(random.integers(0, 10_000, rows, dtype=np.int32)).cast(pa.date32()),
            TIME: np.full(rows, moment),
            DIFF: np.ones(rows, dtype=np.int64),
        }
    )


def filled(folder: Path, rows: int, runs: int) -> Arrangement:
    """An arrangement of so many rows in so many runs."""
    arrangement = Arrangement.open(folder, LAYOUT, 0)
    size = rows // runs
    for number in range(runs):
        cover = Cover(number, number + 1)
        write_run(folder, LAYOUT, cover, updates(number * size, size, number))
        arrangement.advance(number + 1, [cover])
    return arrangement


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def all_hashes(trace: Trace) -> Hashes:
    """The hashes of all rows, sorted, in memory."""
    parts = [batch[HASH].to_numpy() for batch in trace.scan()]
    return np.sort(np.concatenate(parts))


def bench_lookups(folder: Path, rows: int, runs: int, most_keys: int, rounds: int) -> Report:
    report = Report(f"Lookups in {rows:,} rows of 3 columns in {runs} run(s)")
    random = np.random.default_rng(7)
    with filled(folder, rows, runs).trace() as trace:
        present = all_hashes(trace)
        for count in (100, 1_000, 10_000, 100_000, 1_000_000):
            if count > most_keys:
                break
            wanted = random.choice(present, count)

            def ours(wanted: Hashes = wanted) -> float:
                began = time.perf_counter()
                found = trace.lookup(wanted)
                took = time.perf_counter() - began
                assert found.num_rows == len(np.unique(wanted)), "a key has no row"
                return 1e3 * took

            figures = in_turns(
                rounds,
                ours=ours,
                absent=lambda w=wanted: 1e3 * seconds(lambda: trace.lookup(w + np.uint64(1))),
                plain=lambda w=wanted: 1e3 * seconds(lambda: np.searchsorted(present, w)),
                ordered=lambda w=wanted: (
                    1e3 * seconds(lambda: np.searchsorted(present, np.sort(w)))
                ),
            )
            report.figure(f"{count:,} keys, with their rows", figures["ours"], "ms")
            report.figure(f"{count:,} keys that are not there", figures["absent"], "ms")
            report.figure(f"{count:,} keys, NumPy in memory, places only", figures["plain"], "ms")
            report.figure(f"{count:,} keys, the same, sorted first", figures["ordered"], "ms")
            if count >= 100_000 and runs == 1:
                share = figures["ordered"] / figures["ours"]
                report.bar(f"{count:,} keys against NumPy, sorted first", share, 0.25)
    return report


def bench_opening(folder: Path, rows: int, rounds: int) -> Report:
    report = Report(f"Opening {rows:,} rows in one run")
    small, large = folder / "small", folder / "large"
    filled(small, rows // 100, 1)
    filled(large, rows, 1)
    figures = in_turns(
        5 * rounds,
        small=lambda: 1e3 * seconds(lambda: Arrangement.open(small, LAYOUT, 1)),
        large=lambda: 1e3 * seconds(lambda: Arrangement.open(large, LAYOUT, 1)),
        verify=lambda: 1e3 * seconds(Arrangement.open(large, LAYOUT, 1).trace().verify),
    )
    report.figure(f"opening {rows // 100:,} rows", figures["small"], "ms")
    report.figure(f"opening {rows:,} rows", figures["large"], "ms")
    report.figure("reading them all to verify the checksum", figures["verify"], "ms")
    report.limit("opening all against a hundredth", figures["large"] / figures["small"], 5, "x")
    return report


def bench_merging(folder: Path, rows: int, rounds: int) -> Report:
    report = Report(f"Writing and merging, {rows:,} rows in 8 runs")
    size = rows // 8
    tables = [updates(number * size, size, number) for number in range(8)]
    arrangement = Arrangement.open(folder, LAYOUT, 0)

    def write() -> None:
        for number, table in enumerate(tables):
            write_run(folder, LAYOUT, Cover(number, number + 1), table)

    def write_plain() -> None:
        for number, table in enumerate(tables):
            with (
                pa.OSFile(str(folder / f"{number}.plain"), "wb") as sink,
                pa.ipc.new_file(sink, table.schema) as writer,
            ):
                writer.write_table(table)

    def merge_all() -> None:
        before = time.perf_counter()
        for _ in merge(folder, LAYOUT, trace.runs, 8):
            now = time.perf_counter()
            pauses.append(now - before)
            before = now

    write()
    arrangement.advance(8, [Cover(number, number + 1) for number in range(8)])
    pauses: list[float] = []
    with arrangement.trace() as trace:
        figures = in_turns(
            rounds,
            write=lambda: rows / seconds(write),
            plain=lambda: rows / seconds(write_plain),
            merge=lambda: rows / seconds(merge_all),
        )
    report.figure("writing runs: hash, sort, consolidate, sync", figures["write"], "rows/s")
    report.figure("PyArrow writing the same, not sorted, not synced", figures["plain"], "rows/s")
    report.figure("merging 8 runs into one", figures["merge"], "rows/s")
    report.figure("median time between two pauses of a merge", 1e3 * median(pauses), "ms")
    report.figure("longest time between two pauses of a merge", 1e3 * max(pauses), "ms")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--keys", type=int, default=1_000_000)
    arguments = parser.parse_args()
    rows, rounds = arguments.rows, arguments.rounds
    folder = Path(tempfile.mkdtemp(prefix="waterclock-bench-", dir="/var/tmp"))
    reports: list[Report] = []
    try:
        for size in (rows // 10, rows):
            for runs in (1, 8):
                part = folder / f"{size}-{runs}"
                reports.append(bench_lookups(part, size, runs, arguments.keys, rounds))
                shutil.rmtree(part)
        reports.append(bench_opening(folder / "opening", rows, rounds))
        reports.append(bench_merging(folder / "merging", rows, rounds))
    finally:
        shutil.rmtree(folder)
    next((report for report in reports if report.missed), reports[-1]).exit()


if __name__ == "__main__":
    main()
