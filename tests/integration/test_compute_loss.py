"""State that is lost, damaged, foreign or of another version is computed again; outputs stay."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from test_compute import (
    ERRORS,
    ORDER,
    ORDERS,
    PEOPLE,
    PERSON,
    TOTAL,
    TOTALS,
    Server,
    at,
    contents,
)

from waterclock.compute import installed
from waterclock.compute.api import ERROR_ROWS, FRONTIERS_ONLY, Health, Result, View
from waterclock.compute.dataflow.attempt import Attempt
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema
from waterclock.persist.rows import updates
from waterclock.storage.api import Description, Write

pytestmark = pytest.mark.slow

BY_NAME = GlobalId.user(5)
SQL = (
    "SELECT name, sum(amount), count(*) FROM u1 JOIN u2 ON person = id"
    " WHERE mz_now() <= amount * 5 GROUP BY name"
)
Row = tuple[Any, ...]


class Shop:
    """Orders that are only counted for a while, totals of them, and an index on the totals.

    What the totals must be at each time is known from the list of all changes.
    """

    def __init__(self, server: Server) -> None:
        self.server = server
        self.changes: list[tuple[Row, int, int]] = []
        self.upper = 5
        storage = server.storage
        _, self.orders = storage.create(ORDERS, Description(ORDER))
        _, self.people = storage.create(PEOPLE, Description(PERSON))
        names = [((1, "ada"), 0, 1), ((2, "bob"), 0, 1)]
        [self.people] = storage.append(Write(self.people, updates(PERSON, names), at(1)))
        self._append([((1, 10), 2, 1), ((2, 7), 4, 1), ((1, 3), 4, 1)])
        self.install(TOTALS, {ORDERS: ORDER, PEOPLE: PERSON}, Result(SQL, TOTAL), 3)
        index = Result("SELECT * FROM u3", TOTAL, keys=("name",))
        self.install(BY_NAME, {TOTALS: TOTAL}, index, 3)

    def install(
        self, output: GlobalId, inputs: dict[GlobalId, Schema], result: Result, as_of: int
    ) -> None:
        storage = self.server.storage
        reads = []
        for each in inputs:
            reader, _ = storage.acquire_capabilities(each, write=False)
            reads.append(storage.downgrade_capability(reader, at(as_of)))
        stored = FRONTIERS_ONLY if result.keys else result.schema
        _, writer = storage.create(output, Description(stored), start=at(as_of))
        errors = GlobalId.user(output.number + 1)
        _, wrong = storage.create(errors, Description(ERROR_ROWS), start=at(as_of))
        self.server.compute.maintain_view(reads, View(inputs, (result,)), [writer], wrong)

    def _append(self, changes: list[tuple[Row, int, int]]) -> None:
        self.changes += changes
        self.orders, self.people = self.server.storage.append(
            Write(self.orders, updates(ORDER, changes), at(self.upper)),
            Write(self.people, None, at(self.upper)),
        )

    def step(self) -> None:
        """Some orders come and one goes, at several times."""
        first = self.upper
        self.upper += 3
        gone = next(row for row, _, _ in self.changes if self._count(row) > 0)
        person = 1 + first % 2
        self._append([((person, first), first, 1), ((1, 1), first + 1, 1), (gone, first + 2, -1)])

    def _count(self, row: Row) -> int:
        return sum(diff for other, _, diff in self.changes if other == row)

    def settle(self, patience_s: float = 600) -> None:
        """Let the views catch up."""
        deadline = time.monotonic() + patience_s
        compute = self.server.compute
        while min(compute.status(v).upper for v in (TOTALS, BY_NAME)) < self.upper:
            assert time.monotonic() < deadline
            if not compute.tick():
                time.sleep(0.05)

    def expected(self, moment: int) -> Counter[Row]:
        names = {1: "ada", 2: "bob"}
        found: dict[str, list[int]] = {}
        for (person, amount), when, diff in self.changes:
            if when <= moment <= amount * 5:
                total = found.setdefault(names[person], [0, 0])
                total[0] += amount * diff
                total[1] += diff
        return Counter({(n, t, c): 1 for n, (t, c) in found.items() if c})

    def check(self) -> None:
        """The totals and the index at every time that can be read."""
        storage, compute = self.server.storage, self.server.compute
        read, _ = storage.acquire_capabilities(TOTALS, write=False)
        wrong, _ = storage.acquire_capabilities(ERRORS, write=False)
        assert contents(storage, wrong, self.upper - 1) == Counter()
        for moment in range(3, self.upper):
            expected = self.expected(moment)
            assert contents(storage, read, moment) == expected, f"at {moment}"
            rows = compute.index(BY_NAME).at(moment).to_pylist()
            assert Counter(tuple(row.values()) for row in rows) == expected, f"index at {moment}"

    @property
    def rebuilt(self) -> list[str | None]:
        return [self.server.compute.status(view).rebuilt for view in (TOTALS, BY_NAME)]


@pytest.fixture
def shop(tmp_path: Path, spark: SparkSession) -> Iterator[Shop]:
    shop = Shop(Server(tmp_path, spark))
    shop.settle()
    yield shop
    shop.server.stop()


def state_files(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "views" / "state").rglob("*.arrow"))


def halve(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def restarted(shop: Shop, lose: Callable[[], None]) -> None:
    """Stop the server, lose something, start it again, and go on."""
    shop.server.stop()
    lose()
    shop.server.start()
    shop.step()
    shop.settle()


@pytest.mark.semantics(44, 75)
def test_the_loss_of_any_one_file_changes_nothing(
    shop: Shop, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    names = sorted({file.parent.name for file in state_files(tmp_path)})
    assert len(names) == 5, "what waits for time, the inputs of the join, the sums, the index"
    restarted(shop, lambda: None)
    assert shop.rebuilt == [None, None]
    for number, name in enumerate(names):
        lost = [file for file in state_files(tmp_path) if file.parent.name == name]
        harm = partial(Path.unlink if number % 2 else halve, lost[number % len(lost)])
        with caplog.at_level(logging.WARNING):
            caplog.clear()
            restarted(shop, harm)
        view = GlobalId.parse(name.partition("_op")[0])
        why = shop.server.compute.status(view).rebuilt
        assert why is not None
        assert "damaged" in why
        [told] = [r for r in caplog.records if "computed again" in r.message]
        assert f"view {view}" in told.message
        assert shop.rebuilt.count(None) == 1, "only the view that lost something"
        assert shop.server.compute.status(view).health is Health.RUNNING
    shop.check()


def test_the_loss_of_everything_changes_nothing(shop: Shop, tmp_path: Path) -> None:
    restarted(shop, lambda: shutil.rmtree(tmp_path / "views"))
    assert None not in shop.rebuilt
    restarted(shop, lambda: None)
    assert shop.rebuilt == [None, None], "what was rebuilt is kept"
    shop.check()


def test_state_of_another_time_is_not_used(shop: Shop, tmp_path: Path) -> None:
    state = tmp_path / "views" / "state"
    shutil.copytree(state, tmp_path / "old")
    for _ in range(2):
        shop.step()
        shop.settle()

    def exchange() -> None:
        shutil.rmtree(state)
        shutil.copytree(tmp_path / "old", state)

    restarted(shop, exchange)
    assert None not in shop.rebuilt
    shop.check()


def test_state_of_another_version_is_not_used(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("waterclock.compute.dataflow.kept.OPERATORS", 10**6)
    restarted(shop, lambda: None)
    assert all("another plan or version" in str(why) for why in shop.rebuilt)
    restarted(shop, lambda: None)
    assert shop.rebuilt == [None, None]
    shop.check()


def test_outputs_that_a_version_computes_otherwise_are_corrected_from_then_on(
    shop: Shop,
) -> None:
    """As if an upgrade had changed what `sum` is. What was answered before stays."""
    server = shop.server
    read, _ = server.storage.acquire_capabilities(TOTALS, write=False)
    before = {moment: contents(server.storage, read, moment) for moment in range(3, shop.upper)}
    upper = shop.upper

    def upgrade() -> None:
        server.start()
        note = installed.decode(server.notes.all()[str(TOTALS)])
        [result] = note.results
        other = msgspec.structs.replace(
            result, sql=result.sql.replace("sum(amount)", "sum(amount) + 1000")
        )
        changed = msgspec.structs.replace(note, results=(other,))
        server.notes.put(str(TOTALS), installed.encode(changed))
        server.stop()

    restarted(shop, upgrade)
    read, _ = server.storage.acquire_capabilities(TOTALS, write=False)
    for moment in range(3, shop.upper):
        found = contents(server.storage, read, moment)
        if moment < upper:
            assert found == before[moment] == shop.expected(moment)
        else:
            expected = shop.expected(moment)
            assert found == Counter({(n, t + 1000, c): k for (n, t, c), k in expected.items()})


def test_state_that_is_lost_under_a_running_server_is_computed_again(
    shop: Shop, tmp_path: Path
) -> None:
    for file in state_files(tmp_path):
        file.unlink()
    shop.step()
    shop.settle()
    assert shop.server.compute.status(TOTALS).rebuilt is not None
    shop.check()


SLOW = Schema((Column("total", Int(64)),))
SLOW_VIEW = GlobalId.user(7)


def rights(shop: Shop) -> set[str]:
    """The capabilities that there are for the orders."""
    store = shop.server.storage._store
    return store.read(lambda state: set(state.shards[str(ORDERS)].capabilities))


Hydrating = tuple[Shop, threading.Thread, set[str]]


TASKS = 9
"""More than the view's own job has."""


def undone(shop: Shop) -> int:
    progress = shop.server.compute.status(SLOW_VIEW).progress
    return 0 if progress is None else progress.tasks - progress.tasks_done


def unending(sign: Path) -> Callable[[Any], Any]:
    """A task that gives a sign when it runs, and then runs until it is killed."""

    def run(batches: Any) -> Any:
        parent = os.getppid()
        sign.touch()
        while os.getppid() == parent:
            time.sleep(0.01)
        yield from batches

    return run


@pytest.fixture
def hydrating(
    shop: Shop, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Hydrating]:
    """A view whose first contents have been computed, by a job that does not end all the same."""
    before = rights(shop)
    sql = (
        "SELECT sum((n + amount) % 7)"
        " FROM (SELECT amount, explode(sequence(1, 20000)) AS n FROM u1)"
    )
    shop.install(SLOW_VIEW, {ORDERS: ORDER}, Result(sql, SLOW), 3)
    run, sign = Attempt.run, tmp_path / "sign"

    def held(self: Attempt, tick: Any, deltas: Any, contents: Any, job: Callable[[], Any]) -> Any:
        def longer() -> Any:
            given = job()
            spark.range(0, TASKS, 1, TASKS).mapInArrow(unending(sign), "id long").toArrow()
            return given

        return run(self, tick, deltas, contents, longer)

    monkeypatch.setattr(Attempt, "run", held)
    ticking = threading.Thread(target=shop.server.compute.tick)
    ticking.start()
    while not sign.exists() or undone(shop) < TASKS:  # Spark tells of tasks a bit later
        assert ticking.is_alive()
        time.sleep(0.01)
    monkeypatch.undo()
    yield shop, ticking, before
    ticking.join()


def test_hydration_shows_how_far_it_is_and_leaves_nothing_behind(
    hydrating: Hydrating, tmp_path: Path
) -> None:
    shop, ticking, before = hydrating
    compute = shop.server.compute
    status = compute.status(SLOW_VIEW)
    assert status.health is Health.HYDRATING
    assert status.progress is not None
    assert status.progress.rows >= 3
    assert status.progress.tasks_done < status.progress.tasks
    compute.drop_view(SLOW_VIEW)
    ticking.join(600)
    assert not ticking.is_alive()
    assert not list((tmp_path / "views" / "state").glob("u7_op*"))
    assert not list((tmp_path / "views").glob("inbox-*/*"))
    assert not [key for key in shop.server.notes.all() if key.startswith("u7")]
    assert rights(shop) == before
    shop.step()
    shop.settle()
    shop.check()


def test_a_view_that_stays_after_all_is_hydrated(hydrating: Hydrating) -> None:
    shop, ticking, _ = hydrating
    compute = shop.server.compute
    compute.pause(SLOW_VIEW)
    ticking.join(600)
    assert not compute.tick(), "it is paused"
    assert compute.status(SLOW_VIEW).health is Health.HYDRATING
    compute.resume(SLOW_VIEW)
    compute.tick()
    assert compute.status(SLOW_VIEW).health is Health.RUNNING
    assert compute.status(SLOW_VIEW).progress is None
    read, _ = shop.server.storage.acquire_capabilities(SLOW_VIEW, write=False)
    [(total,)] = contents(shop.server.storage, read, 4)
    assert total == sum((n + a) % 7 for a in (10, 7, 3) for n in range(1, 20001))
