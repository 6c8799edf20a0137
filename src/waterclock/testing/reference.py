"""What Storage must hold, built from what was asked and answered, and the comparison with it.

The reference of a collection is its capabilities, as a plain map, and the model's own partial
collection. Which commands took effect is known from their answers; where an answer is missing (a
crash, an outcome unknown) `explain` finds out from what Storage holds, and accepts only one of two
findings: the command happened as a whole, or it did not happen at all. Whatever no command explains
is a `Violation`.

It relies on two habits of its users. A capability is used by one client at a time, so that its
frontier tells whether that client's last command happened. And each acquisition asks for a lease
of a length that no other asks for, so that a capability whose token was lost on the way tells where
it came from.

Nothing here looks at blobs or at the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from waterclock.model.collection import CollectionVersion, Update
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.partial import PartialCollection
from waterclock.model.schema import Column, Int, Schema, Text
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.records import Bound, Capability, Checkpoint, Right, ShardRecord
from waterclock.persist.rows import updates
from waterclock.persist.state import State
from waterclock.storage.api import (
    Progress,
    ReadCapability,
    Token,
    Updates,
    Write,
    WriteCapability,
)
from waterclock.storage.controller import Storage
from waterclock.storage.subscription import Subscription

Row: TypeAlias = tuple[int, str | None]
Triple: TypeAlias = tuple[Row, int, int]
Counts: TypeAlias = dict[tuple[Row, int], int]

SCHEMA = Schema((Column("k", Int(64), nullable=False), Column("v", Text())))
"""The rows of every collection under test."""


class Violation(AssertionError):
    """Storage does not hold what it promised."""


class Create(msgspec.Struct, frozen=True, tag=True):
    shard: str
    start: int
    lease_ms: int | None


class Clone(msgspec.Struct, frozen=True, tag=True):
    shard: str
    source: Capability


class Acquire(msgspec.Struct, frozen=True, tag=True):
    """`lease_ms` is unlike that of any other acquisition."""

    shard: str
    lease_ms: int


class Downgrade(msgspec.Struct, frozen=True, tag=True):
    """To the empty frontier, this is a drop."""

    shard: str
    token: str
    before: int
    after: Bound


class OneWrite(msgspec.Struct, frozen=True):
    shard: str
    token: str
    before: int
    after: Bound
    triples: tuple[Triple, ...]


class Append(msgspec.Struct, frozen=True, tag=True):
    writes: tuple[OneWrite, ...]


Command = Create | Clone | Acquire | Downgrade | Append

Given = tuple[Capability, ...]
"""The capabilities that a command gave out; useless ones are left out."""


@dataclass(slots=True)
class ReferenceShard:
    """One collection as it must be."""

    since: Bound
    upper: Bound
    whole: PartialCollection[Row, int]
    """The collection before compaction, from the last `forget` on. Behind `upper` until `read`."""
    capabilities: dict[str, Capability] = field(default_factory=dict)
    pending: list[Update[Row, int]] = field(default_factory=list)
    """Updates that `whole` does not have yet."""

    @classmethod
    def start(cls, time: int) -> ReferenceShard:
        first = EPOCH_MILLIS.frontier(time)
        return cls(time, time, PartialCollection(EPOCH_MILLIS, frozenset(), first, first))

    def settle(self) -> None:
        """Let both frontiers follow the live capabilities."""
        for right in Right:
            self.settle_one(right)

    def settle_one(self, right: Right) -> None:
        held = [c.frontier for c in self.capabilities.values() if c.right is right]
        self.follow(right, min((f for f in held if f is not None), default=None))

    def expire(self, tokens: Collection[str], found: ShardRecord) -> None:
        """Leases ran out: the holds are gone, but the last one closes nothing.

        If all holds of a frontier are gone at once, it is where one of them was: which of them was
        the last is not told.
        """
        gone = [self.capabilities.pop(token) for token in tokens]
        for right, bound in ((Right.READ, found.since), (Right.WRITE, found.upper)):
            left = [capability.frontier for capability in gone if capability.right is right]
            if left and any(other.right is right for other in self.capabilities.values()):
                self.settle_one(right)
            elif bound in left:
                self.follow(right, bound)

    def follow(self, right: Right, bound: Bound) -> None:
        """Let a frontier move on to `bound`."""
        if right is Right.READ:
            self.since = farther(self.since, bound)
        else:
            self.upper = farther(self.upper, bound)

    def move(self, token: str, frontier: Bound, *, settle: bool) -> None:
        """A capability went forward; to the empty frontier, it is gone."""
        kept = self.capabilities.pop(token)
        if frontier is not None:
            self.capabilities[token] = Capability(token, kept.right, frontier, kept.lease_ms)
        if settle:
            self.settle_one(kept.right)

    def is_readable(self, as_of: int) -> bool:
        return (
            self.since is not None
            and self.since <= as_of
            and (self.upper is None or as_of < self.upper)
        )

    def read(self, as_of: int) -> CollectionVersion[Row]:
        """The contents at a time from the last `forget` on."""
        self._catch_up()
        return self.whole.read(EPOCH_MILLIS.time(as_of))

    def changes(self, after: int, before: Bound) -> Counts:
        """The updates later than `after` and earlier than `before`, each at its own time."""
        self._catch_up()
        return {
            (u.data, u.time.value): u.diff
            for u in self.whole.updates
            if u.time.value > after and (before is None or u.time.value < before)
        }

    def forget(self) -> None:
        """Compact, as Storage may do at any time."""
        self._catch_up()
        self.whole = self.whole.compact(bounded(self.since))

    def _catch_up(self) -> None:
        upper = bounded(self.upper)
        if self.whole.upper != upper:
            window = [u for u in self.pending if not upper.less_equal(u.time)]
            self.pending = [u for u in self.pending if upper.less_equal(u.time)]
            self.whole = self.whole.append(upper, window)


Reference: TypeAlias = dict[str, ReferenceShard]


def farther(one: Bound, other: Bound) -> Bound:
    """The frontier that lets fewer times through; None lets none through.

    Written here, and in other words than where the state is folded: a mistake there is not repeated
    where it is judged.
    """
    infinite = float("inf")
    reach = max(infinite if bound is None else bound for bound in (one, other))
    return None if reach == infinite else int(reach)


def moved_back(before: Bound, after: Bound) -> bool:
    """Whether a frontier is not as far as it was."""
    return after is not None and (before is None or after < before)


def bounded(bound: Bound) -> Frontier[int]:
    return EPOCH_MILLIS.empty() if bound is None else EPOCH_MILLIS.frontier(bound)


def apply(
    reference: Reference, command: Command, given: Given = (), *, settle: bool = True
) -> None:
    """What the command does.

    Where the order of commands is not known, nothing may be settled before all are applied.
    """
    match command:
        case Create(shard, start, _):
            reference[shard] = ReferenceShard.start(start)
            reference[shard].capabilities |= {c.id: c for c in given}
        case Clone(shard, _) | Acquire(shard, _):
            reference[shard].capabilities |= {c.id: c for c in given}
        case Downgrade(shard, token, _, after):
            reference[shard].move(token, after, settle=settle)
        case Append(writes):
            for write in writes:
                written = reference[write.shard]
                written.pending += [
                    Update(row, EPOCH_MILLIS.time(time), diff) for row, time, diff in write.triples
                ]
                written.move(write.token, write.after, settle=settle)


def shards_of(command: Command) -> list[str]:
    match command:
        case Append(writes):
            return [write.shard for write in writes]
        case _:
            return [command.shard]


def explain(
    reference: Reference, doubts: Sequence[Command], found: Checkpoint
) -> list[tuple[Command, Given]]:
    """Those of the commands in doubt that did happen, with what they gave out.

    Raises `Violation` for a command of which only a part happened.
    """
    shards = {record.id: record for record in found.shards}
    known = {token for shard in reference.values() for token in shard.capabilities}
    strange = {
        shard: [c for c in record.capabilities if c.id not in known]
        for shard, record in shards.items()
    }
    happened: list[tuple[Command, Given]] = []
    # Creations explain the most and clones the least, so in this order nothing is taken for
    # something else.
    for command in sorted(doubts, key=lambda c: (isinstance(c, Clone), isinstance(c, Acquire))):
        given = _finding(command, shards, strange.get(shards_of(command)[0], []))
        if given is not None:
            happened.append((command, given))
    return happened


def _finding(
    command: Command, shards: Mapping[str, ShardRecord], strange: list[Capability]
) -> Given | None:
    """What the command gave out if it happened; None if it did not."""
    match command:
        case Downgrade(shard, token, before, after):
            return () if _has_moved(shards, shard, token, before, after) else None
        case Append(writes):
            moved = [_has_moved(shards, w.shard, w.token, w.before, w.after) for w in writes]
            if len(set(moved)) > 1:
                raise Violation(f"an append happened in part: {moved} of {command}")
            return () if moved[0] else None
        case Clone(_, source):
            alike = [c for c in strange if _as_cloned(c) == _as_cloned(source)]
            return _taken(strange, alike[:1]) or None
        case Acquire(shard, lease_ms):
            ours = [c for c in strange if c.lease_ms == lease_ms]
            _check_acquired(shards[shard], ours)
            return _taken(strange, ours) or None
        case Create(shard, start, lease_ms):
            if shard not in shards:
                return None
            expected = [(Right.READ, start, lease_ms), (Right.WRITE, start, lease_ms)]
            if sorted(map(_as_cloned, strange)) != expected:
                raise Violation(f"{command} left {strange}")
            return _taken(strange, list(strange))


def _as_cloned(capability: Capability) -> tuple[Right, Bound, int | None]:
    return capability.right, capability.frontier, capability.lease_ms


def _taken(strange: list[Capability], chosen: list[Capability]) -> Given:
    for capability in chosen:
        strange.remove(capability)
    return tuple(chosen)


def _has_moved(
    shards: Mapping[str, ShardRecord], shard: str, token: str, before: int, after: Bound
) -> bool:
    record = shards.get(shard)
    if record is None:
        raise Violation(f"collection {shard} is lost")
    now = next((c.frontier for c in record.capabilities if c.id == token), None)
    if now not in (before, after):
        raise Violation(f"capability {token} for {shard} is at {now}, not {before} or {after}")
    return now == after


def _check_acquired(record: ShardRecord, ours: list[Capability]) -> None:
    """Both rights are given or none, except where a frontier was released for good."""
    rights = sorted(c.right for c in ours)
    possible = [right for right in (Right.READ, Right.WRITE) if _is_held(record, right)]
    if rights and not set(possible) <= set(rights):
        raise Violation(f"an acquisition for {record.id} happened in part: {ours}")


def _is_held(record: ShardRecord, right: Right) -> bool:
    return (record.since if right is Right.READ else record.upper) is not None


def check_frontiers(reference: Reference, found: Checkpoint) -> None:
    """Every collection, frontier and capability is there as it must be, and no other is."""
    shards = {record.id: record for record in found.shards}
    if shards.keys() != reference.keys():
        raise Violation(
            f"collections lost: {reference.keys() - shards.keys()},"
            f" from nowhere: {shards.keys() - reference.keys()}"
        )
    for name, expected in reference.items():
        record = shards[name]
        held = {c.id: c for c in record.capabilities}
        if held != expected.capabilities:
            lost = {t: c for t, c in expected.capabilities.items() if held.get(t) != c}
            other = {t: c for t, c in held.items() if expected.capabilities.get(t) != c}
            raise Violation(f"capabilities of {name}: expected {lost}, found {other}")
        if (record.since, record.upper) != (expected.since, expected.upper):
            raise Violation(
                f"{name} goes from {record.since} to {record.upper},"
                f" not from {expected.since} to {expected.upper}"
            )


def capability_of(shard: str, kept: Capability) -> ReadCapability | WriteCapability:
    """The capability as its holder presents it."""
    kind = ReadCapability if kept.right is Right.READ else WriteCapability
    return kind(Token(kept.id), GlobalId.parse(shard), bounded(kept.frontier))


def as_write(write: OneWrite) -> Write:
    """The write as it is asked for."""
    capability = WriteCapability(
        Token(write.token), GlobalId.parse(write.shard), bounded(write.before)
    )
    batch = updates(SCHEMA, list(write.triples)) if write.triples else None
    return Write(capability, batch, bounded(write.after))


def useful(lease_ms: int | None, *made: ReadCapability | WriteCapability) -> Given:
    """Capabilities as they are kept, without those at the empty frontier."""
    return tuple(
        Capability(
            capability.token,
            Right.READ if isinstance(capability, ReadCapability) else Right.WRITE,
            capability.frontier.only(),
            lease_ms,
        )
        for capability in made
        if not capability.frontier.is_empty
    )


def downgrade(storage: Storage, shard: str, held: Capability, after: Bound) -> None:
    """Downgrade a capability of either kind."""
    capability = capability_of(shard, held)
    if isinstance(capability, ReadCapability):
        storage.downgrade_capability(capability, bounded(after))
    else:
        storage.downgrade_capability(capability, bounded(after))


def touch(storage: Storage, shard: str, held: Capability) -> None:
    """Present a capability without changing it; refused unless it is exactly as given here."""
    downgrade(storage, shard, held, held.frontier)


def clone(storage: Storage, shard: str, held: Capability) -> Given:
    """Clone a capability of either kind."""
    capability = capability_of(shard, held)
    if isinstance(capability, ReadCapability):
        return useful(held.lease_ms, storage.clone_capability(capability))
    return useful(held.lease_ms, storage.clone_capability(capability))


def state_of(storage: Storage) -> Checkpoint:
    """All that Storage holds, by a look that changes nothing."""
    return storage._store.read(State.to_checkpoint)


def triples_of(message: Updates) -> Iterable[Triple]:
    columns = [column.to_pylist() for column in message.batch.columns]
    return (((k, v), time, diff) for k, v, time, diff in zip(*columns, strict=True))


def contents_of(subscription: Subscription) -> tuple[Counts, Bound] | None:
    """All updates up to the first statement of progress, added up, and that statement.

    None if there is nothing to read yet.
    """
    total: Counter[tuple[Row, int]] = Counter()
    while True:
        message = subscription.receive(0)
        match message:
            case Updates():
                for row, time, diff in triples_of(message):
                    total[row, time] += diff
            case Progress(upper):
                return {place: diff for place, diff in total.items() if diff}, upper.only()
            case None:
                return None


def check_contents(
    storage: Storage, shard: str, expected: ReferenceShard, holder: Capability, as_of: int
) -> bool:
    """Read everything from `as_of` on and compare; False if `as_of` is not readable yet.

    Contents at `as_of` and all changes after it are the contents at every later time too.
    """
    capability = capability_of(shard, holder)
    assert isinstance(capability, ReadCapability)
    subscription = storage.subscribe_at(capability, as_of=EPOCH_MILLIS.frontier(as_of))
    try:
        answer = contents_of(subscription)
    finally:
        subscription.close()
    if answer is None:
        if expected.is_readable(as_of):
            raise Violation(f"{shard} does not answer at {as_of}, before its upper")
        return False
    contents, upper = answer
    if upper != expected.upper:
        raise Violation(f"{shard} says it is complete up to {upper}, not {expected.upper}")
    check_answer(shard, expected, as_of, contents, upper)
    return True


def check_answer(
    shard: str, expected: ReferenceShard, as_of: int, contents: Counts, upper: Bound
) -> None:
    """Compare what was read from `as_of` up to `upper` with what it must be."""
    wanted = expected.changes(as_of, upper)
    wanted |= {(row, as_of): n for row, n in expected.read(as_of).counts.items()}
    if contents != wanted:
        missing = {place: n for place, n in wanted.items() if contents.get(place) != n}
        other = {place: n for place, n in contents.items() if wanted.get(place) != n}
        raise Violation(f"{shard} as of {as_of}: expected {missing}, found {other}")
