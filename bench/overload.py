"""Events as fast as the server takes them, into one view: it slows writers down and stays alive.

    python bench/overload.py                       200 transactions of 20,000 events, then judge
    python bench/overload.py --minutes 10          sustained load, as fast as writes are let in
    python bench/overload.py --events 10000000 --transactions 1      a single huge commit

The events are those of Nexmark: auctions, and bids on them, 3 to 46. The view is its fourth query:
the highest bid of each auction while it was open, and of these the average of each category. DuckDB
computes the same from the same events, on its own, and the answers must agree to the digit.

Memory is that of the server and of all processes below it, looked at twice a second: what each has
for itself, with what several share divided among them (PSS). Anonymous memory is what the machine
can not take back; pages of files it can.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import signal
import sys
import tempfile
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.csv as pacsv

from waterclock.testing.server_process import ServerProcess

AUCTIONS, BIDS = 3, 46
CATEGORIES = 5
_HOT = 100
"""One auction among so many gets half of the bids."""
_RECENT = 5_000
"""The others go to one of so many last auctions."""
_OPEN_S = 600
BUDGET_MB = 8 * 1024
"""What server, Java and workers may take together, with the default settings."""

TABLES = (
    "CREATE TABLE auction "
    "(id bigint, seller bigint, category bigint, ts timestamp, expires timestamp)",
    "CREATE TABLE bid (auction bigint, bidder bigint, price bigint, ts timestamp)",
)
Q4 = """
    SELECT category, avg(final) AS average, count(*) AS auctions FROM (
        SELECT max(b.price) AS final, a.category FROM auction a JOIN bid b ON a.id = b.auction
        WHERE b.ts BETWEEN a.ts AND a.expires GROUP BY a.id, a.category) q
    GROUP BY category"""

WIDE = """
    SELECT b.*, a.seller, a.category, repeat('x', 100) AS filling
    FROM auction a JOIN bid b ON a.id = b.auction"""
"""As many rows as there are bids, and long ones."""


def more(number: int) -> str:
    """A view that shares no work with others."""
    return f"""
        SELECT bidder % 1000 AS bidder, count(*) AS bids, max(price + {number}) AS highest
        FROM bid b JOIN auction a ON a.id = b.auction + {number} GROUP BY bidder % 1000"""


@dataclass
class Events:
    """Nexmark's auctions and bids, a transaction at a time; a seed gives the same each time."""

    size: int
    """How many there are in each transaction."""
    seed: int = 7
    auctions: int = 0
    transactions: int = 0
    _random: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._random = np.random.default_rng(self.seed)

    def transaction(self) -> tuple[pa.Table, pa.Table]:
        """The auctions and the bids of the next transaction."""
        new = self.size * AUCTIONS // (AUCTIONS + BIDS)
        count = self.size - new
        ids = np.arange(self.auctions, self.auctions + new)
        self.auctions += new
        start = (1_700_000_000 + self.transactions) * 1_000_000
        self.transactions += 1
        stamps = start + np.sort(self._random.integers(0, 1_000_000, new))
        auctions = pa.table(
            {
                "id": ids,
                "seller": self._random.integers(0, 100_000, new),
                "category": self._random.integers(10, 10 + CATEGORIES, new),
                "ts": _times(stamps),
                "expires": _times(stamps + _OPEN_S * 1_000_000),
            }
        )
        hot = ids[-1] // _HOT * _HOT - _HOT * self._random.integers(0, 5, count)
        oldest = max(0, self.auctions - _RECENT)
        others = self._random.integers(oldest, self.auctions, count)
        on = np.where(self._random.random(count) < 0.5, np.maximum(hot, 0), others)
        bids = pa.table(
            {
                "auction": on,
                "bidder": self._random.integers(0, 100_000, count),
                "price": (10 ** (self._random.random(count) * 6) * 100).astype(np.int64),
                "ts": _times(start + 500_000 + np.sort(self._random.integers(0, 1_000_000, count))),
            }
        )
        return auctions, bids


def _times(micros: np.ndarray) -> pa.Array:
    return pa.array(micros, pa.timestamp("us"))


def _lines(rows: pa.Table) -> bytes:
    sink = io.BytesIO()
    pacsv.write_csv(rows, sink, pacsv.WriteOptions(include_header=False))
    return sink.getvalue()


class Memory(threading.Thread):
    """Looks at what a process and all below it take."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._over = threading.Event()
        self.highest: dict[str, int] = defaultdict(int)
        """The most of each kind of process, and of all together, in MB."""

    def run(self) -> None:
        while not self._over.wait(0.5):
            now: dict[str, int] = defaultdict(int)
            for pid in _below(self._root):
                kind = "server" if pid == self._root else _kind(pid)
                for what, size in _taken(pid).items():
                    now[f"{kind} {what}"] += size
                    now[f"all {what}"] += size
            for name, size in now.items():
                self.highest[name] = max(self.highest[name], size)
            self.now = now

    def close(self) -> None:
        self._over.set()
        self.join()


def _below(root: int) -> list[int]:
    children = defaultdict(list)
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = stat.read_text()
        except OSError:
            continue
        children[int(text.rpartition(")")[2].split()[1])].append(int(stat.parent.name))
    found = [root]
    for pid in found:
        found += children[pid]
    return found


def _kind(pid: int) -> str:
    try:
        return "java" if Path(f"/proc/{pid}/comm").read_text().strip() == "java" else "workers"
    except OSError:
        return "workers"


def _taken(pid: int) -> dict[str, int]:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    sizes = {
        name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)
    }
    rss = next((int(line.split()[1]) for line in status if line.startswith("VmRSS")), 0)
    kilobytes = {"anonymous": sizes["Pss_Anon"], "pss": sizes["Pss"], "rss": rss}
    return {what: size >> 10 for what, size in kilobytes.items()}


class Visitor(threading.Thread):
    """Somebody who works by hand meanwhile: one row into a table that the view reads, and DDL."""

    def __init__(self, dsn: str) -> None:
        super().__init__(daemon=True)
        self._dsn = dsn
        self._over = threading.Event()
        self.took: dict[str, list[float]] = defaultdict(list)

    def run(self) -> None:
        texts = (
            "SELECT 1",
            "INSERT INTO bid VALUES (-1, 0, 0, '2000-01-01')",
            "CREATE TABLE visited (a int)",
            "DROP TABLE visited",
        )
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while not self._over.wait(0.5):
                for text in texts:
                    began = time.monotonic()
                    connection.execute(text)
                    self.took[text.split()[0]].append(time.monotonic() - began)

    def close(self) -> dict[str, list[float]]:
        """The median and the 99th percentile of each kind of statement, in milliseconds."""
        self._over.set()
        self.join()
        sorted_ms = {kind: sorted(1e3 * s for s in took) for kind, took in self.took.items()}
        return {
            kind: [round(ms[len(ms) // 2], 1), round(ms[int(len(ms) * 0.99)], 1)]
            for kind, ms in sorted_ms.items()
        }


class Run:
    """A server, a view over two tables, and a writer that goes as fast as it may."""

    def __init__(self, server: ServerProcess, memory: Memory, expected: Any, size: int) -> None:
        self._server = server
        self._memory = memory
        self._expected = expected
        self._events = Events(size)
        self.notices: list[str] = []
        self.rows = 0
        self.lags: list[float] = []

    def write(self, is_over: Callable[[], bool], *, quiet: bool = False) -> None:
        began = shown = time.monotonic()
        with psycopg.connect(self._server.dsn) as connection:
            connection.add_notice_handler(
                lambda notice: self.notices.append(str(notice.message_primary))
            )
            with connection.cursor() as cursor:
                while not is_over():
                    auctions, bids = self._events.transaction()
                    for name, rows in (("auction", auctions), ("bid", bids)):
                        with cursor.copy(f"COPY {name} FROM STDIN (FORMAT csv)") as copy:
                            copy.write(_lines(rows))
                    connection.commit()
                    self.rows += auctions.num_rows + bids.num_rows
                    for name, rows in (("auction", auctions), ("bid", bids)):
                        self._expected.register("more", rows)
                        self._expected.execute(f"INSERT INTO {name} SELECT * FROM more")
                        self._expected.unregister("more")
                    now = time.monotonic()
                    if now - shown > 5 and not quiet:
                        shown = now
                        self._show(now - began)

    def _show(self, seconds: float) -> None:
        lag = lag_of(self._server, "winning")
        self.lags.append(lag)
        print(
            f"{seconds:6.0f} s {self.rows:>10} rows {self.rows / seconds:8.0f}/s "
            f"view {lag:6.1f} s late {len(self.notices)} notices {json.dumps(self._memory.now)}",
            flush=True,
        )

    def settle(self, limit_s: float) -> float:
        """Wait until the view has everything, and compare. Gives the seconds that took."""
        began = time.monotonic()
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            connection.execute(f"SET statement_timeout = {int(limit_s * 1000)}")
            answer = connection.execute("SELECT * FROM winning ORDER BY category").fetchall()
        took = time.monotonic() - began
        expected = self._expected.execute(
            "SELECT category, sum(final)::hugeint, count(*) FROM ("
            "SELECT max(b.price) AS final, a.category FROM auction a "
            "JOIN bid b ON a.id = b.auction WHERE b.ts BETWEEN a.ts AND a.expires "
            "GROUP BY a.id, a.category) GROUP BY category ORDER BY category"
        ).fetchall()
        assert len(answer) == len(expected) == CATEGORIES, f"{answer} is not {expected}"
        for (category, average, count), (same, total, number) in zip(answer, expected, strict=True):
            right = Decimal(int(total)) / number
            assert (category, count) == (same, number), f"{answer} is not {expected}"
            assert abs(average - right) < Decimal("1e-9"), f"{average} is not {right}"
        return took

    def compare_wide(self) -> None:
        """Compare the view of long rows, by sums."""
        sums = "SELECT count(*), sum(price), sum(seller), sum(length(filling)) FROM"
        with psycopg.connect(self._server.dsn, autocommit=True) as connection:
            answer = connection.execute(f"{sums} offers").fetchone()
        expected = self._expected.execute(f"{sums} ({WIDE})").fetchone()
        assert answer is not None
        assert [int(value) for value in answer] == [int(value) for value in expected]


def lag_of(server: ServerProcess, view: str) -> float:
    """How many seconds the view is late, by the server's own metrics."""
    for line in metrics_of(server).splitlines():
        if line.startswith("waterclock_view_lag_milliseconds") and f".{view}" in line:
            return float(line.split()[-1]) / 1000
    return -1.0


def metrics_of(server: ServerProcess) -> str:
    url = f"http://127.0.0.1:{server.http_port}/metrics"
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def _signal(server: ServerProcess, number: signal.Signals) -> None:
    for pid in _below(server.pid):
        if _kind(pid) == "java":
            os.kill(pid, number)


def run(asked: argparse.Namespace, expected: Any) -> dict[str, Any]:
    minutes, held = asked.minutes, asked.held
    with tempfile.TemporaryDirectory(prefix="waterclock-overload-") as folder:
        server = ServerProcess(Path(folder) / "data", *asked.flags)
        with server:
            memory = Memory(server.pid)
            memory.start()
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                for table in TABLES:
                    connection.execute(table)
                    expected.execute(table)
                connection.execute(f"CREATE MATERIALIZED VIEW winning AS {Q4}")
                for number in range(asked.more):
                    connection.execute(f"CREATE MATERIALIZED VIEW more_{number} AS {more(number)}")
                if asked.wide:
                    connection.execute(f"CREATE MATERIALIZED VIEW offers AS {WIDE}")
            driven = Run(server, memory, expected, asked.events)
            if held:
                _signal(server, signal.SIGSTOP)
            visitor = Visitor(server.dsn)
            visitor.start()
            began = time.monotonic()
            if minutes is None:
                left = iter(range(asked.transactions))
                driven.write(lambda: next(left, None) is None, quiet=held)
            else:
                driven.write(lambda: time.monotonic() > began + minutes * 60)
            written = time.monotonic() - began
            visited = visitor.close()
            if held:
                _signal(server, signal.SIGCONT)
            settled = driven.settle(1800)
            if asked.wide:
                driven.compare_wide()
            memory.close()
            delays = [each for each in metrics_of(server).splitlines() if "delay" in each]
            complaints = server.complaints
    return {
        "rows": driven.rows,
        "written_s": round(written, 1),
        "rows_per_s": round(driven.rows / (written + settled)),
        "caught_up_s": round(settled, 1),
        "worst_lag_s": round(max(driven.lags, default=0), 1),
        "notices": len(driven.notices),
        "delays": [each for each in delays if not each.startswith("#")],
        "visitor_p50_p99_ms": visited,
        "complaints": complaints,
        "memory_mb": dict(sorted(memory.highest.items())),
    }


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # and so is the server
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--transactions", type=int, default=200)
    parser.add_argument("--events", type=int, default=20_000, help="in each transaction")
    parser.add_argument("--more", type=int, default=0, help="so many views beside it")
    parser.add_argument("--wide", action="store_true", help="and one with long rows")
    parser.add_argument(
        "--held", action="store_true", help="stop Java while rows are written, so that all wait"
    )
    parser.add_argument("flags", nargs="*", help="flags of the server")
    asked = parser.parse_args()
    expected = duckdb.connect(config={"threads": 1})
    told = run(asked, expected)
    print(json.dumps(told, indent=2))
    taken = told["memory_mb"]["all anonymous"]
    assert taken <= BUDGET_MB, f"{taken} MB of memory is more than {BUDGET_MB}"


if __name__ == "__main__":
    main()
