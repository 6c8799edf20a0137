"""Messages per second from Kafka, beside Spark Structured Streaming reading the same topic.

    python bench/kafka.py [--rows 1000000] [--alone]

Both read a topic of JSON that is there already, from its beginning, until they are through. We
append it durably to a source, exactly once (`ENVELOPE NONE`), or to one row for each key
(`ENVELOPE UPSERT`); Spark writes it to Parquet with a checkpoint (`from_json`). Its connector is
not published for the Spark that we run on, so it runs in an environment of its own, which the first
run makes; with `--alone` it is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
from report import Report

from waterclock.testing.kafka import KafkaBroker
from waterclock.testing.server_process import ServerProcess

PARTITIONS = 2
PEER = "4.0.0"
"""The newest Spark for which all of the connector can be had."""
COLUMNS = "id bigint NOT NULL, name text, amount float8, at timestamptz"


def records(rows: int) -> Iterator[tuple[str, str]]:
    for n in range(rows):
        at = f"2026-01-{n % 28 + 1:02}T{n % 24:02}:00:00Z"
        yield (
            f"key{n:09}",
            f'{{"id": {n}, "name": "item number {n}", "amount": {n % 9973}.25, "at": "{at}"}}',
        )


def fill(broker: KafkaBroker, topic: str, rows: int) -> float:
    """Write the topic; how many seconds that took."""
    broker.create_topic(topic, PARTITIONS)
    producer = broker.producer(linger_ms=50, batch_size=1 << 20)
    began = time.monotonic()
    for number, (key, value) in enumerate(records(rows)):
        while True:
            try:
                producer.produce(topic, value, key, partition=number % PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1000 == 0:
            producer.poll(0)
    assert producer.flush(60) == 0, "the broker did not take everything"
    return time.monotonic() - began


def committed(connection: psycopg.Connection[Any], name: str) -> int:
    query = """
        SELECT offset_committed FROM mz_internal.mz_source_statistics JOIN mz_sources USING (id)
        WHERE name = %s
    """
    found = connection.execute(query, [name]).fetchone()
    return 0 if found is None else int(found[0])


def ingest(
    report: Report, server: ServerProcess, name: str, create: str, rows: int, what: str
) -> float:
    """Rows per second, from the statement on until all of it is durable."""
    with server.connect() as connection:
        began, cpu_s = time.monotonic(), server.cpu_s()
        connection.execute(create)
        while committed(connection, name) < rows:
            time.sleep(0.1)
        taken, cpu_s = time.monotonic() - began, server.cpu_s() - cpu_s
        report.figure(what, rows / taken, "rows/s")
        report.figure("  of the server's process", cpu_s / rows * 1e6, "us/row")
        [(found,)] = connection.execute(f"SELECT count(*) FROM {name}").fetchall()
        assert found == rows, f"{found} rows of {rows}"
        connection.execute(f"DROP SOURCE {name}")
    return rows / taken


def peer_python() -> Path:
    """Of the environment that Spark with a connector is in."""
    folder = Path(sys.prefix) / "share" / "waterclock" / f"spark-{PEER.rpartition('.')[0]}"
    python = folder / "bin" / "python"
    if not (folder / "bin" / "pyspark").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(python), "-m", "pip", "install", "--quiet", f"pyspark=={PEER}"]
        subprocess.run(install, check=True)
    return python


def streamed(broker: KafkaBroker, topic: str, rows: int, folder: Path) -> float:
    """Rows per second of Structured Streaming, from the start of the query until its end."""
    program = Path(__file__).with_name("structured_streaming.py")
    command = [str(peer_python()), str(program), PEER, broker.address, topic, str(folder)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["rows"] == rows, told
    return rows / float(told["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--alone", action="store_true", help="without Structured Streaming")
    arguments = parser.parse_args()
    rows = arguments.rows
    report = Report(f"Kafka, {rows:,} messages of JSON")
    with (
        tempfile.TemporaryDirectory(prefix="waterclock-bench-", dir="/var/tmp") as folder,
        KafkaBroker() as broker,
    ):
        report.figure("written by one producer", rows / fill(broker, "bench", rows), "rows/s")
        with ServerProcess(Path(folder) / "data") as server:
            with server.connect() as connection:
                connection.execute(f"CREATE CONNECTION k TO KAFKA (BROKER '{broker.address}')")
            begin = f"CREATE SOURCE {{}} ({COLUMNS}) FROM KAFKA CONNECTION k (TOPIC 'bench')"
            plain = f"{begin.format('plain')} FORMAT JSON"
            none = ingest(report, server, "plain", plain, rows, "ENVELOPE NONE")
            keyed = f"{begin.format('keyed')} KEY FORMAT TEXT VALUE FORMAT JSON ENVELOPE UPSERT"
            what = f"ENVELOPE UPSERT, {rows:,} keys"
            upsert = ingest(report, server, "keyed", keyed, rows, what)
        if not arguments.alone:
            peer = streamed(broker, "bench", rows, Path(folder))
            report.figure(f"Structured Streaming {PEER} to Parquet", peer, "rows/s")
            report.bar("NONE / Structured Streaming", none / peer, 0.5)
            report.figure("UPSERT / Structured Streaming", upsert / peer, "x")
    report.exit()


if __name__ == "__main__":
    main()
