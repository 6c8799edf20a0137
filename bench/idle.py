"""Views that have nothing to do: what fifty of them add to a tick in which one has.

    python bench/idle.py [--views 50] [--change 100] [--ticks 60] [--settle-s 240]

All tables are complete up to the same time, as they are in a server, so the uppers of all views
move at each tick; but the table that the idle views read does not change. The claim: fifty of them
add less than a tenth to the time of a tick.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import pyarrow as pa
from history import COLUMNS, CUSTOMERS, ORDERS, delta, rows_of
from pyspark.sql import SparkSession
from report import Report

from waterclock.compute.api import ERROR_ROWS, Result, View
from waterclock.compute.controller import Compute
from waterclock.compute.live_session import LiveSession
from waterclock.compute.spark import open_session
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.rows import update_schema
from waterclock.persist.store import Store
from waterclock.server.java import find_java
from waterclock.storage.api import Description, Write
from waterclock.storage.background import favour_callers
from waterclock.storage.controller import Storage

PAUSE_S = 0.05
"""Before each tick, so that Spark has cleaned up after the one before."""
QUIET = GlobalId.user(3)
TABLES = (ORDERS, CUSTOMERS, QUIET)
SCHEMAS = {
    **{c: Schema(tuple(Column(n, Int(64)) for n in names)) for c, names in COLUMNS.items()},
    QUIET: Schema((Column("a", Int(64)), Column("b", Int(64)))),
}
BUSY = """
SELECT c.nation_id, count(*) AS orders, sum(o.amount) AS total
FROM u1 o JOIN u2 c ON o.customer_id = c.customer_id GROUP BY c.nation_id
"""
TOTALS = Schema(tuple(Column(n, Int(64)) for n in ("nation_id", "orders", "total")))
COUNTS = Schema((Column("b", Int(64)), Column("n", Int(64))))


class Server:
    """Storage and compute over one folder, with three tables that move together."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._directory = DataDirectory(folder / "data")
        store = Store.open(self._directory.blob, self._directory.consensus, "bench")
        self.storage = Storage(store)
        self.compute = Compute(
            self.storage, Notes(store, "view/"), LiveSession.of(spark), folder / "views"
        )
        self.upper = 1
        self._next = 10
        self._busy: GlobalId | None = None
        self._writers = {
            table: self.storage.create(table, Description(SCHEMAS[table]))[1] for table in TABLES
        }
        quiet = [list(range(1000)), [n % 10 for n in range(1000)]]
        self.append(
            {
                ORDERS: delta(rows_of(ORDERS, 100_000, 0, 1), 1),
                CUSTOMERS: delta(rows_of(CUSTOMERS, 0, 0, 1), 1),
                QUIET: delta([pa.array(c).to_numpy() for c in quiet], 1),
            }
        )

    def append(self, changes: dict[GlobalId, pa.Table]) -> None:
        """Changes of some tables; all of them are complete up to then."""
        self.upper += 1
        frontier = EPOCH_MILLIS.frontier(self.upper)
        writes = []
        for table, writer in self._writers.items():
            rows = changes.get(table)
            if rows is not None:
                names = update_schema(SCHEMAS[table])
                rows = rows.rename_columns(names.names).cast(names)
            writes.append(Write(writer, rows, frontier))
        self._writers = dict(zip(TABLES, self.storage.append(*writes), strict=True))

    def install(self, sql: str, inputs: tuple[GlobalId, ...], schema: Schema) -> GlobalId:
        output, errors = GlobalId.user(self._next), GlobalId.user(self._next + 1)
        self._next += 2
        as_of = EPOCH_MILLIS.frontier(self.upper - 1)
        held = [
            self.storage.downgrade_capability(
                self.storage.acquire_capabilities(table, write=False)[0], as_of
            )
            for table in inputs
        ]
        _, writer = self.storage.create(output, Description(schema), start=as_of)
        _, wrong = self.storage.create(errors, Description(ERROR_ROWS), start=as_of)
        view = View({table: SCHEMAS[table] for table in inputs}, (Result(sql, schema),))
        self.compute.maintain_view(held, view, [writer], wrong)
        return output

    def tick(self, change: int, number: int) -> float:
        """How long it takes until all views have followed a change of the orders."""
        rows = rows_of(ORDERS, change, 10**9 + number * change, number)
        self.append({ORDERS: delta(rows, self.upper)})
        began = time.perf_counter()
        while self.compute.tick():
            pass
        return time.perf_counter() - began

    def settle(self, patience_s: float) -> None:
        """Let views be put together, as long as that happens."""
        deadline = time.monotonic() + patience_s
        known, since = -1, time.monotonic()
        while time.monotonic() < deadline and time.monotonic() - since < 8:
            self.append({})
            while self.compute.tick():
                pass
            if len(self.compute.groups) != known:
                known, since = len(self.compute.groups), time.monotonic()
            time.sleep(0.2)

    def close(self) -> None:
        self.compute.close()
        self.storage.close()
        self._directory.release()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--views", type=int, default=50)
    parser.add_argument("--change", type=int, default=100)
    parser.add_argument("--ticks", type=int, default=60)
    parser.add_argument("--settle-s", type=float, default=240)
    arguments = parser.parse_args()
    favour_callers()  # as a server does
    os.environ["JAVA_HOME"] = str(find_java(os.environ).home)
    spark = open_session("local[*]", {"spark.driver.memory": "4g"})
    report = Report(f"Idle views: {arguments.views} of them beside one that is busy")
    root = Path(tempfile.mkdtemp(prefix="waterclock-bench-", dir="/var/tmp"))
    servers = {name: Server(spark, root / name) for name in ("alone", "beside")}
    try:
        for server in servers.values():
            server.install(BUSY, (ORDERS, CUSTOMERS), TOTALS)
        created: list[float] = []
        for number in range(arguments.views):
            sql = f"SELECT b, count(*) AS n FROM u3 WHERE a <> {number} GROUP BY b"
            began = time.perf_counter()
            servers["beside"].install(sql, (QUIET,), COUNTS)
            created.append(time.perf_counter() - began)
        report.figure("creating a view, in the middle", 1e3 * statistics.median(created), "ms")
        began = time.perf_counter()
        for server in servers.values():
            server.settle(arguments.settle_s)
        report.figure("until they have settled", time.perf_counter() - began, "s")
        report.figure("groups of views", len(servers["beside"].compute.groups), "")
        took: dict[str, list[float]] = {name: [] for name in servers}
        for number in range(arguments.ticks):
            for name in sorted(servers, reverse=bool(number % 2)):  # nobody always comes second
                time.sleep(PAUSE_S)
                took[name].append(servers[name].tick(arguments.change, number))
        medians = {name: statistics.median(times[5:]) for name, times in took.items()}
        for name, median in medians.items():
            report.figure(f"a tick, {name}", 1e3 * median, "ms")
        report.limit("a tick beside idle views", medians["beside"] / medians["alone"], 1.1, "x")
    finally:
        for server in servers.values():
            server.close()
        shutil.rmtree(root)
    report.exit()


if __name__ == "__main__":
    main()
