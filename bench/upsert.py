"""ENVELOPE UPSERT: state on disk against state in memory, in throughput and in memory.

    python bench/upsert.py [--keys 10000000] [--few 1000000] [--binding 100000] [--rounds 3]

Each contender is a process of its own that first takes all keys and then updates random ones,
binding by binding, as a source would. The one in memory (`peers/keyed_in_memory.py`) is what
upserts did before their state was on disk. They run in turns.

Bars: on disk, neither first contents nor updates take more of the processor at few keys than in
memory at as many, and updates at many keys no more than in memory at few; at many keys the process
has less than 1.5 GB of memory, beyond what the files have in the kernel's cache; and state that is
opened again is there sooner than it is made again from the contents. By the clock the disk counts
too: the figures are shown, and the bar is half the throughput.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from peers.keyed_in_memory import UpsertInMemory
from report import Report

from waterclock.persist.rows import DIFF
from waterclock.storage.envelopes.upsert import Upsert
from waterclock.storage.formats.decoding import KEY
from waterclock.storage.sources.api import ERROR, OFFSET, Messages, Standing, StatePlace

ROWS = pa.schema(
    [("key", pa.string()), ("id", pa.int64()), ("name", pa.string()), ("amount", pa.float64())]
)
UPDATES = 30
"""So many bindings of updates."""


def messages(ids: np.ndarray, version: int) -> Messages:
    """A message for each of these keys."""
    texts = pa.array(ids).cast(pa.string())
    columns = {
        "key": pa.compute.binary_join_element_wise("customer-", texts, ""),
        "id": pa.array(ids),
        "name": pa.compute.binary_join_element_wise(f"name {version} of ", texts, ""),
        "amount": pa.array(ids * 0.25 + version),
        OFFSET: pa.array(np.arange(len(ids))),
        DIFF: pa.array(np.ones(len(ids), np.int64)),
        ERROR: pa.nulls(len(ids), pa.string()),
        KEY: pa.nulls(len(ids), pa.string()),
    }
    return Messages("t", 0, pa.RecordBatch.from_pydict(columns))


def bindings(keys: int, size: int) -> Iterator[Messages]:
    """All keys, in no order, then updates of random ones."""
    random = np.random.default_rng(5)
    order = random.permutation(keys)
    for start in range(0, keys, size):
        yield messages(order[start : start + size], 0)
    for version in range(1, UPDATES + 1):
        yield messages(random.integers(0, keys, size), version)


def anonymous_mb() -> float:
    """The memory of this process that is in no file."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("Linux says how much memory a process has")


def contend(kind: str, keys: int, size: int, folder: Path) -> None:
    """Take everything; say how long it took, and how much memory."""
    on_disk = Upsert(ROWS, 1)
    on_disk.resume(Standing(lambda: iter(()), state=StatePlace(folder)))
    in_memory = UpsertInMemory(ROWS, 1)
    loading, updating = 0.0, []
    busy = {"load": 0.0, "update": 0.0}
    loads = -(-keys // size)
    before = most = anonymous_mb()
    for number, binding in enumerate(bindings(keys, size)):
        began, used = time.perf_counter(), time.process_time()
        if kind == "disk":
            found = on_disk.changes([binding])
            on_disk.settle()
            assert number < loads or len(found.rows) == 2
        else:
            in_memory.changes([binding])
        taken = time.perf_counter() - began
        busy["load" if number < loads else "update"] += time.process_time() - used
        if number < loads:
            loading += taken
        else:
            updating.append(taken)
        most = max(most, anonymous_mb())
    told = {
        "load": keys / loading,
        "update": size / (sum(updating) / len(updating)),
        "load_cpu": keys / busy["load"],
        "update_cpu": size * UPDATES / busy["update"],
        "worst_s": max(updating),
        "memory_mb": most,
        "grown_mb": most - before,
    }
    if kind == "disk":
        told |= reopened(on_disk, folder, keys)
    print(json.dumps(told))


def reopened(before: Upsert, folder: Path, keys: int) -> dict[str, float]:
    """How long the state takes to be opened again, and to be made again; and its files."""
    record = before.state_record()
    before.close()
    size = sum(path.stat().st_size for path in folder.rglob("*.arrow"))

    def contents() -> Iterator[pa.RecordBatch]:
        times = pa.array(np.zeros(100_000, np.int64))
        for start in range(0, keys, 100_000):
            batch = messages(np.arange(start, start + 100_000), 1).batch
            columns = [*batch.columns[: len(ROWS)], times, batch.column(DIFF)]
            yield pa.RecordBatch.from_arrays(columns, names=[*ROWS.names, "time", "diff"])

    def nothing() -> Iterator[pa.RecordBatch]:
        raise AssertionError("the contents are not read")

    opened = Upsert(ROWS, 1)
    began = time.perf_counter()
    opened.resume(Standing(nothing, state=StatePlace(folder, record)))
    reopening = time.perf_counter() - began
    opened.close()
    made = Upsert(ROWS, 1)
    began = time.perf_counter()
    made.resume(Standing(contents, state=StatePlace(folder)))
    return {
        "reopen_s": reopening,
        "rebuild_s": time.perf_counter() - began,
        "bytes_per_key": size / keys,
    }


def measured(kind: str, keys: int, size: int) -> dict[str, float]:
    """The figures of a contender."""
    with tempfile.TemporaryDirectory(prefix="waterclock-bench-", dir="/var/tmp") as folder:
        command = [sys.executable, __file__, "--contend", kind, folder]
        command += ["--keys", str(keys), "--binding", str(size)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ)
        told: dict[str, float] = json.loads(done.stdout)
        return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--few", type=int, default=1_000_000)
    parser.add_argument("--binding", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contend", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    many, few, size = arguments.keys, arguments.few, arguments.binding
    if arguments.contend:
        kind, folder = arguments.contend
        contend(kind, many, size, Path(folder))
        return
    report = Report(f"Upserts, bindings of {size:,} messages")
    contenders = {
        "in memory, few": ("memory", few),
        "on disk, few": ("disk", few),
        "in memory, many": ("memory", many),
        "on disk, many": ("disk", many),
    }
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in contenders}
    for number in range(arguments.rounds):
        for name, (kind, keys) in contenders.items():
            if keys == few or number == 0:
                rounds[name].append(measured(kind, keys, size))
    told = {
        name: {each: median(one[each] for one in found) for each in found[0]}
        for name, found in rounds.items()
    }
    for name, (_, keys) in contenders.items():
        shown = f"{name} ({keys:,} keys)"
        report.figure(f"{shown}: first contents", told[name]["load"], "rows/s")
        report.figure(f"{shown}:   of processor time", told[name]["load_cpu"], "rows/s")
        report.figure(f"{shown}: updates", told[name]["update"], "rows/s")
        report.figure(f"{shown}:   of processor time", told[name]["update_cpu"], "rows/s")
        report.figure(f"{shown}: slowest binding", 1e3 * told[name]["worst_s"], "ms")
        report.figure(f"{shown}: memory of the process", told[name]["memory_mb"], "MB")
        report.figure(f"{shown}: of that by the state", told[name]["grown_mb"], "MB")
    small, big = told["on disk, few"], told["on disk, many"]
    memory = told["in memory, few"]
    report.figure("on disk, many: files", big["bytes_per_key"], "bytes/key")
    for what in ("load", "update"):
        report.bar(f"{what}, few: disk to memory", small[what] / memory[what], 0.5)
        key = f"{what}_cpu"
        report.bar("  by processor time", small[key] / memory[key], 1)
        report.bar(f"{what}, many on disk to few in memory", big[what] / memory[what], 0.5)
        report.bar("  by processor time", big[key] / memory[key], 1)
    report.limit("memory of the process, many", big["memory_mb"], 1500, "MB")
    report.figure("opened again, many", big["reopen_s"], "s")
    report.bar("made again to opened again", big["rebuild_s"] / big["reopen_s"], 2)
    report.exit()


if __name__ == "__main__":
    main()
