"""What durability costs: small commits beside bare SQLite, bulk data beside plain PyArrow.

    python bench/persist.py [--rows 10000000] [--rounds 5] [--seconds 2]

Bars: 32 concurrent writers reach at least 5 times the commits per second of bare SQLite committing
one row at a time with the same setting for syncing; a snapshot streams at least half as many rows
per second as PyArrow reading the same Parquet files, in memory that does not grow with the
collection.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import itertools
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import uvloop
from report import Report, in_turns

from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Date, Float, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.parts import GROUP_ROWS, PARQUET_WRITE, PART_ROWS
from waterclock.persist.rows import update_schema, updates
from waterclock.storage.api import Description, Progress, Updates, Write, WriteCapability
from waterclock.storage.background import favour_callers
from waterclock.storage.controller import Storage

SMALL = Schema((Column("id", Int(64)), Column("name", Text())))
LARGE = Schema(
    (
        Column("id", Int(64), nullable=False),
        Column("customer", Int(32)),
        Column("price", Float(64)),
        Column("day", Date()),
        Column("comment", Text()),
    )
)
_ids = itertools.count(1)


def new_id() -> GlobalId:
    return GlobalId.user(next(_ids))


# Small commits


class BareSqlite:
    """One row for each transaction, synced."""

    def __init__(self, folder: Path) -> None:
        self._db = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)")

    def commits_per_second(self, seconds: float) -> float:
        done, began = 0, time.perf_counter()
        while time.perf_counter() < began + seconds:
            self._db.execute("INSERT INTO t (name) VALUES (?)", ("x" * 20,))
            done += 1
        return done / (time.perf_counter() - began)


_WARM_UP_S = 0.5
"""While the file of a new log grows, syncs take longer. That of bare SQLite has grown."""


@dataclass(slots=True)
class _Writer:
    capability: WriteCapability
    rest: Iterator[tuple[pa.RecordBatch, Frontier[int]]]
    """What is still to be written: a row, and the frontier after it."""


class Writers:
    """Tasks of one event loop, each appending one row at a time to a table of its own.

    Each measurement has data of its own, open only while it lasts. So what is done for it in the
    background is paid for by nobody else, and nobody else's is paid for by it: the tables of all
    measurements before would be looked through for something to merge, at each of them more.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._measurements = itertools.count(1)
        folder.mkdir()

    def appends_per_second(self, writers: int, seconds: float) -> float:
        # The rows and times are made beforehand: what is measured is committing them.
        times = range(int((_WARM_UP_S + seconds) * 10_000))
        rows = [updates(SMALL, [((t, "x" * 20), t, 1)]) for t in times]
        frontiers = [EPOCH_MILLIS.frontier(t + 1) for t in times]

        async def write(storage: Storage, writer: _Writer, until: float) -> int:
            done, capability = 0, writer.capability
            while time.perf_counter() < until:
                row, frontier = next(writer.rest)
                (capability,) = await storage.append_async(Write(capability, row, frontier))
                done += 1
            writer.capability = capability
            return done

        async def rate(storage: Storage, all_writers: list[_Writer], seconds: float) -> float:
            began = time.perf_counter()
            done = await asyncio.gather(
                *(write(storage, writer, began + seconds) for writer in all_writers)
            )
            return sum(done) / (time.perf_counter() - began)

        async def warm_rate(storage: Storage) -> float:
            tables = [storage.create(new_id(), Description(SMALL)) for _ in range(writers)]
            all_writers = [
                _Writer(capability, zip(rows, frontiers, strict=True)) for _, capability in tables
            ]
            await rate(storage, all_writers, _WARM_UP_S)
            return await rate(storage, all_writers, seconds)

        data = self._folder / str(next(self._measurements))
        with Storage.open_directory(data) as storage:
            return uvloop.run(warm_rate(storage))


def bench_commits(folder: Path, rounds: int, seconds: float) -> None:
    report = Report("Small commits, one row each")
    bare, ours = BareSqlite(folder), Writers(folder / "commits")
    # Short turns, and many of them: whatever else the machine does then meets all alike.
    turn = seconds / 4
    figures = in_turns(
        4 * rounds,
        bare=lambda: bare.commits_per_second(turn),
        one=lambda: ours.appends_per_second(1, turn),
        eight=lambda: ours.appends_per_second(8, turn),
        many=lambda: ours.appends_per_second(32, turn),
    )
    report.figure("bare SQLite, one row for each transaction", figures["bare"], "commits/s")
    report.figure("waterclock, 1 writer", figures["one"], "commits/s")
    report.figure("waterclock, 8 writers", figures["eight"], "commits/s")
    report.figure("waterclock, 32 writers", figures["many"], "commits/s")
    report.bar("32 writers against bare SQLite", figures["many"] / figures["bare"], 5)
    ALL.append(report)


# Bulk


def bulk_updates(first: int, rows: int, moment: int) -> pa.Table:
    random = np.random.default_rng(first)
    comments = np.array([f"comment number {n} of many" for n in range(1000)])
    return pa.table(
        [
            pa.array(np.arange(first, first + rows)),
            pa.array(random.integers(0, 100_000, rows, dtype=np.int32)),
            pa.array(random.random(rows).round(2)),
            pa.array(random.integers(0, 10_000, rows, dtype=np.int32)).cast(pa.date32()),
            pa.array(comments[random.integers(0, 1000, rows)]),
            pa.array(np.full(rows, moment)),
            pa.array(np.ones(rows, dtype=np.int64)),
        ],
        schema=update_schema(LARGE),
    )


def bench_bulk(folder: Path, rows: int, rounds: int) -> None:
    report = Report(f"Bulk, {rows:,} updates of 5 columns")
    plain = folder / "plain"
    plain.mkdir()
    with Storage.open_directory(folder / "bulk", background=False) as storage:
        read, write = storage.create(new_id(), Description(LARGE))
        spent = {"ours": 0.0, "plain": 0.0}
        for moment, first in enumerate(range(0, rows, PART_ROWS)):
            table = bulk_updates(first, min(PART_ROWS, rows - first), moment)
            with timed(spent, "ours"):
                frontier = EPOCH_MILLIS.frontier(moment + 1)
                (write,) = storage.append(Write(write, table, frontier))
            with timed(spent, "plain"):
                pq.write_table(table, plain / f"{moment:05}.parquet", **PARQUET_WRITE)
        report.figure("append", rows / spent["ours"], "rows/s")
        report.figure(
            "PyArrow writing the same Parquet, not synced", rows / spent["plain"], "rows/s"
        )
        report.figure("append against PyArrow", spent["plain"] / spent["ours"], "x")

        (read,) = [storage.downgrade_capability(read, EPOCH_MILLIS.frontier(moment))]
        peaks: list[int] = []

        def ours() -> float:
            with peak_memory(peaks):
                return rows / snapshot_seconds(storage, read, rows)

        figures = in_turns(rounds, ours=ours, plain=lambda: rows / plain_seconds(plain, rows))
        report.figure("snapshot", figures["ours"], "rows/s")
        report.figure("PyArrow streaming the same Parquet", figures["plain"], "rows/s")
        report.bar("snapshot against PyArrow", figures["ours"] / figures["plain"], 0.5)
        size = bulk_updates(0, GROUP_ROWS, 0).nbytes
        report.figure("one row group in memory", size / 2**20, "MiB")
        report.figure("the whole collection in memory", size * rows / GROUP_ROWS / 2**20, "MiB")
        report.limit("peak memory of a snapshot", max(peaks) / 2**20, 16 * size / 2**20, "MiB")
    ALL.append(report)


@contextmanager
def timed(spent: dict[str, float], name: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    spent[name] += time.perf_counter() - began


@contextmanager
def peak_memory(peaks: list[int]) -> Iterator[None]:
    """The most Arrow memory in use at once, beyond what was in use before."""
    before, most, done = pa.total_allocated_bytes(), [0], threading.Event()

    def sample() -> None:
        while not done.wait(0.002):
            most[0] = max(most[0], pa.total_allocated_bytes())

    sampler = threading.Thread(target=sample)
    sampler.start()
    try:
        yield
    finally:
        done.set()
        sampler.join()
        peaks.append(most[0] - before)


def snapshot_seconds(storage: Storage, read, rows: int) -> float:  # type: ignore[no-untyped-def]
    began, seen = time.perf_counter(), 0
    subscription = storage.subscribe_at(read)
    for message in subscription:
        match message:
            case Updates(batch):
                seen += batch.num_rows
            case Progress():
                break
    took = time.perf_counter() - began
    subscription.close()
    assert seen == rows, f"the snapshot has {seen} rows, not {rows}"
    return took


def plain_seconds(folder: Path, rows: int) -> float:
    began = time.perf_counter()
    seen = sum(batch.num_rows for batch in ds.dataset(folder).to_batches(batch_size=GROUP_ROWS))
    took = time.perf_counter() - began
    assert seen == rows
    return took


ALL: list[Report] = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    arguments = parser.parse_args()
    # As a server does when it has started.
    favour_callers()
    gc.collect()
    gc.freeze()
    folder = Path(tempfile.mkdtemp(prefix="waterclock-bench-", dir="/var/tmp"))
    try:
        bench_commits(folder, arguments.rounds, arguments.seconds)
        bench_bulk(folder, arguments.rows, arguments.rounds)
    finally:
        shutil.rmtree(folder)
    Report.exit(ALL[0] if ALL[0].missed else ALL[1])


if __name__ == "__main__":
    main()
