"""A client of a Confluent schema registry: the few requests that reading needs, and their cache.

A schema that has an id never changes, so it is asked for once. The cache is not pickled: a client
on an executor fills its own.
"""

from __future__ import annotations

import base64
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

from waterclock.storage.sources.errors import InvalidSource, TransientFault

_TIMEOUT_S = 10.0
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema as the registry has it: its id, and its text."""

    id: int
    schema: str


class SchemaRegistry:
    """Schemas by subject and by id. Thread-safe, and can be pickled."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = dict(headers or {})
        self._by_id: dict[int, str] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return SchemaRegistry, (self._url, self._headers)

    def latest(self, subject: str) -> RegisteredSchema | None:
        """The newest schema of a subject; None if there is none. `TransientFault`."""
        path = f"/subjects/{urllib.parse.quote(subject, safe='')}/versions/latest"
        found = self._get(path)
        return None if found is None else RegisteredSchema(found["id"], _avro(found))

    def by_id(self, number: int) -> str | None:
        """The schema with the id; None if there is none. `TransientFault`."""
        with self._lock:
            if number not in self._by_id:
                found = self._get(f"/schemas/ids/{number}")
                if found is None:
                    return None
                self._by_id[number] = _avro(found)
            return self._by_id[number]

    def require_registry(self) -> None:
        """Raise `TransientFault` unless a schema registry answers."""
        if not isinstance(self._get("/schemas/types"), list):
            raise TransientFault(f"there is no schema registry at {self._url}")

    def _get(self, path: str) -> Any:
        request = urllib.request.Request(
            self._url + path, headers={"Accept": _ACCEPT, **self._headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    return None
                raise TransientFault(
                    f"the schema registry answered with {error.code} {error.reason}",
                    detail=f"The request was for {path}.",
                ) from None
        except (OSError, ValueError) as error:
            raise TransientFault(f"could not ask the schema registry: {error}") from None


def authorization(user: str, password: str) -> dict[str, str]:
    """The headers by which a user is known to the registry."""
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {token}"}


def _avro(found: Any) -> str:
    kind = found.get("schemaType", "AVRO")
    if kind != "AVRO":
        raise InvalidSource(f"the schema in the registry is not Avro but {kind}")
    if found.get("references"):
        raise InvalidSource("a schema that refers to other schemas is not supported")
    return str(found["schema"])
