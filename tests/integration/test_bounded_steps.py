"""However much waits, a step takes a bounded part of it, and the view is right at every time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from test_compute import ORDER, ORDERS, Installed, Row, Server, at, contents, installed

from waterclock.compute.controller import Compute
from waterclock.compute.dataflow.dataflow import Dataflow
from waterclock.compute.dataflow.job import Job, Ticked
from waterclock.compute.dataflow.tick import Tick
from waterclock.model.ids import GlobalId
from waterclock.persist import inline
from waterclock.persist.cutting import Limit
from waterclock.persist.maintenance import Maintenance
from waterclock.persist.portions import Listing, portion
from waterclock.persist.rows import TIME, updates
from waterclock.storage.api import Write
from waterclock.storage.contents import blob_for_others

pytestmark = pytest.mark.slow

__all__ = ["installed"]
MOST_ROWS = 10
_HUGE = 40
"""How many rows the one commit has that no step can divide."""
BEGAN = {(1, 10): 1, (1, 5): 1, (2, 7): 1}


@pytest.fixture
def server(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Server]:
    monkeypatch.setitem(Compute.__init__.__kwdefaults__, "limit", Limit(MOST_ROWS, 1 << 20))
    server = Server(tmp_path, spark)
    yield server
    server.stop()


class Steps:
    """What each step was given: the times of its updates, and the number of tasks."""

    def __init__(self, server: Server, patch: pytest.MonkeyPatch) -> None:
        self.times: list[list[int]] = []
        self.spreads: list[int] = []
        blob = blob_for_others(server.storage)
        assert blob is not None
        compute = Dataflow.compute

        def watched(
            dataflow: Dataflow,
            upper: int,
            deltas: Mapping[GlobalId, pa.Table],
            contents: Mapping[GlobalId, Listing] | None = None,
            *,
            spread: int = 1,
        ) -> Ticked:
            times = [time for each in deltas.values() for time in each[TIME].to_pylist()]
            for listing in (contents or {}).values():
                assert listing.start is not None, "only changes come here"
                for batch in portion(blob, listing, 0, 1):
                    times += batch.column(TIME).to_pylist()
            self.times.append(times)
            self.spreads.append(spread)
            return compute(dataflow, upper, deltas, contents, spread=spread)

        patch.setattr(Dataflow, "compute", watched)


def _settle(server: Server, upper: int) -> None:
    for _ in range(200):
        server.compute.tick()
        if server.compute.status(GlobalId.user(3)).upper >= upper:
            return
    raise AssertionError(f"the view is not at {upper}: {server.compute.status(GlobalId.user(3))}")


def _totals(orders: Mapping[Row, int]) -> Counter[Row]:
    names = {1: "ada", 2: "bob"}
    found: dict[int, list[int]] = {}
    for (person, amount), count in orders.items():
        if count and person in names:
            total = found.setdefault(person, [0, 0])
            total[0] += amount * count
            total[1] += count
    return Counter({(names[p], total, count): 1 for p, (total, count) in found.items() if count})


def _history(choose: random.Random) -> dict[int, list[Row]]:
    """Some rows at many times, one of which has more than a step takes."""
    found: dict[int, list[Row]] = {}
    for time in range(8, 60):
        count = _HUGE if time == 30 else choose.randrange(0, 6)
        found[time] = [(choose.randrange(1, 4), choose.randrange(100)) for _ in range(count)]
    return found


@pytest.mark.semantics(44)
@pytest.mark.parametrize("stored", ["in the log", "in objects", "merged", "kept"])
def test_a_backlog_is_taken_in_bounded_steps(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    orders, people, read = installed
    server.compute.tick()
    if stored != "in the log":
        monkeypatch.setattr(inline, "INLINE_ROWS", 0)
    history = _history(random.Random(stored))
    for time, rows in history.items():
        table = updates(ORDER, [(row, time, 1) for row in rows]) if rows else None
        [orders] = server.storage.append(Write(orders, table, at(time + 1)))
    [people] = server.storage.append(Write(people, None, at(60)))
    if stored == "merged":
        Maintenance(server.store).run()
    steps = Steps(server, monkeypatch)
    if stored == "kept":  # over a restart in the middle
        while server.compute.status(GlobalId.user(3)).upper < 20:
            server.compute.tick()
        server.restart()
    _settle(server, 60)
    assert len(steps.times) > 10, "it is cut into many steps"
    for times in steps.times:
        assert len(times) <= MOST_ROWS or len(set(times)) == 1
    every = sorted(time for times in steps.times for time in times)
    assert every == sorted(t for t, rows in history.items() for _ in rows), "each update once"
    known: Counter[Row] = Counter(BEGAN)
    for time in range(8, 60):
        known.update(history[time])
        assert contents(server.storage, read, time) == _totals(known), f"at {time}"
    with server.store._lock:
        assert not server.store._live_pins(), "nothing is kept for reading that is over"


@pytest.mark.semantics(44)
def test_a_step_without_memory_is_tried_again_with_less(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more than three rows none succeeds, unless more tasks share them."""
    orders, people, read = installed
    server.compute.tick()
    history = {time: [(1, time), (2, time), (2, 1)] for time in range(8, 20)}
    history[12] = [(1, amount) for amount in range(9)]
    for time, rows in history.items():
        table = updates(ORDER, [(row, time, 1) for row in rows])
        [orders] = server.storage.append(Write(orders, table, at(time + 1)))
    server.storage.append(Write(people, None, at(20)))
    steps = Steps(server, monkeypatch)
    run = Job.run

    def short_of_memory(
        job: Job,
        tick: Tick,
        deltas: Mapping[GlobalId, pa.Table],
        listed: Mapping[GlobalId, Listing],
    ) -> Ticked:
        rows = sum(each.num_rows for each in deltas.values())
        if rows > 3 * job._parts:
            raise RuntimeError("Job aborted: java.lang.OutOfMemoryError: Java heap space")
        return run(job, tick, deltas, listed)

    monkeypatch.setattr(Job, "run", short_of_memory)
    _settle(server, 20)
    assert max(steps.spreads) > 1
    assert server.compute.status(GlobalId.user(3)).problem is None
    known: Counter[Row] = Counter(BEGAN)
    for time in range(8, 20):
        known.update(history[time])
        assert contents(server.storage, read, time) == _totals(known), f"at {time}"


def test_orders_are_read_as_changes(server: Server, installed: Installed) -> None:
    """A single commit far beyond the bound is one step in more tasks, and is right."""
    orders, people, read = installed
    server.compute.tick()
    rows = [((1, n % 7), 9, 1) for n in range(3000)]
    server.storage.append(Write(orders, updates(ORDER, rows), at(10)))
    server.storage.append(Write(people, None, at(10)))
    _settle(server, 10)
    known = Counter(BEGAN) + Counter(row for row, _, _ in rows)
    assert contents(server.storage, read, 9) == _totals(known)
    assert server.compute.status(ORDERS.user(3)).problem is None
