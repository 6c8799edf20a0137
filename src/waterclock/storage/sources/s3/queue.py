"""A queue that is told of new objects.

It is a hint. Nothing is believed that the bucket does not confirm, and nothing is lost with a
message that does not come: the listing finds every object. A message is taken out of the queue when
what it is about has been read. Messages that are for somebody else are given back at once.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from waterclock.storage.sources.aws.clients import AwsAccess
from waterclock.storage.sources.aws.errors import as_faults
from waterclock.storage.sources.s3.notifications import keys_for

_AT_ONCE = 10
"""The most messages that SQS gives in one answer, and takes back in one request."""
_ANSWERS = 10
"""Requests for messages in one look."""


@dataclass(slots=True)
class Queue:
    """A queue by name, or by its address if it belongs to another account. One thread at a time."""

    access: AwsAccess
    name: str
    bucket: str
    matches: Callable[[str], bool]
    _client: Any = None
    _address: str = ""
    _open: dict[str, set[str]] = field(default_factory=dict)
    """The keys for which a message waits, by its receipt."""

    def take(self) -> list[str]:
        """The keys that messages name now. Raises `TransientFault`."""
        found: dict[str, None] = {}
        others: list[str] = []
        with as_faults(self.access.name, f'read queue "{self.name}"'):
            client = self._opened()
            for _ in range(_ANSWERS):
                answer = client.receive_message(
                    QueueUrl=self._address, MaxNumberOfMessages=_AT_ONCE, WaitTimeSeconds=0
                )
                messages = answer.get("Messages", ())
                for message in messages:
                    keys, is_ours = keys_for(message["Body"], self.bucket, self.matches)
                    found |= dict.fromkeys(keys)
                    if is_ours:
                        self._open[message["ReceiptHandle"]] = set(keys)
                    else:
                        others.append(message["ReceiptHandle"])
                if not messages:
                    break
            for batch in _batches(others):
                entries = [
                    {"Id": str(i), "ReceiptHandle": receipt, "VisibilityTimeout": 0}
                    for i, receipt in enumerate(batch)
                ]
                client.change_message_visibility_batch(QueueUrl=self._address, Entries=entries)
        return list(found)

    def settle(self, is_done: Callable[[str], bool]) -> None:
        """Take out the messages all of whose objects are done with. One that can not be taken out
        comes again, and does no harm. Raises `TransientFault`.
        """
        done = []
        for receipt, keys in self._open.items():
            keys -= {key for key in keys if is_done(key)}
            if not keys:
                done.append(receipt)
        with as_faults(self.access.name, f'remove messages from queue "{self.name}"'):
            for batch in _batches(done):
                entries = [{"Id": str(i), "ReceiptHandle": r} for i, r in enumerate(batch)]
                self._opened().delete_message_batch(QueueUrl=self._address, Entries=entries)
                for receipt in batch:
                    del self._open[receipt]

    def require(self) -> None:
        """Raise `TransientFault` if there is no such queue, or it may not be read."""
        with as_faults(self.access.name, f'read queue "{self.name}"'):
            self._opened().get_queue_attributes(QueueUrl=self._address, AttributeNames=["QueueArn"])

    def _opened(self) -> Any:
        if self._client is None:
            client = self.access.open("sqs")
            is_address = "://" in self.name
            self._address = (
                self.name if is_address else client.get_queue_url(QueueName=self.name)["QueueUrl"]
            )
            self._client = client
        return self._client

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()


def _batches(receipts: list[str]) -> list[list[str]]:
    return [receipts[i : i + _AT_ONCE] for i in range(0, len(receipts), _AT_ONCE)]
