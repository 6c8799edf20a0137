"""Which messages were received before: the identities of the last ones.

A message can arrive twice: when the service has us listen in another region, and when history is
asked for a span of which the queue had some messages. Two arrivals are the same message if they
have the same publish timetoken and payload and nothing that both tell contradicts that: region,
issuer, sequence number. History does not tell all of these.

Identities are kept for a span before the newest timetoken, and a bounded number of them. A message
that is older than these counts as new: it is never dropped on suspicion. They are durable beside
the messages, in chunks of one commit each, so what they cost is in proportion to what arrives.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from waterclock.storage.formats.jsonb import normal_form
from waterclock.storage.sources.pubnub.answers import UNITS_PER_MS, Message

SPAN = 120_000 * UNITS_PER_MS
MOST = 20_000
_PREFIX = "seen/"
_FORM = struct.Struct("<q8siIq")
_UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells a message from others. `_UNKNOWN` and 0 stand for what was not told."""

    timetoken: int
    digest: bytes
    region: int
    issuer: int
    sequence: int

    @classmethod
    def of(cls, message: Message) -> Identity:
        issuer = message.issuer
        return cls(
            message.timetoken,
            hashlib.blake2b(_normal(message.payload), digest_size=8).digest(),
            _UNKNOWN if message.region is None else message.region,
            0 if issuer is None else _number(issuer),
            _UNKNOWN if message.sequence is None else message.sequence,
        )

    def is_same(self, other: Identity) -> bool:
        """Whether nothing contradicts that they are one message."""
        return (
            (self.timetoken, self.digest) == (other.timetoken, other.digest)
            and (self.region == other.region or _UNKNOWN in (self.region, other.region))
            and (self.issuer == other.issuer or 0 in (self.issuer, other.issuer))
            and (self.sequence == other.sequence or _UNKNOWN in (self.sequence, other.sequence))
        )


class Recent:
    """The identities of the messages that were received last."""

    def __init__(self, known: Iterable[Identity] = (), most: int = MOST) -> None:
        self._most = most
        self._newest = 0
        self._held: dict[Identity, None] = {}
        self._by_content: dict[tuple[int, bytes], list[Identity]] = {}
        for identity in known:
            self._add(identity)

    def try_add(self, message: Message) -> Identity | None:
        """The identity of a message that is new; None if it was received before."""
        identity = Identity.of(message)
        alike = self._by_content.get((identity.timetoken, identity.digest), ())
        if any(identity.is_same(known) for known in alike):
            return None
        self._add(identity)
        return identity

    def has(self, message: Message) -> bool:
        """Whether the message was received before."""
        identity = Identity.of(message)
        alike = self._by_content.get((identity.timetoken, identity.digest), ())
        return any(identity.is_same(known) for known in alike)

    def _add(self, identity: Identity) -> None:
        self._held[identity] = None
        self._by_content.setdefault((identity.timetoken, identity.digest), []).append(identity)
        self._newest = max(self._newest, identity.timetoken)
        while self._held:
            oldest = next(iter(self._held))
            if len(self._held) <= self._most and oldest.timetoken >= self._newest - SPAN:
                return
            self._forget(oldest)

    def _forget(self, identity: Identity) -> None:
        del self._held[identity]
        key = (identity.timetoken, identity.digest)
        alike = [each for each in self._by_content[key] if each != identity]
        if alike:
            self._by_content[key] = alike
        else:
            del self._by_content[key]


class KeptIdentities:
    """The identities that are durable, as notes: a chunk for each commit."""

    def __init__(self, notes: Mapping[str, bytes], most: int = MOST) -> None:
        self._most = most
        names = sorted((name for name in notes if name.startswith(_PREFIX)), key=_place)
        self._chunks = {name: _unpacked(notes[name]) for name in names}

    @property
    def identities(self) -> list[Identity]:
        """All of them, in the order in which they came."""
        return [identity for chunk in self._chunks.values() for identity in chunk]

    def notes(self, new: Sequence[Identity]) -> dict[str, bytes | None]:
        """What is to be noted so that these are kept too, and what may be forgotten then."""
        changes: dict[str, bytes | None] = {}
        if not new:
            return changes
        last = max(map(_place, self._chunks), default=-1)
        name = f"{_PREFIX}{last + 1}"
        self._chunks[name] = list(new)
        changes[name] = b"".join(map(_packed, new))
        newest = max(each.timetoken for chunk in self._chunks.values() for each in chunk)
        total = sum(map(len, self._chunks.values()))
        for old in list(self._chunks)[:-1]:
            chunk = self._chunks[old]
            is_old = max(each.timetoken for each in chunk) < newest - SPAN
            if not is_old and total <= self._most:
                break
            total -= len(chunk)
            del self._chunks[old]
            changes[old] = None
        return changes


def _place(name: str) -> int:
    return int(name.removeprefix(_PREFIX))


def _packed(identity: Identity) -> bytes:
    return _FORM.pack(
        identity.timetoken,
        identity.digest,
        identity.region,
        identity.issuer,
        identity.sequence,
    )


def _unpacked(chunk: bytes) -> list[Identity]:
    return [Identity(*fields) for fields in _FORM.iter_unpack(chunk)]


def _number(issuer: str) -> int:
    """A number that stands for an issuer, and is never 0."""
    return int.from_bytes(hashlib.blake2b(issuer.encode(), digest_size=4).digest(), "little") or 1


def _normal(payload: bytes) -> bytes:
    """The queue and history may write the same value differently."""
    try:
        return normal_form(payload).encode()
    except ValueError:
        return payload
