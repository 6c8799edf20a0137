"""Who an HTTP request is from, and whether it may be answered.

Beyond loopback, a request proves its role by HTTP Basic with that role's password. On loopback no
password is needed, so what remains to be kept out is a web page in this machine's browser: a page
from elsewhere can neither send JSON to us without asking first (see `is_json`), nor read under a
name of its own that it has pointed at this machine (see `names_this_machine`).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import ClassVar

from waterclock.adapter.api import Authenticator
from waterclock.adapter.attempts import Attempts
from waterclock.adapter.credentials import ScramVerifier, make_verifier
from waterclock.errors import WaterclockError

DEFAULT_ROLE = "waterclock"


class Unauthorized(WaterclockError):
    """The request did not prove which role it is from."""

    sqlstate: ClassVar[str] = "28P01"


class ForeignHost(WaterclockError):
    """The request was meant for another machine's name."""

    sqlstate: ClassVar[str] = "28000"


@dataclass(frozen=True, slots=True)
class Access:
    """Admits requests by the same roles as the other protocol does."""

    authenticator: Authenticator
    nobody: ScramVerifier
    """Compared with when there is no such role, so that this takes as long."""
    attempts: Attempts
    """The wrong passwords that have come, by whatever protocol."""

    @staticmethod
    def of(authenticator: Authenticator, attempts: Attempts) -> Access:
        secret = secrets.token_urlsafe(16)
        return Access(authenticator, make_verifier(secret, secrets.token_bytes(16)), attempts)

    async def role(self, headers: Mapping[str, str], client: str | None) -> str:
        """The role that the request is from. Raises `Unauthorized`, `TooManyTries` or
        `ForeignHost`.
        """
        given = _basic(headers.get("authorization"))
        if not self.authenticator.requires_password(client):
            if not names_this_machine(headers.get("host", "")):
                raise ForeignHost(
                    "the request names another host",
                    hint="Use the address 127.0.0.1 or the name localhost.",
                )
            return given[0] if given else DEFAULT_ROLE
        if given is None:
            raise Unauthorized(
                "authentication is required",
                hint="Send the name and the password of a role by HTTP Basic authentication.",
            )
        user, password = given
        await asyncio.sleep(self.attempts.turn(user, client))
        known = self.authenticator.verifier(user)
        matches = await asyncio.to_thread((known or self.nobody).matches, password)
        if known is None or not matches:
            self.attempts.failed(user, client)
            raise Unauthorized(f'password authentication failed for user "{user}"')
        self.attempts.succeeded(user, client)
        return user


def names_this_machine(host: str) -> bool:
    """Whether a Host header names this machine in a way that no stranger can point elsewhere."""
    name = host.rpartition("]")[0].lstrip("[") if host.startswith("[") else host.split(":")[0]
    if name == "localhost":
        return True
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def is_json(content_type: str | None) -> bool:
    """Whether the body says that it is JSON, which no page may send elsewhere unasked."""
    return (content_type or "").partition(";")[0].strip().lower() == "application/json"


def _basic(header: str | None) -> tuple[str, str] | None:
    kind, _, encoded = (header or "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (user, password) if colon else None
