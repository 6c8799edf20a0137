"""Messages of PubNub as records, which formats decode.

A payload is a value of JSON. Formats other than JSON get the content of a string, without quotes
and escapes, and the JSON text of any other value. Partition, offset and timestamp are those of the
publication. The other properties of a message are its headers: `publisher`, `type`
(`message`, `signal` or `file`), `custom_type` and `meta`.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import msgspec
import pyarrow as pa

from waterclock.storage.formats.api import RECORDS
from waterclock.storage.sources.pubnub.answers import FILE, PUBLISHED, SIGNAL, Message

_TYPES = {PUBLISHED: b"message", SIGNAL: b"signal", FILE: b"file"}
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)


def records_of(messages: Sequence[Message], *, keeps_text: bool) -> pa.RecordBatch:
    """The records. With `keeps_text`, strings stay JSON."""
    columns = [
        pa.nulls(len(messages), pa.binary()),
        pa.array([_value(m.payload, keeps_text) for m in messages], pa.binary()),
        pa.array([m.region for m in messages], pa.int32()),
        pa.array([m.timetoken for m in messages], pa.int64()),
        pa.array([_moment(m.timetoken) for m in messages], pa.timestamp("us", tz="UTC")),
        pa.array([_headers(m) for m in messages], RECORDS.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def _value(payload: bytes, keeps_text: bool) -> bytes:
    if keeps_text or not payload.lstrip().startswith(b'"'):
        return payload
    try:
        return msgspec.json.decode(payload, type=str).encode()
    except (msgspec.DecodeError, UnicodeEncodeError):  # half of a surrogate pair
        return payload


def _moment(timetoken: int) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=timetoken // 10)


def _headers(message: Message) -> list[dict[str, str | bytes]]:
    found: dict[str, bytes | None] = {
        "publisher": None if message.issuer is None else message.issuer.encode(),
        "type": _TYPES[message.type],
        "custom_type": None if message.custom_type is None else message.custom_type.encode(),
        "meta": message.meta,
    }
    return [{"key": key, "value": value} for key, value in found.items() if value is not None]
