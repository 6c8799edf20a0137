"""TLS: who the server says it is, and the encryption itself as a function of bytes.

`TlsChannel` does no I/O: it is given what arrives and hands out what is to be sent. So the same
code serves a client that asks for TLS and one that begins with it, no event loop is asked to
exchange its transports, and tests need no sockets.

A certificate can be given, or is made here and kept: one that no authority has signed protects
against listeners and, with SCRAM's channel binding, against somebody in between.
"""

from __future__ import annotations

import hashlib
import os
import ssl
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from waterclock.pgwire.errors import Disconnected

ALPN = "postgresql"
_DAYS_VALID = 3_650
_READ_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class TlsIdentity:
    """A certificate with its key, ready for use, and what a client binds its password to."""

    context: ssl.SSLContext
    channel_binding: bytes


def load_identity(certificate: Path, key: Path) -> TlsIdentity:
    """The identity in two PEM files; OSError or ValueError if they are not one."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols([ALPN])
    return TlsIdentity(
        context, _end_point(x509.load_pem_x509_certificate(certificate.read_bytes()))
    )


def self_made_identity(folder: Path, host: str, now: datetime | None = None) -> TlsIdentity:
    """The identity kept in the folder; made at first, readable by the owner alone."""
    certificate, key = folder / "server.crt", folder / "server.key"
    if not (certificate.is_file() and key.is_file()):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        certificate_pem, key_pem = make_certificate(host, now or datetime.now(UTC))
        _write_private(key, key_pem)
        _write_private(certificate, certificate_pem)
    return load_identity(certificate, key)


def _names(host: str) -> list[x509.GeneralName]:
    """What clients may call the server, who compare it with the certificate."""
    here: list[x509.GeneralName] = [
        x509.DNSName("localhost"),
        x509.IPAddress(ip_address("127.0.0.1")),
    ]
    try:
        named: x509.GeneralName = x509.IPAddress(ip_address(host))
    except ValueError:
        named = x509.DNSName(host)
    return here if named in here else [named, *here]


def make_certificate(host: str, now: datetime) -> tuple[bytes, bytes]:
    """A certificate for the host that is its own authority, and its key, both as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=_DAYS_VALID))
        .add_extension(x509.SubjectAlternativeName(_names(host)), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    key_pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return certificate.public_bytes(serialization.Encoding.PEM), key_pem


def _end_point(certificate: x509.Certificate) -> bytes:
    """`tls-server-end-point` (RFC 5929): the hash of the certificate by its own algorithm.

    One that uses MD5, SHA-1 or none is hashed by SHA-256.
    """
    own = certificate.signature_hash_algorithm
    algorithm = "sha256" if own is None or own.name in ("md5", "sha1") else own.name
    der = certificate.public_bytes(serialization.Encoding.DER)
    return hashlib.new(algorithm, der).digest()


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)


class TlsChannel:
    """The server's end of one TLS connection, without a socket."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._object = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self.established = False

    @property
    def protocol(self) -> str | None:
        """The protocol that both agreed on (ALPN)."""
        return self._object.selected_alpn_protocol()

    def receive(self, data: bytes) -> bytes:
        """Take what arrived; what the client said. `Disconnected` if it can not go on."""
        self._incoming.write(data)
        try:
            if not self.established:
                self._object.do_handshake()
                self.established = True
            return self._plaintext()
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as fault:
            raise Disconnected(str(fault)) from None

    def encrypt(self, data: bytes) -> None:
        """Put words of ours in front of `outgoing`."""
        assert self.established
        view = memoryview(data)
        while view:
            view = view[self._object.write(view) :]

    def close(self) -> None:
        """Say that nothing more will come."""
        if self.established:
            with suppress(ssl.SSLError):
                self._object.unwrap()

    def outgoing(self) -> bytes:
        """What is to be sent now, if anything."""
        return self._outgoing.read()

    def _plaintext(self) -> bytes:
        parts: list[bytes] = []
        try:
            while part := self._object.read(_READ_BYTES):
                parts.append(part)
        except ssl.SSLWantReadError:
            return b"".join(parts)
        # The client closed its side in the orderly way; EOF will follow.
        return b"".join(parts)
