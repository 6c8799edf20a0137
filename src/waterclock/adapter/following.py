"""Following a collection: its changes in steps, each complete and in the order of its times.

A step has all changes from where the last one ended up to where the collection, and what tells of
its errors, are complete. The first time at which there is an error ends it: from there on the
collection has no value.

Reading is done when asked for, in the caller's thread, and waits for nothing. Whoever follows holds
the collection at the last time that it has taken, so that the next step can be read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from waterclock.adapter.errors import CollectionGone
from waterclock.adapter.holds import Hold
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.persist.rows import DIFF, TIME
from waterclock.storage.api import Progress, Updates
from waterclock.storage.errors import CapabilityInvalid, SubscriptionCancelled
from waterclock.storage.subscription import Subscription

Explain = Callable[[GlobalId, str, str], WaterclockError]
"""The error that a row of a collection of errors means: its message, and which row it is about."""


class RelationGone(WaterclockError):
    """What is followed was dropped."""

    sqlstate: ClassVar[str] = "42P01"


@dataclass(frozen=True, slots=True)
class Step:
    """All changes at times from `lower` up to and without `upper`, which is None at the very end.

    With a `failure`, nothing can be said of `upper` and later times.
    """

    lower: int
    upper: int | None
    updates: pa.Table
    failure: WaterclockError | None = None
    shown: dict[object, list[pa.RecordBatch]] = field(
        default_factory=dict, compare=False, repr=False
    )
    """What was made of it for receivers, so that it is made once for all that want the same."""


class _Stream:
    """One collection, as far as it has been received."""

    def __init__(self, subscription: Subscription, after: int) -> None:
        self._subscription = subscription
        self._waiting: list[pa.RecordBatch] = []
        self.upper: int | None = after + 1

    def pull(self) -> None:
        """Take what is there, up to the next statement of progress."""
        while self.upper is not None:
            match self._subscription.receive(0):
                case Updates(batch):
                    self._waiting.append(batch)
                case Progress(upper):
                    self.upper = upper.only()
                    return
                case None:
                    return

    def taken(self, upper: int | None) -> pa.Table | None:
        """The updates before `upper`; the others stay."""
        if not self._waiting:
            return None
        table = pa.Table.from_batches(self._waiting)
        self._waiting = []
        if upper is None or self.upper == upper:
            return table
        self._waiting = table.filter(pc.greater_equal(table[TIME], upper)).to_batches()
        return table.filter(pc.less(table[TIME], upper))

    def first(self) -> tuple[int, str, str] | None:
        """The earliest error that has been received: its time, message and row."""
        if not self._waiting:
            return None
        table = pa.Table.from_batches(self._waiting).sort_by(TIME)
        return table[TIME][0].as_py(), table["message"][0].as_py(), table["key"][0].as_py()

    def close(self) -> None:
        self._subscription.close()


class Steps:
    """Reads steps, from the time after `after` on. Thread-safe, one read at a time."""

    def __init__(
        self,
        hold: Hold,
        collection: GlobalId,
        errors: Sequence[GlobalId],
        columns: pa.Schema,
        after: int,
        explain: Explain,
    ) -> None:
        """The hold is at or before `after` and stays with its owner."""
        self._explain = explain
        self._lock = hold.runtime.lock()
        self._is_closed = False
        self._lower = after + 1
        stamped = [*columns, pa.field(TIME, pa.int64()), pa.field(DIFF, pa.int64())]
        self._nothing = pa.schema([each.with_nullable(True) for each in stamped]).empty_table()
        try:
            self._rows = _Stream(hold.subscribe(collection, after, columns.names), after)
            self._errors = {
                each: _Stream(hold.subscribe(each, after, None), after) for each in errors
            }
        except (CollectionGone, CapabilityInvalid) as error:
            raise gone() from error

    def read(self) -> Step | None:
        """The next step, or None if nothing more is complete yet. Raises `RelationGone`."""
        with self._lock:
            if self._is_closed:
                return None
            try:
                return self._read()
            except SubscriptionCancelled as error:
                raise gone() from error

    def _read(self) -> Step | None:
        streams = (self._rows, *self._errors.values())
        for stream in streams:
            if stream.upper == self._lower:
                stream.pull()
        upper = _least([stream.upper for stream in streams])
        failure, failed_at = self._failed_before(upper)
        if failure is not None:
            upper = failed_at
        if upper == self._lower and failure is None:
            return None
        updates = self._rows.taken(upper)
        step = Step(self._lower, upper, self._ordered(updates), failure)
        self._lower = upper if upper is not None else self._lower
        return step

    def _failed_before(self, upper: int | None) -> tuple[WaterclockError | None, int | None]:
        found = [
            (*first, errors)
            for errors, stream in self._errors.items()
            if (first := stream.first()) is not None
        ]
        early = [each for each in found if upper is None or each[0] < upper]
        if not early:
            return None, None
        time, message, row, errors = min(early)
        return self._explain(errors, message, row), time

    def _ordered(self, updates: pa.Table | None) -> pa.Table:
        """By time, and within one time what goes before what comes."""
        if updates is None or not updates.num_rows:
            return self._nothing
        ordered = updates.sort_by([(TIME, "ascending"), (DIFF, "ascending")])
        return ordered.cast(self._nothing.schema)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            for stream in (self._rows, *self._errors.values()):
                stream.close()


def gone() -> RelationGone:
    """What to raise for a collection that nobody knows any more."""
    return RelationGone("the relation that was subscribed to was dropped")


def _least(uppers: Sequence[int | None]) -> int | None:
    """The least bound; None is none."""
    bounds = [upper for upper in uppers if upper is not None]
    return min(bounds) if bounds else None
