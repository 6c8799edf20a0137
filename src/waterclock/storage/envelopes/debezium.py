"""The envelope DEBEZIUM: a change takes the row before it away and puts the row after it there.

Changes that come again are dropped, by their position in the log upstream and without a copy of the
table. For each partition and lane the last place is noted, with a digest of each change that stands
there, for several rows may have been written at one place. A change before that place has been
seen. One at the same place is the same if its digest is; without a key, where rows may be equal, it
is one more unless the changes are seen to come again.

A change that was made later than the last one, and yet stands before it, means that the log
upstream is another one. It can not be told from what was seen, so it is an error, and not dropped.

A first copy of the table (snapshot) has no places. While nothing else has come, a row of it that is
in the contents already is the same one, if it has a key (`copied`). After the first change no such
row can be told from a new one, so it is an error. A change without any position is taken as it is.

A row that can not be held is an error that comes with one change and goes with another, as rows do
(`unheld_rows`). With INLINE it is a row, and so is a message that is no change at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from waterclock.persist.rows import DIFF
from waterclock.storage.envelopes.copied import CopiedRows, digest_bytes, digests
from waterclock.storage.envelopes.debezium_messages import (
    AFTER,
    BEFORE,
    BRANCH,
    KEYED,
    LANE,
    MOMENT,
    OP,
    PLACE,
    SNAPSHOT,
    TRANSACTION_PLACE,
)
from waterclock.storage.envelopes.noting import noted
from waterclock.storage.envelopes.plain import where, wrong_records
from waterclock.storage.envelopes.positions import Position
from waterclock.storage.envelopes.unheld_rows import subjects
from waterclock.storage.reclock.progress import Partition
from waterclock.storage.sources.api import (
    ERROR,
    OFFSET,
    Changes,
    ErrorUpdate,
    Messages,
    Standing,
)
from waterclock.storage.sources.decode_errors import UNHELD_AFTER, UNHELD_BEFORE

Mask = npt.NDArray[np.bool_]
_LATE_SNAPSHOT = (
    "55000 a row of a snapshot came after changes of the table, so that rows may be there twice"
)
_INCOMPARABLE = (
    "55000 a transaction was begun in one log and came again from another, so that its changes "
    "can not be told apart"
)


_GONE_BACK = (
    "55000 the log upstream has gone back: a change that was made later has an earlier position, "
    "so that new changes can not be told from those that were seen"
)


class Unsure(Exception):
    """It can not be told whether a change is new; the text says why."""


class Lane(msgspec.Struct):
    """How far a lane has come: its last place, and what stands there."""

    transaction: str = ""
    branch: str = ""
    place: str = ""
    moment: int = 0
    """When the last change was made upstream. One that comes again was not made later."""
    seen: dict[str, int] = {}
    again: dict[str, int] | None = None
    """What of it has been seen again, once changes are seen to come again."""

    def is_new(self, at: Position, digest: str, *, keyed: bool, moment: int | None = None) -> bool:
        """Whether the change has not been seen; from now on it has. Raises `Unsure`."""
        if at.transaction == self.transaction and at.branch != self.branch:
            raise Unsure(_INCOMPARABLE)
        place, last = (at.transaction, at.place), (self.transaction, self.place)
        if place > last:
            self.transaction, self.branch, self.place = at.transaction, at.branch, at.place
            self.moment = max(self.moment, moment or 0)
            self.seen, self.again = {digest: 1}, None
            return True
        if moment is not None and moment > self.moment:
            raise Unsure(_GONE_BACK)
        return self._is_one_more(place < last, digest, keyed=keyed)

    def _is_one_more(self, is_before: bool, digest: str, *, keyed: bool) -> bool:
        """The same for a change that is not beyond the last place."""
        if is_before:
            self.again = {}
            return False
        known = self.seen.get(digest, 0)
        if keyed and known:
            return False
        if self.again is not None:
            self.again[digest] = self.again.get(digest, 0) + 1
            if self.again[digest] <= known:
                return False
        self.seen[digest] = known + 1
        return True


class Course(msgspec.Struct):
    """How far a partition has come. With `has_changes` the first copy is over."""

    lanes: dict[str, Lane] = {}
    has_changes: bool = False


class Debezium:
    """Implements `sources.api.Envelope` for messages as `DebeziumDecoding` makes them.

    Implements `Stateful` too: during a first copy it keeps state on disk.
    """

    def __init__(self, rows: pa.Schema, *, inline: bool = False) -> None:
        """`rows` is the schema of the output's rows. With `inline` these tell what is wrong."""
        self._inline = inline
        self._unheld_copies: set[str] = set()
        """Rows of a first copy that can not be held and are known."""
        self._rows = pa.schema([field.with_nullable(True) for field in rows])
        self._courses: dict[str, Course] = {}
        self._standing: Standing | None = None
        self._copied = CopiedRows()
        """All rows, while a first copy is being made."""
        self._fresh: set[bytes] = set()
        """Copied rows of this binding, as digests."""

    def resume(self, standing: Standing) -> None:
        notes = standing.notes()
        self._courses = {key: msgspec.json.decode(n, type=Course) for key, n in notes.items()}
        self._standing = standing
        self._unheld_copies = set()
        if standing.state is not None and standing.state.record is not None:
            self._copied.open(standing, len(self._rows))
        else:
            self._copied.close()

    def state_record(self) -> bytes | None:
        return self._copied.record()

    def settle(self) -> None:
        self._copied.settle()

    def close(self) -> None:
        self._copied.close()

    def changes(self, messages: Sequence[Messages]) -> Changes:
        rows: list[pa.RecordBatch] = []
        errors: list[ErrorUpdate] = []
        touched: set[str] = set()
        self._fresh = set()
        for each in messages:
            if not each.batch.num_rows:
                continue
            touched.add(_note(each.partition))
            accepted = self._accepted(each, errors)
            if not self._inline:
                errors += _unheld_rows(each, accepted)
            rows += self._changed(each.batch, accepted)
        self._follow_copy(rows)
        return Changes(rows, errors, {key: noted(self._courses[key]) for key in touched})

    def _accepted(self, messages: Messages, errors: list[ErrorUpdate]) -> Mask:
        """Which messages are changes that have not been seen."""
        batch = messages.batch
        course = self._courses.setdefault(_note(messages.partition), Course({}))
        accepted = np.zeros(batch.num_rows, np.bool_)
        records = wrong_records(messages)
        for place, is_new in enumerate(self._judged(batch, course)):
            if isinstance(is_new, str):
                key = where(messages, batch.column(OFFSET)[place].as_py())
                record = records.get(place)
                errors.append(ErrorUpdate(key, is_new, 1, record is not None, record))
            else:
                accepted[place] = is_new
        return accepted

    def _judged(self, batch: pa.RecordBatch, course: Course) -> Iterator[bool | str]:
        """For each message whether it counts, or what is wrong with it."""
        names = (LANE, TRANSACTION_PLACE, BRANCH, PLACE, MOMENT, SNAPSHOT, KEYED, ERROR)
        columns = [batch.column(name).to_pylist() for name in names]
        both = [batch.column(OP), batch.column(BEFORE), batch.column(AFTER)]
        changes = digest_bytes(digests(both, batch.num_rows))
        unheld = _unheld(batch)
        for place, rows in unheld.items():
            changes[place] = _digest_with(changes[place], rows)
        copies, are_here = self._copies(batch, course, unheld)
        told_in_rows = _are_rows(batch, inline=self._inline)
        told = zip(*columns, changes, told_in_rows, copies, are_here, strict=True)
        for values in told:
            lane, commit, branch, place, moment, snapshot, keyed, error, *rest = values
            digest, is_row, *copied = rest
            if error is not None and not is_row:
                yield error
            elif error is not None:
                yield True
            elif snapshot:
                yield self._is_new_copy(course, *copied, keyed=keyed)
            elif lane is None:
                course.has_changes = True
                yield True
            else:
                course.has_changes = True
                known = course.lanes.setdefault(lane, Lane())
                at = Position(lane, commit, branch, place)
                try:
                    yield known.is_new(at, digest.hex(), keyed=keyed, moment=moment)
                except Unsure as why:
                    yield str(why)

    def _copies(
        self, batch: pa.RecordBatch, course: Course, unheld: Mapping[int, Sequence[str]]
    ) -> tuple[Sequence[bytes], Sequence[bool]]:
        """The digests of the rows after changes, and which of these are here, if any is a copy."""
        if course.has_changes or not pc.any(batch.column(SNAPSHOT)).as_py():
            return [b""] * batch.num_rows, [False] * batch.num_rows
        if not self._copied.is_open:
            assert self._standing is not None, "an envelope is resumed before all messages"
            self._copied.open(self._standing, len(self._rows))
        found = digests(batch.column(AFTER).flatten(), batch.num_rows)
        copies, are_here = digest_bytes(found), self._copied.known(found).tolist()
        if unheld and not self._unheld_copies:
            self._unheld_copies = {subject for subject, _ in self._standing_errors()}
        for place, (_, subject) in unheld.items():
            copies[place] = _digest_with(b"", [subject])
            are_here[place] = subject in self._unheld_copies
        return copies, are_here

    def _standing_errors(self) -> Sequence[tuple[str, str]]:
        return () if self._standing is None else self._standing.errors()

    def _is_new_copy(
        self, course: Course, digest: bytes, is_here: bool, *, keyed: bool
    ) -> bool | str:
        if course.has_changes:
            return _LATE_SNAPSHOT
        if keyed and (is_here or digest in self._fresh):
            return False
        self._fresh.add(digest)
        return True

    def _follow_copy(self, rows: Sequence[pa.RecordBatch]) -> None:
        """Know what is here after these changes, until the first copy is over."""
        if not self._copied.is_open:
            return
        if all(course.has_changes for course in self._courses.values()):
            self._copied.remove()
            return
        if rows:
            found = [digests(each.columns[:-1], each.num_rows) for each in rows]
            diffs = [np.asarray(each.column(each.num_columns - 1)) for each in rows]
            self._copied.change(np.concatenate(found), np.concatenate(diffs))

    def _changed(self, batch: pa.RecordBatch, accepted: Mask) -> Iterator[pa.RecordBatch]:
        for name, diff in ((BEFORE, -1), (AFTER, 1)):
            structs = batch.column(name)
            wanted = accepted & structs.is_valid().to_numpy(zero_copy_only=False)
            kept = structs.filter(pa.array(wanted))
            if len(kept):
                diffs = pa.repeat(pa.scalar(diff, pa.int64()), len(kept))
                schema = self._rows.append(pa.field(DIFF, pa.int64(), nullable=False))
                yield pa.RecordBatch.from_arrays([*kept.flatten(), diffs], schema=schema)


def _unheld(batch: pa.RecordBatch) -> dict[int, tuple[str, str]]:
    """The subjects of the rows before and after that can not be held, by the place of the change;
    empty if one is held, or if there is none.
    """
    before, after = _unheld_column(batch, UNHELD_BEFORE), _unheld_column(batch, UNHELD_AFTER)
    nothing = ("", "")
    return {
        place: (before.get(place, nothing)[0], after.get(place, nothing)[0])
        for place in before.keys() | after.keys()
    }


def _unheld_column(batch: pa.RecordBatch, name: str) -> Mapping[int, tuple[str, str]]:
    return subjects(batch.column(name)) if name in batch.schema.names else {}


def _unheld_rows(messages: Messages, accepted: Mask) -> Iterator[ErrorUpdate]:
    """What becomes wrong, and what is no longer wrong, with the changes that count."""
    batch, records = messages.batch, wrong_records(messages)
    gone, come = _unheld_column(batch, UNHELD_BEFORE), _unheld_column(batch, UNHELD_AFTER)
    for place in np.flatnonzero(accepted).tolist() if gone or come else ():
        if place in gone:
            yield ErrorUpdate(*gone[place], -1, is_skippable=True)
        if place in come:
            yield ErrorUpdate(*come[place], 1, True, records.get(place))


def _are_rows(batch: pa.RecordBatch, *, inline: bool) -> Sequence[bool]:
    """Which of the messages in error are rows that tell so."""
    if not inline:
        return [False] * batch.num_rows
    last = batch.column(AFTER).flatten()[-1]
    found: Sequence[bool] = last.is_valid().to_pylist()
    return found


def _digest_with(digest: bytes, texts: Iterable[str]) -> bytes:
    """The digest of a change with rows of which there is only the text."""
    found = hashlib.sha256(digest)
    for text in texts:
        found.update(hashlib.sha256(text.encode()).digest())
    return found.digest()[:16]


def _note(partition: Partition) -> str:
    return f"partition {partition}"
