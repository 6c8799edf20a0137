"""What tests do with a server that speaks Kinesis, and a door in front of it that changes answers.

`KinesisServer` and `S3Server` of `services` are such servers. Each function here waits until what
it does is done.
"""

from __future__ import annotations

import struct
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import md5
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from waterclock.storage.sources.aws.clients import AwsAccess

_SECONDS = 60.0


class StreamWriter:
    """A client of one server. Close it."""

    def __init__(self, endpoint: str) -> None:
        access = AwsAccess("test", "us-east-1", endpoint, "test", "test")
        self._client: Any = access.open("kinesis")

    def create(self, stream: str, shards: int = 1) -> list[str]:
        """A stream; the names of its shards."""
        self._client.create_stream(StreamName=stream, ShardCount=shards)
        self._wait_until_active(stream)
        return self.open_shards(stream)

    def delete(self, stream: str) -> None:
        self._client.delete_stream(StreamName=stream)
        _until(lambda: stream not in self._client.list_streams()["StreamNames"])

    def put(self, stream: str, records: Iterable[tuple[str, str | bytes]]) -> list[str]:
        """Put records, in their order; each is a partition key and a value. Their numbers."""
        return [
            self._client.put_record(StreamName=stream, PartitionKey=key, Data=data)[
                "SequenceNumber"
            ]
            for key, data in records
        ]

    def put_many(self, stream: str, records: Sequence[tuple[str, str | bytes]]) -> None:
        """The same in requests of 500."""
        for first in range(0, len(records), 500):
            entries = [{"PartitionKey": k, "Data": d} for k, d in records[first : first + 500]]
            done = self._client.put_records(StreamName=stream, Records=entries)
            assert not done["FailedRecordCount"]

    def split(self, stream: str, shard: str) -> list[str]:
        """Split a shard in the middle; its children."""
        before = self.open_shards(stream)
        hashes = self._shard(stream, shard)["HashKeyRange"]
        middle = (int(hashes["StartingHashKey"]) + int(hashes["EndingHashKey"]) + 1) // 2
        self._client.split_shard(
            StreamName=stream, ShardToSplit=shard, NewStartingHashKey=str(middle)
        )
        self._wait_until_active(stream)
        return [each for each in self.open_shards(stream) if each not in before]

    def merge(self, stream: str, first: str, second: str) -> str:
        """Merge two shards that are side by side; their child."""
        before = self.open_shards(stream)
        self._client.merge_shards(
            StreamName=stream, ShardToMerge=first, AdjacentShardToMerge=second
        )
        self._wait_until_active(stream)
        [child] = [each for each in self.open_shards(stream) if each not in before]
        return child

    def open_shards(self, stream: str) -> list[str]:
        found = self._client.list_shards(StreamName=stream)["Shards"]
        return [
            each["ShardId"]
            for each in found
            if "EndingSequenceNumber" not in each["SequenceNumberRange"]
        ]

    def key_in(self, stream: str, shard: str) -> str:
        """A partition key whose records go into the shard."""
        hashes = self._shard(stream, shard)["HashKeyRange"]
        first, last = int(hashes["StartingHashKey"]), int(hashes["EndingHashKey"])
        return next(f"k{n}" for n in range(10_000) if first <= key_hash(f"k{n}") <= last)

    def _shard(self, stream: str, shard: str) -> dict[str, Any]:
        found = self._client.list_shards(StreamName=stream)["Shards"]
        [named] = [each for each in found if each["ShardId"] == shard]
        return dict(named)

    def _wait_until_active(self, stream: str) -> None:
        def is_active() -> bool:
            summary = self._client.describe_stream_summary(StreamName=stream)
            return bool(summary["StreamDescriptionSummary"]["StreamStatus"] == "ACTIVE")

        _until(is_active)

    def close(self) -> None:
        self._client.close()


def _until(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not is_done():
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.02)


def key_hash(key: str) -> int:
    """The hash of a partition key, by which its shard is found."""
    return int.from_bytes(md5(key.encode(), usedforsecurity=False).digest(), "big")


def aggregated(records: Sequence[tuple[str, bytes]], hashes: Sequence[int | None] = ()) -> bytes:
    """Records packed into one, as the Kinesis Producer Library packs them."""
    keys = sorted({key for key, _ in records})
    chosen = [each for each in hashes if each is not None]
    body = b"".join(_bytes(1, key.encode()) for key in keys)
    body += b"".join(_bytes(2, str(each).encode()) for each in chosen)
    for place, (key, data) in enumerate(records):
        record = _varint(1 << 3) + _varint(keys.index(key))
        own = hashes[place] if hashes else None
        if own is not None:
            record += _varint(2 << 3) + _varint(chosen.index(own))
        body += _bytes(3, record + _bytes(3, data))
    return b"\xf3\x89\x9a\xc2" + body + md5(body, usedforsecurity=False).digest()


def _bytes(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    found = b""
    while value > 127:
        found += struct.pack("B", value & 127 | 128)
        value >>= 7
    return found + struct.pack("B", value)


@dataclass
class Door:
    """What passes requests on to a server, and answers back, but what it was told to change."""

    upstream: str
    port: int = 0
    refusals: dict[str, str] = field(default_factory=dict)
    """The code of the error by action, such as `GetRecords`, until it is removed again."""
    once: dict[str, str] = field(default_factory=dict)
    """The same for the next such request alone."""
    edits: dict[str, Callable[[dict[str, Any]], None]] = field(default_factory=dict)
    """What changes the answers, by action."""
    refused: Counter[str] = field(default_factory=Counter)
    """How often each code was told."""

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, action: str, headers: dict[str, str], body: bytes) -> tuple[int, Any, bytes]:
        code = self.once.pop(action, None) or self.refusals.get(action)
        if code is not None:
            self.refused[code] += 1
            told = {"__type": code, "message": "refused at the door"}
            return 400, {"Content-Type": "application/x-amz-json-1.1"}, msgspec.json.encode(told)
        request = urllib.request.Request(self.upstream, body, headers, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=_SECONDS) as found:
                answer = found.read()
                if action in self.edits:
                    edited = msgspec.json.decode(answer)
                    self.edits[action](edited)
                    answer = msgspec.json.encode(edited)
                return found.status, found.headers, answer
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()


@contextmanager
def door(upstream: str) -> Iterator[Door]:
    """A door in front of a server, on a port of its own."""
    found = Door(upstream)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            action = self.headers["X-Amz-Target"].rpartition(".")[2]
            status, headers, answer = found.answer(action, dict(self.headers), body)
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def do_GET(self) -> None:
            self.send_error(404)  # it speaks of streams only

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
