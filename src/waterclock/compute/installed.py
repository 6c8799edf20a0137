"""What is kept of the views that are maintained, so that they are taken up again after a restart.

A view has two notes. One says what it is, and with which rights it reads and writes; it comes and
goes with the view. The other says what is remembered of its state (`dataflow.kept`), and changes
with the steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from waterclock.compute.api import Result, View
from waterclock.compute.dataflow.kept import Kept
from waterclock.model.ids import GlobalId
from waterclock.model.schema import Schema
from waterclock.persist.notes import Notes
from waterclock.persist.schema_codec import decode_schema, encode_schema
from waterclock.storage.api import ReadCapability, Token, WriteCapability

_STATE = "/state"


class InstalledResult(msgspec.Struct, frozen=True):
    """A result of a view, and the collection that it is written to."""

    sql: str
    schema: Any
    keys: tuple[str, ...] | None
    output: str
    writer: str

    @property
    def result(self) -> Result:
        return Result(self.sql, decode_schema(self.schema), self.keys)


class Installed(msgspec.Struct, frozen=True):
    """A view that is maintained."""

    inputs: dict[str, tuple[str, Any]]
    """Input id -> token of its read capability, and its columns."""
    results: tuple[InstalledResult, ...]
    errors: tuple[str, str]
    """The id and the write token of the errors' collection."""
    as_of: int

    @property
    def schemas(self) -> dict[GlobalId, Schema]:
        """The columns of the inputs."""
        return {GlobalId.parse(c): decode_schema(schema) for c, (_, schema) in self.inputs.items()}

    @property
    def tokens(self) -> list[Token]:
        """All rights of the view."""
        tokens = [Token(token) for token, _ in self.inputs.values()]
        tokens += [Token(result.writer) for result in self.results]
        return [*tokens, Token(self.errors[1])]


def installed(
    inputs: Sequence[ReadCapability],
    view: View,
    outputs: Sequence[WriteCapability],
    errors: WriteCapability,
    as_of: int,
) -> Installed:
    """The view with the rights that it is given."""
    given = {str(c.id): (str(c.token), encode_schema(view.inputs[c.id])) for c in inputs}
    results = tuple(
        InstalledResult(r.sql, encode_schema(r.schema), r.keys, str(w.id), str(w.token))
        for r, w in zip(view.results, outputs, strict=True)
    )
    return Installed(given, results, (str(errors.id), str(errors.token)), as_of)


def encode(view: Installed) -> bytes:
    return msgspec.msgpack.encode(view)


def decode(note: bytes) -> Installed:
    return msgspec.msgpack.decode(note, type=Installed)


def state_key(name: str) -> str:
    """The key of the note about the state of a view."""
    return name + _STATE


def all_views(notes: Notes) -> Iterator[tuple[GlobalId, Installed]]:
    """Every view that is installed."""
    for key, note in notes.all().items():
        if not key.endswith(_STATE):
            yield GlobalId.parse(key), decode(note)


def kept_state(notes: Notes, name: GlobalId) -> Mapping[str, Kept]:
    """What is remembered of the state of a view, by its name; nothing if nothing is."""
    note = notes.all().get(state_key(str(name)))
    return {} if note is None else {str(name): decode_state(note)}


def is_state_key(key: str) -> bool:
    """Whether the note under the key is about the state of a view."""
    return key.endswith(_STATE)


def decode_state(note: bytes) -> Kept:
    return msgspec.msgpack.decode(note, type=Kept)


def keys_of(name: GlobalId) -> list[str]:
    """The keys of all notes about a view."""
    return [str(name), state_key(str(name))]
