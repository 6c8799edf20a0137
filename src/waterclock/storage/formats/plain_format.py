"""FORMAT TEXT and FORMAT BYTES: the message as it is."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.model.schema import Bytes, Column, Text
from waterclock.storage.formats.api import Decoded
from waterclock.storage.formats.rowwise import decode_rows

_NO_TEXT = "it is not text in UTF-8"
_ZERO = "it has a zero byte, which text can not have"


class TextValue:
    """Implements `Format`."""

    sqlstate = "22021"

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column(self._name, Text()),)

    def decode(self, payloads: pa.Array) -> Decoded:
        try:
            texts = payloads.cast(pa.string())
        except pa.ArrowInvalid:
            return decode_rows(payloads, self.columns, _text)
        if pc.any(pc.match_substring(texts, "\0")).as_py():
            return decode_rows(payloads, self.columns, _text)
        return Decoded((texts,), pa.nulls(len(payloads), pa.string()))


def _text(payload: bytes) -> tuple[str]:
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        raise ValueError(_NO_TEXT) from None
    if "\0" in text:
        raise ValueError(_ZERO)
    return (text,)


class BytesValue:
    """Implements `Format`. Nothing is ever wrong."""

    sqlstate = "22000"

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column(self._name, Bytes()),)

    def decode(self, payloads: pa.Array) -> Decoded:
        return Decoded((payloads,), pa.nulls(len(payloads), pa.string()))
