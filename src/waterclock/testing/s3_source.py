"""A source of objects, step by step, against a server that speaks S3 and SQS."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from waterclock.model.ids import GlobalId
from waterclock.storage.formats.api import Included, MessageDefinition, TextDefinition
from waterclock.storage.reclock.progress import Partition, SourceFrontier
from waterclock.storage.reclock.shape import S3
from waterclock.storage.sources.api import ConnectionSettings, Executors, Surroundings
from waterclock.storage.sources.aws.clients import access_of
from waterclock.storage.sources.ingestion import Ingestion, Outcome
from waterclock.storage.sources.s3.connector import KIND, NAME, OUTPUT, Objects, rows_of
from waterclock.storage.sources.s3.definition import S3Definition
from waterclock.storage.sources.status import Health
from waterclock.testing.source_world import SourceWorld

TEXTS = MessageDefinition(
    origin="objects", value=TextDefinition(), include=(Included("offset", "at"),)
)
CONNECTION = GlobalId.user(1)


def settings(endpoint: str, key: str = "test") -> ConnectionSettings:
    """A connection to such a server."""
    options = {"access key id": key, "secret access key": key, "endpoint": endpoint}
    return ConnectionSettings("aws", "aws", options)


def definition(bucket: str, **more: Any) -> S3Definition:
    """A source of the lines of a bucket's objects, unless `more` says otherwise."""
    asked: dict[str, Any] = {"messages": TEXTS, **more}
    return S3Definition(connection=str(CONNECTION), bucket=bucket, **asked)


class Clients:
    """Clients of a server, which take long to make."""

    def __init__(self, connection: ConnectionSettings) -> None:
        self.connection = connection
        access = access_of(connection)
        self.s3, self.sqs = access.open("s3"), access.open("sqs")


class S3World:
    """A source and its bucket, which is empty at first."""

    def __init__(
        self,
        clients: Clients,
        wanted: S3Definition,
        executors: Executors | None = None,
    ) -> None:
        self.world = SourceWorld()
        self._surroundings = Surroundings(self.world.clock, executors, lambda _: clients.connection)
        self.bucket = wanted.bucket
        self.s3, self.sqs = clients.s3, clients.sqs
        self.s3.create_bucket(Bucket=self.bucket)
        outputs = {OUTPUT: rows_of(wanted, self._surroundings).schema}
        self.description = self.world.create(
            NAME, wanted.encoded(), S3.schema, outputs, with_errors=True
        )
        self.ingestion = self._opened()

    def _opened(self) -> Ingestion:
        return self.world.ingestion(self.description, {NAME: KIND}, self._surroundings)

    def restart(self) -> None:
        """As after kill -9."""
        self.world.open()
        self.ingestion = self._opened()

    def step(self) -> Outcome:
        outcome = self.world.step(self.ingestion)
        assert self.ingestion.status.health is not Health.FAILED, self.ingestion.status.error
        return outcome

    def connector(self) -> Objects:
        """The source's connector, where it stands, for a test to ask by itself."""
        self.restart()
        connector = KIND.open(self.description.definition, self._surroundings)
        assert isinstance(connector, Objects)
        notes = self.description.notes
        assert notes is not None
        kept = self.world.contents(notes, self.now)
        connector.recall({key: value for _, key, value in kept}, self.now)
        connector.resume(SourceFrontier(self.progress(), True))
        return connector

    def settle(self, most: int = 100) -> int:
        """Steps until there is nothing more to do at once; how many that took."""
        for steps in range(1, most + 1):
            if self.step().again_ms is None:
                return steps
        raise AssertionError("the source does not come to rest")

    def put(self, key: str, data: bytes | str) -> None:
        body = data.encode() if isinstance(data, str) else data
        self.s3.put_object(Bucket=self.bucket, Key=key, Body=body)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self.s3.delete_object(Bucket=self.bucket, Key=key)

    @property
    def now(self) -> int:
        upper = self.world.upper(self.description.outputs[OUTPUT])
        assert upper is not None
        return upper - 1

    def rows(self, time: int | None = None) -> Counter[tuple[Any, ...]]:
        at = self.now if time is None else time
        return self.world.contents(self.description.outputs[OUTPUT], at)

    def updates(self) -> Counter[tuple[tuple[Any, ...], int]]:
        return self.world.updates(self.description.outputs[OUTPUT])

    def errors(self) -> list[str]:
        found = self.world.contents(self.description.errors[OUTPUT], self.now)
        return sorted(text for _, text in found.elements())

    def progress(self, time: int | None = None) -> dict[Partition, int]:
        at = self.now if time is None else time
        found = self.world.contents(self.description.remap, at)
        return dict(found.elements())


def notification(bucket: str, keys: Sequence[str], event: str = "ObjectCreated:Put") -> str:
    """A message as S3 sends it."""
    records = [
        {
            "eventSource": "aws:s3",
            "eventName": event,
            "s3": {"bucket": {"name": bucket}, "object": {"key": key}},
        }
        for key in keys
    ]
    return json.dumps({"Records": records})
