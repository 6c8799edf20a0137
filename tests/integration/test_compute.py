"""MaintainView over storage: exact, durable, and never ahead of its inputs."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.compute.api import ERROR_ROWS, FRONTIERS_ONLY, Health, Result, View
from waterclock.compute.controller import Compute
from waterclock.compute.dataflow.job import Job
from waterclock.compute.errors import FrontiersDiffer, NotMaintainable
from waterclock.compute.live_session import LiveSession
from waterclock.model.exact import Exact
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
from waterclock.persist.plans import together
from waterclock.persist.rows import updates
from waterclock.persist.store import Store
from waterclock.storage.api import (
    Description,
    Progress,
    ReadCapability,
    Updates,
    Write,
    WriteCapability,
)
from waterclock.storage.controller import Storage

pytestmark = pytest.mark.slow

ORDERS, PEOPLE, TOTALS = GlobalId.user(1), GlobalId.user(2), GlobalId.user(3)
ORDER = Schema((Column("person", Int(64)), Column("amount", Int(64))))
PERSON = Schema((Column("id", Int(64)), Column("name", Text())))
TOTAL = Schema((Column("name", Text()), Column("total", Int(64)), Column("count", Int(64))))
ERRORS, BY_NAME = GlobalId.user(4), GlobalId.user(5)
SQL = "SELECT name, sum(amount), count(*) FROM u1 JOIN u2 ON person = id GROUP BY name"
VIEW = View({ORDERS: ORDER, PEOPLE: PERSON}, (Result(SQL, TOTAL),))
Row = tuple[Any, ...]


def at(time: int) -> Frontier[int]:
    return EPOCH_MILLIS.frontier(time)


class Server:
    """Storage and compute over one directory, which can be killed and started again."""

    def __init__(self, path: Path, spark: SparkSession) -> None:
        self._path, self._spark, self._starts = path, spark, 0
        self.start()

    def start(self) -> None:
        self._starts += 1
        self._directory = DataDirectory(self._path / "data")
        self.store = Store.open(
            self._directory.blob, self._directory.consensus, f"server {self._starts}"
        )
        self.storage = Storage(self.store)
        self.notes = Notes(self.store, "view/")
        self.compute = Compute(
            self.storage, self.notes, LiveSession.of(self._spark), self._path / "views", release_s=0
        )

    def stop(self) -> None:
        self.compute.close()
        self.storage.close()
        self._directory.release()

    def restart(self) -> None:
        self.stop()
        self.start()


@pytest.fixture
def server(tmp_path: Path, spark: SparkSession) -> Iterator[Server]:
    server = Server(tmp_path, spark)
    yield server
    server.stop()


def contents(storage: Storage, read: ReadCapability, time: int) -> Counter[Row]:
    found: Counter[Row] = Counter()
    subscription = storage.subscribe_at(read, as_of=at(time))
    for message in subscription:
        match message:
            case Updates(batch):
                for *row, when, diff in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                    if when <= time:
                        found[tuple(row)] += diff
            case Progress():
                break
    subscription.close()
    return Counter({row: count for row, count in found.items() if count})


Installed = tuple[WriteCapability, WriteCapability, ReadCapability]


@pytest.fixture
def installed(server: Server) -> Installed:
    """Some data, and the view over it as of time 5."""
    storage = server.storage
    orders_read, orders = storage.create(ORDERS, Description(ORDER))
    people_read, people = storage.create(PEOPLE, Description(PERSON))
    [orders] = storage.append(
        Write(orders, updates(ORDER, [((1, 10), 2, 1), ((1, 5), 4, 1), ((2, 7), 6, 1)]), at(8))
    )
    [people] = storage.append(
        Write(people, updates(PERSON, [((1, "ada"), 3, 1), ((2, "bob"), 3, 1)]), at(8))
    )
    created, output = storage.create(TOTALS, Description(TOTAL), start=at(5))
    inputs = [storage.downgrade_capability(read, at(5)) for read in (orders_read, people_read)]
    _, errors = storage.create(ERRORS, Description(ERROR_ROWS), start=at(5))
    [read] = server.compute.maintain_view(inputs, VIEW, [output], errors)
    storage.drop_capability(created)
    return orders, people, read


def install_largest(server: Server) -> ReadCapability:
    """A second view, over the orders alone."""
    storage = server.storage
    amounts = Schema((Column("amount", Int(64)),))
    reads = [storage.acquire_capabilities(ORDERS, write=False)[0]]
    start = reads[0].frontier
    _, output = storage.create(GlobalId.user(7), Description(amounts), start=start)
    _, wrong = storage.create(GlobalId.user(8), Description(ERROR_ROWS), start=start)
    result = Result("SELECT max(10 DIV (amount - 3)) FROM u1", amounts)
    view = View({ORDERS: ORDER}, (result,))
    [read] = server.compute.maintain_view(reads, view, [output], wrong)
    return read


@pytest.mark.semantics(41, 44, 70, 71)
def test_the_output_is_the_view_at_every_time(server: Server, installed: Installed) -> None:
    _, _, read = installed
    assert server.compute.tick()
    assert contents(server.storage, read, 5) == Counter({("ada", 15, 2): 1})
    assert contents(server.storage, read, 6) == Counter({("ada", 15, 2): 1, ("bob", 7, 1): 1})
    assert not server.compute.tick()


@pytest.mark.semantics(45, 74)
def test_the_output_is_never_ahead_of_an_input(server: Server, installed: Installed) -> None:
    orders, people, _ = installed
    server.compute.tick()
    [orders] = server.storage.append(Write(orders, None, at(100)))
    assert not server.compute.tick()
    upper = server.storage.acquire_capabilities(TOTALS, read=False)[1]
    assert upper.frontier == at(8)
    server.storage.drop_capability(upper)
    server.storage.append(Write(people, None, at(50)))
    assert server.compute.tick()
    upper = server.storage.acquire_capabilities(TOTALS, read=False)[1]
    assert upper.frontier == at(50)


@pytest.mark.semantics(75)
@pytest.mark.parametrize("ticks", [0, 1])
def test_a_view_is_maintained_again_after_a_restart(
    server: Server, installed: Installed, ticks: int
) -> None:
    orders, people, read = installed
    for _ in range(ticks):
        server.compute.tick()
    server.restart()
    changes = [((1, 10), 9, -1), ((2, 1), 10, 1)]
    server.storage.append(
        Write(orders, updates(ORDER, changes), at(12)),
        Write(people, updates(PERSON, [((2, "bob"), 11, -1), ((2, "eve"), 11, 1)]), at(12)),
    )
    assert server.compute.tick()
    assert contents(server.storage, read, 7) == Counter({("ada", 15, 2): 1, ("bob", 7, 1): 1})
    assert contents(server.storage, read, 9) == Counter({("ada", 5, 1): 1, ("bob", 7, 1): 1})
    assert contents(server.storage, read, 11) == Counter({("ada", 5, 1): 1, ("eve", 8, 2): 1})


def test_a_step_lost_between_computing_and_writing_is_done_again(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, read = installed

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("waterclock.storage.riders.append", killed)
        with pytest.raises(KeyboardInterrupt):
            server.compute.tick()
    server.restart()
    assert server.compute.tick()
    assert contents(server.storage, read, 7) == Counter({("ada", 15, 2): 1, ("bob", 7, 1): 1})


@pytest.mark.semantics(73)
def test_inputs_are_held_as_far_back_as_the_output(server: Server, installed: Installed) -> None:
    orders, people, read = installed
    server.compute.tick()
    storage = server.storage

    def since(collection: GlobalId) -> Frontier[int]:
        reader, _ = storage.acquire_capabilities(collection, write=False)
        frontier = reader.frontier
        storage.drop_capability(reader)
        return frontier

    assert since(ORDERS) == at(5), "the output can be read from 5 on"
    storage.downgrade_capability(read, at(7))
    storage.append(Write(orders, None, at(20)), Write(people, None, at(20)))
    server.compute.tick()
    assert since(TOTALS) == at(7)
    assert since(ORDERS) == since(PEOPLE) == at(7)


@pytest.mark.usefixtures("installed")
def test_dropping_a_view_frees_its_state_and_its_holds(server: Server, tmp_path: Path) -> None:
    server.compute.tick()
    server.compute.drop_view(TOTALS)
    assert not list((tmp_path / "views" / "state").iterdir())
    assert not server.notes.all()
    for collection in (ORDERS, PEOPLE):
        reader, _ = server.storage.acquire_capabilities(collection, write=False)
        assert reader.frontier.is_empty, "nobody holds it any more"
    server.restart()
    assert not server.compute.tick()


@pytest.mark.semantics(70, 75)
def test_a_view_with_several_outputs(server: Server, tmp_path: Path) -> None:
    """A stored one and an index, over one join and one sum; after a restart too."""
    storage = server.storage
    orders_read, orders = storage.create(ORDERS, Description(ORDER))
    people_read, people = storage.create(PEOPLE, Description(PERSON))
    _, output = storage.create(TOTALS, Description(TOTAL))
    _, by_name = storage.create(BY_NAME, Description(FRONTIERS_ONLY))
    _, errors = storage.create(ERRORS, Description(ERROR_ROWS))
    view = View(VIEW.inputs, (Result(SQL, TOTAL), Result(SQL, TOTAL, keys=("name",))))
    read, held = server.compute.maintain_view(
        [orders_read, people_read], view, [output, by_name], errors
    )
    assert (read.id, held.id) == (TOTALS, BY_NAME)
    for now in (2, 5):
        orders, people = storage.append(
            Write(orders, updates(ORDER, [((1, now), now, 1)]), at(now + 1)),
            Write(people, updates(PERSON, [((1, "ada"), now, 1)]), at(now + 1)),
        )
        assert server.compute.tick()
        server.restart()
        storage = server.storage
    for moment, rows in ((1, {}), (3, {("ada", 2, 1): 1}), (5, {("ada", 14, 4): 1})):
        assert contents(storage, read, moment) == Counter(rows)
        indexed = server.compute.index(BY_NAME).at(moment).to_pylist()
        assert Counter(tuple(row.values()) for row in indexed) == Counter(rows)
    state = tmp_path / "views" / "state"
    assert len(list(state.iterdir())) == 4, "both sides of the join, the sums, the index"
    server.compute.drop_view(TOTALS)
    assert not list(state.iterdir())


@pytest.mark.semantics(70, 71, 72, 75)
def test_a_result_need_not_be_written_back(server: Server) -> None:
    """An index needs no collection that somebody has made; a result without keys does."""
    storage = server.storage
    orders_read, orders = storage.create(ORDERS, Description(ORDER), start=at(1))
    people_read, people = storage.create(PEOPLE, Description(PERSON), start=at(1))
    _, output = storage.create(TOTALS, Description(TOTAL), start=at(1))
    _, errors = storage.create(ERRORS, Description(ERROR_ROWS), start=at(1))
    reads = [orders_read, people_read]
    with pytest.raises(NotMaintainable, match="neither written back nor has keys"):
        server.compute.maintain_view(reads, VIEW, [BY_NAME], errors)
    wrong = View(VIEW.inputs, (Result("SELECT rand() AS r FROM u1", TOTAL, keys=("name",)),))
    with pytest.raises(NotMaintainable):
        server.compute.maintain_view(reads, wrong, [BY_NAME], errors)
    view = View(VIEW.inputs, (Result(SQL, TOTAL), Result(SQL, TOTAL, keys=("name",))))
    read, held = server.compute.maintain_view(reads, view, [output, BY_NAME], errors)
    assert (read.id, held.id) == (TOTALS, BY_NAME)
    assert held.frontier == at(1)
    orders, people = storage.append(
        Write(orders, updates(ORDER, [((1, 2), 2, 1)]), at(4)),
        Write(people, updates(PERSON, [((1, "ada"), 2, 1)]), at(4)),
    )
    assert server.compute.tick()
    server.restart()
    for moment, expected in ((1, {}), (3, {("ada", 2, 1): 1})):
        indexed = server.compute.index(BY_NAME).at(moment).to_pylist()
        assert Counter(tuple(row.values()) for row in indexed) == expected
        assert contents(server.storage, read, moment) == expected


@pytest.mark.semantics(46, 50, 52, 53, 57, 72)
def test_an_index_is_held_like_any_other_collection(server: Server, installed: Installed) -> None:
    """Acquire, Clone, Downgrade and Drop work for the collection that stands for it, and keep its
    rows readable, also after a restart. To subscribe to it tells how far it is, and no rows.
    """
    orders, people, read = installed
    storage = server.storage
    server.compute.tick()
    source = storage.clone_capability(read)
    _, errors = storage.create(GlobalId.user(6), Description(ERROR_ROWS), start=at(5))
    result = Result("SELECT * FROM u3", TOTAL, keys=("name",))
    [held] = server.compute.maintain_view(
        [source], View({TOTALS: TOTAL}, (result,)), [BY_NAME], errors
    )
    server.compute.tick()
    acquired, no_right = storage.acquire_capabilities(BY_NAME)
    assert acquired.frontier == held.frontier == at(5)
    assert no_right.frontier.is_empty, "nobody else writes what compute maintains"
    copy = storage.clone_capability(held)
    held, acquired = (storage.downgrade_capability(each, at(9)) for each in (held, acquired))
    time = 8
    for step in range(6):
        orders, people = storage.append(
            Write(orders, updates(ORDER, [((1, step), time, 1)]), at(time + 1)),
            Write(people, None, at(time + 1)),
        )
        time += 1
        while server.compute.tick():
            pass
        if step == 3:
            server.restart()
            storage = server.storage
    for moment in range(5, time):
        indexed = server.compute.index(BY_NAME).at(moment).to_pylist()
        found = Counter(tuple(row.values()) for row in indexed)
        assert found == contents(storage, read, moment), "the copy holds it"
    storage.drop_capability(copy)
    again, _ = storage.acquire_capabilities(BY_NAME)
    assert again.frontier == at(9), "the others hold it no earlier"
    messages = storage.subscribe_at(again, as_of=at(time - 1))
    assert next(messages) == Progress(at(time))
    messages.close()
    for each in (held, acquired, again):
        storage.drop_capability(each)
    useless, _ = storage.acquire_capabilities(BY_NAME)
    assert useless.frontier.is_empty


def test_finished_inputs_finish_the_output(server: Server, installed: Installed) -> None:
    orders, people, read = installed
    last = updates(ORDER, [((2, 3), 30, 1)])
    server.storage.append(
        Write(orders, last, EPOCH_MILLIS.empty()), Write(people, None, EPOCH_MILLIS.empty())
    )
    assert server.compute.tick()
    assert not server.compute.tick()
    assert contents(server.storage, read, 30) == Counter({("ada", 15, 2): 1, ("bob", 10, 2): 1})
    messages = list(server.storage.subscribe_at(read, as_of=at(30), snapshot=False))
    assert messages == [Progress(EPOCH_MILLIS.empty())]
    server.restart()
    assert not server.compute.tick()


def test_inputs_at_different_frontiers_are_refused(server: Server) -> None:
    storage = server.storage
    orders_read, _ = storage.create(ORDERS, Description(ORDER), start=at(3))
    people_read, _ = storage.create(PEOPLE, Description(PERSON), start=at(4))
    _, output = storage.create(TOTALS, Description(TOTAL))
    _, errors = storage.create(ERRORS, Description(ERROR_ROWS))
    with pytest.raises(FrontiersDiffer, match="one frontier"):
        server.compute.maintain_view([orders_read, people_read], VIEW, [output], errors)
    assert not server.notes.all()


def test_a_view_that_can_not_be_maintained_is_refused(server: Server) -> None:
    storage = server.storage
    read, _ = storage.create(ORDERS, Description(ORDER))
    schema = Schema((Column("x", Text()),))
    _, output = storage.create(TOTALS, Description(schema))
    _, errors = storage.create(ERRORS, Description(ERROR_ROWS))
    view = View({ORDERS: ORDER}, (Result("SELECT json_tuple('x', 'a') FROM u1", schema),))
    with pytest.raises(NotMaintainable):
        server.compute.maintain_view([read], view, [output], errors)
    assert not server.notes.all()


@pytest.mark.semantics(45)
def test_errors_are_rows_beside_the_output_and_heal(server: Server) -> None:
    storage = server.storage
    read, write = storage.create(ORDERS, Description(ORDER))
    changes = [((1, 0), 0, 1), ((2, 5), 0, 1), ((1, 0), 3, -1)]
    [write] = storage.append(Write(write, updates(ORDER, changes), at(5)))
    schema = Schema((Column("share", Int(64)),))
    _, output = storage.create(TOTALS, Description(schema))
    seen, errors = storage.create(ERRORS, Description(ERROR_ROWS))
    view = View({ORDERS: ORDER}, (Result("SELECT 10 DIV amount FROM u1", schema),))
    [shares] = server.compute.maintain_view([read], view, [output], errors)
    assert server.compute.errors_of(TOTALS) == (ERRORS,)
    assert server.compute.tick()
    [(_, message)] = contents(storage, seen, 2)
    assert message == "22012 division by zero"
    assert contents(storage, seen, 3) == Counter()
    assert contents(storage, shares, 3) == Counter({(2,): 1})


def test_what_our_own_sql_raises_is_told_by_the_view(server: Server) -> None:
    storage = server.storage
    read, write = storage.create(ORDERS, Description(ORDER))
    changes = [((1, -4), 0, 1), ((2, 5), 0, 1), ((0, 7), 0, 1)]
    [write] = storage.append(Write(write, updates(ORDER, changes), at(5)))
    schema = Schema((Column("root", Int(64)),))
    _, output = storage.create(TOTALS, Description(schema))
    seen, errors = storage.create(ERRORS, Description(ERROR_ROWS))
    sql = (
        "SELECT CASE WHEN amount < 0 THEN RAISE_ERROR(CONCAT('2201F no root of ', amount))"
        " ELSE CAST(SQRT(amount) AS BIGINT) END + 10 DIV person FROM u1"
    )
    view = View({ORDERS: ORDER}, (Result(sql, schema),))
    server.compute.maintain_view([read], view, [output], errors)
    assert server.compute.tick()
    messages = {message for _, message in contents(storage, seen, 2)}
    assert messages == {"2201F no root of -4", "22012 division by zero"}


def test_what_a_function_of_exact_numbers_raises_is_told_by_the_view(server: Server) -> None:
    storage = server.storage
    read, write = storage.create(ORDERS, Description(ORDER))
    changes = [((1, 0), 0, 1), ((2, 5), 0, 1), ((3, -4), 0, 1)]
    [write] = storage.append(Write(write, updates(ORDER, changes), at(5)))
    schema = Schema((Column("share", Text()),))
    _, output = storage.create(TOTALS, Description(schema))
    seen, errors = storage.create(ERRORS, Description(ERROR_ROWS))
    number = f"{Exact.OF_DECIMAL}(CAST(amount AS DECIMAL(19,0)))"
    ratio = f"{Exact.QUOTIENT}({Exact.OF_DECIMAL}(1.0BD), {number})"
    sql = f"SELECT {Exact.TEXT}({Exact.READ}({Exact.HELD}({Exact.ROOT}({ratio})))) FROM u1"
    view = View({ORDERS: ORDER}, (Result(sql, schema),))
    [shares] = server.compute.maintain_view([read], view, [output], errors)
    assert server.compute.tick()
    messages = {message for _, message in contents(storage, seen, 2)}
    wrong = "2201F cannot take square root of a negative number"
    assert messages == {"22012 division by zero", wrong}
    assert contents(storage, shares, 2) == Counter({("0.44721359549995793928",): 1})


@pytest.mark.semantics(94, 95, 96)
def test_an_index_has_the_rows_of_its_view_at_every_time(
    server: Server, installed: Installed
) -> None:
    """Also after a restart, and although its state is merged all the time."""
    orders, people, _ = installed
    storage = server.storage
    server.compute.tick()
    read, _ = storage.acquire_capabilities(TOTALS, write=False)
    _, output = storage.create(BY_NAME, Description(FRONTIERS_ONLY), start=at(5))
    _, errors = storage.create(GlobalId.user(6), Description(ERROR_ROWS), start=at(5))
    result = Result("SELECT * FROM u3", TOTAL, keys=("count", "name"))
    [held] = server.compute.maintain_view(
        [read], View({TOTALS: TOTAL}, (result,)), [output], errors
    )
    server.compute.tick()
    time = 8
    for step in range(4):
        more = [((1, step), time, 1), ((2, 1), time + 1, 1)]
        orders, people = storage.append(
            Write(orders, updates(ORDER, more), at(time + 2)), Write(people, None, at(time + 2))
        )
        time += 2
        while server.compute.tick():
            pass
        if step == 2:
            server.restart()
            storage = server.storage
    index = server.compute.index(BY_NAME)
    totals, _ = storage.acquire_capabilities(TOTALS, write=False)
    for moment in range(5, time):
        expected = contents(storage, totals, moment)
        assert Counter(tuple(r.values()) for r in index.at(moment).to_pylist()) == expected
        wanted = pa.table({"name": ["bob", "nobody"], "count": pa.array([2, 2], pa.int64())})
        only = index.at(moment, wanted).to_pylist()
        assert Counter(tuple(r.values()) for r in only) == Counter(
            {row: n for row, n in expected.items() if (row[0], row[2]) == ("bob", 2)}
        )
    assert held.frontier == at(5)
    assert server.compute.status(BY_NAME).health is Health.RUNNING
    assert server.compute.errors_of(BY_NAME) == (GlobalId.user(6), ERRORS)


def test_an_idle_step_runs_no_job(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, people, read = installed
    server.compute.tick()

    def no_job(*_: object) -> None:
        raise AssertionError("a job was run")

    monkeypatch.setattr(Job, "run", no_job)
    server.storage.append(Write(orders, None, at(50)), Write(people, None, at(40)))
    assert server.compute.tick()
    assert contents(server.storage, read, 39) == Counter({("ada", 15, 2): 1, ("bob", 7, 1): 1})


def test_groups_with_nothing_to_compute_move_on_in_one_write(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("waterclock.compute.schedule.REGROUP_S", math.inf)
    orders, people, totals = installed
    storage = server.storage
    server.compute.tick()
    most = install_largest(server)
    server.compute.tick()
    assert len(server.compute.groups) == 2
    written: list[int] = []
    append = Storage.append
    for upper in (20, 30):  # the first time, each finds out for itself that it has nothing to do
        orders, people = storage.append(
            Write(orders, None, at(upper)), Write(people, None, at(upper))
        )
        with monkeypatch.context() as watched:
            watched.setattr(
                Storage, "append", lambda s, *w: (written.append(len(w)), append(s, *w))[1]
            )
            assert server.compute.tick()
        for view in (TOTALS, most.id):
            writer = storage.acquire_capabilities(view, read=False)[1]
            assert writer.frontier == at(upper)
            storage.drop_capability(writer)
    assert written == [2, 2, 4]
    storage.append(
        Write(orders, updates(ORDER, [((1, 4), 31, 1)]), at(32)), Write(people, None, at(32))
    )
    assert server.compute.tick()
    assert contents(storage, most, 30) == Counter({(5,): 1})
    assert contents(storage, most, 31) == Counter({(10,): 1})
    assert contents(storage, totals, 31) == Counter({("ada", 19, 3): 1, ("bob", 7, 1): 1})


def test_a_view_that_fails_is_stalled_and_recovers(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, read = installed

    def broken(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(Job, "run", broken)
        assert not server.compute.tick()
    status = server.compute.status(TOTALS)
    assert (status.health, status.problem) == (Health.STALLED, "the disk is full")
    time.sleep(1.1)
    assert server.compute.tick()
    assert server.compute.status(TOTALS).health is Health.RUNNING
    assert contents(server.storage, read, 7) == Counter({("ada", 15, 2): 1, ("bob", 7, 1): 1})


def test_views_over_the_same_inputs_come_to_share_a_job_and_part_again(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, people, totals = installed
    storage, compute = server.storage, server.compute
    compute.tick()
    most = install_largest(server)
    largest, errors = most.id, GlobalId.user(8)
    compute.tick()
    jobs: list[int] = []
    run = Job.run
    monkeypatch.setattr(Job, "run", lambda *a: (jobs.append(1), run(*a))[1])
    monkeypatch.setattr("waterclock.compute.schedule.REGROUP_S", 0.0)
    compute.tick()
    while not compute.is_settled:
        time.sleep(0.01)
    assert compute.groups == [{TOTALS, largest}]
    orders, people = storage.append(
        Write(orders, updates(ORDER, [((1, 4), 8, 1), ((1, 3), 9, 1), ((1, 3), 10, -1)]), at(11)),
        Write(people, None, at(11)),
    )
    assert compute.tick()
    assert len(jobs) == 1
    assert contents(storage, most, 8) == Counter({(10,): 1})
    assert contents(storage, totals, 10) == Counter({("ada", 19, 3): 1, ("bob", 7, 1): 1})
    seen, _ = storage.acquire_capabilities(errors, write=False)
    assert [len(contents(storage, seen, t)) for t in (8, 9, 10)] == [0, 1, 0]
    own, _ = storage.acquire_capabilities(ERRORS, write=False)
    assert contents(storage, own, 9) == Counter(), "the error is of the other view only"
    compute.drop_view(TOTALS)
    assert compute.groups == [{largest}]
    storage.append(Write(orders, updates(ORDER, [((1, 4), 12, -1)]), at(13)))
    assert compute.tick()
    assert contents(storage, most, 12) == Counter({(5,): 1})


def test_a_view_over_another_goes_on_beside_it(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They read a collection in common, but one job can not wait for its own results."""
    monkeypatch.setattr("waterclock.compute.schedule.REGROUP_S", 0.0)
    orders, people, totals = installed
    storage, compute = server.storage, server.compute
    compute.tick()
    known = Schema((Column("name", Text()), Column("id", Int(64))))
    reads = [totals, storage.acquire_capabilities(PEOPLE, write=False)[0]]
    reads = [storage.downgrade_capability(read, at(7)) for read in reads]
    _, output = storage.create(GlobalId.user(7), Description(known), start=at(7))
    _, wrong = storage.create(GlobalId.user(8), Description(ERROR_ROWS), start=at(7))
    result = Result(
        f"SELECT t.name, p.id FROM {TOTALS} t JOIN {PEOPLE} p ON t.name = p.name", known
    )
    view = View({TOTALS: TOTAL, PEOPLE: PERSON}, (result,))
    [read] = compute.maintain_view(reads, view, [output], wrong)
    for upper in (20, 30, 40):
        orders, people = storage.append(
            Write(orders, None, at(upper)), Write(people, None, at(upper))
        )
        while compute.tick() or not compute.is_settled:
            pass
    assert len(compute.groups) == 2
    assert contents(storage, read, 39) == Counter({("ada", 1): 1, ("bob", 2): 1})


def test_views_that_share_a_job_can_go_together(
    server: Server, installed: Installed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As DROP ... CASCADE does it: all are paused, one commit takes their rights, then they end."""
    orders, people, _ = installed
    storage, compute = server.storage, server.compute
    views = [TOTALS]
    for number in (7, 9):
        [reader] = [storage.acquire_capabilities(ORDERS, write=False)[0]]
        names = GlobalId.user(number), GlobalId.user(number + 1)
        start = reader.frontier
        _, output = storage.create(names[0], Description(ORDER), start=start)
        _, wrong = storage.create(names[1], Description(ERROR_ROWS), start=start)
        result = Result("SELECT DISTINCT * FROM u1", ORDER)
        compute.maintain_view([reader], View({ORDERS: ORDER}, (result,)), [output], wrong)
        views.append(names[0])
    compute.tick()
    monkeypatch.setattr("waterclock.compute.schedule.REGROUP_S", 0.0)
    while len(compute.groups) > 1:
        compute.tick()
        time.sleep(0.01)
    gone = views[1:]
    for view in gone:
        compute.pause(view)
    server.storage._store.commit(together(compute.removal(view) for view in gone))
    assert not compute.tick()
    for view in gone:
        compute.end(view)
    assert compute.groups == [{TOTALS}]
    storage.append(Write(orders, None, at(20)), Write(people, None, at(20)))
    assert compute.tick()
    state = {folder.name.partition("_")[0] for folder in (tmp_path / "views" / "state").iterdir()}
    assert state == {str(TOTALS)}
