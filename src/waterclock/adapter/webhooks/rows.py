"""Bodies to rows: the payloads of a request, decoded by the source's format, beside its headers.

A body is one row, or several: with FORMAT JSON ARRAY each element of an array, and with FORMAT JSON
each line if the request says that it is JSON lines. A request is taken whole or not at all, so a
payload that can not be decoded refuses all of it, and the sender is told which one it was.

Pure. `RowReader` is made once for a source.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import msgspec
import pyarrow as pa

from waterclock.adapter.webhooks.definition import (
    HeaderColumn,
    SignatureCheck,
    TokenCheck,
    WebhookDefinition,
)
from waterclock.errors import WaterclockError
from waterclock.model.schema import Column, Json, Schema, Text
from waterclock.persist.rows import DIFF, row_schema
from waterclock.storage.formats.api import JsonDefinition
from waterclock.storage.formats.choice import format_of
from waterclock.storage.formats.jsonb import normal_form

_LINES = frozenset(
    f"application/{name}" for name in ("x-ndjson", "ndjson", "jsonl", "x-jsonlines", "json-lines")
)
_SECRET_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie"})
"""Headers that prove who sent the request. They are not data."""


class BadPayload(WaterclockError):
    """A body that the source's format can not read."""

    sqlstate: ClassVar[str] = "22P02"


class RowReader:
    """Makes rows of requests to one source."""

    def __init__(self, definition: WebhookDefinition) -> None:
        """Raises `InvalidSource` if there is no such format."""
        self._definition = definition
        self._format = format_of(definition.value)
        included = [Column(h.name, Text() if h.header else Json()) for h in definition.headers]
        self.schema = Schema((*self._format.columns, *included))
        self._hidden = _SECRET_HEADERS | _token_header(definition)

    def rows(self, headers: Mapping[str, str], body: bytes) -> pa.Table:
        """The rows that a request inserts, each with its diff. Raises `BadPayload`."""
        payloads = pa.array(self._payloads(headers, body), pa.binary())
        decoded = self._format.decode(payloads)
        for place, reason in enumerate(decoded.errors.to_pylist()):
            if reason is not None:
                which = "the body" if len(payloads) == 1 else f"row {place + 1} of the body"
                raise BadPayload(f"could not read {which}: {reason}")
        count = len(payloads)
        shown = [self._header_value(headers, each) for each in self._definition.headers]
        included = [pa.repeat(pa.scalar(value, pa.string()), count) for value in shown]
        diffs = pa.repeat(pa.scalar(1, pa.int64()), count)
        fields = [field.with_nullable(True) for field in row_schema(self.schema)]
        schema = pa.schema([*fields, pa.field(DIFF, pa.int64(), nullable=False)])
        return pa.Table.from_arrays([*decoded.columns, *included, diffs], schema=schema)

    def _payloads(self, headers: Mapping[str, str], body: bytes) -> list[bytes]:
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if self._definition.is_array:
            return _elements(body)
        if isinstance(self._definition.value, JsonDefinition) and kind in _LINES:
            return [line for line in body.splitlines() if line.strip()]
        return [body]

    def _header_value(self, headers: Mapping[str, str], wanted: HeaderColumn) -> str | None:
        if wanted.header is not None:
            return headers.get(wanted.header.lower())
        shown = {name: value for name, value in headers.items() if name not in self._hidden}
        return normal_form(msgspec.json.encode(shown))


def _elements(body: bytes) -> list[bytes]:
    """The elements of an array; a body that is none is one by itself."""
    if not body.lstrip().startswith(b"["):
        return [body]
    try:
        return [bytes(each) for each in msgspec.json.decode(body, type=list[msgspec.Raw])]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadPayload(f"could not read the body: {error}") from None


def _token_header(definition: WebhookDefinition) -> frozenset[str]:
    match definition.check:
        case TokenCheck(header=header):
            return frozenset({header.lower()})
        case SignatureCheck() | None:
            return frozenset()
