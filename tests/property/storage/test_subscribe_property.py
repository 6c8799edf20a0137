"""A subscription that is cut anywhere and resumed tells the same story as one that is not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from waterclock.model.collection import Update
from waterclock.model.frontier import Frontier
from waterclock.model.partial import PartialCollection
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist import compaction
from waterclock.persist.inline import INLINE_ROWS
from waterclock.persist.rows import updates
from waterclock.storage.api import Progress, ReadCapability, Updates, Write, held_after
from waterclock.storage.subscription import Subscription
from waterclock.testing.examples import examples
from waterclock.testing.storage_world import (
    END,
    SCHEMA,
    TABLE,
    MemoryWorld,
    Row,
    Triple,
    at,
    drain,
    triples_of,
    uppers_of,
    user,
)

History = PartialCollection[Row, int]


@dataclass(frozen=True)
class Append:
    """A window of so many times, with changes at offsets into it."""

    width: int
    changes: list[tuple[Row, int, int]]
    is_large: bool

    def triples(self, upper: int) -> list[Triple]:
        found = [(row, upper + offset % self.width, diff) for row, offset, diff in self.changes]
        if self.is_large:
            found += [((k, "large"), upper, 1) for k in range(10, 11 + INLINE_ROWS)]
        return found


@dataclass(frozen=True)
class Take:
    """Receive at most so many messages."""

    count: int


@dataclass(frozen=True)
class Cut:
    """Lose the connection, perhaps with the server, perhaps after letting go of the past."""

    downgrade: bool
    restart: bool


@dataclass(frozen=True)
class Maintain:
    """Let compaction do some of its work."""


Step = Append | Take | Cut | Maintain

rows = st.tuples(st.integers(0, 2), st.sampled_from(["a", "b", None]))
changes = st.lists(st.tuples(rows, st.integers(0, 3), st.sampled_from([-2, -1, 1, 2])), max_size=5)
appends = st.builds(Append, st.integers(1, 4), changes, st.sampled_from([False] * 4 + [True]))
steps: st.SearchStrategy[list[Step]] = st.lists(
    appends
    | appends
    | st.builds(Take, st.integers(1, 3))
    | st.builds(Cut, st.booleans(), st.booleans())
    | st.just(Maintain()),
    max_size=25,
)


@dataclass
class Receiver:
    """Keeps what is complete, and after a cut goes on from there."""

    world: MemoryWorld
    capability: ReadCapability
    as_of: int
    columns: list[str] | None
    condition: pc.Expression | None
    upper: Frontier[int] | None = None
    kept: Counter[tuple[Row, int]] = field(default_factory=Counter)
    _pending: Counter[tuple[Row, int]] = field(default_factory=Counter)
    _subscription: Subscription | None = None

    def connect(self) -> Subscription:
        if self._subscription is None:
            is_new = self.upper is None
            self._subscription = self.world.storage.subscribe_at(
                self.capability,
                as_of=at(self.as_of) if self.upper is None else held_after(self.upper),
                snapshot=is_new,
                columns=self.columns,
                condition=self.condition,
            )
        return self._subscription

    def take(self, count: int) -> None:
        for _ in range(count):
            if self.upper == END:
                return
            message = self.connect().receive(0)
            if isinstance(message, Updates):
                self._pending.update(triples_of([message]))
            elif isinstance(message, Progress):
                assert self.upper is None or self.upper < message.upper
                self.upper = message.upper
                self.kept.update(self._pending)
                self._pending.clear()

    def cut(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
        self._subscription = None
        self._pending.clear()

    def downgrade(self) -> None:
        if self.upper is not None and self.upper != END:
            self.capability = self.world.storage.downgrade_capability(
                self.capability, held_after(self.upper)
            )


@contextmanager
def eager_compaction() -> Iterator[None]:
    """Merge whenever there is anything to merge, so that little data is enough to test it."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("FEWEST", 2), ("FEWEST_TINY", 2), ("TINY_ROWS", 0)):
            patch.setattr(compaction, name, value)
        yield


def nonzero(found: Counter[tuple[Row, int]]) -> dict[tuple[Row, int], int]:
    return {place: diff for place, diff in found.items() if diff}


def expected(
    history: History, as_of: int, columns: list[str] | None, above: int | None
) -> dict[tuple[Row, int], int]:
    """The model's updates from `as_of` on, with what was before at that time."""
    found: Counter[tuple[Row, int]] = Counter()
    for update in history.compact(at(as_of)).updates:
        if above is None or update.data[0] > above:
            row = update.data if columns is None else update.data[1:]
            found[row, update.time.value] += update.diff
    return nonzero(found)


def as_batch(triples: list[Triple]) -> pa.RecordBatch:
    return updates(SCHEMA, triples)


@pytest.mark.semantics(43, 61, 63)
@examples(200)
@given(
    script=steps,
    as_of=st.integers(0, 6),
    columns=st.sampled_from([None, ["v"]]),
    above=st.sampled_from([None, 0]),
    ends=st.booleans(),
    keeps_past=st.booleans(),
)
def test_pieces_make_the_whole(
    script: list[Step],
    as_of: int,
    columns: list[str] | None,
    above: int | None,
    ends: bool,
    keeps_past: bool,
) -> None:
    """Also if nobody else keeps the past, so that it is compacted behind the receiver."""
    world = MemoryWorld()
    condition = None if above is None else pc.field("k") > above
    with eager_compaction():
        read, writer = world.storage.create(user(1), TABLE)
        read = world.storage.downgrade_capability(read, at(as_of))
        held = world.storage.clone_capability(read)
        if not keeps_past:
            world.storage.drop_capability(held)
        receiver = Receiver(world, read, as_of, columns, condition)
        history: History = PartialCollection.start(EPOCH_MILLIS)
        script = [*script, Append(as_of + 1, [], is_large=False)]
        for step in script:
            upper = writer.frontier.only()
            assert upper is not None
            match step:
                case Append():
                    triples = step.triples(upper)
                    new = at(upper + step.width)
                    if ends and step is script[-1]:
                        new = END
                    [writer] = world.storage.append(Write(writer, as_batch(triples), new))
                    told = [Update(row, EPOCH_MILLIS.time(t), diff) for row, t, diff in triples]
                    history = history.append(new, told)
                case Take(count):
                    receiver.take(count)
                case Cut(downgrade, restart):
                    receiver.cut()
                    if downgrade:
                        receiver.downgrade()
                    if restart:
                        world.reopen()
                case Maintain():
                    world.storage.maintain()
        while receiver.upper != history.upper:
            receiver.take(1)
        receiver.cut()
        assert nonzero(receiver.kept) == expected(history, as_of, columns, above)
        if keeps_past:
            whole = drain(world.storage.subscribe_at(held, columns=columns, condition=condition))
            assert triples_of(whole) == expected(history, as_of, columns, above)
            assert uppers_of(whole) == [history.upper]
    world.storage.close()
