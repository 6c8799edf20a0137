"""What the catalog keeps of a webhook source: how bodies become rows, and who may send them.

A check names its secret by id, so that a secret that is altered counts from the next request on.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from waterclock.storage.formats.api import FormatDefinition


class HeaderColumn(msgspec.Struct, frozen=True, omit_defaults=True):
    """A column with the value of one header, or of all of them as an object."""

    name: str
    header: str | None = None


class TokenCheck(msgspec.Struct, frozen=True, tag="token", omit_defaults=True):
    """The header's value, without the prefix, is the secret itself."""

    secret: str
    header: str
    prefix: str = ""


class SignatureCheck(msgspec.Struct, frozen=True, tag="hmac", omit_defaults=True):
    """The header has an HMAC over parts of the request, with the secret as the key.

    With a separator the header is a list of signatures; those with the prefix count, and one of
    them must be right. `message` and `timestamp` are templates (see `checks.Template`).
    """

    secret: str
    header: str
    algorithm: str
    key_encoding: str = "text"
    encoding: str = "hex"
    prefix: str = ""
    separator: str = ""
    message: str = "{body}"
    timestamp: str | None = None
    tolerance_ms: int = 300_000


Check: TypeAlias = TokenCheck | SignatureCheck


class WebhookDefinition(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A webhook source. Without a check, requests come from roles that may insert."""

    value: FormatDefinition
    is_array: bool = False
    headers: tuple[HeaderColumn, ...] = ()
    check: Check | None = None

    def encoded(self) -> bytes:
        return msgspec.msgpack.encode(self)

    @staticmethod
    def decoded(definition: bytes) -> WebhookDefinition:
        return msgspec.msgpack.decode(definition, type=WebhookDefinition)
