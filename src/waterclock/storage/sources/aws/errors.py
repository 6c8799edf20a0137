"""Errors of Amazon's services, told in our words.

Almost all of them go away: a service that does not answer or throttles, a right that somebody will
grant, keys that somebody will renew. So they are transient, and the source waits. The few that mean
more, such as a bucket that does not exist, are for the caller to recognize by `code_of`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from waterclock.errors import WaterclockError
from waterclock.storage.sources.errors import InvalidSource, TransientFault

_THROTTLED = frozenset(
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
_DENIED = frozenset(
    {
        "401",
        "403",
        "AccessDenied",
        "AccessDeniedException",
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)


class AwsMissing(WaterclockError):
    """The client library is not installed."""

    sqlstate: ClassVar[str] = "0A000"


class Throttled(TransientFault):
    """The service answers, and asks for fewer requests."""


def missing() -> AwsMissing:
    return AwsMissing(
        "this server can not use AWS",
        detail="The Python package boto3 is not installed.",
        hint="Install it: pip install 'waterclock[aws]'.",
    )


def code_of(error: Exception) -> str:
    """The code by which a service names its error; empty if it was no service that failed."""
    response = getattr(error, "response", None)
    code = response.get("Error", {}).get("Code", "") if isinstance(response, dict) else ""
    return str(code).rpartition(".")[2]


@contextmanager
def as_faults(connection: str, what: str) -> Iterator[None]:
    """Raise errors of the library as those of a source.

    `what` is done to what, such as `list bucket "b"`; `connection` is the connection's name.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise _refused(connection, what, error) from error
    except BotoCoreError as error:
        raise _unreachable(connection, what, error) from error


def _refused(connection: str, what: str, error: Exception) -> TransientFault:
    code, check = code_of(error), f'Check the keys and rights of connection "{connection}".'
    said = getattr(error, "response", {}).get("Error", {}).get("Message") or code
    detail = f"{code}: {str(said).rstrip('.')}."
    if code in _THROTTLED:
        return Throttled(
            f"could not {what}: the service is throttling requests",
            detail=detail,
            hint="It is tried again, less often. Ask for a higher limit if it goes on.",
        )
    if code in _DENIED:
        return TransientFault(
            f"could not {what}: access was denied",
            detail=detail,
            hint=f"It is tried again. {check}",
        )
    return TransientFault(f"could not {what}", detail=detail, hint="It is tried again.")


def _unreachable(connection: str, what: str, error: Exception) -> TransientFault:
    detail = f"{str(error).rstrip('.')}."
    return TransientFault(
        f"could not {what}",
        detail=detail,
        hint=f'It is tried again. Check the options of connection "{connection}".',
    )


def invalid_connection(connection: str, reason: str, hint: str | None = None) -> InvalidSource:
    """The options of a connection do not make sense."""
    return InvalidSource(
        f'the options of connection "{connection}" are not valid', detail=reason, hint=hint
    )
