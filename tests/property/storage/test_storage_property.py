"""Storage against a model: any sequence of commands, restarts and expiries leaves both the same.

The model keeps a reference partial collection for each id and a table of capabilities. After each
step the frontiers and capabilities that are durable, and the contents that a reader gets, are the
model's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from waterclock.errors import WaterclockError
from waterclock.model.collection import Update
from waterclock.model.errors import (
    FrontierRegression,
    NoProgress,
    UpdateOutsideWindow,
)
from waterclock.model.frontier import Frontier
from waterclock.model.ids import GlobalId
from waterclock.model.partial import PartialCollection
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.model.updates import advance_all
from waterclock.persist import compaction
from waterclock.persist.inline import INLINE_ROWS
from waterclock.persist.maintenance import checkpoint
from waterclock.persist.records import Bound, Right
from waterclock.persist.rows import updates
from waterclock.persist.state import State
from waterclock.storage.api import ReadCapability, Write, WriteCapability
from waterclock.storage.errors import (
    CapabilityExpired,
    CapabilityMisstated,
    CapabilityUnknown,
    CollectionTwice,
    IdInUse,
)
from waterclock.testing.examples import examples
from waterclock.testing.storage_world import (
    END,
    SCHEMA,
    TABLE,
    MemoryWorld,
    Row,
    Triple,
    at,
    contents,
    drain,
    is_readable,
    triples_of,
    uppers_of,
    user,
)

Capability = ReadCapability | WriteCapability
C = TypeVar("C", ReadCapability, WriteCapability)

IDS = [user(number) for number in range(1, 4)]
picks = st.integers(0, 1000)
rarely = st.sampled_from([False] * 9 + [True])
rows = st.tuples(st.integers(0, 2), st.sampled_from(["a", None]))
changes = st.lists(st.tuples(rows, st.integers(0, 3), st.sampled_from([-1, 1, 2])), max_size=4)
lease = st.sampled_from([None, None, 10, 30])


@dataclass
class Held:
    """A capability as the model keeps it."""

    right: Right
    frontier: Frontier[int]
    lease_ms: int | None
    deadline: int | None


@dataclass
class ModelShard:
    """A reference collection, its capabilities, and what lies beyond its upper."""

    collection: PartialCollection[Row, int]
    held: dict[str, Held] = field(default_factory=dict)
    ahead: list[Update[Row, int]] = field(default_factory=list)

    def frontier(self, right: Right) -> Frontier[int]:
        return self.collection.since if right is Right.READ else self.collection.upper

    def holders(self, right: Right) -> list[Frontier[int]]:
        return [held.frontier for held in self.held.values() if held.right is right]

    def move(self, right: Right, new: Frontier[int]) -> None:
        if right is Right.READ:
            self.collection = self.collection.compact(new)
        elif new != self.collection.upper:
            shown = [update for update in self.ahead if not new.less_equal(update.time)]
            self.ahead = [update for update in self.ahead if new.less_equal(update.time)]
            self.collection = self.collection.append(new, shown)

    def settle(self, right: Right) -> None:
        """The frontier follows the meet of its holders; without any, it is released."""
        meet = END
        for frontier in self.holders(right):
            meet = meet.meet(frontier)
        self.move(right, self.frontier(right).join(meet))


class StorageMachine(RuleBasedStateMachine):
    """Random commands, right and wrong, to Storage and to the model."""

    @initialize()
    def begin(self) -> None:
        self.patch = pytest.MonkeyPatch()
        for name, value in (("FEWEST", 2), ("FEWEST_TINY", 2), ("TINY_ROWS", 0)):
            self.patch.setattr(compaction, name, value)
        self.world = MemoryWorld()
        self.model: dict[GlobalId, ModelShard] = {}
        self.current: dict[str, Capability] = {}
        """Each capability there ever was, as its holder last knew it."""
        self.stale: list[Capability] = []
        """Capabilities as they once were."""
        self.create(user(1), 0, None)

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.storage.close()
            self.patch.undo()

    # What the model expects

    def now(self, lease_ms: int | None) -> int | None:
        return None if lease_ms is None else self.world.clock.now + lease_ms

    def error_of(self, capability: Capability) -> type[WaterclockError] | None:
        """What is wrong with presenting it. If nothing is, its lease begins anew."""
        held = self.model[capability.id].held.get(capability.token)
        if held is None:
            return CapabilityUnknown
        if held.deadline is not None and held.deadline <= self.world.clock.now:
            return CapabilityExpired
        if held.frontier != capability.frontier:
            return CapabilityMisstated
        held.deadline = self.now(held.lease_ms)
        return None

    def grant(self, capability: Capability, lease_ms: int | None) -> None:
        right = Right.READ if isinstance(capability, ReadCapability) else Right.WRITE
        held = Held(right, capability.frontier, lease_ms, self.now(lease_ms))
        self.model[capability.id].held[capability.token] = held
        self.current[capability.token] = capability

    def moved(self, capability: Capability) -> None:
        """The capability is now at its frontier."""
        shard = self.model[capability.id]
        held = shard.held[capability.token]
        held.frontier = capability.frontier
        if capability.frontier == END:
            del shard.held[capability.token]
        self.stale.append(self.current[capability.token])
        self.current[capability.token] = capability
        shard.settle(held.right)

    def pick(self, kind: type[C] | None, pick: int, *, wrong: bool) -> C | None:
        """A live capability of the kind, or of either; if wrong, one that may no longer be."""
        found = [*self.current.values(), *self.stale]
        if not wrong:
            live = {token for shard in self.model.values() for token in shard.held}
            found = [c for token, c in self.current.items() if token in live]
        found = [c for c in found if kind is None or isinstance(c, kind)]
        return found[pick % len(found)] if found else None  # type: ignore[return-value]

    # Commands

    @rule(collection=st.sampled_from(IDS), start=st.integers(0, 3), lease_ms=lease)
    def create(self, collection: GlobalId, start: int, lease_ms: int | None) -> None:
        if collection in self.model:
            with pytest.raises(IdInUse):
                self.world.storage.create(collection, TABLE)
            return
        pair = self.world.storage.create(collection, TABLE, start=at(start), lease_ms=lease_ms)
        empty: PartialCollection[Row, int] = PartialCollection(
            EPOCH_MILLIS, frozenset(), at(start), at(start)
        )
        self.model[collection] = ModelShard(empty)
        for capability in pair:
            assert capability.frontier == at(start)
            self.grant(capability, lease_ms)

    @rule(pick=picks, wrong=rarely)
    def clone(self, pick: int, wrong: bool) -> None:
        capability = self.pick(None, pick, wrong=wrong)
        if capability is None:
            return
        error = self.error_of(capability)
        if error is not None:
            with pytest.raises(error):
                self.world.storage.clone_capability(capability)
            return
        copy = self.world.storage.clone_capability(capability)
        assert replace(copy, token=capability.token) == capability
        assert copy.token != capability.token
        self.grant(copy, self.model[capability.id].held[capability.token].lease_ms)

    @rule(pick=picks, by=st.integers(-1, 6), wrong=rarely)
    def downgrade(self, pick: int, by: int, wrong: bool) -> None:
        capability = self.pick(None, pick, wrong=wrong)
        if capability is None:
            return
        new = at(max((capability.frontier.only() or 0) + by, 0))
        error = self.error_of(capability)
        if error is None and not capability.frontier <= new:
            error = FrontierRegression
        if error is not None:
            with pytest.raises(error):
                self.world.storage.downgrade_capability(capability, new)
            return
        moved = self.world.storage.downgrade_capability(capability, new)
        assert moved == replace(capability, frontier=new)
        self.moved(moved)

    @rule(pick=picks, wrong=rarely, is_sure=st.sampled_from([True, False, False]))
    def drop(self, pick: int, wrong: bool, is_sure: bool) -> None:
        capability = self.pick(None, pick, wrong=wrong)
        if capability is None or not is_sure:
            return
        error = self.error_of(capability)
        if error is not None:
            with pytest.raises(error):
                self.world.storage.drop_capability(capability)
            return
        dropped = self.world.storage.drop_capability(capability)
        assert dropped.frontier == END
        self.moved(dropped)

    @rule(
        chosen=st.lists(picks, min_size=1, max_size=3, unique=True),
        width=st.integers(1, 4),
        changed=changes,
        is_large=rarely,
        is_last=st.sampled_from([False] * 15 + [True]),
        off=st.sampled_from([0] * 8 + [-1, 1]),
        wrong=rarely,
        stays=rarely,
    )
    def append(
        self,
        chosen: list[int],
        width: int,
        changed: list[Triple],
        is_large: bool,
        is_last: bool,
        off: int,
        wrong: bool,
        stays: bool,
    ) -> None:
        writers = [self.pick(WriteCapability, pick, wrong=wrong) for pick in chosen]
        writes: list[Write] = []
        told: list[list[Update[Row, int]]] = []
        error: type[WaterclockError] | None = None
        for writer in writers:
            if writer is None:
                return
            low = writer.frontier.only() or 0
            new = END if is_last else at(low + width * (not stays))
            triples = [(row, low + place % width + off, diff) for row, place, diff in changed]
            triples += [((k, "large"), low, 1) for k in range((INLINE_ROWS + 1) * is_large)]
            writes.append(Write(writer, updates(SCHEMA, triples), new))
            told.append([Update(r, EPOCH_MILLIS.time(max(t, 0)), d) for r, t, d in triples])
            error = error or self.append_error(writer, new, triples)
        ids = [write.capability.id for write in writes]
        if error is None and len(set(ids)) < len(ids):
            error = CollectionTwice
        if error is not None:
            with pytest.raises(error):
                self.world.storage.append(*writes)
            return
        answers = self.world.storage.append(*writes)
        for write, answer, happened in zip(writes, answers, told, strict=True):
            assert answer == replace(write.capability, frontier=write.new_frontier)
            self.model[answer.id].ahead += happened
            self.moved(answer)

    @rule(pick=picks, width=st.integers(1, 4), changed=changes)
    def append_one(self, pick: int, width: int, changed: list[Triple]) -> None:
        """The plain case again, so that there is something to read and to compact."""
        self.append([pick], width, changed, False, False, 0, False, False)

    def append_error(
        self, writer: WriteCapability, new: Frontier[int], triples: list[Triple]
    ) -> type[WaterclockError] | None:
        error = self.error_of(writer)
        if error is not None:
            return error
        if new == writer.frontier:
            return NoProgress
        low, high = writer.frontier.only(), new.only()
        assert low is not None
        if any(time < low or (high is not None and time >= high) for _, time, _ in triples):
            return UpdateOutsideWindow
        return None

    @rule(
        collection=st.sampled_from(IDS),
        read=st.booleans(),
        write=st.booleans(),
        lease_ms=lease,
    )
    def acquire(self, collection: GlobalId, read: bool, write: bool, lease_ms: int | None) -> None:
        if collection not in self.model:
            return
        shard = self.model[collection].collection
        reader, writer = self.world.storage.acquire_capabilities(
            collection, read=read, write=write, lease_ms=lease_ms
        )
        assert reader.frontier == (shard.since if read else END)
        assert writer.frontier == (shard.upper if write else END)
        for capability in (reader, writer):
            self.current[capability.token] = capability
            if capability.frontier != END:
                self.grant(capability, lease_ms)

    # Time, and the server's own doing

    @rule(ms=st.sampled_from([5, 15, 40]))
    def pass_time(self, ms: int) -> None:
        self.world.clock.now += ms

    @rule(times=st.integers(2, 6))
    def maintain(self, times: int) -> None:
        for _ in range(times):
            self.world.storage.maintain()
        for collection, shard in self.model.items():
            self.expire(collection, shard)

    def expire(self, collection: GlobalId, shard: ModelShard) -> None:
        now = self.world.clock.now
        over = {
            token: held
            for token, held in shard.held.items()
            if held.deadline is not None and held.deadline <= now
        }
        for token in over:
            del shard.held[token]
        for right in Right:
            ended = [held.frontier for held in over.values() if held.right is right]
            if shard.holders(right):
                shard.settle(right)
            elif ended:  # they ended in some order, and the last of them closed nothing
                old = shard.frontier(right)
                actual = self.actual(collection, right)
                assert actual in {old, *(old.join(frontier) for frontier in ended)}
                shard.move(right, actual)

    def actual(self, collection: GlobalId, right: Right) -> Frontier[int]:
        def look(state: State) -> Bound:
            shard = state.shards[str(collection)]
            return shard.since if right is Right.READ else shard.upper

        bound = self.world.storage._store.read(look)
        return END if bound is None else at(bound)

    @rule()
    def write_checkpoint(self) -> None:
        checkpoint(self.world.storage._store)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        if clean:
            self.world.reopen()
        else:
            self.world.crash()
        for shard in self.model.values():
            for held in shard.held.values():
                held.deadline = self.now(held.lease_ms)

    # What must be the same

    @rule(pick=picks, ahead=st.integers(0, 8))
    def read_at(self, pick: int, ahead: int) -> None:
        capability = self.pick(ReadCapability, pick, wrong=False)
        if capability is None or self.error_of(capability) is not None:
            return
        bound = capability.frontier.only()
        assert bound is not None
        collection = self.model[capability.id].collection
        when = EPOCH_MILLIS.time(bound + ahead)
        if collection.upper.less_equal(when):
            assert not is_readable(self.world.storage, capability, when.value)
        else:
            found = contents(self.world.storage, capability, when.value)
            assert found == dict(collection.read(when).counts)

    @invariant()
    def what_is_durable_is_the_model(self) -> None:
        if not hasattr(self, "world"):
            return
        durable = self.world.durable()
        assert durable == self.world.storage._store.read(State.to_checkpoint)
        assert {record.id for record in durable.shards} == {str(c) for c in self.model}
        for record in durable.shards:
            shard = self.model[GlobalId.parse(record.id)]
            assert record.since == shard.collection.since.only()
            assert record.upper == shard.collection.upper.only()
            kept = {c.id: (c.right, c.frontier, c.lease_ms) for c in record.capabilities}
            assert kept == {
                token: (held.right, held.frontier.only(), held.lease_ms)
                for token, held in shard.held.items()
            }

    @invariant()
    def readers_see_the_model(self) -> None:
        """The whole visible history from the frontier of one live reader on."""
        if not hasattr(self, "world"):
            return
        for shard in self.model.values():
            for token, held in shard.held.items():
                if held.right is Right.READ and held.lease_ms is None:
                    self.check_history(shard.collection, self.current[token])
                    break

    def check_history(
        self, collection: PartialCollection[Row, int], capability: Capability
    ) -> None:
        assert isinstance(capability, ReadCapability)
        subscription = self.world.storage.subscribe_at(capability)
        shown = drain(subscription)
        subscription.close()
        if collection.upper <= capability.frontier and collection.upper != END:
            assert shown == []
            return
        assert uppers_of(shown) == [collection.upper]
        history = advance_all(collection.updates, capability.frontier)
        assert triples_of(shown) == {(u.data, u.time.value): u.diff for u in history}


@pytest.mark.slow
@pytest.mark.semantics(14, 25, 27, 28, 33, 38, 46, 50, 52, 53, 55, 57, 65)
class TestStorage(StorageMachine.TestCase):  # type: ignore[misc, name-defined]
    settings = settings(
        examples(50),
        stateful_step_count=50,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
