"""What can be wrong with a topic or its brokers, told in our words.

Kafka's errors are of two sorts for us. Most go away: brokers that do not answer, a leader that is
being elected, a right or a password that somebody will mend. The few that do not are those where
what was there is not there any more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from waterclock.errors import WaterclockError
from waterclock.storage.sources.errors import InvalidSource, SourceFault, TransientFault

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

_AGAIN = "Drop the source and create it again to read what is upstream now."


class KafkaMissing(WaterclockError):
    """The client library is not installed."""

    sqlstate: ClassVar[str] = "0A000"


def missing() -> KafkaMissing:
    return KafkaMissing(
        "this server can not read from Kafka",
        detail="The Python package confluent-kafka is not installed.",
        hint="Install it: pip install 'waterclock[kafka]'.",
    )


def unreachable(connection: str, reason: str) -> TransientFault:
    """The brokers do not answer."""
    return TransientFault(
        f'the brokers of connection "{connection}" can not be reached',
        detail=f"{reason.rstrip('.')}.",
        hint="It is tried again. Check that the brokers run, and the options of the connection.",
    )


def unusable(what: str, error: KafkaError) -> TransientFault:
    """The brokers answer, but not with what was asked for."""
    return TransientFault(
        f"{what} can not be read: {_lower(error.str())}",
        hint="It is tried again. Check the rights of the user and the state of the brokers.",
    )


def unknown_topic(topic: str) -> InvalidSource:
    """For one who is about to create a source."""
    return InvalidSource(
        f'topic "{topic}" does not exist',
        hint="Create it first, and check that the user may describe it.",
    )


def deleted(topic: str) -> SourceFault:
    return SourceFault(f'topic "{topic}" was deleted upstream', hint=_AGAIN)


def recreated(topic: str, known: str, found: str) -> SourceFault:
    return SourceFault(
        f'topic "{topic}" was deleted and created again upstream',
        detail=f"Its id was {known} and is now {found}.",
        hint=_AGAIN,
    )


def expired(topic: str, partition: int, wanted: int, earliest: int) -> SourceFault:
    """Retention was quicker than we were."""
    return SourceFault(
        f'messages of topic "{topic}" are gone upstream before they were read',
        detail=(
            f"Partition {partition} was to be read from offset {wanted} on, and now begins at"
            f" {earliest}."
        ),
        hint=f"Keep messages for longer upstream. {_AGAIN}",
    )


def shortened(topic: str, partition: int, bound: int, end: int) -> SourceFault:
    """The log ends before what was promised to be there."""
    return SourceFault(
        f'messages of topic "{topic}" are lost upstream',
        detail=f"Partition {partition} was known up to offset {bound}, and now ends at {end}.",
        hint=_AGAIN,
    )


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
