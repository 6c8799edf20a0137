"""The beginning of a connection: encryption, the startup packet, and proof of identity."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from waterclock.adapter.api import Authenticator
from waterclock.adapter.attempts import Attempts
from waterclock.pgwire import backend, scram
from waterclock.pgwire.codec import decode, decode_first
from waterclock.pgwire.errors import InvalidAuthorization, ProtocolViolation, WrongPassword
from waterclock.pgwire.messages import (
    CancelRequest,
    GssRequest,
    Password,
    SslRequest,
    StartupPacket,
)
from waterclock.pgwire.tls import ALPN, TlsIdentity
from waterclock.pgwire.wire import Wire

_NONCE_BYTES = 18
_OPTION = re.compile(r"(?:\\.|\S)+", re.DOTALL)
_NOT_SETTINGS = ("user", "database", "options", "replication")


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the client says it is, and the settings it begins with."""

    user: str
    database: str
    settings: Mapping[str, str]


async def negotiate(wire: Wire, tls: TlsIdentity | None) -> StartupPacket | CancelRequest:
    """Agree on encryption; what the client then wants."""
    asked: set[type] = set()
    while True:
        packet = await wire.first_packet()
        if packet is None:
            await _direct_tls(wire, tls)
            asked |= {SslRequest, GssRequest}
            continue
        first = decode_first(packet)
        if isinstance(first, StartupPacket | CancelRequest):
            return first
        if type(first) in asked or wire.encrypted:
            raise ProtocolViolation("unexpected request for encryption")
        asked.add(type(first))
        if isinstance(first, GssRequest) or tls is None:
            wire.send(backend.TLS_REFUSED)
        else:
            wire.send(backend.TLS_ACCEPTED)
            await wire.start_tls(tls.context, direct=False)


async def _direct_tls(wire: Wire, tls: TlsIdentity | None) -> None:
    if tls is None:
        raise ProtocolViolation("received direct SSL connection request, but TLS is not enabled")
    await wire.start_tls(tls.context, direct=True)
    if wire.tls_protocol != ALPN:
        # Without it, bytes meant for another protocol's server could be sent here.
        raise ProtocolViolation(
            "received direct SSL connection request without ALPN protocol negotiation extension"
        )


def read_startup(packet: StartupPacket) -> tuple[Identity, bytes]:
    """Who connects, and the message that tells what of the packet was not understood, if any."""
    extensions = sorted(name for name in packet.parameters if name.startswith("_pq_."))
    answer = backend.negotiate_version(0, extensions) if packet.minor or extensions else b""
    user = packet.parameters.get("user", "")
    if not user:
        raise InvalidAuthorization("no PostgreSQL user name specified in startup packet")
    if packet.parameters.get("replication", "false").lower() not in ("false", "off", "no", "0"):
        raise ProtocolViolation("replication connections are not supported")
    settings = parse_options(packet.parameters.get("options", ""))
    settings |= {
        name: value
        for name, value in packet.parameters.items()
        if name not in _NOT_SETTINGS and not name.startswith("_pq_.")
    }
    return Identity(user, packet.parameters.get("database") or user, settings), answer


def parse_options(text: str) -> dict[str, str]:
    """The settings in `options`: `-c name=value`, `-cname=value`, `--name=value`."""
    words = [re.sub(r"\\(.)", r"\1", word, flags=re.DOTALL) for word in _OPTION.findall(text)]
    settings: dict[str, str] = {}
    remaining = iter(words)
    for word in remaining:
        if word == "-c":
            assignment = next(remaining, "")
        elif word.startswith(("-c", "--")):
            assignment = word[2:]
        else:
            raise ProtocolViolation(f"invalid command-line argument for server process: {word}")
        name, equals, value = assignment.partition("=")
        if not name or not equals:
            raise ProtocolViolation(f"-c {assignment} requires a value")
        settings[name.replace("-", "_")] = value
    return settings


@dataclass(frozen=True, slots=True)
class Guard:
    """Makes clients prove who they are."""

    authenticator: Authenticator
    mock_secret: bytes
    """What the salts of roles that do not exist are made from; secret, and the same for long."""
    entropy: Callable[[int], bytes]
    attempts: Attempts

    async def admit(self, wire: Wire, user: str, tls: TlsIdentity | None) -> None:
        """Return if the client is who it says; else `WrongPassword`, `TooManyTries` or
        `ProtocolViolation`.
        """
        client = wire.client_address
        if not self.authenticator.requires_password(client):
            return
        await asyncio.sleep(self.attempts.turn(user, client))
        if not await self._is_proven(wire, user, tls):
            self.attempts.failed(user, client)
            raise WrongPassword(f'password authentication failed for user "{user}"')
        self.attempts.succeeded(user, client)

    async def _is_proven(self, wire: Wire, user: str, tls: TlsIdentity | None) -> bool:
        """Whether the client knows the password of the role; if so, it has been told."""
        binding = tls.channel_binding if tls is not None and wire.encrypted else None
        offered = scram.mechanisms(binding)
        wire.send(backend.authentication_sasl(offered))
        mechanism, first = _initial_response(await self._password(wire))
        if mechanism not in offered:
            raise ProtocolViolation("client selected an invalid SASL authentication mechanism")
        known = self.authenticator.verifier(user)
        verifier = known or scram.mock_verifier(user, self.mock_secret)
        nonce = base64.b64encode(self.entropy(_NONCE_BYTES))
        exchange = scram.start(mechanism, first, verifier, binding, nonce)
        wire.send(backend.authentication_sasl_continue(exchange.server_first))
        proven, signature = exchange.finish(await self._password(wire))
        if not proven or known is None:
            return False
        wire.send(backend.authentication_sasl_final(signature))
        return True

    async def _password(self, wire: Wire) -> bytes:
        message = decode(await wire.receive())
        if not isinstance(message, Password):
            raise ProtocolViolation("expected SASL response, got another message")
        return message.data


def _initial_response(data: bytes) -> tuple[str, bytes]:
    name, zero, rest = data.partition(b"\0")
    if not zero or len(rest) < 4 or int.from_bytes(rest[:4], "big") != len(rest) - 4:
        raise ProtocolViolation("malformed SASL initial response")
    return name.decode("ascii", "replace"), rest[4:]
