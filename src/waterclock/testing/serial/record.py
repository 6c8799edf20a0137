"""Records a history of writes upstream, writes of tables and reads of all kinds, and judges it.

    python -m waterclock.testing.serial.record [--seed N] [--reads 2000] [--faults 6]

Clients do their operations in threads (`clients`). Meanwhile the server is killed and started
again, and so are Kafka and PostgreSQL, in turns that the seed decides. In the end somebody reads
everything, so that what was acknowledged and is lost is missed. The verdict is that of `checker`.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.serial.checker import Verdict, check
from waterclock.testing.serial.clients import KafkaWriter, PostgresWriter, Reader, TableWriter
from waterclock.testing.serial.history import History, Kind, save
from waterclock.testing.serial.keys import orders_of, sources_of
from waterclock.testing.serial.recorder import Client, Recorder
from waterclock.testing.serial.world import OWNERS, VIEWS, World, steps_of
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer

_PATIENCE_S = 600.0
LOGICAL = {"wal_level": "logical", "max_replication_slots": "20", "max_wal_senders": "20"}
FAULTS = ("postgres", "everything", "kafka", "server")


@dataclass(frozen=True, slots=True)
class Plan:
    """How many recent reads are answered, and what goes wrong meanwhile."""

    seed: int
    reads: int
    faults: Sequence[str] = field(default=FAULTS)


def planned(seed: int, reads: int, faults: int) -> Plan:
    """A plan whose faults are drawn; each kind comes as often as the others."""
    drawn = [FAULTS[number % len(FAULTS)] for number in range(faults)]
    random.Random(seed).shuffle(drawn)
    return Plan(seed, reads, drawn)


def record(world: World, plan: Plan) -> Recorder:
    """Let the clients read so often while things go wrong; then read everything."""
    recorder, seed = Recorder(), plan.seed
    clients: list[Client] = [
        KafkaWriter(recorder, "kafka0", seed, world),
        KafkaWriter(recorder, "kafka1", seed, world),
        *(PostgresWriter(recorder, f"postgres{n}", seed, world, n) for n in range(OWNERS)),
        *(TableWriter(recorder, f"tables{n}", seed, world, n) for n in range(OWNERS)),
        Reader(recorder, "reader", seed, world),
    ]
    for client in clients:
        client.start()
    try:
        for number, fault in enumerate(plan.faults, 1):
            _await(recorder, plan.reads * number // (len(plan.faults) + 1))
            _break(world, fault)
        _await(recorder, plan.reads)
    finally:
        for client in clients:
            client.stop()
    assert all(client.join(_PATIENCE_S) for client in clients), "clients end when they are told"
    if recorder.errors:
        raise recorder.errors[0]
    _read_everything(recorder, world)
    return recorder


def judge(history: History) -> list[Verdict]:
    """Raise `Violation` unless the history is what is promised: strictly serializable for what is
    in one order upstream, and serializable for each source, with the tables.
    """
    return check(history, orders_of(history), sources_of(history))


def _await(recorder: Recorder, reads: int) -> None:
    known, heard = 0, time.monotonic()
    while (done := recorder.counts()[Kind.RECENT]) < reads and not recorder.errors:
        if done > known:
            known, heard = done, time.monotonic()
        assert time.monotonic() < heard + _PATIENCE_S, "nothing happens any more"
        time.sleep(0.05)


def _break(world: World, fault: str) -> None:
    """Kill something and start it again, while the clients go on."""
    match fault:
        case "server":
            world.server.kill()
            world.server.start()
        case "everything":
            with ThreadPoolExecutor(1) as pool:
                restarted = pool.submit(_break, world, "server")
                _break(world, "postgres")
                _break(world, "kafka")
                restarted.result()
        case "postgres":
            world.postgres.stop(immediate=True)
            world.postgres.start()
        case _:
            world.kafka.stop(immediate=True)
            world.kafka.start()


def _read_everything(recorder: Recorder, world: World) -> None:
    with world.server.connect() as connection:
        connection.execute("SET real_time_recency_timeout = '5min'")
        begun = recorder.now()
        rows = connection.execute("SELECT key, place, value FROM of_all AS OF UPSTREAM").fetchall()
        recorder.add("last", Kind.RECENT, steps_of(VIEWS["of_all"], rows), begun)


def summary(recorder: Recorder, verdicts: Sequence[Verdict]) -> list[str]:
    """What was done, and what was found."""
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(recorder.counts().items()))
    failed = ", ".join(f"{what} ({count})" for what, count in sorted(recorder.failures.items()))
    lines = [f"answered: {counts}", f"not answered: {failed or 'nothing'}"]
    return lines + [line for verdict in verdicts for line in ("", *verdict.lines())]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.serial.record")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--reads", type=int, default=2000, help="recent reads")
    parser.add_argument("--faults", type=int, default=6)
    parser.add_argument("--keep", type=Path, help="where to write the history")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-history-") as folder,
        KafkaBroker() as kafka,
        PostgresServer(LOGICAL) as postgres,
        ServerProcess(Path(folder) / "data") as server,
    ):
        world = World(server, kafka, postgres, f"seed{asked.seed}")
        plan = planned(asked.seed, asked.reads, asked.faults)
        print(f"seed {plan.seed}; killed and started again: {', '.join(plan.faults) or 'nothing'}")
        try:
            recorder = record(world, plan)
        except (AssertionError, psycopg.Error):
            print(server.output[-20_000:])
            raise
    history = recorder.history()
    if asked.keep is not None:
        save(history, asked.keep)
    print("\n".join(summary(recorder, judge(history))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
