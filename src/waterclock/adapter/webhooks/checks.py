"""Whether a request proves that it comes from somebody who knows a secret.

Two proofs cover what senders of webhooks do: the secret itself in a header, or a signature (an
HMAC) over the body and whatever else the sender puts under it, such as the time of sending. What is
signed is a template: text in which `{body}` stands for the body, `{header name}` for a header, and
`{header name key}` for the value behind `key=` in a header that is a list of such pairs.

Pure: no clock and no I/O. Secrets are compared in constant time, and the reason of a refusal never
says how close a request was.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from waterclock.adapter.webhooks.definition import Check, SignatureCheck, TokenCheck

ALGORITHMS: Mapping[str, Callable[..., Any]] = {
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
    "sha384": hashlib.sha384,
    "sha512": hashlib.sha512,
}
_PLACEHOLDER = re.compile(r"\{(body|header +([^\s{}]+)(?: +([^\s{}]+))?)\}")
_MILLISECONDS_FROM = 10**11
"""A time of sending from here on is in milliseconds, below it in seconds."""


def _from_base64(text: str) -> bytes:
    """Of either alphabet, padded or not."""
    plain = text.translate(str.maketrans("-_", "+/")).rstrip("=")
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


ENCODINGS: Mapping[str, Callable[[str], bytes]] = {
    "hex": binascii.unhexlify,
    "base64": _from_base64,
}
KEY_ENCODINGS: Mapping[str, Callable[[str], bytes]] = {"text": str.encode, **ENCODINGS}


@dataclass(frozen=True, slots=True)
class Template:
    """A text with places for parts of a request."""

    text: str

    def __post_init__(self) -> None:
        """Raises `ValueError` if a brace is not part of a placeholder."""
        rest = _PLACEHOLDER.sub("", self.text)
        if "{" in rest or "}" in rest:
            raise ValueError("it has a brace that is not part of {body} or {header name}")

    def fill(self, headers: Mapping[str, str], body: bytes) -> bytes | None:
        """The text with the request's parts; None if the request lacks one."""
        filled = b""
        end = 0
        for place in _PLACEHOLDER.finditer(self.text):
            part = body if place[1] == "body" else _header_part(headers, place[2], place[3])
            if part is None:
                return None
            filled += self.text[end : place.start()].encode() + part
            end = place.end()
        return filled + self.text[end:].encode()


def _header_part(headers: Mapping[str, str], name: str, key: str | None) -> bytes | None:
    value = headers.get(name.lower())
    if value is None or key is None:
        return None if value is None else _header_bytes(value)
    for pair in value.split(","):
        found, equals, part = pair.strip().partition("=")
        if equals and found == key:
            return _header_bytes(part)
    return None


def _header_bytes(value: str) -> bytes:
    """A header as it was sent: HTTP reads its bytes as Latin-1."""
    return value.encode("latin-1")


def refusal(
    check: Check, headers: Mapping[str, str], body: bytes, secret: bytes, now_ms: int
) -> str | None:
    """Why the request is refused; None if it is proven. Names of headers are in lower case."""
    match check:
        case TokenCheck():
            return _token_refusal(check, headers, secret)
        case SignatureCheck():
            return _signature_refusal(check, headers, body, secret, now_ms)
        case _:
            assert_never(check)


def _token_refusal(check: TokenCheck, headers: Mapping[str, str], secret: bytes) -> str | None:
    given = headers.get(check.header.lower())
    if given is None:
        return f"the header {check.header} is missing"
    if not given.startswith(check.prefix):
        return f"the header {check.header} does not have the form that is expected"
    token = _header_bytes(given.removeprefix(check.prefix))
    return None if hmac.compare_digest(token, secret) else "the token is wrong"


def _signature_refusal(
    check: SignatureCheck, headers: Mapping[str, str], body: bytes, secret: bytes, now_ms: int
) -> str | None:
    given = headers.get(check.header.lower())
    if given is None:
        return f"the header {check.header} is missing"
    message = Template(check.message).fill(headers, body)
    if message is None:
        return "a header that is signed is missing"
    try:
        key = KEY_ENCODINGS[check.key_encoding](secret.decode())
    except ValueError:
        return f"the secret of the source is not in {check.key_encoding}"
    digest = hmac.digest(key, message, check.algorithm)
    if not any(hmac.compare_digest(each, digest) for each in _signatures(check, given)):
        return "the signature is wrong"
    return _lateness(check, headers, body, now_ms)


def _signatures(check: SignatureCheck, given: str) -> list[bytes]:
    """The signatures in a header, as far as they can be read."""
    parts = [given] if not check.separator else given.split(check.separator)
    found = []
    for part in (each.strip() for each in parts):
        if part.startswith(check.prefix):
            try:
                found.append(ENCODINGS[check.encoding](part.removeprefix(check.prefix)))
            except ValueError:
                continue
    return found


def _lateness(
    check: SignatureCheck, headers: Mapping[str, str], body: bytes, now_ms: int
) -> str | None:
    """Whether a request was sent too long ago; it may have been overheard then, and sent again."""
    if check.timestamp is None:
        return None
    text = Template(check.timestamp).fill(headers, body) or b""
    if not re.fullmatch(rb"\d{1,15}", text):
        return "the time of sending is missing or not a number"
    sent = int(text)
    sent_ms = sent if sent >= _MILLISECONDS_FROM else sent * 1000
    if abs(now_ms - sent_ms) > check.tolerance_ms:
        return "the time of sending is too far from now"
    return None
