"""SCRAM-SHA-256 and SCRAM-SHA-256-PLUS (RFC 5802, 7677), the server's side. No I/O.

The client says a nonce, the server says its own, the salt and the iterations, the client proves
that it knows the password, the server proves that it knows the verifier. Three things of
PostgreSQL's clients matter: the user's name in the message is to be ignored (libpq sends none), a
client that could bind to the TLS channel but thinks that the server can not (`y`) has met somebody
in between, and for a role that does not exist the exchange is run to its end with a salt that is
made up but stays.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass

from waterclock.adapter.credentials import DEFAULT_ITERATIONS, SALT_BYTES, ScramVerifier
from waterclock.pgwire.errors import ProtocolViolation

PLAIN, PLUS = "SCRAM-SHA-256", "SCRAM-SHA-256-PLUS"
_FIRST = re.compile(
    rb"(?P<gs2>(?P<flag>[ny]|p=[A-Za-z0-9.-]+),(?P<authzid>[^,]*),)(?P<bare>.*)", re.DOTALL
)
_BARE = re.compile(rb"n=[^,]*,r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,.*)?", re.DOTALL)
_FINAL = re.compile(
    rb"(?P<unproven>c=(?P<binding>[A-Za-z0-9+/=]+),r=(?P<nonce>[^,]+)(?:,[^,]+)*),"
    rb"p=(?P<proof>[A-Za-z0-9+/=]+)",
    re.DOTALL,
)


def mechanisms(channel_binding: bytes | None) -> tuple[str, ...]:
    """What is offered: binding to the channel first, where there is one."""
    return (PLAIN,) if channel_binding is None else (PLUS, PLAIN)


def mock_verifier(user: str, secret: bytes) -> ScramVerifier:
    """A verifier that no password matches, always the same for a name."""
    salt = hmac.digest(secret, b"salt" + user.encode(), "sha256")[:SALT_BYTES]
    keys = hmac.digest(secret, b"stored" + user.encode(), "sha256")
    return ScramVerifier(DEFAULT_ITERATIONS, salt, keys, hmac.digest(secret, keys, "sha256"))


@dataclass(frozen=True, slots=True)
class Exchange:
    """One exchange, from the client's first message on; `start` makes it.

    `proven` tells whether the client knows the password. It is only known after the final message.
    """

    verifier: ScramVerifier
    bound_header: bytes
    bare_first: bytes
    server_first: bytes
    nonce: bytes

    def finish(self, final: bytes) -> tuple[bool, bytes]:
        """Whether the client's proof is right, and the server's, to be sent only if it is."""
        match = _FINAL.fullmatch(final)
        if match is None:
            raise _malformed("The message is not a client's final one.")
        if _decoded(match["binding"]) != self.bound_header:
            raise ProtocolViolation("SCRAM channel binding check failed")
        if not hmac.compare_digest(match["nonce"], self.nonce):
            raise ProtocolViolation("invalid SCRAM response", detail="Nonce does not match.")
        signed = b",".join((self.bare_first, self.server_first, match["unproven"]))
        right = self._proves(_decoded(match["proof"]), signed)
        signature = hmac.digest(self.verifier.server_key, signed, "sha256")
        return right, b"v=" + base64.b64encode(signature)

    def _proves(self, proof: bytes, signed: bytes) -> bool:
        signature = hmac.digest(self.verifier.stored_key, signed, "sha256")
        if len(proof) != len(signature):
            return False
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored = hashlib.sha256(client_key).digest()
        return hmac.compare_digest(stored, self.verifier.stored_key)


def start(
    mechanism: str,
    first: bytes,
    verifier: ScramVerifier,
    channel_binding: bytes | None,
    nonce: bytes,
) -> Exchange:
    """Answer the client's first message with `Exchange.server_first`.

    `nonce` is the server's: printable, without a comma, never used before.
    """
    match = _FIRST.fullmatch(first)
    bare = _BARE.fullmatch(match["bare"]) if match else None
    if match is None or bare is None:
        raise _malformed("The message is not a client's first one.")
    if match["authzid"]:
        raise ProtocolViolation("client uses authorization identity, but it is not supported")
    binding = _check_flag(mechanism, match["flag"], channel_binding)
    whole_nonce = bare["nonce"] + nonce
    salt = base64.b64encode(verifier.salt)
    server_first = b"r=%b,s=%b,i=%d" % (whole_nonce, salt, verifier.iterations)
    return Exchange(verifier, match["gs2"] + binding, match["bare"], server_first, whole_nonce)


def _check_flag(mechanism: str, flag: bytes, channel_binding: bytes | None) -> bytes:
    """What the client has to repeat of the channel: nothing, or the binding."""
    if mechanism == PLUS:
        if channel_binding is None or not flag.startswith(b"p="):
            raise _malformed("The client selected SCRAM-SHA-256-PLUS without channel binding.")
        if flag != b"p=tls-server-end-point":
            raise ProtocolViolation(f'unsupported SCRAM channel-binding type "{flag[2:].decode()}"')
        return channel_binding
    if flag.startswith(b"p="):
        raise _malformed("The client selected SCRAM-SHA-256 with channel binding.")
    if flag == b"y" and channel_binding is not None:
        raise ProtocolViolation(
            "SCRAM channel binding negotiation error",
            detail="The client supports SCRAM channel binding but thinks the server does not."
            " However, this server does support channel binding.",
        )
    return b""


def _decoded(data: bytes) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error:
        raise _malformed("A value is not base64.") from None


def _malformed(detail: str) -> ProtocolViolation:
    return ProtocolViolation("malformed SCRAM message", detail=detail)
