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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import pyarrow as pa

from waterclock.model.schema import Array, Column, Field, Int, Schema, Struct, Text
from waterclock.persist.schema_codec import encode_schema
from waterclock.storage.envelopes.debezium_messages import COLLECTION, ORDER, TRANSACTION
from waterclock.storage.envelopes.noting import noted, noted_rows, rows_noted
from waterclock.storage.formats.api import JsonDefinition, MessageDefinition
from waterclock.storage.reclock.progress import Partition
from waterclock.storage.sources.api import ERROR, OFFSET, Messages
from waterclock.storage.sources.errors import SourceFault

_REMEMBERED = 1000
_COUNTS = Struct((Field("data_collection", Text()), Field("event_count", Int(64))))
END_COLUMNS = Schema(
    (
        Column("status", Text(), nullable=False),
        Column("id", Text(), nullable=False),
        Column("event_count", Int(64)),
        Column("data_collections", Array(_COUNTS)),
    )
)
"""What is read of the transaction topic."""


def transaction_topic(origin: str) -> MessageDefinition:
    """How the transaction topic is read where it is JSON."""
    return MessageDefinition(origin=origin, value=JsonDefinition(encode_schema(END_COLUMNS)))


class _End(msgspec.Struct, frozen=True):
    """A transaction that has ended, with the number of its changes in each table that is read."""

    id: str
    counts: dict[str, int]


class _Queue(msgspec.Struct):
    ends: list[_End] = []
    released: list[str] = []
    next_note: int = 0


@dataclass(frozen=True, slots=True)
class _Held:
    """Changes of one transaction that wait, and the note they are in."""

    note: str
    output: str
    partition: Partition
    batch: pa.RecordBatch

    def orders(self) -> list[tuple[str, int]]:
        """Which of the changes of their transaction these are."""
        tables = self.batch.column(COLLECTION).to_pylist()
        return list(zip(tables, self.batch.column(ORDER).to_pylist(), strict=True))

    def without(self, seen: set[tuple[str, int]]) -> pa.RecordBatch:
        """The changes that have not been seen, each once; then all of them have been."""
        kept = []
        for order in self.orders():
            kept.append(order not in seen)
            seen.add(order)
        return self.batch.filter(pa.array(kept))


class Transactions:
    """Implements `sources.api.Grouping`. `ends` is the output that the transaction topic is."""

    def __init__(self, ends: str, tables: Sequence[str]) -> None:
        """`tables` are those that are read, as the topic names them."""
        self._ends = ends
        self._tables = frozenset(tables)
        self._queue = _Queue([], [])
        self._held: dict[str, list[_Held]] = {}

    def resume(self, notes: Mapping[str, bytes]) -> None:
        self._queue = _Queue([], [])
        self._held = {}
        for note in sorted(notes):
            if note == "queue":
                self._queue = msgspec.json.decode(notes[note], type=_Queue)
                continue
            [table] = rows_noted(notes[note]).to_batches()
            about = {key.decode(): value for key, value in table.schema.metadata.items()}
            output = about["output"].decode()
            partition = msgspec.json.decode(about["partition"], type=int | str | None)
            held = _Held(note, output, partition, table.replace_schema_metadata(None))
            self._held.setdefault(about["transaction"].decode(), []).append(held)

    def released(
        self, messages: Sequence[Messages]
    ) -> tuple[Sequence[Messages], Mapping[str, bytes | None]]:
        given: list[Messages] = []
        notes: dict[str, bytes | None] = {}
        for each in messages:
            if each.output == self._ends:
                self._take_ends(each.batch)
        for each in messages:
            if each.output != self._ends:
                given += self._taken(each, notes)
        while self._queue.ends and self._is_complete(self._queue.ends[0]):
            given += self._let_go(self._queue.ends.pop(0).id, notes)
        if messages:
            notes["queue"] = noted(self._queue)
        return given, notes

    def _take_ends(self, batch: pa.RecordBatch) -> None:
        wrong = [text for text in batch.column(ERROR).to_pylist() if text is not None]
        if wrong:
            _, _, text = wrong[0].partition(" ")
            raise SourceFault(text, detail="No transaction after it could be told from others.")
        known = {end.id for end in self._queue.ends} | set(self._queue.released)
        for row in batch.select(["status", "id", "data_collections"]).to_pylist():
            if row["status"] != "END" or row["id"] in known:
                continue
            known.add(row["id"])
            counts = {
                each["data_collection"]: each["event_count"]
                for each in row["data_collections"] or ()
                if each["data_collection"] in self._tables
            }
            self._queue.ends.append(_End(row["id"], counts))

    def _taken(self, messages: Messages, notes: dict[str, bytes | None]) -> list[Messages]:
        """Hold back what waits for its transaction; give what does not."""
        column = messages.batch.column(TRANSACTION)
        waits = [each for each in column.unique().to_pylist() if each is not None]
        waits = [each for each in waits if each not in self._queue.released]
        if not waits:
            return [messages]
        texts = np.array(column.to_pylist(), dtype=object)
        for transaction in waits:
            part = messages.batch.filter(pa.array(texts == transaction))
            self._hold(transaction, messages, part, notes)
        rest = messages.batch.filter(pa.array(~np.isin(texts.astype(str), waits)))
        return [Messages(messages.output, messages.partition, rest)] if rest.num_rows else []

    def _hold(
        self,
        transaction: str,
        messages: Messages,
        batch: pa.RecordBatch,
        notes: dict[str, bytes | None],
    ) -> None:
        note = f"held/{self._queue.next_note:012d}"
        self._queue.next_note += 1
        held = _Held(note, messages.output, messages.partition, batch)
        self._held.setdefault(transaction, []).append(held)
        about = {
            "transaction": transaction,
            "output": messages.output,
            "partition": msgspec.json.encode(messages.partition),
        }
        notes[note] = noted_rows(batch.replace_schema_metadata(about))

    def _is_complete(self, end: _End) -> bool:
        found: set[tuple[str, int]] = set()
        for held in self._held.get(end.id, ()):
            found.update(held.orders())
        return all(
            sum(table == each for table, _ in found) >= count for each, count in end.counts.items()
        )

    def _let_go(self, transaction: str, notes: dict[str, bytes | None]) -> list[Messages]:
        """The changes of a transaction, those of a partition in their order."""
        found = self._held.pop(transaction, [])
        for held in found:
            if held.note in notes:
                del notes[held.note]  # it came and went in one binding
            else:
                notes[held.note] = None
        self._queue.released = [*self._queue.released, transaction][-_REMEMBERED:]
        found.sort(key=lambda held: held.batch.column(OFFSET)[0].as_py())
        seen: set[tuple[str, int]] = set()
        return [Messages(held.output, held.partition, held.without(seen)) for held in found]
