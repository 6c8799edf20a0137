"""The requests to PubNub's service, over one connection of HTTP at a time.

Polls of the queue last until there is something, but no longer than `POLL_S`: then we give up by
ourselves and ask again. The service would wait for nearly five minutes, and for so long nobody
would know whether the connection is still there. Everything else is answered at once.

Connections are kept, encrypted unless the origin says `http://`, and go through the proxy that the
environment names. An answer has a bound in size and in time. Answers other than 200 are transient:
keys and rights can be mended upstream. The auth key is in no message of an error.

`interrupt` may be called by another thread; it ends a request that is under way.
"""

from __future__ import annotations

import base64
import http.client
import re
import socket
import ssl
import urllib.parse
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from waterclock.runtime import SYSTEM, Runtime
from waterclock.storage.sources.errors import InvalidSource, TransientFault
from waterclock.storage.sources.pubnub.answers import (
    Answer,
    Cursor,
    HistoryRefused,
    Page,
    refusal,
    stored,
    subscribed,
)
from waterclock.storage.sources.pubnub.filling import AskHistory

ORIGIN = "https://ps.pndsn.com"
POLL_S = 40.0
PAGE = 100
_CONNECT_S = 5.0
_ANSWER_S = 30.0
_LARGEST = 16 << 20
_CHUNK = 8 << 10
_CLIENT = "waterclock"
_ORIGIN = re.compile(
    r"(?P<origin>https?://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::(?P<port>[0-9]{1,5}))?)/?"
)


@dataclass(frozen=True, slots=True)
class Channel:
    """Which channel, where, and as whom."""

    origin: str
    subscribe_key: str
    channel: str
    user: str
    auth: str | None = field(default=None, repr=False)


def checked_origin(text: str) -> str:
    """The origin with its scheme, HTTPS if it says none. Raises `InvalidSource`."""
    found = _ORIGIN.fullmatch(text if "://" in text else f"https://{text}")
    if found is None or not 0 < int(found["port"] or 443) < 65536:
        raise InvalidSource(
            f'"{text}" is not an origin', hint=f"Write it as a host, or as in '{ORIGIN}'."
        )
    return found["origin"]


class Service:
    """The service, as one subscriber of one channel sees it. Only `interrupt` may be called by
    another thread.
    """

    def __init__(
        self, channel: Channel, *, poll_s: float = POLL_S, runtime: Runtime = SYSTEM
    ) -> None:
        self._channel = channel
        self._poll_s = poll_s
        self._runtime = runtime
        self._connection: http.client.HTTPConnection | None = None
        self._path_prefix = ""
        self._headers = {"Accept": "application/json", "User-Agent": _CLIENT}
        self._is_closed = False

    def end(self) -> Cursor:
        """Where the queue ends now."""
        return subscribed(self._required(self._queue_path(Cursor(0)), _ANSWER_S)).cursor

    def poll(self, cursor: Cursor) -> Answer | None:
        """What is behind the cursor; None if that is nothing for as long as one waits."""
        body = self._get(self._queue_path(cursor), self._poll_s)
        return None if body is None else subscribed(body)

    def history(self, asked: AskHistory) -> Page:
        """The newest messages of a span. Raises `HistoryRefused`."""
        wanted = {
            "start": str(asked.upto + 1),
            "end": str(asked.since + 1),
            "max": str(PAGE),
            "include_uuid": "true",
            "include_meta": "true",
            "include_message_type": "true",
            "include_custom_message_type": "true",
        }
        key, channel = map(_quoted, (self._channel.subscribe_key, self._channel.channel))
        path = f"/v3/history/sub-key/{key}/channel/{channel}"
        body = self._required(self._with_query(path, wanted), _ANSWER_S, is_history=True)
        return stored(body, PAGE)

    def close(self) -> None:
        """Let go of the connection."""
        self._is_closed = True
        self._drop()

    def interrupt(self) -> None:
        """End the request that is under way, and make no others."""
        self._is_closed = True
        connection = self._connection
        held = None if connection is None else connection.sock
        if held is not None:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)

    # Requests

    def _queue_path(self, cursor: Cursor) -> str:
        key, channel = map(_quoted, (self._channel.subscribe_key, self._channel.channel))
        wanted = {"tt": str(cursor.timetoken)}
        if cursor.region is not None and cursor.timetoken:
            wanted["tr"] = str(cursor.region)
        return self._with_query(f"/v2/subscribe/{key}/{channel}/0", wanted)

    def _with_query(self, path: str, wanted: Mapping[str, str]) -> str:
        given = {**wanted, "uuid": self._channel.user, "pnsdk": _CLIENT}
        if self._channel.auth is not None:
            given["auth"] = self._channel.auth
        return f"{path}?{urllib.parse.urlencode(given, quote_via=urllib.parse.quote)}"

    def _required(self, path: str, limit_s: float, *, is_history: bool = False) -> bytes:
        body = self._get(path, limit_s, is_history=is_history)
        if body is None:
            raise TransientFault(f"the PubNub service at {self._where} does not answer")
        return body

    def _get(self, path: str, limit_s: float, *, is_history: bool = False) -> bytes | None:
        """The body of the answer; None if there was none in time."""
        try:
            response = self._asked(path, limit_s)
            if response is None:
                return None
            body = self._body(response)
            if response.will_close:
                self._drop()
        except (OSError, http.client.HTTPException) as error:
            self._drop()
            reason = str(error) or type(error).__name__
            raise TransientFault(
                f"could not ask the PubNub service at {self._where}: {reason}",
                hint="It is tried again.",
            ) from None
        if response.status != 200:
            self._drop()
            raise self._refused(response, body, is_history=is_history)
        return body

    def _asked(self, path: str, limit_s: float) -> http.client.HTTPResponse | None:
        connection = self._opened()
        connection.request("GET", self._path_prefix + path, headers=self._headers)
        assert connection.sock is not None
        connection.sock.settimeout(limit_s)
        try:
            response = connection.getresponse()
        except TimeoutError:
            self._drop()
            return None
        if connection.sock is not None:  # it has none if the answer ends the connection
            connection.sock.settimeout(_ANSWER_S)
        return response

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        began, parts, size = self._runtime.monotonic_s(), [], 0
        while part := response.read(_CHUNK):
            parts.append(part)
            size += len(part)
            if size > _LARGEST:
                raise OSError(f"the answer has more than {_LARGEST} bytes")
            if self._runtime.monotonic_s() - began > _ANSWER_S:
                raise OSError("the answer does not end")
        if response.length:  # reading a part does not look at what is missing
            raise OSError("the connection broke in the middle of the answer")
        return b"".join(parts)

    def _refused(
        self, response: http.client.HTTPResponse, body: bytes, *, is_history: bool
    ) -> Exception:
        said = self._without_key(refusal(body) or response.reason)[:200]
        if is_history and response.status in (400, 402, 403, 404):
            return HistoryRefused(f"{response.status} {said}")
        hints = {
            400: "Check SUBSCRIBE KEY and CHANNEL.",
            403: "Check AUTH KEY, and the rights to read the channel.",
            429: "The service limits how often it is asked; it is tried again.",
        }
        return TransientFault(
            f"the PubNub service at {self._where} answered with {response.status}: {said}",
            hint=hints.get(response.status, "It is tried again."),
        )

    def _without_key(self, text: str) -> str:
        """A text of the service, which may repeat the request."""
        auth = self._channel.auth
        for secret in () if auth is None else {auth, _quoted(auth)}:
            text = text.replace(secret, "...") if secret else text
        return text

    # The connection

    @property
    def _where(self) -> str:
        return self._channel.origin

    def _opened(self) -> http.client.HTTPConnection:
        if self._connection is None:
            connection = self._new()
            connection.connect()
            self._connection = connection
        if self._is_closed:
            self._drop()
            raise OSError("the source was closed")
        return self._connection

    def _new(self) -> http.client.HTTPConnection:
        """A connection to the origin, or to the proxy for it."""
        parts = urllib.parse.urlsplit(self._channel.origin)
        assert parts.hostname is not None
        is_safe = parts.scheme == "https"
        port = parts.port or (443 if is_safe else 80)
        proxy = _proxy_for(parts)
        host, own_port = (parts.hostname, port) if proxy is None else (proxy.host, proxy.port)
        if not is_safe:
            self._path_prefix = "" if proxy is None else self._channel.origin
            self._headers |= {} if proxy is None else proxy.headers
            return http.client.HTTPConnection(host, own_port, timeout=_CONNECT_S)
        context = ssl.create_default_context()
        safe = http.client.HTTPSConnection(host, own_port, timeout=_CONNECT_S, context=context)
        if proxy is not None:
            safe.set_tunnel(parts.hostname, port, headers=dict(proxy.headers))
        return safe

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


@dataclass(frozen=True, slots=True)
class _Proxy:
    host: str
    port: int
    headers: Mapping[str, str]


def _proxy_for(origin: urllib.parse.SplitResult) -> _Proxy | None:
    """The proxy that the environment names for an origin: `https_proxy`, `no_proxy` and so on."""
    named = urllib.request.getproxies().get(origin.scheme)
    if not named or urllib.request.proxy_bypass(origin.netloc):
        return None
    parts = urllib.parse.urlsplit(named if "://" in named else f"http://{named}")
    if parts.hostname is None:
        raise OSError("the proxy that the environment names has no host")
    headers = {}
    if parts.username is not None:
        user, password = (urllib.parse.unquote(t or "") for t in (parts.username, parts.password))
        token = base64.b64encode(f"{user}:{password}".encode()).decode()
        headers["Proxy-Authorization"] = f"Basic {token}"
    return _Proxy(parts.hostname, parts.port or 80, headers)


def _quoted(text: str) -> str:
    return urllib.parse.quote(text, safe="")
