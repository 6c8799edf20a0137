"""What a client can say: one frozen value for each message of the frontend."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from waterclock.adapter.api import Format


class Target(Enum):
    """What Describe and Close are about."""

    STATEMENT = "S"
    PORTAL = "P"


@dataclass(frozen=True, slots=True)
class Query:
    text: str


@dataclass(frozen=True, slots=True)
class Parse:
    name: str
    text: str
    parameter_oids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    portal: str
    statement: str
    parameter_formats: tuple[Format, ...]
    parameters: tuple[bytes | None, ...]
    result_formats: tuple[Format, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    target: Target
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    portal: str
    max_rows: int


@dataclass(frozen=True, slots=True)
class Close:
    target: Target
    name: str


@dataclass(frozen=True, slots=True)
class Flush:
    pass


@dataclass(frozen=True, slots=True)
class Sync:
    pass


@dataclass(frozen=True, slots=True)
class Terminate:
    pass


@dataclass(frozen=True, slots=True)
class FunctionCall:
    pass


@dataclass(frozen=True, slots=True)
class Password:
    """An answer to a request for authentication; what is in it depends on the request."""

    data: bytes


@dataclass(frozen=True, slots=True)
class CopyData:
    data: bytes


@dataclass(frozen=True, slots=True)
class CopyDone:
    pass


@dataclass(frozen=True, slots=True)
class CopyFail:
    reason: str


FrontendMessage: TypeAlias = (
    Query
    | Parse
    | Bind
    | Describe
    | Execute
    | Close
    | Flush
    | Sync
    | Terminate
    | FunctionCall
    | Password
    | CopyData
    | CopyDone
    | CopyFail
)


@dataclass(frozen=True, slots=True)
class SslRequest:
    pass


@dataclass(frozen=True, slots=True)
class GssRequest:
    pass


@dataclass(frozen=True, slots=True)
class CancelRequest:
    process_id: int
    secret: bytes


@dataclass(frozen=True, slots=True)
class StartupPacket:
    """The first words of a session: the version 3.minor, and names with values."""

    minor: int
    parameters: Mapping[str, str]


FirstPacket: TypeAlias = SslRequest | GssRequest | CancelRequest | StartupPacket
