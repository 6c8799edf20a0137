"""Questions to the brokers: which partitions a topic has, where they begin and end.

The end of a partition is its last stable offset: everything before it is decided, so that what is
read up to there never changes, and transactions that are still open are not part of it.

Every question is answered, or raises a fault after some seconds; at once if no broker is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.kafka.errors import missing, unreachable, unusable
from waterclock.storage.sources.kafka.settings import ClientSettings

if TYPE_CHECKING:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")
_SECONDS = 15.0
_AWAY = ("_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_NOENT")
"""Errors that say that nobody is there; the last, that no broker leads the partitions."""
_NO_RECORD = -1
"""Offset that a broker gives for a time after the last record."""
_GRACE_S = 1.0
"""Grace period for an answer after all brokers seem to be gone."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now. `id` is that of this topic and of no other of the name."""

    name: str
    id: str
    partitions: tuple[int, ...]


class Cluster:
    """The brokers of a connection. One thread at a time."""

    def __init__(self, name: str, settings: ClientSettings) -> None:
        """`name` is the connection's. Raises `KafkaMissing`, and `InvalidSource` for settings that
        the library does not take; does not connect yet.
        """
        from_library = _admin_module()
        from confluent_kafka import KafkaException

        self._name = name
        self._down_since: float | None = None
        self._reason = "no broker answers"
        try:
            self._admin: AdminClient = from_library.AdminClient(
                {**settings, "error_cb": self._failed}
            )
        except KafkaException as error:
            raise InvalidSource(
                f'the options of connection "{name}" are not valid',
                detail=f"{error.args[0].str()}.",
            ) from None

    def require_answer(self) -> None:
        """Raise a fault unless the brokers answer, and let us in."""
        from confluent_kafka import KafkaException

        try:
            self._answer(self._admin.describe_cluster(request_timeout=_SECONDS))
        except KafkaException as error:
            raise self._fault("the description of the cluster", error.args[0]) from None

    def topic(self, name: str) -> Topic | None:
        """The topic; None if there is none."""
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=_SECONDS)
        try:
            found = self._answer(asked[name])
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return None
            raise self._fault(f'topic "{name}"', error.args[0]) from None
        partitions = tuple(sorted(each.id for each in found.partitions))
        return Topic(name, str(found.topic_id), partitions)

    def topics(self) -> list[str]:
        """The names of all topics that the connection may see, in their order."""
        from confluent_kafka import KafkaException

        try:
            found = self._admin.list_topics(timeout=_SECONDS)
        except KafkaException as error:
            raise self._fault("the list of topics", error.args[0]) from None
        return sorted(found.topics)

    def earliest(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Where the partitions begin."""
        specs = _admin_module().OffsetSpec
        return self._offsets(topic, dict.fromkeys(partitions, specs.earliest()))

    def ends(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Where the partitions end, for one who sees only what is decided."""
        specs = _admin_module().OffsetSpec
        return self._offsets(topic, dict.fromkeys(partitions, specs.latest()))

    def heads(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """Where the partitions end with what is not decided yet: the high watermarks. What was
        acknowledged is before them, also behind a transaction that is still open.
        """
        specs = _admin_module().OffsetSpec
        return self._offsets(topic, dict.fromkeys(partitions, specs.latest()), is_decided=False)

    def at(self, topic: str, partitions: Iterable[int], time_ms: int) -> dict[int, int | None]:
        """The first offset of each partition at or after the time; None if there is none."""
        specs = _admin_module().OffsetSpec
        asked = dict.fromkeys(partitions, specs.for_timestamp(time_ms))
        found = self._offsets(topic, asked, least=_NO_RECORD)
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    def close(self) -> None:
        """Let go of the brokers."""
        del self._admin

    def _offsets(
        self, topic: str, asked: Mapping[int, Any], least: int = 0, *, is_decided: bool = True
    ) -> dict[int, int]:
        """What is answered for each partition. A question that a broker takes along when it goes
        away is answered too, with a number below all others: that is no offset.
        """
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition

        if not asked:
            return {}
        levels = IsolationLevel
        try:
            answers = self._admin.list_offsets(
                {TopicPartition(topic, partition): which for partition, which in asked.items()},
                isolation_level=levels.READ_COMMITTED if is_decided else levels.READ_UNCOMMITTED,
                request_timeout=_SECONDS,
            )
            found = {place.partition: self._answer(each).offset for place, each in answers.items()}
        except KafkaException as error:
            raise self._fault(f'topic "{topic}"', error.args[0]) from None
        if any(offset < least for offset in found.values()):
            raise unreachable(self._name, "the leader of a partition went away")
        return found

    def _answer(self, future: Future[Any]) -> Any:
        """What is answered; a fault if nobody does."""
        from concurrent.futures import wait

        self._down_since = None
        deadline = time.monotonic() + _SECONDS + _GRACE_S
        while not wait([future], 0.05).done:
            self._admin.poll(0)
            now = time.monotonic()
            is_down = self._down_since is not None and now > self._down_since + _GRACE_S
            if is_down or now > deadline:
                raise unreachable(self._name, self._reason)
        return future.result()

    def _failed(self, error: KafkaError) -> None:
        """The library tells of something that went wrong by itself."""
        if error.name() == "_ALL_BROKERS_DOWN":
            self._down_since = self._down_since or time.monotonic()
        else:
            self._reason = error.str()

    def _fault(self, what: str, error: KafkaError) -> Exception:
        if error.name() in _AWAY:
            return unreachable(self._name, self._reason)
        return unusable(what, error)


def _admin_module() -> Any:
    """The library's module for questions, whose types are not all declared."""
    try:
        import confluent_kafka.admin as found
    except ImportError:
        raise missing() from None
    return found
