"""How the PubNub service is reached: encrypted, through proxies, and what is no answer."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import select
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from waterclock.runtime import SYSTEM
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.pubnub import service as service_module
from waterclock.storage.sources.pubnub.answers import UNITS_PER_MS
from waterclock.storage.sources.pubnub.duplicates import Recent
from waterclock.storage.sources.pubnub.following import Follower
from waterclock.storage.sources.pubnub.position import Position
from waterclock.storage.sources.pubnub.receiving import Listener
from waterclock.storage.sources.pubnub.service import Channel, Service
from waterclock.testing.pubnub import CHANNEL, KEY, PubnubService, pubnub_service

pytestmark = pytest.mark.service


def channel(origin: str) -> Channel:
    return Channel(origin, KEY, CHANNEL, "me")


@pytest.fixture
def service() -> Iterator[PubnubService]:
    with pubnub_service() as found:
        yield found


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


# TLS


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate of this machine, signed by itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "here")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "here.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def test_an_origin_is_encrypted_and_its_certificate_checked(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pubnub_service(certificate=certificate) as service:
        assert service.url.startswith("https://")
        stranger = Service(channel(service.url))
        with closing(stranger), pytest.raises(TransientFault, match="CERTIFICATE_VERIFY_FAILED"):
            stranger.end()
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with closing(Service(channel(service.url), poll_s=5)) as asked:
            end = asked.end()
            service.publish(1)
            answer = asked.poll(end)
            assert answer is not None
            assert answer.count == 1


def test_an_encrypted_poll_is_interrupted(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pubnub_service(certificate=certificate) as service:
        with closing(Service(channel(service.url))) as asked:
            end = asked.end()
        heard_ms = end.timetoken // UNITS_PER_MS
        follower = Follower(Position(end, heard_ms=heard_ms), Recent())
        listener = Listener(follower, Service(channel(service.url)), SYSTEM)
        listener.take()
        service.wait_for_subscriber()
        listener.close()


# Proxies


@dataclass
class Proxy:
    """A proxy for HTTP and, by CONNECT, for everything."""

    address: str = ""
    asked: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)


@contextmanager
def a_proxy() -> Iterator[Proxy]:
    """It passes on what it is sent, and notes the first lines and who asks."""
    proxy = Proxy()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            line, headers = self.rfile.readline().decode().strip(), []
            while (header := self.rfile.readline()) not in (b"\r\n", b""):
                headers.append(header)
            proxy.asked.append(line)
            proxy.keys += [h.decode().strip() for h in headers if h.startswith(b"Proxy-Auth")]
            method, target, _ = line.split()
            if method == "CONNECT":
                host, _, port = target.rpartition(":")
                with socket.create_connection((host, int(port))) as upstream:
                    self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    self._pass_on(upstream)
                return
            place, _, path = target.removeprefix("http://").partition("/")
            host, _, port = place.rpartition(":")
            with socket.create_connection((host, int(port))) as upstream:
                upstream.sendall(f"GET /{path} HTTP/1.1\r\n".encode())
                kept = [h for h in headers if not h.startswith(b"Proxy-")]
                upstream.sendall(b"".join(kept) + b"Connection: close\r\n\r\n")
                while data := upstream.recv(65536):
                    self.wfile.write(data)

        def _pass_on(self, upstream: socket.socket) -> None:
            ends = {self.connection: upstream, upstream: self.connection}
            while True:
                ready, _, _ = select.select(list(ends), [], [], 30)
                for end in ready:
                    data = end.recv(65536)
                    if not data:
                        return
                    ends[end].sendall(data)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client has gone."""

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        proxy.address = f"127.0.0.1:{server.server_address[1]}"
        yield proxy
        server.shutdown()


def test_a_proxy_for_plain_connections(
    service: PubnubService, monkeypatch: pytest.MonkeyPatch
) -> None:
    with a_proxy() as proxy:
        monkeypatch.setenv("http_proxy", f"http://us%65r:pass@{proxy.address}")
        with closing(Service(channel(service.url))) as asked:
            end = asked.end()
        service.publish(1)
        with closing(Service(channel(service.url), poll_s=5)) as asked:
            assert asked.poll(end) is not None
        assert len(proxy.asked) == 2
        assert all(line.startswith(f"GET {service.url}/v2/subscribe/") for line in proxy.asked)
        token = base64.b64encode(b"user:pass").decode()
        assert set(proxy.keys) == {f"Proxy-Authorization: Basic {token}"}
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        with closing(Service(channel(service.url))) as asked:
            asked.end()
        assert len(proxy.asked) == 2


def test_a_proxy_for_encrypted_connections(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with pubnub_service(certificate=certificate) as service, a_proxy() as proxy:
        monkeypatch.setenv("https_proxy", f"http://{proxy.address}")
        with closing(Service(channel(service.url), poll_s=5)) as asked:
            end = asked.end()
            service.publish(1)
            assert asked.poll(end) is not None
        place = service.url.removeprefix("https://")
        assert proxy.asked == [f"CONNECT {place} HTTP/1.0"] or proxy.asked == [
            f"CONNECT {place} HTTP/1.1"
        ]


# Bounds


@contextmanager
def answers_with(payload: bytes) -> Iterator[str]:
    """A server that gives everybody the same bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65536)
                    try:
                        connection.sendall(payload)
                    except OSError:
                        continue

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
    thread.join()


HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (HEAD % 100 + b"{", "could not ask"),
        (CHUNKED + b'5\r\n{"t":', "could not ask"),
        (b"SSH-2.0-x\r\n", "could not ask"),
        (b"", "could not ask"),
        (HEAD % 6 + b"<html>", "can not be read"),
        (b"HTTP/1.1 301 Moved\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", "answered with 301"),
        (HEAD % (17 << 20) + b" " * (17 << 20), "more than"),
    ],
    ids=["cut off", "chunk cut off", "no HTTP", "nothing", "no JSON", "moved", "too large"],
)
def test_answers_that_are_none(answer: bytes, reason: str) -> None:
    with answers_with(answer) as origin:
        asked = Service(channel(origin), poll_s=5)
        with closing(asked), pytest.raises(TransientFault, match=reason):
            asked.end()


def test_a_service_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_module, "_ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked = Service(channel(f"http://127.0.0.1:{server.getsockname()[1]}"))
        with closing(asked), pytest.raises(TransientFault, match="does not answer"):
            asked.end()
