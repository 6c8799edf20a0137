"""First contents of PostgreSQL tables that executors read, against a real server."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from waterclock.compute.live_session import LiveSession
from waterclock.storage.sources.executors import OnSpark
from waterclock.storage.sources.postgres import pieces as pieces_module
from waterclock.storage.sources.status import Health
from waterclock.testing.executors import AtHand
from waterclock.testing.postgres_source import Scene, drop_slots
from waterclock.testing.services import PostgresServer
from waterclock.testing.source_world import Crash

pytestmark = pytest.mark.service

SETUP = """
CREATE TABLE a (id int PRIMARY KEY, v text, at timestamptz);
ALTER TABLE a REPLICA IDENTITY FULL;
CREATE TABLE b (id int PRIMARY KEY, n numeric(10, 2));
ALTER TABLE b REPLICA IDENTITY FULL;
CREATE TABLE c (id int PRIMARY KEY);
ALTER TABLE c REPLICA IDENTITY FULL;
INSERT INTO a SELECT i, repeat('x', i % 100), now() FROM generate_series(1, 3000) i;
INSERT INTO b SELECT i, i / 100.0 FROM generate_series(1, 500) i;
CREATE PUBLICATION p FOR TABLE a, b, c
"""
TABLES = ("a", "b", "c")


@pytest.fixture
def scene(
    logical_server: PostgresServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Scene]:
    """Tables of several pieces, and a source over them that has not been stepped."""
    monkeypatch.setattr(pieces_module, "_PAGES", 7)
    monkeypatch.setattr(pieces_module, "_AT_ONCE_BYTES", 20_000)
    monkeypatch.setattr(pieces_module, "_LOCK_MS", 20)
    found = Scene(logical_server.create_database(f"d{uuid.uuid4().hex}"), SETUP)
    found.executors = AtHand(tmp_path)
    found.create()
    yield found
    found.close()
    with psycopg.connect(found.conninfo, autocommit=True) as upstream:
        drop_slots(upstream)


def same(scene: Scene) -> None:
    """What is here is what is there."""
    for table in TABLES:
        assert scene.errors(table) == []
        assert scene.rows(table) == scene.upstream(f"SELECT * FROM {table}")


def restart(scene: Scene, executors: Any) -> None:
    scene.executors = executors
    scene.crash()


def test_tasks_read_what_was_there_at_the_place_of_the_slot(scene: Scene) -> None:
    assert isinstance(scene.executors, AtHand)
    scene.step()
    same(scene)
    [tasks] = scene.executors.reads
    assert tasks > 6
    scene.run("UPDATE a SET v = 'y' WHERE id < 10; INSERT INTO c VALUES (1)")
    scene.caught_up()
    same(scene)
    assert scene.executors.reads == [tasks], "changes are read here"


def test_changes_while_tasks_read_are_not_in_the_first_contents(scene: Scene) -> None:
    first = {table: scene.upstream(f"SELECT * FROM {table}") for table in TABLES}

    class Meanwhile(AtHand):
        def read(self, read: Any, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
            for number, batch in super().read(read, count):
                scene.run(f"UPDATE a SET v = 'm' || id WHERE id % 7 = {number % 7}")
                yield number, batch

    scene.run("DELETE FROM c")
    restart(scene, Meanwhile(scene.executors._folder))  # type: ignore[union-attr]
    scene.step()
    for table, rows in first.items():
        assert scene.rows(table, min(scene.times("a"))) == rows
    scene.caught_up()
    same(scene)


@pytest.mark.semantics(113, 114, 151)
def test_a_crash_while_tasks_read(scene: Scene) -> None:
    """The snapshot is gone with the crash, but what is bound is what was there then."""
    first = {table: scene.upstream(f"SELECT * FROM {table}") for table in TABLES}
    healthy = scene.executors
    assert isinstance(healthy, AtHand)

    class Broken(AtHand):
        def read(self, read: Any, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
            for number, batch in super().read(read, count):
                if number > count // 2:
                    raise Crash
                yield number, batch

    restart(scene, Broken(healthy._folder))
    with pytest.raises(Crash):
        scene.step()
    restart(scene, healthy)
    scene.run("UPDATE a SET v = 'later' WHERE id > 100; DELETE FROM b WHERE id < 5")
    scene.caught_up()
    same(scene)
    bound_at = min(scene.times(*TABLES))
    for table, rows in first.items():
        assert scene.rows(table, bound_at) == rows
    assert healthy.reads


def test_who_waits_to_truncate_does_not_stop_the_read(scene: Scene) -> None:
    """Tasks can not have the lock then; what they leave is read by those who have it."""
    first = scene.upstream("SELECT * FROM a")
    other = psycopg.connect(scene.conninfo, autocommit=True)
    truncate = threading.Thread(target=other.execute, args=("TRUNCATE a",))
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"

    class Meanwhile(AtHand):
        def read(self, read: Any, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
            truncate.start()
            while not scene.upstream(f"{waiting} AND datname = current_database()")[(1,)]:
                time.sleep(0.01)
            yield from super().read(read, count)

    restart(scene, Meanwhile(scene.executors._folder))  # type: ignore[union-attr]
    scene.step()
    truncate.join(240)
    other.close()
    assert scene.health in (Health.RUNNING, Health.STARTING)
    assert scene.rows("a", min(scene.times("a"))) == first
    scene.caught_up()
    same(scene)
    assert not scene.rows("a")


def test_a_task_that_can_not_connect_stalls_the_source(scene: Scene) -> None:
    healthy = scene.executors
    assert isinstance(healthy, AtHand)

    class Elsewhere(AtHand):
        def read(self, read: Any, count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
            options = {**read.settings.options, "port": "1"}
            lost = replace(read, settings=replace(read.settings, options=options))
            yield from super().read(lost, count)

    restart(scene, Elsewhere(healthy._folder))
    scene.step()
    assert scene.health is Health.STALLED
    assert "could not read from PostgreSQL" in str(scene.error)


@pytest.mark.slow
def test_spark_reads_the_same(scene: Scene, spark: SparkSession, tmp_path: Path) -> None:
    restart(scene, OnSpark(LiveSession.of(spark), tmp_path / "reads"))
    scene.step()
    same(scene)
    assert not list((tmp_path / "reads").iterdir()), "what was read is not kept twice"
