"""A real Debezium for tests: Kafka Connect in one process, with the connector for PostgreSQL.

It copies the tables of a database and then writes their changes to topics of a broker, as JSON,
with the transaction topic beside them. It is a plain Java process over the jars that set-up has
fetched, keeps its offsets in a temporary folder, and ends with the process that started it.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

from waterclock.server.java import find_java
from waterclock.testing.kafka import KafkaBroker, find_jars
from waterclock.testing.services import RestartableService, free_port, spawn, wait_until

_JAVA_OPTIONS = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_CONNECTOR = "io.debezium.connector.postgresql.PostgresConnector"
_JSON = "org.apache.kafka.connect.json.JsonConverter"


class DebeziumConnect(RestartableService):
    """A connector for some tables of a database, which writes to `prefix.schema.table` and
    `prefix.transaction`. `stop` keeps its offsets and `start` goes on from there; `close`, or the
    end of the `with` block, removes them, but not the slot upstream.

    Start it from a thread that lives as long as it shall: the two end together.
    """

    def __init__(
        self,
        broker: KafkaBroker,
        conninfo: str,
        prefix: str,
        tables: Sequence[str],
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`tables` with their schemas. `settings` are those of the connector."""
        super().__init__()
        self._java = find_java(os.environ).home / "bin" / "java"
        self._jars = find_jars("debezium")
        self._broker = broker
        self._database = conninfo_to_dict(conninfo)
        self._prefix = prefix
        self._tables = tuple(tables)
        self._settings = dict(settings or {})

    @property
    def transaction_topic(self) -> str:
        return f"{self._prefix}.transaction"

    def start(self) -> None:
        """Start it, and wait until it has begun to follow the database."""
        assert self._process is None, "it is running"
        folder = self._folder
        if folder is None:
            folder = self._folder = Path(tempfile.mkdtemp(prefix="waterclock-debezium-"))
        log, before = folder / "log", 0
        if log.exists():
            before = log.stat().st_size
        _write(folder / "worker.properties", self._worker(folder))
        _write(folder / "connector.properties", self._connector())
        (folder / "log4j2.properties").write_text(_LOGGING, encoding="utf-8")
        command = [str(self._java), *_JAVA_OPTIONS, "-cp", f"{self._jars}/*"]
        command += [f"-Dlog4j2.configurationFile={folder / 'log4j2.properties'}"]
        command += ["org.apache.kafka.connect.cli.ConnectStandalone"]
        command += [str(folder / "worker.properties"), str(folder / "connector.properties")]
        with open(log, "ab") as sink:
            self._process = spawn(command, sink, cwd=folder)

        def follows() -> bool:
            return b"Processing messages" in log.read_bytes()[before:]

        wait_until(follows, self._process, log)

    def log(self) -> str:
        """What it has said so far."""
        assert self._folder is not None, "it was started"
        return (self._folder / "log").read_text(encoding="utf-8")

    def _worker(self, folder: Path) -> dict[str, str]:
        return {
            "bootstrap.servers": self._broker.address,
            "listeners": f"HTTP://127.0.0.1:{free_port()}",
            "key.converter": _JSON,
            "value.converter": _JSON,
            "key.converter.schemas.enable": "false",
            "value.converter.schemas.enable": "false",
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "topic.creation.enable": "true",
            "plugin.discovery": "service_load",
        }

    def _connector(self) -> dict[str, str]:
        database = self._database
        return {
            "name": self._prefix,
            "connector.class": _CONNECTOR,
            "tasks.max": "1",
            "database.hostname": str(database["host"]),
            "database.port": str(database["port"]),
            "database.user": str(database["user"]),
            "database.password": "",
            "database.dbname": str(database["dbname"]),
            "plugin.name": "pgoutput",
            "slot.name": f"debezium_{self._prefix}",
            "publication.name": f"debezium_{self._prefix}",
            "publication.autocreate.mode": "filtered",
            "topic.prefix": self._prefix,
            "table.include.list": ",".join(self._tables),
            "provide.transaction.metadata": "true",
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": "1",
            "poll.interval.ms": "50",
            **self._settings,
        }


_LOGGING = """status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d %p %c{1} %m%n%throwable
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
"""


def _write(path: Path, settings: Mapping[str, str]) -> None:
    lines = [f"{name}={value}" for name, value in settings.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
