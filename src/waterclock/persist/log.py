"""The owner's hand on the log: opening it, appending entries exactly once, and keeping it short.

Opening reads the newest checkpoint and the entries after it, then appends an `Opened` entry. From
then on this process is the owner and knows the next position. Any entry of somebody else at that
position means that the data was taken over, and the owner is fenced: it can not write again, so two
servers never interleave.

An append that the world refused for certain (`NotWritten`, such as on a full disk) leaves the
position free for other events. One whose outcome is unknown is tried again at the same position. If
the position turns out to be taken, the entry found there tells whether it was our own first
attempt: foreign entries at a contended position are `Opened` entries, which carry a name that
nobody else uses.
"""

from __future__ import annotations

from collections.abc import Sequence

from waterclock.persist.blob.api import Blob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.errors import (
    BlobMissing,
    Damaged,
    Fenced,
    NotWritten,
    PositionTaken,
    Unavailable,
)
from waterclock.persist.records import (
    AnyEvent,
    Checkpointed,
    Opened,
    decode_checkpoint,
    decode_entry,
    encode_entry,
)
from waterclock.persist.retry import Retry
from waterclock.persist.state import State

_TAKEOVER_ATTEMPTS = 20


class Log:
    """Appends to the log as its owner. Not thread-safe: one thread appends."""

    def __init__(self, consensus: Consensus, retry: Retry, next_position: int) -> None:
        self._consensus = consensus
        self._retry = retry
        self._next = next_position
        self._in_doubt = False
        """Whether an attempt at the next position may still have taken effect."""

    def append(self, events: Sequence[AnyEvent], *, patient: bool = True) -> int:
        """Make one durable entry of the events and return its size in bytes.

        Raises `NotWritten` if nothing has changed; `Fenced` if another server owns the log, and
        any other `Unavailable` if the outcome stays unknown. After these two, only the same events
        may be appended again, which is what to do if this was not patient and tried just once.
        """
        entry = encode_entry(events)
        if not patient:
            return self._append(entry)
        return self._retry.call(lambda: self._append(entry))

    def _append(self, entry: bytes) -> int:
        try:
            self._consensus.append(self._next, entry)
        except PositionTaken:
            if self._entry_at(self._next) != entry:
                raise Fenced(
                    "another server has taken over this data",
                    hint="Only one server may run on the same data; stop this one.",
                ) from None
        except NotWritten as error:
            if self._in_doubt:  # this attempt changed nothing, but one before it may have
                raise Unavailable(str(error)) from error
            raise
        except Unavailable:
            self._in_doubt = True
            raise
        self._next += 1
        self._in_doubt = False
        return len(entry)

    def _entry_at(self, position: int) -> bytes | None:
        for found, entry in self._consensus.read(position):
            return entry if found == position else None
        return None

    def truncate(self, through: int) -> None:
        """Forget the entries up to and with `through`, which a checkpoint covers."""
        self._retry.call(lambda: self._consensus.truncate(through + 1))


def open_log(blob: Blob, consensus: Consensus, owner: str, retry: Retry) -> tuple[Log, State]:
    """Recover the state and become the owner. `owner` must be a name never used before."""
    state = retry.call(lambda: _recover_steadily(blob, consensus))
    for _ in range(_TAKEOVER_ATTEMPTS):
        log = Log(consensus, retry, state.position + 1)
        opened = Opened(state.epoch + 1, owner)
        try:
            log.append([opened])
        except Fenced:  # somebody wrote between our reading and our claim
            state = retry.call(lambda state=state: _caught_up(state, blob, consensus))  # type: ignore[misc]
            continue
        state.apply_entry([opened])
        return log, state
    raise Unavailable(
        "other servers keep taking over this data",
        hint="Make sure that only one server is configured to run on it.",
    )


def _caught_up(state: State, blob: Blob, consensus: Consensus) -> State:
    """The state with what was appended since it was read. A busy owner can so be overtaken."""
    missed = list(consensus.read(state.position + 1))
    if not missed or missed[0][0] != state.position + 1:
        return _recover_steadily(blob, consensus)
    for _, entry in missed:
        state.apply_entry(decode_entry(entry))
        state.tail_bytes += len(entry)
    return state


def _recover_steadily(blob: Blob, consensus: Consensus) -> State:
    """Recover although the present owner may be truncating the log under our reading."""
    end = consensus.end()
    try:
        return recover(blob, consensus)
    except Damaged:
        if consensus.end() == end:
            raise
        raise Unavailable("the log changed while it was being read") from None


def recover(blob: Blob, consensus: Consensus) -> State:
    """The state that the log and its newest checkpoint describe. Changes nothing."""
    end = consensus.end()
    entries = list(consensus.read(1))
    decoded = [(position, decode_entry(entry)) for position, entry in entries]
    state = _newest_checkpoint(blob, decoded)
    state.tail_bytes = sum(len(entry) for position, entry in entries if position > state.position)
    for position, events in decoded:
        if position <= state.position:
            continue
        if position != state.position + 1:
            raise Damaged(
                f"the log has no entry {state.position + 1}, and no checkpoint covers it",
                hint="Restore the data from a backup.",
            )
        state.apply_entry(events)
    if state.position + 1 < end:
        raise Damaged(
            f"the log has no entry {state.position + 1}, and should reach up to {end - 1}",
            hint="Restore the data from a backup.",
        )
    return state


def _newest_checkpoint(blob: Blob, entries: list[tuple[int, tuple[AnyEvent, ...]]]) -> State:
    for _, events in reversed(entries):
        for event in events:
            if isinstance(event, Checkpointed):
                return State.from_checkpoint(decode_checkpoint(_read(blob, event.key)))
    return State()


def _read(blob: Blob, key: str) -> bytes:
    try:
        with blob.open(key) as file:
            data: bytes = file.read()
            return data
    except BlobMissing as error:  # its owner may just be replacing it by a newer one
        raise Unavailable(
            f"checkpoint {key} is missing", hint="Restore the data from a backup."
        ) from error
