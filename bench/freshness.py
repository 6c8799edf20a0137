"""How long after it was written upstream a row is seen in a maintained join, by a subscriber.

    python bench/freshness.py [--seconds 20]

Events are written to a topic of Kafka at a steady pace, and joined with a table and counted in a
view. Some of the events are markers, of a kind of their own. Their number in the view tells which
are seen: when it grows, the time since each of the new ones was acknowledged upstream is noted. In
the end the view must have counted everything that was written.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Producer
from report import Report

from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.server_process import ServerProcess

MARKERS_PER_S = 20
KINDS = 50
WARM_UP_S = 5.0
PATIENCE_S = 120.0
BARS_MS = {1000: 1500, 100: 600}
"""For half of the rows, by the interval in milliseconds."""


@dataclass
class Markers:
    """When each was acknowledged, and when it was seen."""

    sent: dict[int, float] = field(default_factory=dict)
    seen: dict[int, float] = field(default_factory=dict)
    events: int = 0
    """How many were written in all, markers and others."""

    def delays_ms(self, since: float) -> list[float]:
        """Of those that were sent since then, in order."""
        wanted = [n for n, sent in self.sent.items() if sent >= since and n in self.seen]
        return sorted(max(0.0, self.seen[n] - self.sent[n]) * 1000 for n in wanted)

    def wait_for_all(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.sent or any(number not in self.seen for number in list(self.sent)):
            assert time.monotonic() < deadline, "all markers are seen in the end"
            time.sleep(0.05)


def write(
    producer: Producer, topic: str, rate: int, markers: Markers, stop: threading.Event
) -> None:
    """Events at a steady pace, until it is stopped."""
    began, written, marked = time.monotonic(), 0, 0

    def acknowledged(number: int) -> Any:
        def told(error: Any, _: Any) -> None:
            assert error is None, error
            markers.sent[number] = time.monotonic()

        return told

    while not stop.wait(0.01):
        due = int((time.monotonic() - began) * rate)
        for n in range(written, due):
            producer.produce(topic, f'{{"item": {n % 1000}, "amount": {n % 17}}}')
        written = due
        if (time.monotonic() - began) * MARKERS_PER_S > marked:
            event = '{"item": -1, "amount": 1}'
            producer.produce(topic, event, on_delivery=acknowledged(marked))
            marked += 1
        producer.poll(0)
    assert producer.flush(30) == 0, "the broker did not take everything"
    markers.events = written + marked


def follow(connection: psycopg.Connection[Any], view: str, markers: Markers) -> None:
    """Note when markers are seen, until the connection is closed."""
    seen = 0
    try:
        for _, diff, kind, count, _ in connection.cursor().stream(f"SUBSCRIBE {view}"):
            if diff > 0 and kind == -1:
                now = time.monotonic()
                for number in range(seen, count):
                    markers.seen[number] = now
                seen = count
    except psycopg.Error:
        pass  # it was told to end


def run(
    broker: KafkaBroker, server: ServerProcess, rate: int, interval_ms: int, seconds: float
) -> list[float]:
    """The delays of the markers, in order."""
    topic = f"events_{rate}_{interval_ms}"
    broker.create_topic(topic)
    markers, stop = Markers(), threading.Event()
    with server.connect() as connection, server.connect() as watcher:
        connection.execute(
            f"CREATE SOURCE {topic} (item int, amount int) FROM KAFKA CONNECTION k"
            f" (TOPIC '{topic}') FORMAT JSON WITH (TIMESTAMP INTERVAL '{interval_ms}ms')"
        )
        view = f"totals_{rate}_{interval_ms}"
        connection.execute(
            f"CREATE MATERIALIZED VIEW {view} AS SELECT kind, count(*) AS n, sum(amount) AS total"
            f" FROM {topic} JOIN items USING (item) GROUP BY kind"
        )
        reader = threading.Thread(target=follow, args=(watcher, view, markers), daemon=True)
        reader.start()
        writer = threading.Thread(
            target=write, args=(broker.producer(), topic, rate, markers, stop), daemon=True
        )
        writer.start()
        deadline = time.monotonic() + PATIENCE_S
        while not markers.seen:  # until then the view is being made
            assert time.monotonic() < deadline, "a marker is seen"
            time.sleep(0.05)
        time.sleep(WARM_UP_S)
        begin = time.monotonic()
        time.sleep(seconds)
        stop.set()
        writer.join()
        markers.wait_for_all()
        check(connection, view, markers.events)
        watcher.cancel()
        reader.join(30)
        connection.execute(f"DROP SOURCE {topic} CASCADE")
    return markers.delays_ms(begin)


def check(connection: psycopg.Connection[Any], view: str, events: int) -> None:
    """The view has everything once; the last events may have come after the last marker."""
    deadline, found = time.monotonic() + PATIENCE_S, None
    while found != events:
        assert time.monotonic() < deadline, f"{found} events of {events} were counted"
        [(found,)] = connection.execute(f"SELECT sum(n)::bigint FROM {view}").fetchall()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=20.0)
    arguments = parser.parse_args()
    report = Report("Freshness: from Kafka's acknowledgement to a subscriber of a join")
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-", dir="/var/tmp") as folder,
        KafkaBroker() as broker,
        ServerProcess(Path(folder) / "data") as server,
    ):
        with server.connect() as connection:
            connection.execute(f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}')")
            connection.execute("CREATE TABLE items (item int NOT NULL, kind int NOT NULL)")
            connection.execute(
                f"INSERT INTO items SELECT i, i % {KINDS} FROM generate_series(0, 999) AS g(i)"
            )
            connection.execute("INSERT INTO items VALUES (-1, -1)")
        for interval_ms, bar_ms in BARS_MS.items():
            for rate in (1_000, 10_000):
                delays = run(broker, server, rate, interval_ms, arguments.seconds)
                name = f"{rate:,} rows/s, interval {interval_ms} ms"
                p50, p99 = statistics.median(delays), delays[int(len(delays) * 0.99)]
                report.limit(f"{name}, p50", p50, bar_ms, "ms")
                report.figure(f"{name}, p99", p99, "ms")
    report.exit()


if __name__ == "__main__":
    main()
