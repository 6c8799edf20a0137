"""Whether a connection leads to where it says, and lets us in.

One cheap question for each kind of system: who leads the cluster, a `SELECT 1`, the kinds of
schemas, who the caller is. It says nothing of the rights that a certain source will need; CREATE
SOURCE asks for those. Nothing is changed upstream, and nothing is tried twice: whoever asks is
waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.storage.formats.choice import registry_at
from waterclock.storage.sources.api import ConnectionSettings
from waterclock.storage.sources.aws.clients import AwsAccess, access_of
from waterclock.storage.sources.aws.errors import as_faults, code_of
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kafka.cluster import Cluster
from waterclock.storage.sources.kafka.settings import client_settings
from waterclock.storage.sources.postgres.connecting import connect, telling


class ConnectionUnusable(WaterclockError):
    """The system that a connection leads to can not be reached, or refuses us."""

    sqlstate: ClassVar[str] = "08001"


def validate(settings: ConnectionSettings) -> None:
    """Ask the system something. Raises `ConnectionUnusable`, or `InvalidSource` for wrong options.

    Blocks for as long as the system takes, but not longer than its client's time-out.
    """
    ask = _ASKED_BY[settings.kind]
    try:
        ask(settings)
    except TransientFault as error:
        reasons = [error.message, *([error.detail] if error.detail else [])]
        raise ConnectionUnusable(
            f'connection "{settings.name}" can not be used',
            detail=": ".join(reason.rstrip(".") for reason in reasons) + ".",
            hint="Check the options of the connection and the system that it leads to.",
        ) from error


def _ask_kafka(settings: ConnectionSettings) -> None:
    with closing(Cluster(settings.name, client_settings(settings))) as cluster:
        cluster.require_answer()


def _ask_postgres(settings: ConnectionSettings) -> None:
    with telling(settings), connect(settings) as connection:
        connection.execute("SELECT 1")


def _ask_registry(settings: ConnectionSettings) -> None:
    registry_at(settings).require_registry()


def _ask_aws(settings: ConnectionSettings) -> None:
    """Amazon tells anybody with good keys who they are. Others know buckets only, or streams."""
    access = access_of(settings)
    if access.endpoint is None:
        with closing(access.open("sts")) as sts, as_faults(settings.name, "ask AWS who calls"):
            sts.get_caller_identity()
        return
    with closing(access.open("s3")) as s3:
        try:
            with as_faults(settings.name, "list buckets"):
                s3.list_buckets()
        except TransientFault as error:
            cause = error.__cause__
            code = code_of(cause) if isinstance(cause, Exception) else ""
            if code == _NO_S3:
                _ask_kinesis(access)
            elif code not in _KNOWN_BUT_DENIED:
                raise


def _ask_kinesis(access: AwsAccess) -> None:
    with closing(access.open("kinesis")) as kinesis, as_faults(access.name, "list streams"):
        kinesis.list_streams(Limit=1)


_NO_S3 = "404"
"""The server answers, and has no buckets: it may speak of something else."""
_KNOWN_BUT_DENIED = frozenset({"AccessDenied", "AccessDeniedException"})
"""The keys are good, and may not list buckets, which a source need not do."""
_ASKED_BY: Mapping[str, Callable[[ConnectionSettings], None]] = {
    "kafka": _ask_kafka,
    "postgres": _ask_postgres,
    "confluent schema registry": _ask_registry,
    "aws": _ask_aws,
}
