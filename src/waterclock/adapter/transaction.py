"""A transaction: what it has read, what it will write, and how it ends.

All reads of a transaction are at one time, chosen at the first of them, and everything is held from
then on, for nobody knows yet what the next statement reads. Writes are kept until the end and then
happen together at one later time. If there were reads, the writes are only valid while none of the
tables and sources behind them has changed. Reads after a write see the writes too (`own_writes`);
what goes on after the transaction, as a subscription does, can not begin then.

A statement outside a block is a transaction of its own; so are all statements of one simple query.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from waterclock.adapter.api import TransactionStatus
from waterclock.adapter.own_writes import net
from waterclock.adapter.reading import Moment
from waterclock.adapter.tables import Dependence
from waterclock.adapter.timelines import require_of_tables
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId
from waterclock.storage.reclock.progress import SourceFrontier


class NoReadAfterWrite(WaterclockError):
    """What outlasts the transaction can not see what it has written."""

    sqlstate: ClassVar[str] = "0A000"


class ReadOnly(WaterclockError):
    """A read-only transaction can not write."""

    sqlstate: ClassVar[str] = "25006"


class InFailedTransaction(WaterclockError):
    """After an error only the end of the transaction is accepted."""

    sqlstate: ClassVar[str] = "25P02"


@dataclass(frozen=True, slots=True)
class _Savepoint:
    """How many changes of each table there were then, and how many advisory locks."""

    name: str
    changes: dict[GlobalId, int]
    locks: int


class Transaction:
    """The state of a session's transaction. There is always one; between blocks it is new."""

    def __init__(self, started: datetime.datetime) -> None:
        self.started = started
        self.in_block = False
        self.has_failed = False
        self.read_only = False
        self.has_locked = False
        """Whether the end asks that what was read is unchanged, even if nothing was written."""
        self.moment: Moment | None = None
        self.read_tables: set[GlobalId] = set()
        self.read_of_sources: set[GlobalId] = set()
        self.recent_sources: dict[GlobalId, SourceFrontier] = {}
        """Sources of which all that was upstream at some moment of the block is seen, with how far
        they are bound at its time."""
        self.lasting: list[str] = []
        """The tags of what was done in the block and stays, however it ends."""
        self._read_at: int | None = None
        self._changes: dict[GlobalId, list[pa.Table]] = {}
        self._has_read_own = False
        self._savepoints: list[_Savepoint] = []

    @property
    def status(self) -> TransactionStatus:
        if not self.in_block:
            return TransactionStatus.IDLE
        return TransactionStatus.FAILED if self.has_failed else TransactionStatus.OPEN

    @property
    def may_read_apart(self) -> bool:
        """Whether the next statement may read at a time of its own, as outside a block."""
        return not (self.in_block or self.has_failed or self._changes)

    @property
    def has_written(self) -> bool:
        return bool(self._changes)

    def require_sound(self) -> None:
        """Raise unless the transaction can go on."""
        if self.has_failed:
            raise InFailedTransaction(
                "current transaction is aborted, commands ignored until end of transaction block"
            )

    def require_unwritten(self, what: str) -> None:
        """Raise if the transaction has written already. `what` would outlast it."""
        if self.has_written:
            raise NoReadAfterWrite(
                f"{what} cannot run in a transaction that has written",
                detail="It would show what is not committed yet.",
                hint="Commit first.",
            )

    def read(self, tables: Iterable[GlobalId], of_sources: Iterable[GlobalId]) -> None:
        """Remember which tables, and collections of sources, an answer was made from."""
        self.read_tables.update(tables)
        self.read_of_sources.update(of_sources)

    def read_at_once(
        self, time: int, tables: Iterable[GlobalId], of_sources: Iterable[GlobalId]
    ) -> None:
        """Remember an answer that was given apart, at a time which nobody needs to hold."""
        assert self.may_read_apart, "reads of a block are at its moment"
        self.close()
        self._read_at = time
        self.read(tables, of_sources)

    def write(self, changes: Mapping[GlobalId, pa.Table], what: str) -> None:
        """Keep changes for the end. `what` is the statement, for the error."""
        if self.read_only:
            raise ReadOnly(f"cannot execute {what} in a read-only transaction")
        if self.moment is not None:
            require_of_tables(self.moment.selection.timeline)
        for table, rows in changes.items():
            self._changes.setdefault(table, []).append(rows)

    @property
    def written(self) -> frozenset[GlobalId]:
        """The tables that will be changed."""
        return frozenset(self._changes)

    def changes_of(self, tables: Iterable[GlobalId]) -> dict[GlobalId, pa.Table]:
        """What is to be written to those of the tables that will be changed, for reading it."""
        found = {t: pa.concat_tables(self._changes[t]) for t in tables if t in self._changes}
        self._has_read_own |= bool(found)
        return found

    def changes(self) -> dict[GlobalId, pa.Table]:
        """All that is to be written."""
        found = {table: pa.concat_tables(rows) for table, rows in self._changes.items()}
        if not self._has_read_own:  # else what it inserted may have been deleted by it
            return found
        return {table: left for table, rows in found.items() if (left := net(rows)).num_rows}

    def dependence(self) -> Dependence | None:
        """What the writes depend on, if there were reads."""
        time = self._read_at if self.moment is None else self.moment.time
        if time is None or not (self.read_tables or self.read_of_sources):
            return None
        return Dependence(time, frozenset(self.read_tables), frozenset(self.read_of_sources))

    @property
    def locks_before(self) -> int:
        """How many locks there were at the newest savepoint: those outlast a failure."""
        return self._savepoints[-1].locks if self._savepoints else 0

    def set_savepoint(self, name: str, locks: int = 0) -> None:
        """Remember where the writes are now, and how many locks there are."""
        counts = {table: len(changes) for table, changes in self._changes.items()}
        self._savepoints.append(_Savepoint(name, counts, locks))

    def release_savepoint(self, name: str) -> bool:
        """Forget a savepoint and those after it; False if there is none of that name."""
        place = self._place_of(name)
        if place is not None:
            del self._savepoints[place:]
        return place is not None

    def return_to_savepoint(self, name: str) -> bool:
        """Undo what was written after the savepoint, and any failure; False if there is none."""
        place = self._place_of(name)
        if place is None:
            return False
        counts = self._savepoints[place].changes
        del self._savepoints[place + 1 :]
        kept = {table: rows[: counts.get(table, 0)] for table, rows in self._changes.items()}
        self._changes = {table: rows for table, rows in kept.items() if rows}
        self.has_failed = False
        return True

    def _place_of(self, name: str) -> int | None:
        places = [place for place, each in enumerate(self._savepoints) if each.name == name]
        return places[-1] if places else None

    def let_go(self, moment: Moment) -> None:
        """Close a moment that turned out to be of no use."""
        if self.moment is moment:
            self.moment = None
        moment.close()

    def close(self) -> None:
        """Let go of everything held."""
        if self.moment is not None:
            self.moment.close()
            self.moment = None
