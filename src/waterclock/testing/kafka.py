"""A real Kafka for tests: one broker in KRaft mode, which is its own controller.

It is a plain Java process over the jars that set-up has fetched. It listens on the loopback
interface on ports that nobody else is given, keeps its data in a temporary folder, and ends
with the process that started it. Transactions work, and its log cleaner hurries, so that a test of
a compacted topic need not wait for long.

The rest are the few things that tests do with a broker, each waiting until it is done.
"""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, Message, Producer, TopicPartition
from confluent_kafka import admin as admin_module
from confluent_kafka.admin import AdminClient

from waterclock.pgwire.tls import make_certificate
from waterclock.server.java import find_java
from waterclock.testing.services import (
    RestartableService,
    ServiceMissing,
    free_port,
    spawn,
    wait_until,
)

_HOST = "127.0.0.1"
_SECONDS = 120.0
_JAVA_OPTIONS = ("-Xms64m", "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_ADMIN: Any = admin_module  # not all of its types are declared
USER, PASSWORD = "alice", "opensesame"
"""Who may log in at `private_address` and `scram_address`."""
_SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
Record = tuple[str | bytes | None, str | bytes | None]
"""A key and a value."""


class KafkaBroker(RestartableService):
    """A broker of its own, empty at first. `stop` keeps the data and `start` goes on with it at the
    same address; `close`, or the end of the `with` block, removes it.

    Start it from a thread that lives as long as the broker shall: the two end together.
    """

    def __init__(self, settings: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self._java = find_java(os.environ).home / "bin" / "java"
        self._jars = find_jars("kafka")
        self._settings = dict(settings or {})
        self._admin: AdminClient | None = None
        self.port = 0
        self._private_port = self._scram_port = self._mutual_port = 0

    @property
    def address(self) -> str:
        """What clients call the bootstrap server."""
        return f"{_HOST}:{self.port}"

    @property
    def private_address(self) -> str:
        """The same broker, over TLS, for those who log in with SASL PLAIN."""
        return f"localhost:{self._private_port}"

    @property
    def scram_address(self) -> str:
        """The same, without TLS, for those who log in with SASL SCRAM, by either of its hashes."""
        return f"localhost:{self._scram_port}"

    @property
    def mutual_address(self) -> str:
        """The same, over TLS, for those who have the certificate of `client`."""
        return f"localhost:{self._mutual_port}"

    @property
    def authority(self) -> str:
        """The certificate of the addresses with TLS, which is signed with itself, as PEM."""
        return self._pem("authority")

    @property
    def client(self) -> tuple[str, str]:
        """A certificate and its key, as PEM."""
        return self._pem("client"), self._pem("client-key")

    def _pem(self, name: str) -> str:
        assert self._folder is not None, "the broker was started"
        return (self._folder / f"{name}.pem").read_text(encoding="ascii")

    def start(self) -> None:
        """Start the broker and wait until it answers."""
        assert self._process is None, "the broker is running"
        folder = self._folder
        if folder is None:
            folder = self._folder = self._formatted()
        with open(folder / "log", "ab") as log:
            command = self._program("kafka.Kafka", str(folder / "server.properties"))
            self._process = spawn(command, log, cwd=folder)
        wait_until(self._answers, self._process, folder / "log")

    def close(self) -> None:
        self._admin = None
        super().close()

    def _formatted(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="waterclock-kafka-"))
        try:
            self.port, self._private_port = free_port(), free_port()
            self._scram_port, self._mutual_port = free_port(), free_port()
            certificate, key = make_certificate("localhost", datetime.now(UTC))
            (folder / "authority.pem").write_bytes(certificate)
            (folder / "server.pem").write_bytes(key + certificate)
            certificate, key = make_certificate("client", datetime.now(UTC))
            (folder / "client.pem").write_bytes(certificate)
            (folder / "client-key.pem").write_bytes(key)
            lines = [f"{name}={value}" for name, value in self._properties(folder).items()]
            settings = folder / "server.properties"
            settings.write_text("\n".join(lines), encoding="utf-8")
            cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            # The id may begin with a dash.
            arguments = ["format", f"--cluster-id={cluster}", "-c", str(settings)]
            for mechanism in _SCRAM:
                arguments += ["--add-scram", f"{mechanism}=[name={USER},password={PASSWORD}]"]
            command = self._program("kafka.tools.StorageTool", *arguments)
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"Kafka could not be set up:\n{done.stdout}{done.stderr}")
        except BaseException:
            shutil.rmtree(folder)
            raise
        return folder

    def _properties(self, folder: Path) -> dict[str, str]:
        controller = f"{_HOST}:{free_port()}"
        ports = {
            "PLAINTEXT": self.port,
            "SASL_SSL": self._private_port,
            "SASL_PLAINTEXT": self._scram_port,
            "SSL": self._mutual_port,
        }
        listeners = [f"{name}://{_HOST}:{port}" for name, port in ports.items()]
        advertised = [f"{name}://localhost:{port}" for name, port in ports.items()]
        advertised[0] = listeners[0]
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": ",".join([*listeners, f"CONTROLLER://{controller}"]),
            "advertised.listeners": ",".join(advertised),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(
                ["CONTROLLER:PLAINTEXT", *(f"{name}:{name}" for name in ports)]
            ),
            **_logins(folder),
            "log.dirs": str(folder / "data"),
            "auto.create.topics.enable": "false",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.ms": "-1",  # records may be as old as a test says
            "log.cleaner.backoff.ms": "200",
            "log.cleaner.dedupe.buffer.size": "4194304",
            "log.retention.check.interval.ms": "200",
            "log.initial.task.delay.ms": "200",
            "num.network.threads": "2",
            "num.io.threads": "4",
            **self._settings,
        }

    def _program(self, name: str, *arguments: str) -> list[str]:
        return [str(self._java), *_JAVA_OPTIONS, "-cp", f"{self._jars}/*", name, *arguments]

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection((_HOST, self.port), timeout=5):
            pass
        with suppress(KafkaException):
            return bool(self.admin.list_topics(timeout=5).brokers)
        return False

    # What tests do with it

    @property
    def admin(self) -> AdminClient:
        """A client that lives as long as the broker's data: one that is let go breaks off."""
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.address}, logger=_Silent())
        return self._admin

    def create_topic(self, name: str, partitions: int = 1, **config: Any) -> None:
        """Make a topic. In the names of its settings, `_` stands for the point."""
        told = {key.replace("_", "."): str(value) for key, value in config.items()}
        topic = _ADMIN.NewTopic(name, partitions, replication_factor=1, config=told)
        self.admin.create_topics([topic])[name].result(_SECONDS)
        self._wait(lambda: name in self.topics())

    def delete_topic(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result(_SECONDS)
        self._wait(lambda: name not in self.topics())

    def topics(self) -> dict[str, int]:
        """All topics, with how many partitions each has."""
        found = self.admin.list_topics(timeout=_SECONDS).topics
        return {name: len(topic.partitions) for name, topic in found.items()}

    def add_partitions(self, topic: str, count: int) -> None:
        """Let the topic have so many partitions."""
        self.admin.create_partitions([_ADMIN.NewPartitions(topic, count)])[topic].result(_SECONDS)
        self._wait(lambda: self.topics()[topic] == count)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Forget the records before an offset, as retention does."""
        place = TopicPartition(topic, partition, before)
        for done in self.admin.delete_records([place]).values():
            done.result(_SECONDS)

    def earliest(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, _ADMIN.OffsetSpec.earliest())

    def latest(self, topic: str, partition: int = 0) -> int:
        return self._offset(topic, partition, _ADMIN.OffsetSpec.latest())

    def _offset(self, topic: str, partition: int, which: Any) -> int:
        [found] = self.admin.list_offsets({TopicPartition(topic, partition): which}).values()
        return int(found.result(_SECONDS).offset)

    def produce(
        self, topic: str, records: Iterable[Record], partition: int = 0, **more: Any
    ) -> list[int]:
        """Write records and wait; their offsets. `more` is what `Producer.produce` takes."""
        return produced(self.producer(), topic, records, partition, **more)

    def producer(self, transactional: str | None = None, **config: Any) -> Producer:
        """A producer; with a name, one of transactions, ready to begin one."""
        settings: dict[str, Any] = {"bootstrap.servers": self.address, "linger.ms": 5}
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        if transactional is None:
            return Producer(settings, logger=_Silent())
        made = Producer(settings | {"transactional.id": transactional}, logger=_Silent())
        made.init_transactions(_SECONDS)
        return made

    @staticmethod
    def _wait(is_done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _SECONDS
        while not is_done():
            assert time.monotonic() < deadline, "the broker takes too long"
            time.sleep(0.05)


def _logins(folder: Path) -> dict[str, str]:
    """Who may come in at the addresses that are not for everybody."""
    package = "org.apache.kafka.common.security"
    plain = f'{package}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    scram = f"{package}.scram.ScramLoginModule required;"
    private, open_, mutual = (
        f"listener.name.{name}" for name in ("sasl_ssl", "sasl_plaintext", "ssl")
    )
    found = {
        "sasl.enabled.mechanisms": "PLAIN",
        f"{private}.plain.sasl.jaas.config": plain,
        f"{open_}.sasl.enabled.mechanisms": ",".join(_SCRAM),
        f"{mutual}.ssl.client.auth": "required",
        f"{mutual}.ssl.truststore.type": "PEM",
        f"{mutual}.ssl.truststore.location": str(folder / "client.pem"),
    }
    for mechanism in _SCRAM:
        found[f"{open_}.{mechanism.lower()}.sasl.jaas.config"] = scram
    for name in (private, mutual):
        found[f"{name}.ssl.keystore.type"] = "PEM"
        found[f"{name}.ssl.keystore.location"] = str(folder / "server.pem")
    return found


def produced(
    producer: Producer, topic: str, records: Iterable[Record], partition: int = 0, **more: Any
) -> list[int]:
    """Write records and wait until they are acknowledged; their offsets."""
    offsets: list[int] = []

    def acknowledged(error: Any, message: Message) -> None:
        assert error is None, error
        place = message.offset()
        assert place is not None
        offsets.append(place)

    for key, value in records:
        while True:
            try:
                producer.produce(
                    topic, value, key, partition=partition, on_delivery=acknowledged, **more
                )
                break
            except BufferError:
                producer.poll(0.1)
    assert producer.flush(_SECONDS) == 0, "the broker did not take everything"
    return offsets


class _Silent:
    """A logger for clients whose broker may well be away."""

    def log(self, *_: object, **__: object) -> None:
        pass


def find_jars(name: str) -> Path:
    """Where set-up has put the jars of that name."""
    folder = Path(sys.prefix) / "share" / "waterclock" / name
    if not folder.is_dir():
        raise ServiceMissing(f"the jars of {name} are not there", hint="Run `make setup-test`.")
    return folder
