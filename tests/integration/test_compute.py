"""MaintainView over storage: exact, durable, and never ahead of its inputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from waterclock.compute.controller import Compute, View
from waterclock.compute.errors import FrontiersDiffer, NotMaintainable, ViewFailed
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Column, Decimal, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.directory import DataDirectory
from waterclock.persist.notes import Notes
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
VIEW = View(
    "SELECT name, sum(amount), count(*) FROM u1 JOIN u2 ON person = id GROUP BY name",
    {ORDERS: ORDER, PEOPLE: PERSON},
    TOTAL,
)
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
        store = Store.open(
            self._directory.blob, self._directory.consensus, f"server {self._starts}"
        )
        self.storage = Storage(store)
        self.notes = Notes(store, "view/")
        self.compute = Compute(self.storage, self.notes, self._spark, self._path / "views")

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
    read = server.compute.maintain_view(inputs, VIEW, output)
    storage.drop_capability(created)
    return orders, people, read


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
        patched.setattr(server.storage, "append", killed)
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
    assert not (tmp_path / "views" / str(TOTALS)).exists()
    assert not server.notes.all()
    for collection in (ORDERS, PEOPLE):
        reader, _ = server.storage.acquire_capabilities(collection, write=False)
        assert reader.frontier.is_empty, "nobody holds it any more"
    server.restart()
    assert not server.compute.tick()


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
    with pytest.raises(FrontiersDiffer, match="one frontier"):
        server.compute.maintain_view([orders_read, people_read], VIEW, output)
    assert not server.notes.all()


def refused(server: Server, sql: str) -> Callable[[], ReadCapability]:
    storage = server.storage
    read, _ = storage.create(ORDERS, Description(ORDER))
    schema = Schema((Column("x", Decimal(38, 2)),))
    _, output = storage.create(TOTALS, Description(schema))
    return lambda: server.compute.maintain_view([read], View(sql, {ORDERS: ORDER}, schema), output)


def test_a_view_that_can_not_be_maintained_is_refused(server: Server) -> None:
    with pytest.raises(NotMaintainable):
        refused(server, "SELECT stddev(amount) FROM u1")()
    assert not server.notes.all()


def test_a_view_without_a_value_says_so(server: Server) -> None:
    read, write = server.storage.create(ORDERS, Description(ORDER))
    huge = 2**63 - 1
    server.storage.append(Write(write, updates(ORDER, [((1, huge), 0, 2)]), at(1)))
    schema = Schema((Column("total", Int(64)),))
    _, output = server.storage.create(TOTALS, Description(schema))
    view = View("SELECT sum(amount) FROM u1", {ORDERS: ORDER}, schema)
    server.compute.maintain_view([read], view, output)
    with pytest.raises(ViewFailed, match="u3"):
        server.compute.tick()
