"""A small PubNub service, spoken to over HTTP as the real one is.

It has a queue for each region, of the newest messages, and gives a subscriber what is behind its
cursor, or lets it wait; it has a history, if the keyset has one; and it can be told to misbehave:
to break connections in the middle of an answer, to answer from another region, to give answers
again, to forget, to refuse.
"""

from __future__ import annotations

import json
import ssl
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

KEY = "sub-c-0123"
CHANNEL = "rides"
REGIONS = (4, 7)


@dataclass(frozen=True)
class Published:
    """A message as the service has it."""

    timetoken: int
    region: int
    payload: Any
    issuer: str = "tester"
    sequence: int = 0
    type: int = 0
    meta: Any = None
    is_stored: bool = True
    channel: str = CHANNEL


@dataclass
class PubnubService:
    """One keyset with its channels, and what a test may change of how it is answered."""

    queue_size: int = 100
    has_history: bool = True
    history_lag_s: float = 0.0
    """So long after its publication history does not have a message yet."""
    auth: str | None = None
    status: int = 200
    """What every request is answered with, if not 200."""
    region: int = 4
    """The region that answers."""
    ahead_s: float = 0.0
    """How far its clock is ahead of this machine's."""
    hold_s: float = 280.0
    breaks: int = 0
    """So many of the next answers with messages end in their middle."""
    repeats: int = 0
    """So many of the next answers with messages do not move the cursor, so they come again."""
    page_size: int = 100
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self._changed = threading.Condition()
        self._queues: dict[tuple[int, str], list[tuple[int, Published]]] = {}
        """What each region has of each channel, with its place in the queue."""
        self._history: list[Published] = []
        self._last = 0
        self._is_closing = False
        self.waiting = 0
        """How many subscribers wait."""

    # What tests do

    def publish(self, payload: Any, **known: Any) -> int:
        """Publish a message; its timetoken."""
        with self._changed:
            message = Published(self._now(), known.pop("region", self.region), payload, **known)
            for region in REGIONS:
                queue = self._queues.setdefault((region, message.channel), [])
                queue.append((self._now(), message))
                del queue[: -self.queue_size]
            if message.is_stored and message.type in (0, 4):
                self._history.append(message)
            self._changed.notify_all()
            return message.timetoken

    def publish_all(self, *payloads: Any) -> list[int]:
        """Publish several at once: nobody sees some of them."""
        with self._changed:
            return [self.publish(payload, sequence=n) for n, payload in enumerate(payloads)]

    def forget(self) -> None:
        """Empty the queues, as time does."""
        with self._changed:
            for queue in self._queues.values():
                queue.clear()

    def wait_for_subscriber(self) -> None:
        """Until one waits for messages."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.waiting > 0, 20)

    def count(self, part: str) -> int:
        """How many requests have had that in their path."""
        return sum(part in request for request in self.requests)

    def close(self) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def _now(self) -> int:
        """The present timetoken; each is another one."""
        self._last = max(self._last + 1, self._clock())
        return self._last

    def _clock(self) -> int:
        return time.time_ns() // 100 + int(self.ahead_s * 1e7)

    # What it answers

    def answer(self, path: str, query: dict[str, str]) -> tuple[int, Any]:
        """What a request is answered with."""
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        if self.status != 200:
            return self.status, {"status": self.status, "error": True, "message": "as told"}
        if self.auth is not None and query.get("auth") != self.auth:
            return 403, {"status": 403, "error": True, "message": "Forbidden"}
        match parts:
            case ["v2", "subscribe", key, channel, "0"] if key == KEY:
                return 200, self._subscribed(channel, int(query["tt"]))
            case ["v3", "history", "sub-key", key, "channel", channel] if key == KEY:
                return self._stored(channel, query)
            case ["publish", _, key, "0", channel, "0", payload] if key == KEY:
                known = {"issuer": query.get("uuid", ""), "sequence": int(query.get("seqn", "0"))}
                sent = self.publish(json.loads(payload), channel=channel, **known)
                return 200, [1, "Sent", str(sent)]
            case _:
                return 400, {"status": 400, "error": True, "message": "Invalid Subscribe Key"}

    def _subscribed(self, channel: str, timetoken: int) -> Any:
        with self._changed:
            if timetoken == 0:
                return _answer(self._now(), self.region, [])
            self.waiting += 1
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: self._is_closing or self._behind(channel, timetoken), self.hold_s
            )
            self.waiting -= 1
            found = self._behind(channel, timetoken)
            if not found:
                return _answer(timetoken, self.region, [])
            end = found[-1][0]
            if self.repeats:
                self.repeats -= 1
                end = timetoken
            return _answer(end, self.region, [message for _, message in found])

    def _behind(self, channel: str, timetoken: int) -> list[tuple[int, Published]]:
        queue = self._queues.get((self.region, channel), [])
        return [each for each in queue if each[0] > timetoken]

    def _stored(self, channel: str, query: dict[str, str]) -> tuple[int, Any]:
        if not self.has_history:
            text = "Storage is not enabled for this subscribe key"
            return 403, {"status": 403, "error": True, "error_message": text, "channels": {}}
        start, end = int(query["start"]), int(query["end"])
        most = min(int(query["max"]), self.page_size)
        latest = self._clock() - int(self.history_lag_s * 1e7)
        with self._changed:
            found = [
                m
                for m in self._history
                if m.channel == channel and end <= m.timetoken < min(start, latest)
            ]
        told: dict[str, Any] = {"status": 200, "error": False, "error_message": "", "channels": {}}
        if found:
            told["channels"] = {channel: [_stored(m) for m in found[-most:]]}
        if most < int(query["max"]) and most < len(found):
            told["more"] = {"start": str(found[-most].timetoken), "max": most}
        return 200, told

    def takes_a_break(self, answer: Any) -> bool:
        """Whether to end the connection in the middle of the answer."""
        has_messages = isinstance(answer, dict) and bool(answer.get("m"))
        if not self.breaks or not has_messages:
            return False
        self.breaks -= 1
        return True


def _answer(timetoken: int, region: int, messages: list[Published]) -> dict[str, Any]:
    return {
        "t": {"t": str(timetoken), "r": region},
        "m": [
            {
                **({"e": m.type} if m.type else {}),
                **({} if m.meta is None else {"u": m.meta}),
                **{"a": "2", "f": 0, "i": m.issuer, "s": m.sequence},
                **{"p": {"t": str(m.timetoken), "r": m.region}, "k": KEY, "c": m.channel},
                "d": m.payload,
            }
            for m in messages
        ],
    }


def _stored(message: Published) -> dict[str, Any]:
    return {
        "message": message.payload,
        "timetoken": str(message.timetoken),
        "uuid": message.issuer,
        "message_type": message.type,
        "meta": "" if message.meta is None else message.meta,
    }


@contextmanager
def pubnub_service(*, certificate: Path | None = None, **known: Any) -> Iterator[PubnubService]:
    """A service that listens on a port of this machine; encrypted, if it has a certificate."""
    service = PubnubService(**known)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urllib.parse.urlsplit(self.path)
            service.requests.append(self.path)
            status, answer = service.answer(parts.path, dict(urllib.parse.parse_qsl(parts.query)))
            payload = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            if service.takes_a_break(answer):
                self.wfile.write(payload[: len(payload) // 2])
                self.close_connection = True
                return
            self.wfile.write(payload)

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            """A client has gone."""

    server = Server(("127.0.0.1", 0), Handler)
    scheme = "http"
    if certificate is not None:
        scheme, context = "https", ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    service.url = f"{scheme}://127.0.0.1:{server.server_address[1]}"
    try:
        yield service
    finally:
        service.close()
        server.shutdown()
        server.server_close()
        thread.join()
