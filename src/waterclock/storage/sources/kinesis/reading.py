"""One shard, read from where it stands: places, iterators, pacing, and the proof that none is lost.

A reader is opened where a shard is known up to. If a record was read before, it is asked for once
more and passed over: if it comes first, nothing can have expired between it and what follows. If it
does not, the anchor decides (see `retention`). The same is done when an iterator has expired, and
when reading is so late that records may expire meanwhile.

A shard answers five requests a second, with two megabytes a second on average. A reader says when
it is due, and whoever drives it keeps to that; after the service has throttled it, the reader waits
longer each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from waterclock.storage.reclock.shape import END
from waterclock.storage.sources.aws.errors import Throttled
from waterclock.storage.sources.errors import TransientFault
from waterclock.storage.sources.kinesis.errors import expired, lost
from waterclock.storage.sources.kinesis.retention import Anchor, is_safe
from waterclock.storage.sources.kinesis.shards import Shard
from waterclock.storage.sources.kinesis.stream import (
    Answer,
    IteratorExpired,
    Place,
    Record,
    Stream,
)

_REST_S = 0.25
_BYTES_PER_S = 2 << 20
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0


@dataclass(slots=True)
class Standing:
    """How far a shard is known, and how that can be proven.

    Everything before `upper` is known. `proof` is the number of a record at or right before it that
    must be there unless it has expired; `is_needed` says that it must not even have expired.
    """

    upper: int
    proof: int | None = None
    is_needed: bool = False
    anchor_ms: int | None = None
    from_ms: int | None = None
    """Where no record was known yet: only those that came then or later are wanted."""


@dataclass(slots=True)
class ShardReader:
    """Reads a shard from a standing onwards. One thread at a time."""

    stream: Stream
    name: str
    """That of the stream, for errors."""
    shard: Shard
    standing: Standing
    clock: Callable[[], int]
    """The wall clock, in milliseconds."""
    monotonic: Callable[[], float]
    behind_ms: int | None = None
    """How much older what was read last is than the newest record; None if nobody has said yet."""
    due_s: float = 0.0
    read_s: float = field(init=False)
    """When the shard has answered last."""
    records: list[Record] = field(default_factory=list)
    """What was read and not taken yet."""
    size: int = 0
    fault: Throttled | None = None
    """Why it rests, if the service has told it to."""
    _iterator: str | None = None
    _must_prove: bool = True
    _pause_s: float = 0.0

    def __post_init__(self) -> None:
        self.read_s = self.monotonic()

    @property
    def has_ended(self) -> bool:
        return self.standing.upper == END

    @property
    def has_answered(self) -> bool:
        """Whether it is known what is at the standing: records, the newest one, or the end."""
        return self.has_ended or bool(self.records) or self.behind_ms == 0

    @property
    def anchor(self) -> Anchor:
        """What is known of everything that follows."""
        return Anchor(self.standing.anchor_ms or 0, self.behind_ms == 0 and not self.has_ended)

    def read(self, retention_ms: int) -> None:
        """Ask for some records more.

        Raises `SourceFault` if some have expired, `NotThere`, and `TransientFault`, after which it
        may be asked again; `Throttled` among them.
        """
        asked_ms = self.clock()
        try:
            answer = self._answer(retention_ms)
        except Throttled as fault:
            self.fault = fault
            self._pause_s = min(2 * self._pause_s or _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            self.due_s = self.monotonic() + self._pause_s
            raise
        size = sum(len(each.data) + len(each.key) for each in answer.records)
        self.fault, self._pause_s = None, 0.0
        self.read_s = self.monotonic()
        self.due_s = self.read_s + max(_REST_S, size / _BYTES_PER_S)
        self._take(answer, asked_ms, retention_ms)

    def take(self) -> list[Record]:
        """What was read, which is forgotten here."""
        taken, self.records, self.size = self.records, [], 0
        return taken

    def read_again(
        self, end: int, retention_ms: int, sleep: Callable[[float], None]
    ) -> Iterator[list[Record]]:
        """All records up to a number, which was bound in an earlier life; a part at a time.

        Raises as `read` does, also if they are not there any more.
        """
        last: int | None = None
        while self.standing.upper < end:
            sleep(max(0.0, self.due_s - self.monotonic()))
            self.read(retention_ms)
            inside = [each for each in self.take() if each.number < end]
            if inside:
                last = inside[-1].number
                yield inside
            if self.behind_ms == 0 and self.standing.upper < end:
                raise TransientFault(
                    f'stream "{self.name}" can not be read at present',
                    detail=f"Shard {self.shard.id} does not give what it has given before.",
                    hint="It is tried again.",
                )
        if end != END and last != end - 1:
            raise lost(self.name, self.shard.id, end - 1, last)

    def _answer(self, retention_ms: int) -> Answer:
        if not is_safe(self.standing.anchor_ms, self.clock(), retention_ms):
            self._reopen()
        if self._iterator is None:
            self._iterator = self.stream.iterator(self.shard.id, self._place())
        try:
            return self.stream.records(self.shard.id, self._iterator)
        except IteratorExpired:
            self._reopen()
            self._iterator = self.stream.iterator(self.shard.id, self._place())
            return self.stream.records(self.shard.id, self._iterator)

    def _reopen(self) -> None:
        """Go on with another iterator, and prove again that nothing is lost before it."""
        if not self._must_prove:
            self._iterator, self._must_prove = None, True

    def _place(self) -> Place:
        proof = self.standing.proof
        return Place(proof) if proof is not None else Place(from_ms=self.standing.from_ms)

    def _take(self, answer: Answer, asked_ms: int, retention_ms: int) -> None:
        records = [each for each in answer.records if each.number >= self.standing.upper]
        is_over = answer.iterator is None
        self._iterator = answer.iterator
        if self._must_prove and (answer.records or is_over or answer.behind_ms == 0):
            self._prove(answer, asked_ms, retention_ms)
        self.behind_ms = answer.behind_ms
        if records:
            last = records[-1]
            self.records += records
            self.size += sum(each.size for each in records)
            standing = self.standing
            standing.upper, standing.proof, standing.is_needed = last.number + 1, last.number, False
            standing.anchor_ms = max(standing.anchor_ms or 0, last.arrived_ms)
        if is_over:
            self.standing.upper, self.behind_ms = END, 0
        elif self.behind_ms == 0 and not self._must_prove:
            self.standing.anchor_ms = max(self.standing.anchor_ms or 0, asked_ms)

    def _prove(self, answer: Answer, asked_ms: int, retention_ms: int) -> None:
        """Raise unless nothing has expired between the standing and the answer."""
        standing, proof = self.standing, self.standing.proof
        first = answer.records[0].number if answer.records else None
        is_there = proof is not None and first == proof
        is_excused = not standing.is_needed and is_safe(standing.anchor_ms, asked_ms, retention_ms)
        if not is_there and not is_excused:
            raise expired(self.name, self.shard.id, proof, first)
        if is_there:
            standing.anchor_ms = max(standing.anchor_ms or 0, answer.records[0].arrived_ms)
        self._must_prove = False
