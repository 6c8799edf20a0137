"""What a queue tells of a bucket: which objects are new.

S3 sends its own form; SNS wraps that in a message of its own; EventBridge has another. Each names
buckets and keys. A queue may have several readers, and what comes from it is not to be trusted: a
message that is not understood, or is about something else, is for somebody else.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus


@dataclass(frozen=True, slots=True)
class Notification:
    """Something has happened to an object; `is_new` if there may be something to read."""

    bucket: str
    key: str
    is_new: bool


def parsed(body: str) -> tuple[Notification, ...] | None:
    """What a message says; None if it is no notification of objects."""
    try:
        found = tuple(_told(json.loads(body)))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return found or None


def _told(message: Any) -> Iterator[Notification]:
    if message.get("Type") == "Notification" and "Records" not in message:  # by way of SNS
        message = json.loads(message["Message"])
    if "detail" in message:  # EventBridge, whose keys are as they are
        detail, what = message["detail"], message.get("detail-type", "")
        name, key = detail["bucket"]["name"], detail["object"]["key"]
        yield Notification(_text(name), _text(key), what.startswith("Object Created"))
        return
    for record in message["Records"]:
        name, key = record["s3"]["bucket"]["name"], record["s3"]["object"]["key"]
        event = record["eventName"].removeprefix("s3:")
        is_new = event.startswith(("ObjectCreated:", "ObjectRestore:Completed"))
        yield Notification(_text(name), unquote_plus(_text(key)), is_new)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is no text")
    return value


def keys_for(
    body: str, bucket: str, matches: Callable[[str], bool]
) -> tuple[tuple[str, ...], bool]:
    """The keys that a message says are new and that are wanted, and whether all of the message is
    about wanted keys of the bucket. If it is not, somebody else may be waiting for it.
    """
    found = parsed(body)
    if found is None:
        return (), False
    ours = [each for each in found if each.bucket == bucket and matches(each.key)]
    keys = dict.fromkeys(each.key for each in ours if each.is_new)
    return tuple(keys), len(ours) == len(found)
