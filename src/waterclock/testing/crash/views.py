"""Views over changing tables in one data directory, and a process that dies while it keeps them.

The tables' history is a function of the seed, step by step, so whoever opens the directory can go
on with it where the last process stopped, and a run that was never interrupted is the same run. Two
views and an index are installed on the way, each in one commit with its collections: a kill leaves
all of it or nothing.

    python -m waterclock.testing.crash.views DIRECTORY --kill POINT:COUNT:DELAY_MS

goes on with the directory, and kills itself that long after a point in the code was reached that
often. What is in memory is lost then, and so is the JVM; what the kernel has is not.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import threading
import time as clock
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from waterclock.compute.api import ERROR_ROWS, FRONTIERS_ONLY, Result, Status, View
from waterclock.compute.controller import Compute
from waterclock.compute.dataflow.attempt import Attempt
from waterclock.compute.live_session import LiveSession
from waterclock.compute.maintained import Group
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.arrangement import arrangement, files, writing
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.plans import together
from waterclock.persist.records import AnyEvent
from waterclock.persist.rows import updates
from waterclock.persist.state import State
from waterclock.persist.store import Store
from waterclock.storage import riders
from waterclock.storage.api import (
    Description,
    Progress,
    Token,
    Updates,
    Write,
    WriteCapability,
    Writers,
)
from waterclock.storage.controller import Storage
from waterclock.testing.brief_spark import brief_session
from waterclock.testing.frontiers import frontiers

Row = tuple[Any, ...]
Changes = list[tuple[Row, int, int]]

ORDERS, PEOPLE, TOTALS, LARGEST, INDEX = (GlobalId.user(number) for number in (1, 2, 3, 5, 7))
"""Whatever is maintained has its errors in the collection with the next number."""
ORDER = Schema((Column("person", Int(64)), Column("amount", Int(64))))
PERSON = Schema((Column("id", Int(64)), Column("name", Text())))
TOTAL = Schema((Column("name", Text()), Column("total", Int(64)), Column("count", Int(64))))
LARGE = Schema((Column("person", Int(64)), Column("amount", Int(64)), Column("place", Int(32))))
TABLES = {ORDERS: ORDER, PEOPLE: PERSON}
FIRST = 10
"""From this time on the outputs can be read; what is before is their first contents."""
STEP = 10
"""The times of a step."""

VIEWS = {
    TOTALS: (
        0,
        View(
            TABLES,
            (
                Result(
                    "SELECT name, sum(amount), count(*) FROM u1 JOIN u2 ON person = id"
                    " GROUP BY name",
                    TOTAL,
                ),
            ),
        ),
    ),
    LARGEST: (
        6,
        View(
            {ORDERS: ORDER},
            (
                Result(
                    "SELECT * FROM (SELECT person, amount, row_number() OVER"
                    " (PARTITION BY person ORDER BY amount DESC) AS place FROM u1"
                    " WHERE person IS NOT NULL) WHERE place <= 3",
                    LARGE,
                ),
            ),
        ),
    ),
    INDEX: (9, View({TOTALS: TOTAL}, (Result("SELECT * FROM u3", TOTAL, keys=("name",)),))),
}
"""What is maintained, and after which step it is installed. Both views keep orders by person."""


class World:
    """Storage and compute over the directory."""

    def __init__(self, path: Path, spark: SparkSession, seed: int = 1) -> None:
        self._seed = seed
        self._directory = DataDirectory(path / "data")
        self.store = Store.open(self._directory.blob, self._directory.consensus, "world")
        self.storage = Storage(self.store)
        self._writers = Notes(self.store, "writer/")
        self._create_tables()
        notes = Notes(self.store, "view/")
        self.compute = Compute(
            self.storage, notes, LiveSession.of(spark), path / "views", release_s=0
        )

    def close(self) -> None:
        self.compute.close()
        self.storage.close()
        self._directory.release()

    def run(self, steps: int) -> None:
        """Go on with the history up to so many steps, and with the views as far as that."""
        history = History(self._seed)
        for step in range(steps):
            changes = history.step(step)
            lower, upper = FIRST + STEP * (step - 1), FIRST + STEP * step
            if self.upper(ORDERS) <= lower:
                self._append(changes, upper)
            self._install(step)
            self.settle()

    def settle(self) -> None:
        """Let everything that is maintained catch up with what it reads."""
        target = self.upper(ORDERS)
        while any(self.upper(each) < target for each in VIEWS if self._exists(each)):
            if not self.compute.tick():
                clock.sleep(0.02)

    def statuses(self) -> Iterator[Status]:
        """How everything that is maintained is doing."""
        return (self.compute.status(each) for each in VIEWS if self._exists(each))

    def upper(self, collection: GlobalId) -> int:
        bound = frontiers(self.store, [collection])[collection][1].only()
        assert bound is not None, "nothing here comes to an end"
        return bound

    def history(self, collection: GlobalId) -> Counter[tuple[Row, int]]:
        """Every update that can be read of a collection, with its diff."""
        upper = EPOCH_MILLIS.frontier(self.upper(collection))
        reader, _ = self.storage.acquire_capabilities(collection, write=False)
        subscription = self.storage.subscribe_at(reader)
        found: Counter[tuple[Row, int]] = Counter()
        for message in subscription:
            match message:
                case Updates(batch):
                    columns = [column.to_pylist() for column in batch.columns]
                    for *row, time, diff in zip(*columns, strict=True):
                        found[tuple(row), time] += diff
                case Progress(reached):
                    if upper <= reached:
                        break
        subscription.close()
        self.storage.drop_capability(reader)
        return Counter({update: diff for update, diff in found.items() if diff})

    def indexed(self, time: int) -> Counter[Row]:
        """The rows of the index at a time."""
        rows = self.compute.index(INDEX).at(time).to_pylist()
        return Counter(tuple(row.values()) for row in rows)

    def _exists(self, collection: GlobalId) -> bool:
        return self.store.read(lambda state: str(collection) in state.shards)

    def _create_tables(self) -> None:
        if self._exists(ORDERS):
            return
        made = together(riders.create(t, Description(schema)) for t, schema in TABLES.items())

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            events, given = made(state)
            tokens = {str(writer.id): writer.token.encode() for _, writer in given}
            return events + self._writers.events(tokens), None

        self.store.commit(plan)

    def _append(self, changes: dict[GlobalId, Changes], upper: int) -> None:
        tokens = self._writers.all()
        writes = []
        for table, more in changes.items():
            writer = riders.held(self.store, Token(tokens[str(table)].decode()))
            assert isinstance(writer, WriteCapability)
            frontier = EPOCH_MILLIS.frontier(upper)
            writes.append(Write(writer, updates(TABLES[table], more), frontier))
        self.storage.append(*writes)

    def _install(self, step: int) -> None:
        for output, (after, view) in VIEWS.items():
            if after > step or self._exists(output):
                continue
            self.store.commit(lambda state, o=output, v=view: self._installation(state, o, v))  # type: ignore[misc]
            self.compute.begin(output)

    def _installation(
        self, state: State, output: GlobalId, view: View
    ) -> tuple[list[AnyEvent], None]:
        [result] = view.results
        as_of = max(FIRST - 1, *(state.shards[str(each)].since or 0 for each in view.inputs))
        stored = FRONTIERS_ONLY if result.keys else result.schema
        errors = GlobalId.user(output.number + 1)
        start = EPOCH_MILLIS.frontier(as_of)
        made = together(
            riders.create(collection, Description(schema, Writers.CREATOR), start)
            for collection, schema in ((output, stored), (errors, ERROR_ROWS))
        )
        events, [(_, writer), (_, failing)] = made(state)
        installed = self.compute.installation(view, as_of, [writer], failing)
        return events + installed(state)[0], None


class History:
    """What the tables do: rows come and go, names change hands."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._orders: list[Row] = []
        self._names: dict[int, str] = {}

    def step(self, number: int) -> dict[GlobalId, Changes]:
        """The changes of a step; they must be asked for in order."""
        lower = FIRST + STEP * (number - 1)
        times = range(max(0, lower), lower + STEP)
        orders: Changes = []
        people: Changes = []
        for time in times:
            for _ in range(400 if number == 0 else self._random.randrange(6)):
                orders.append(self._order(time))
            if number == 0 or self._random.random() < 0.3:
                people += self._renaming(time)
        return {ORDERS: orders, PEOPLE: people}

    def _order(self, time: int) -> tuple[Row, int, int]:
        if self._orders and self._random.random() < 0.4:
            place = self._random.randrange(len(self._orders))
            return self._orders.pop(place), time, -1
        row = (self._random.randrange(20), self._random.randrange(1000))
        self._orders.append(row)
        return row, time, 1

    def _renaming(self, time: int) -> Changes:
        person = self._random.randrange(20)
        changes: Changes = []
        if person in self._names:
            changes.append(((person, self._names[person]), time, -1))
        self._names[person] = self._random.choice(["ada", "bob", "eve", "kim"])
        return [*changes, ((person, self._names[person]), time, 1)]


def _arm(
    owner: Any,
    name: str,
    count: int,
    delay_s: float,
    *,
    after: bool = False,
    when: Callable[..., bool] = lambda *_: True,
) -> None:
    """Kill this process some time after a function was called, or has returned, that often.

    Only calls count whose positional arguments `when` says yes to.
    """
    original = getattr(owner, name)
    left = [count]

    def called(*arguments: Any, **named: Any) -> Any:
        left[0] -= bool(when(*arguments))
        if left[0] or after:
            answer = original(*arguments, **named)
            if not left[0]:
                _die(delay_s)
            return answer
        if delay_s == 0:
            _die(0)
        threading.Thread(target=_die, args=(delay_s,), daemon=True).start()
        return original(*arguments, **named)

    setattr(owner, name, called)


def _die(delay_s: float) -> None:
    clock.sleep(delay_s)
    os.kill(os.getpid(), signal.SIGKILL)


POINTS: dict[str, Callable[[int, float], None]] = {
    "open": lambda count, delay_s: _arm(Compute, "_opened", count, delay_s),
    "job": lambda count, delay_s: _arm(Attempt, "run", count, delay_s),
    "hydration": lambda count, delay_s: _arm(
        Attempt, "run", count, delay_s, when=lambda _, tick, *__: tick.first
    ),
    "before the write": lambda count, _: _arm(Storage, "_append", count, 0),
    "after the write": lambda count, _: _arm(Storage, "_append", count, 0, after=True),
    "before a merge": lambda count, _: _arm(writing, "publish", count, 0),
    "in a merge": lambda count, _: _arm(arrangement.Arrangement, "_exchange", count, 0),
    "while sharing": lambda count, _: _arm(files, "try_link", count, 0, after=True),
    "after a step": lambda count, _: _arm(Group, "_count", count, 0),
}
"""Where a process can be killed."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.crash.views")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kill", help="where, how often it is passed before, and the delay in ms")
    asked = parser.parse_args()
    spark = brief_session()
    if asked.kill:
        point, count, delay_ms = asked.kill.rsplit(":", 2)
        POINTS[point](int(count), float(delay_ms) / 1000)
    world = World(asked.directory, spark, asked.seed)
    for status in world.statuses():
        if status.rebuilt is not None:
            print(f"rebuilt: {status.rebuilt}", flush=True)
    world.run(asked.steps)
    world.close()
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
