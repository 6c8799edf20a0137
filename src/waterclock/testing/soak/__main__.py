"""The command line of the soak.

Starts a server, a Kafka broker and two PostgreSQL servers, lets everything loose on them for as
long as asked, and then waits for calm: all views equal to PostgreSQL's opinion, sources equal to
what is upstream, the server idle and its data directory sound. Prints what it found, and fails if
that is anything.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.server_process import ServerProcess
from waterclock.testing.services import PostgresServer
from waterclock.testing.soak import ledger, readers, schemas, upstream
from waterclock.testing.soak.actors import PATIENCE_S, Actor, Interrupted, Row, World
from waterclock.testing.soak.chaos import Chaos
from waterclock.testing.soak.judge import Judge
from waterclock.testing.soak.processes import memory_by_role, open_files
from waterclock.testing.soak.weather import Weather

CALM_S = 300.0
"""How long the server may take to catch up in the end."""
DISK_BYTES = 3 << 30


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m waterclock.testing.soak")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--without-chaos", action="store_true", help="break nothing")
    parser.add_argument("--without-hostile", action="store_true", help="no expensive statements")
    parser.add_argument(
        "--small-disk", action="store_true", help="data on a file system that is filled (root)"
    )
    parser.add_argument("--keep", type=Path, help="a new folder for the data, which stays")
    asked = parser.parse_args()
    print(f"seed {asked.seed}, {asked.minutes} minutes", flush=True)
    with ExitStack() as stack:
        folder = asked.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        disk = stack.enter_context(_small_disk(folder / "disk")) if asked.small_disk else None
        settings = {"wal_level": "logical", "max_replication_slots": "20", "max_wal_senders": "20"}
        postgres = stack.enter_context(PostgresServer(settings, fsync=True))
        opinion = stack.enter_context(PostgresServer())
        kafka = stack.enter_context(KafkaBroker())
        server = stack.enter_context(ServerProcess((disk or folder) / "data"))
        return Soak(server, kafka, postgres, opinion, disk, asked).run()


class Soak:
    """One run."""

    def __init__(
        self,
        server: ServerProcess,
        kafka: KafkaBroker,
        postgres: PostgresServer,
        opinion: PostgresServer,
        disk: Path | None,
        asked: argparse.Namespace,
    ) -> None:
        self._server = server
        self._kafka = kafka
        self._postgres = postgres
        self._minutes: float = asked.minutes
        seed: int = asked.seed
        self.weather = Weather()
        self.world = World(server, self.weather)
        self._set_up()
        self._judge = Judge(self.world, opinion, seed)
        self._producer = upstream.EventProducer(self.world, kafka, seed)
        self._writers = [ledger.Writer(self.world, n, seed) for n in range(asked.writers)]
        self._actors: list[Actor] = [
            *self._writers,
            self._judge,
            self._producer,
            upstream.UpstreamBank(self.world, postgres, seed),
            *(readers.Reader(self.world, f"reader {n}", seed) for n in range(2)),
            readers.MonotoneReader(self.world, "monotone reader", seed),
            *(readers.Subscriber(self.world, f"subscriber {n}", seed) for n in range(2)),
            *(schemas.SchemaChanger(self.world, f"changer {n}", seed) for n in range(2)),
        ]
        if not asked.without_hostile:
            self._actors.append(schemas.HostileClient(self.world, "hostile client", seed))
        self._chaos = Chaos(server, kafka, postgres, self.weather, disk, seed)
        self._breaks_things = not asked.without_chaos
        self._peaks: Counter[str] = Counter()
        self._stop_sampling = threading.Event()

    def _set_up(self) -> None:
        self._kafka.create_topic(upstream.TOPIC, upstream.PARTITIONS)
        with psycopg.connect(self._postgres.conninfo(), autocommit=True) as connection:
            for statement in upstream.SETUP_POSTGRES:
                connection.execute(statement.encode())
        with self._server.connect() as own:
            for statement in (
                *ledger.SETUP,
                *readers.view_statements(),
                *upstream.source_statements(self._kafka, self._postgres),
            ):
                own.execute(statement.encode())

    def run(self) -> int:
        sampler = threading.Thread(target=self._sample, daemon=True)
        sampler.start()
        for actor in self._actors:
            actor.thread.start()
        if self._breaks_things:
            self._chaos.thread.start()
        survived = self._watch(time.monotonic() + 60 * self._minutes)
        if self._breaks_things:
            self._chaos.stop()
        self.weather.tell("all actors come to rest")
        self.world.stopping.set()
        until = time.monotonic() + PATIENCE_S
        for actor in self._actors:
            actor.thread.join(max(0.0, until - time.monotonic()))
            if actor.thread.is_alive():
                self.weather.finding(actor.name, "its last statement does not end")
        self._stop_sampling.set()
        sampler.join()
        if survived:
            self._require_calm()
        self._chaos.release()
        return self._report()

    def _watch(self, until: float) -> bool:
        """Wait until the time comes; False if the server has ended before by itself."""
        while time.monotonic() < until:
            code = self._server.exit_code
            if code is not None and not self.weather.is_disturbed("server"):
                self.weather.finding("watch", f"the server has ended with {code}")
                return False
            time.sleep(0.5)
        return True

    def _sample(self) -> None:
        while not self._stop_sampling.wait(2):
            found = memory_by_role(self._server.pid)
            found["all processes"] = sum(found.values())
            for role, size in found.items():
                self._peaks[role] = max(self._peaks[role], size)

    # The end

    def _require_calm(self) -> None:
        """All that was acknowledged is there, sources have caught up, and nothing is left over."""
        self._producer.flush()
        for writer in self._writers:
            self._try(writer, writer.look)
        self._await_sources()
        self._try(self._judge, self._judge.compare)
        self._judge.disconnect()
        self.weather.tell(f"open files of the server: {open_files(self._server.pid)}")
        if not self._server.is_ready():
            self.weather.finding("end", "the server is not ready")
        code = self._server.stop()
        if code:
            self.weather.finding("end", f"the server has stopped with {code}")
        self._check_directory()

    def _try(self, actor: Actor, work: object) -> None:
        assert callable(work)
        try:
            work()
        except Interrupted:
            self.weather.finding(actor.name, "the last look met an error")

    def _await_sources(self) -> None:
        events = Counter(upstream.events_upstream(self._kafka))
        with psycopg.connect(self._postgres.conninfo()) as connection:
            moves = Counter(connection.execute("SELECT * FROM moves").fetchall())
        until, differs = time.monotonic() + CALM_S, "it was not looked"
        while time.monotonic() < until:
            differs = self._source_difference(events, moves)
            if not differs:
                return
            time.sleep(1)
        self.weather.finding("end", f"{differs} after {CALM_S:.0f} s")

    def _source_difference(self, events: Counter[Row], moves: Counter[Row]) -> str:
        try:
            for name, expected in (("events", events), ("moves", moves)):
                found = Counter(self._judge.run(f"SELECT * FROM {name}"))
                if found != expected:
                    return f"{name} has {found.total()} rows; upstream there are {expected.total()}"
        except Interrupted:
            return "the server does not answer"
        return ""

    def _check_directory(self) -> None:
        command = [sys.executable, "-m", "waterclock.server.cli", "check"]
        done = subprocess.run(
            [*command, "--data", str(self._server.data)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            self.weather.finding("check", f"{done.stdout[-500:]} {done.stderr[-500:]}")

    def _report(self) -> int:
        print()
        for actor in self._actors:
            print(f"{actor.acts:>8}  acts of {actor.name}")
        print(f"{self._judge.compared:>8}  views compared with PostgreSQL")
        for name, count in sorted(self.weather.counts.items()):
            print(f"{count:>8}  {name}")
        for role, size in sorted(self._peaks.items()):
            print(f"{size >> 20:>8}  MB at most: {role}")
        complaints = Counter(_without_numbers(line) for line in self._server.complaints)
        for line, count in complaints.most_common(30):
            print(f"{count:>8}  log: {line[:160]}")
        print(f"{len(self.weather.findings)} findings")
        for finding in self.weather.findings[:100]:
            print(f"  {finding}")
        return 1 if self.weather.findings else 0


def _without_numbers(line: str) -> str:
    """A line of the log without its time, so that equal ones count together."""
    return " ".join(line.split(" ")[2:])


@contextmanager
def _small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir()
    mounted = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    subprocess.run(mounted, check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


if __name__ == "__main__":
    sys.exit(main())
