"""SCRAM: the example of RFC 7677, and every way to cheat."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from waterclock.adapter.credentials import make_verifier
from waterclock.pgwire.errors import ProtocolViolation
from waterclock.pgwire.scram import PLAIN, PLUS, Exchange, mechanisms, mock_verifier, start

# RFC 7677, section 3.
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
VERIFIER = make_verifier("pencil", SALT, 4096)
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
NONCE = b"rOprNGfwEbeRWgbNEkqO" + SERVER_NONCE
PROOF = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
FINAL = b"c=biws,r=" + NONCE + b",p=" + PROOF
BINDING = bytes(32)


def exchange(
    first: bytes = FIRST, mechanism: str = PLAIN, binding: bytes | None = None
) -> Exchange:
    return start(mechanism, first, VERIFIER, binding, SERVER_NONCE)


def test_the_example_of_the_standard() -> None:
    running = exchange()
    assert running.server_first == b"r=" + NONCE + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    assert running.finish(FINAL) == (True, b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_wrong_proof() -> None:
    wrong = base64.b64encode(bytes(32))
    assert exchange().finish(FINAL.replace(PROOF, wrong))[0] is False
    assert exchange().finish(FINAL.replace(PROOF, b"AAAA"))[0] is False


def test_a_name_that_is_empty_is_fine() -> None:
    """libpq sends none; the startup packet has it."""
    assert exchange(b"n,,n=,r=abc").nonce == b"abc" + SERVER_NONCE


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"n",
        b"n,,",
        b"n,,n=user",
        b"n,,r=abc",
        b"n,,m=x,n=user,r=abc",
        b"x,,n=user,r=abc",
        b"n,a=admin,n=user,r=abc",
        b"p=tls-server-end-point,,n=,r=abc",
        b"n,,n=user,r=a\xffc",
    ],
)
def test_a_bad_first_message(first: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        exchange(first)


@pytest.mark.parametrize(
    "final",
    [
        b"",
        FINAL.replace(b"biws", b"eSws"),
        FINAL.replace(SERVER_NONCE, b"other"),
        FINAL.replace(b"p=" + PROOF, b""),
        FINAL.replace(PROOF, b"a"),
        FINAL + b",x=y",
    ],
)
def test_a_bad_final_message(final: bytes) -> None:
    with pytest.raises(ProtocolViolation):
        exchange().finish(final)


def proof_for(running: Exchange, channel: bytes) -> bytes:
    """What an honest client that knows the password sends."""
    unproven = b"c=" + base64.b64encode(channel) + b",r=" + running.nonce
    signed = b",".join((running.bare_first, running.server_first, unproven))
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return unproven + b",p=" + base64.b64encode(proof)


def test_binding_to_the_channel() -> None:
    header = b"p=tls-server-end-point,,"
    running = exchange(header + b"n=,r=abc", PLUS, BINDING)
    assert running.finish(proof_for(running, header + BINDING))[0] is True
    with pytest.raises(ProtocolViolation, match="channel binding check failed"):
        running.finish(proof_for(running, header + b"another channel"))


def test_a_downgrade_is_noticed() -> None:
    with pytest.raises(ProtocolViolation, match="negotiation error"):
        exchange(b"y,,n=,r=abc", PLAIN, BINDING)
    assert exchange(b"y,,n=,r=abc", PLAIN, None).bound_header == b"y,,"
    with pytest.raises(ProtocolViolation, match="unsupported SCRAM channel-binding"):
        exchange(b"p=tls-unique,,n=,r=abc", PLUS, BINDING)
    with pytest.raises(ProtocolViolation):
        exchange(b"n,,n=,r=abc", PLUS, BINDING)


def test_offers() -> None:
    assert mechanisms(None) == (PLAIN,)
    assert mechanisms(BINDING) == (PLUS, PLAIN)


def test_a_role_that_does_not_exist_has_a_salt_that_stays() -> None:
    first, again, other = (mock_verifier(name, b"secret") for name in ("x", "x", "y"))
    assert first == again
    assert first.salt != other.salt
    assert len(first.salt) == 16
    assert first.iterations == 4096
