"""Clients write upstream and read here at once, while the server, Kafka and PostgreSQL are killed.

What all of them have written and read is a history that a checker judges. The long
form sets `WATERCLOCK_HISTORY_SEED` (3), `WATERCLOCK_HISTORY_READS` (150 recent reads) and
`WATERCLOCK_HISTORY_FAULTS` (2).
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import psycopg
import pytest

from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.serial.history import Kind
from waterclock.testing.serial.record import judge, planned, record, summary
from waterclock.testing.serial.world import World
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

pytestmark = [pytest.mark.slow, pytest.mark.service, pytest.mark.timeout(2400)]

SEED = int(os.environ.get("WATERCLOCK_HISTORY_SEED", "3"))
READS = int(os.environ.get("WATERCLOCK_HISTORY_READS", "150"))
FAULTS = int(os.environ.get("WATERCLOCK_HISTORY_FAULTS", "2"))


@pytest.fixture(scope="module")
def world(
    tmp_path_factory: pytest.TempPathFactory, logical_server: PostgresServer
) -> Iterator[World]:
    """With a broker of its own: it is killed, which would be seen by other tests."""
    server = ServerProcess(tmp_path_factory.mktemp("histories") / "data")
    with KafkaBroker() as broker:
        try:
            server.start()
            made = World(server, broker, logical_server, uuid.uuid4().hex)
            yield made
            server.stop()
            made.close()
        finally:
            server.kill()


@pytest.mark.semantics(120, 122, 124, 125, 130, 131, 132, 133, 134, 135, 136, 137, 138)
def test_what_clients_see_is_what_is_promised(world: World) -> None:
    recorder = record(world, planned(SEED, READS, FAULTS))
    print("\n".join(summary(recorder, judge(recorder.history()))))
    counts = recorder.counts()
    for kind in Kind:
        assert counts[kind] >= READS // 20, "all kinds of operations are there"


@pytest.mark.semantics(140, 141)
def test_a_broker_that_is_away_is_named_and_holds_up_nobody(world: World) -> None:
    world.kafka.stop(immediate=True)
    try:
        with world.server.connect() as connection:
            connection.execute("SET real_time_recency = on")
            connection.execute("SET real_time_recency_timeout = '2s'")
            with pytest.raises(psycopg.errors.QueryCanceled) as found:
                connection.execute("SELECT list FROM events")
            assert "no answer from source events within 2s" in str(found.value)
            connection.execute("SET real_time_recency_timeout = '2min'")
            for relation in ("one_lists", "two_lists", "lists"):
                connection.execute(f"SELECT list FROM {relation}".encode())
            connection.execute("SET real_time_recency = off")
            connection.execute("SET transaction_isolation = 'serializable'")
            connection.execute("SELECT list FROM events")
    finally:
        world.kafka.start()
    with world.server.connect() as connection:
        connection.execute("SET real_time_recency_timeout = '2min'")
        connection.execute("SELECT list FROM events AS OF UPSTREAM")
