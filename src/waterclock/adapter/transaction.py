"""A transaction: what it has read, what it will write, and how it ends.

All reads of a transaction are at one time, chosen at the first of them, and everything is held from
then on, for nobody knows yet what the next statement reads. Writes are kept until the end and then
happen together at one later time. If there were reads before, the writes are only valid while none
of the tables behind those reads has changed. After a write there are no more reads: they would have
to see what is not there yet.

A statement outside a block is a transaction of its own; so are all statements of one simple query.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import ClassVar

import pyarrow as pa

from waterclock.adapter.api import TransactionStatus
from waterclock.adapter.reading import Moment
from waterclock.adapter.tables import Dependence
from waterclock.errors import WaterclockError
from waterclock.model.ids import GlobalId


class NoReadAfterWrite(WaterclockError):
    """A transaction that has written can not read any more."""

    sqlstate: ClassVar[str] = "0A000"


class ReadOnly(WaterclockError):
    """A read-only transaction can not write."""

    sqlstate: ClassVar[str] = "25006"


class InFailedTransaction(WaterclockError):
    """After an error only the end of the transaction is accepted."""

    sqlstate: ClassVar[str] = "25P02"


class Transaction:
    """The state of a session's transaction. There is always one; between blocks it is new."""

    def __init__(self) -> None:
        self.started = datetime.datetime.now(datetime.UTC)
        self.in_block = False
        self.has_failed = False
        self.read_only = False
        self.moment: Moment | None = None
        self.read_tables: set[GlobalId] = set()
        self._read_at: int | None = None
        self._changes: dict[GlobalId, list[pa.Table]] = {}
        self._savepoints: list[tuple[str, dict[GlobalId, int]]] = []
        """Names, and how many changes of each table there were then."""

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

    def require_readable(self) -> None:
        """Raise if the transaction has written already."""
        if self.has_written:
            raise NoReadAfterWrite(
                "a transaction that has written can not read",
                hint="Commit first, or read before the first write.",
            )

    def read(self, tables: Iterable[GlobalId]) -> None:
        """Remember which tables an answer was made from."""
        self.read_tables.update(tables)

    def read_at_once(self, time: int, tables: Iterable[GlobalId]) -> None:
        """Remember an answer that was given apart, at a time which nobody needs to hold."""
        assert self.may_read_apart, "reads of a block are at its moment"
        self.close()
        self._read_at = time
        self.read_tables.update(tables)

    def write(self, changes: Mapping[GlobalId, pa.Table], what: str) -> None:
        """Keep changes for the end. `what` is the statement, for the error."""
        if self.read_only:
            raise ReadOnly(f"cannot execute {what} in a read-only transaction")
        for table, rows in changes.items():
            self._changes.setdefault(table, []).append(rows)

    def changes(self) -> dict[GlobalId, pa.Table]:
        """All that is to be written."""
        return {table: pa.concat_tables(rows) for table, rows in self._changes.items()}

    def dependence(self) -> Dependence | None:
        """What the writes depend on, if there were reads."""
        time = self._read_at if self.moment is None else self.moment.time
        if time is None or not self.read_tables:
            return None
        return Dependence(time, frozenset(self.read_tables))

    def set_savepoint(self, name: str) -> None:
        """Remember where the writes are now."""
        self._savepoints.append((name, {table: len(c) for table, c in self._changes.items()}))

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
        counts = self._savepoints[place][1]
        del self._savepoints[place + 1 :]
        kept = {table: rows[: counts.get(table, 0)] for table, rows in self._changes.items()}
        self._changes = {table: rows for table, rows in kept.items() if rows}
        self.has_failed = False
        return True

    def _place_of(self, name: str) -> int | None:
        places = [place for place, (known, _) in enumerate(self._savepoints) if known == name]
        return places[-1] if places else None

    def close(self) -> None:
        """Let go of everything held."""
        if self.moment is not None:
            self.moment.close()
            self.moment = None
