"""A small schema registry, spoken to over HTTP as Confluent's is.

It has what producers and consumers need: registering a schema under a subject, and asking for one
by its id or as the newest of its subject. The same schema has the same id everywhere.
"""

from __future__ import annotations

import base64
import json
import struct
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Registry:
    """The schemas, and what a test may change of how requests are answered."""

    schemas: list[str] = field(default_factory=list)
    subjects: dict[str, list[int]] = field(default_factory=dict)
    credentials: tuple[str, str] | None = None
    is_broken: bool = False
    """Whether every request is answered with an error of the server."""
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def register(self, subject: str, schema: str | dict[str, Any]) -> int:
        """Enter a schema under the subject; its id."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        if text not in self.schemas:
            self.schemas.append(text)
        identity = self.schemas.index(text) + 1
        versions = self.subjects.setdefault(subject, [])
        if identity not in versions:
            versions.append(identity)
        return identity

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        """What a request is answered with."""
        parts = [urllib.parse.unquote(part) for part in path.strip("/").split("/")]
        match method, parts:
            case "POST", ["subjects", subject, "versions"]:
                return 200, {"id": self.register(subject, json.loads(body)["schema"])}
            case "GET", ["schemas", "types"]:
                return 200, ["JSON", "PROTOBUF", "AVRO"]
            case "GET", ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                return 200, {"schema": self.schemas[int(number) - 1]}
            case "GET", ["subjects", subject, "versions", "latest"] if subject in self.subjects:
                versions = self.subjects[subject]
                return 200, {
                    "subject": subject,
                    "version": len(versions),
                    "id": versions[-1],
                    "schema": self.schemas[versions[-1] - 1],
                }
            case _:
                return 404, {"error_code": 40403, "message": "not found"}


def framed(identity: int, payload: bytes) -> bytes:
    """A payload in the wire form: which schema it was written with, then itself."""
    return struct.pack(">bI", 0, identity) + payload


@contextmanager
def schema_registry() -> Iterator[Registry]:
    """A registry that listens on a port of this machine."""
    registry = Registry()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._reply("GET")

        def do_POST(self) -> None:
            self._reply("POST")

        def _reply(self, method: str) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            registry.requests.append(f"{method} {self.path}")
            status, answer = self._judged(method, body)
            payload = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        def _judged(self, method: str, body: bytes) -> tuple[int, Any]:
            if registry.is_broken:
                return 500, {"error_code": 50001, "message": "broken"}
            if registry.credentials is not None:
                token = base64.b64encode(":".join(registry.credentials).encode()).decode()
                if self.headers.get("Authorization") != f"Basic {token}":
                    return 401, {"error_code": 401, "message": "Unauthorized"}
            return registry.answer(method, self.path, body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
