"""A channel of PubNub as a source: a receiver, for the service gives its messages once.

The partitions are regions, their offsets timetokens: how far the queue of the region that we listen
to was received. So the frontier says: what the queue had before that timetoken is here, or is named
in the warning. A message's place is within the stretch of the queue that brought it; the timetoken
and the region of its publication are what INCLUDE OFFSET and INCLUDE PARTITION give.

Everything that is needed to go on after a crash is noted in the commit of the messages: where the
queue is to be asked next (`position`), and what came last, to know it if it comes again
(`duplicates`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.storage.envelopes.choice import decoding_of, envelope_of
from waterclock.storage.formats.api import JsonDefinition
from waterclock.storage.reclock.progress import Partition, SourceFrontier
from waterclock.storage.reclock.shape import PUBNUB
from waterclock.storage.sources.api import (
    OFFSET,
    Envelope,
    Kind,
    Messages,
    Received,
    Surroundings,
)
from waterclock.storage.sources.pubnub.answers import Message
from waterclock.storage.sources.pubnub.definition import PubnubDefinition, decoded
from waterclock.storage.sources.pubnub.duplicates import KeptIdentities, Recent
from waterclock.storage.sources.pubnub.following import Follower, Piece
from waterclock.storage.sources.pubnub.position import (
    Losses,
    MessagesMissed,
    Position,
    loss_notes,
    losses_noted,
    position_noted,
    position_notes,
)
from waterclock.storage.sources.pubnub.receiving import Answers, Listener
from waterclock.storage.sources.pubnub.records import records_of
from waterclock.storage.sources.pubnub.service import Channel, Service

NAME = "pubnub"
OUTPUT = "messages"
NOT_LINEARIZABLE = (
    "PubNub does not tell how far a channel is: a message that was published may reach the region"
    " that the source listens to later."
)
OpenService = Callable[[Channel], Answers]


class Pubnub:
    """Implements `Receiver` and `Recalls`."""

    def __init__(
        self,
        definition: PubnubDefinition,
        surroundings: Surroundings,
        open_service: OpenService | None = None,
    ) -> None:
        self._definition = definition
        self._surroundings = surroundings
        self._open_service = open_service or (
            lambda channel: Service(channel, runtime=surroundings.runtime)
        )
        self._decoding = decoding_of(definition.messages, surroundings.connection)
        self._keeps_text = isinstance(definition.messages.value, JsonDefinition)
        self._frontier = self.start()
        self._position = Position(definition.start, heard_ms=definition.heard_ms)
        self._losses = Losses()
        self._kept = KeptIdentities({})
        self._listener: Listener | None = None

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {OUTPUT: self._decoding.schema}

    @property
    def is_linearizable(self) -> bool:
        return False

    def start(self) -> SourceFrontier:
        start = self._definition.start
        assert start.region is not None
        return SourceFrontier({start.region: start.timetoken}, more_may_appear=True)

    def recall(self, notes: Mapping[str, bytes], complete_at_ms: int | None) -> None:
        del complete_at_ms
        self._position = position_noted(notes) or self._position
        self._losses = losses_noted(notes)
        self._kept = KeptIdentities(notes)

    def resume(self, frontier: SourceFrontier) -> None:
        self._frontier = frontier

    def receive(self) -> Received:
        taken = self._listening().take()
        if not taken.pieces:
            return Received(self._frontier, warning=self._warning)
        messages = self._received(taken.pieces)
        notes: dict[str, bytes | None] = dict(position_notes(taken.pieces[-1].position))
        new = [each for piece in taken.pieces for each in piece.identities]
        notes |= self._kept.notes(new)
        losses = [piece.loss for piece in taken.pieces if piece.loss is not None]
        for loss in losses:
            self._losses = self._losses.with_loss(loss)
        if losses:
            notes |= loss_notes(self._losses)
        return Received(self._frontier, messages, notes, self._warning, taken.has_more)

    def commit(self, frontier: SourceFrontier) -> None:
        self._frontier = frontier

    def close(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    @property
    def _warning(self) -> MessagesMissed | None:
        return self._losses.warning(self._definition.channel)

    def _listening(self) -> Listener:
        if self._listener is None:
            recent = Recent(self._kept.identities)
            definition = self._definition
            follower = Follower(self._position, recent, definition.history, definition.timetoken)
            service = self._open_service(channel_of(self._definition, self._surroundings))
            self._listener = Listener(follower, service, self._surroundings.runtime)
        return self._listener

    def _received(self, pieces: Sequence[Piece]) -> list[Messages]:
        """The messages of some pieces, with their places; the frontier is behind them then."""
        by_region: dict[Partition, list[Message]] = {}
        uppers = dict(self._frontier.uppers)
        for piece in pieces:
            cursor = piece.position.cursor
            before = uppers.get(cursor.region, 0)
            uppers[cursor.region] = max(before + len(piece.messages), cursor.timetoken)
            by_region.setdefault(cursor.region, []).extend(piece.messages)
        self._frontier = SourceFrontier(uppers, more_may_appear=True)
        return [
            Messages(OUTPUT, region, self._placed(messages, uppers[region]))
            for region, messages in by_region.items()
            if messages
        ]

    def _placed(self, messages: Sequence[Message], upper: int) -> pa.RecordBatch:
        """Messages as the envelope takes them, on the last places before the upper."""
        batch = self._decoding.decode(records_of(messages, keeps_text=self._keeps_text))
        place = batch.schema.get_field_index(OFFSET)
        offsets = pa.array(range(upper - len(messages), upper), pa.int64())
        return batch.set_column(place, batch.schema.field(place), offsets)


def channel_of(definition: PubnubDefinition, surroundings: Surroundings) -> Channel:
    """The channel, with the auth key as it is now."""
    auth = None
    if definition.auth_id is not None:
        assert surroundings.secret is not None, "who runs sources can open secrets"
        auth = surroundings.secret(definition.auth_id)
    return Channel(
        definition.origin, definition.subscribe_key, definition.channel, definition.user, auth
    )


def _open(definition: bytes, surroundings: Surroundings) -> Pubnub:
    return Pubnub(decoded(definition), surroundings)


def _envelope(definition: bytes, output: str) -> Envelope:
    del output
    return envelope_of(decoded(definition).messages)


KIND = Kind(PUBNUB, _open, _envelope, not_linearizable=NOT_LINEARIZABLE)
