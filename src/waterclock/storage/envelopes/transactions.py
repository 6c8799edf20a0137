"""Whole transactions at one time: Debezium's changes wait until their transaction is there.

The connector's transaction topic says how each transaction ends: with how many changes in which
tables. A transaction is released when all of its changes in the tables that are read have come, and
when those that ended before it have been released; so the transactions that are visible are always
the first ones in the order of their ends. Changes that belong to no transaction, such as those of a
first copy, are not held back.

What is held back is noted, since upstream may have forgotten it when it is wanted. The last
transactions that were released are remembered: when the connector says of one again that it has
ended, there is nothing to wait for, and changes that come again go straight to the envelope, which
knows them by their positions.

A change that never comes would be waited for in vain. While a table has a single partition this is
noticed, for its changes are in the order of the transactions; then the source ends. So it does if a
topic has the changes of another table than it is said to have, for these could not be counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from waterclock.model.schema import Array, Column, Field, Int, Schema, Struct, Text
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.envelopes.debezium_messages import COLLECTION, ORDER, TRANSACTION
from waterclock.storage.envelopes.noting import noted, noted_rows, rows_noted
from waterclock.storage.envelopes.positions import names_of_ended
from waterclock.storage.formats.api import JsonDefinition
from waterclock.storage.reclock.progress import Partition
from waterclock.storage.sources.api import ERROR, OFFSET, Messages
from waterclock.storage.sources.errors import SourceFault

_REMEMBERED = 1000
_SEVERAL = {b"partitions": b"several"}
_QUEUE, _HELD, _RELEASED = "queue", "held/", "released/"
_COUNTS = Struct((Field("data_collection", Text()), Field("event_count", Int(64))))
_PARTS = (
    Field("status", Text()),
    Field("id", Text()),
    Field("data_collections", Array(_COUNTS)),
)
_ENDS = Schema(
    (*(Column(f.name, f.type) for f in _PARTS), Column("payload", Struct(_PARTS))),
)


def json_ends() -> JsonDefinition:
    """How the transaction topic is read where it is JSON, which may be wrapped in `payload`."""
    return JsonDefinition(encode_schema(_ENDS))


class _End(msgspec.Struct, frozen=True):
    """A transaction that has ended, with the number of its changes in each table that is read."""

    id: str
    counts: dict[str, int]


class _Queue(msgspec.Struct):
    """What has ended and waits, and the number of the next note.

    Notes of before are without what has a default.
    """

    ends: list[_End] = []
    next_note: int = 0
    apart: list[str] = []
    """Outputs that have come to have several partitions."""


@dataclass(frozen=True, slots=True)
class _Held:
    """Changes of one transaction that wait, and the note they are in, or will be."""

    note: str
    output: str
    partition: Partition
    batch: pa.RecordBatch

    @property
    def first(self) -> int:
        offset: int = self.batch.column(OFFSET)[0].as_py()
        return offset

    def orders(self) -> list[int]:
        """Which of the changes of their transaction these are."""
        found: list[int] = self.batch.column(ORDER).to_pylist()
        return found

    def without(self, seen: set[int]) -> pa.RecordBatch:
        """The changes that have not been seen, each once; then all of them have been."""
        kept = []
        for order in self.orders():
            kept.append(order not in seen)
            seen.add(order)
        return self.batch if all(kept) else self.batch.filter(pa.array(kept))

    def encoded(self, transaction: str) -> bytes:
        about = {
            "transaction": transaction,
            "output": self.output,
            "partition": msgspec.json.encode(self.partition),
        }
        return noted_rows(self.batch.replace_schema_metadata(about))


class _Waiting:
    """What was held back of one transaction."""

    def __init__(self) -> None:
        self.held: list[_Held] = []
        self._orders: dict[str, set[int]] = {}

    def add(self, held: _Held) -> None:
        self.held.append(held)
        self._orders.setdefault(held.output, set()).update(held.orders())

    def count(self, output: str) -> int:
        """How many different changes of a table there are."""
        return len(self._orders.get(output, ()))

    def released(self) -> Iterator[Messages]:
        """All of it, each change once, those of a partition in their order."""
        seen: set[int] = set()
        for held in sorted(self.held, key=lambda held: held.first):
            yield Messages(held.output, held.partition, held.without(seen))


class Transactions:
    """Implements `sources.api.Grouping`. `ends` is the output that the transaction topic is."""

    def __init__(self, ends: str, tables: Mapping[str, str], in_order: Sequence[str] = ()) -> None:
        """`tables` are those that are read, by output, as the transaction topic names them.
        `in_order` are the outputs whose changes are in the order of the transactions.
        """
        self._ends = ends
        self._tables = dict(tables)
        self._in_order = frozenset(in_order)
        self._queue = _Queue([], apart=[])
        self._waiting: dict[str, _Waiting] = {}
        self._over: dict[str, list[str]] = {}
        """The transactions that were released last, by the note they are in, the oldest first."""

    def resume(self, notes: Mapping[str, bytes]) -> None:
        self._queue = _Queue([], apart=[])
        self._waiting = {}
        self._over = {}
        for note in sorted(notes):
            if note == _QUEUE:
                self._queue = msgspec.json.decode(notes[note], type=_Queue)
                continue
            if note.startswith(_RELEASED):
                self._over[note] = msgspec.json.decode(notes[note], type=list[str])
                continue
            [batch] = rows_noted(notes[note]).to_batches()
            about = {key.decode(): value for key, value in batch.schema.metadata.items()}
            partition = msgspec.json.decode(about["partition"], type=int | str | None)
            batch = batch.replace_schema_metadata(None)
            held = _Held(note, about["output"].decode(), partition, batch)
            self._waiting.setdefault(about["transaction"].decode(), _Waiting()).add(held)

    def released(
        self, messages: Sequence[Messages]
    ) -> tuple[Sequence[Messages], Mapping[str, bytes | None]]:
        given: list[Messages] = []
        first_note = _note(_HELD, self._queue.next_note)
        for each in messages:
            if _tells_of_several(each):
                self._note_several(each.output)
            elif each.output == self._ends:
                self._take_ends(each.batch)
        over = {name for each in self._remembered() for name in names_of_ended(each)}
        for each in messages:
            if each.output != self._ends and each.batch.num_rows:
                given += self._taken(each, over)
        notes: dict[str, bytes | None] = {}
        given += self._let_go(first_note, notes)
        for transaction, waiting in self._waiting.items():
            for held in waiting.held:
                if held.note >= first_note:
                    notes[held.note] = held.encoded(transaction)
        if messages:
            notes[_QUEUE] = noted(self._queue)
        return _joined(given), notes

    def _note_several(self, output: str) -> None:
        """From now on, what comes later of the output may have happened earlier."""
        if output in self._in_order and output not in self._queue.apart:
            self._queue.apart.append(output)

    # What ends

    def _take_ends(self, batch: pa.RecordBatch) -> None:
        wrong = [text for text in batch.column(ERROR).to_pylist() if text is not None]
        if wrong:
            _, _, text = wrong[0].partition(" ")
            raise _unreadable(text)
        known = {end.id for end in self._queue.ends} | set(self._remembered())
        for row in batch.to_pylist():
            told = row if row.get("status") is not None else row.get("payload") or {}
            if told.get("status") is None or told.get("id") is None:
                raise _unreadable("a message of the transaction topic tells of no transaction")
            if told["status"] == "END" and told["id"] not in known:
                known.add(told["id"])
                self._queue.ends.append(_End(told["id"], self._counts(told)))

    def _counts(self, told: Mapping[str, Any]) -> dict[str, int]:
        """The number of changes by output."""
        counts = {
            each["data_collection"]: each["event_count"] for each in told["data_collections"] or ()
        }
        return {output: counts[name] for output, name in self._tables.items() if name in counts}

    # What waits

    def _taken(self, messages: Messages, over: set[str]) -> list[Messages]:
        """Hold back what waits for its transaction; give what does not."""
        self._require_table(messages)
        codes = messages.batch.column(TRANSACTION).dictionary_encode()
        names = codes.dictionary.to_pylist()
        numbers = codes.indices.fill_null(-1).to_numpy()
        passes = np.array([name in over for name in names] + [True])[numbers]
        waits = np.flatnonzero(~passes)
        waits = waits[np.argsort(numbers[waits], kind="stable")]
        if not len(waits):
            return [messages]
        sorted_rows, of = messages.batch.take(pa.array(waits)), numbers[waits]
        ends = [*(np.flatnonzero(np.diff(of)) + 1), len(of)]
        for start, end in zip([0, *ends], ends, strict=False):
            self._hold(names[of[start]], messages, sorted_rows.slice(start, end - start))
        rest = messages.batch.filter(pa.array(passes))
        return [Messages(messages.output, messages.partition, rest)] if rest.num_rows else []

    def _require_table(self, messages: Messages) -> None:
        expected = self._tables[messages.output]
        for name in messages.batch.column(COLLECTION).unique().to_pylist():
            if name not in (None, expected):
                raise SourceFault(
                    f'a topic that should have the changes of table "{expected}" has those of'
                    f' table "{name}"',
                    hint="Name the tables as the transaction topic does.",
                )

    def _hold(self, transaction: str, messages: Messages, batch: pa.RecordBatch) -> None:
        note = self._new_note(_HELD)
        held = _Held(note, messages.output, messages.partition, batch)
        self._waiting.setdefault(transaction, _Waiting()).add(held)

    # What is let go

    def _let_go(self, first_note: str, notes: dict[str, bytes | None]) -> Iterator[Messages]:
        """Everything that is complete and next; what was noted of it may be forgotten."""
        count = 0
        for end in self._queue.ends:
            lacking = self._lacking(end)
            if lacking is not None:
                self._require_to_come(lacking, end, self._queue.ends[count + 1 :])
                break
            count += 1
            for name in names_of_ended(end.id):
                waiting = self._waiting.pop(name, None)
                if waiting is not None:
                    notes |= {each.note: None for each in waiting.held if each.note < first_note}
                    yield from waiting.released()
        if count:
            self._remember([end.id for end in self._queue.ends[:count]], notes)
            del self._queue.ends[:count]

    def _remember(self, done: list[str], notes: dict[str, bytes | None]) -> None:
        """Note what was released, and forget what was long ago."""
        note = self._new_note(_RELEASED)
        self._over[note] = done[-_REMEMBERED:]
        notes[note] = noted(self._over[note])
        spare = sum(map(len, self._over.values())) - _REMEMBERED
        for old in list(self._over):
            spare -= len(self._over[old])
            if spare < 0:
                return
            del self._over[old]
            notes[old] = None

    def _remembered(self) -> Iterator[str]:
        return (each for done in self._over.values() for each in done)

    def _new_note(self, prefix: str) -> str:
        self._queue.next_note += 1
        return _note(prefix, self._queue.next_note - 1)

    def _lacking(self, end: _End) -> str | None:
        """A table of which not all changes of the transaction are there."""
        for output, count in end.counts.items():
            if self._count(end, output) < count:
                return output
        return None

    def _count(self, end: _End, output: str) -> int:
        waiting = (self._waiting.get(name) for name in names_of_ended(end.id))
        return sum(each.count(output) for each in waiting if each is not None)

    def _require_to_come(self, output: str, end: _End, later: Sequence[_End]) -> None:
        """Raise if what is lacking was passed over: changes of a later transaction are there."""
        if output not in self._in_order or output in self._queue.apart:
            return
        for other in later:
            if self._count(other, output):
                raise SourceFault(
                    f'changes of table "{self._tables[output]}" are missing upstream',
                    detail=f"Transaction {end.id} has {end.counts[output]} of them, and not all"
                    f" are there, while there are some of the later transaction {other.id}.",
                    hint="Let the connector write the tables anew, and create the source again.",
                )


def several_partitions(output: str, partition: Partition) -> Messages:
    """No messages, but the news that the output has several partitions.

    It belongs to what was read with it: some of that may be later than what is in another one.
    """
    batch = pa.RecordBatch.from_arrays([pa.array([], pa.int64())], names=[OFFSET])
    return Messages(output, partition, batch.replace_schema_metadata(_SEVERAL))


def _tells_of_several(messages: Messages) -> bool:
    return bool(messages.batch.schema.metadata == _SEVERAL)


def _note(prefix: str, number: int) -> str:
    return f"{prefix}{number:012d}"


def _unreadable(text: str) -> SourceFault:
    return SourceFault(text, detail="No transaction after it could be told from others.")


def _joined(messages: Sequence[Messages]) -> list[Messages]:
    """The same in one batch for each partition, in their order."""
    found: dict[tuple[str, Partition], list[pa.RecordBatch]] = {}
    for each in messages:
        found.setdefault((each.output, each.partition), []).append(each.batch)
    return [
        Messages(output, partition, batches[0] if len(batches) == 1 else _concatenated(batches))
        for (output, partition), batches in found.items()
    ]


def _concatenated(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    filled = [batch for batch in batches if batch.num_rows] or batches[:1]
    tables = [pa.Table.from_batches([batch]) for batch in filled]
    table = pa.concat_tables(tables, promote_options="default")  # older notes have fewer columns
    arrays = [pa.concat_arrays(c.chunks) if c.num_chunks > 1 else c.chunk(0) for c in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=table.schema)
