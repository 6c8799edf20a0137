"""Transactions of the replication stream as messages of the connector's outputs.

Changes of a table are gathered until its form changes, then taken apart together. A change carries
the whole row as it was before (REPLICA IDENTITY FULL), so a value that the server did not send
again because it has not changed is taken from there.

A table whose form is not what the source was created for fails: it is told once, where it happened
in the order of its messages, and nothing of it is decoded any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from waterclock.persist.rows import DIFF, row_schema
from waterclock.storage.sources.api import ERROR, OFFSET, Messages
from waterclock.storage.sources.decode_errors import RAW_FIELDS, reason_of, subject_of
from waterclock.storage.sources.postgres import pgoutput
from waterclock.storage.sources.postgres.definition import UpstreamColumn, UpstreamTable
from waterclock.storage.sources.postgres.envelope import (
    KEY,
    TableFailed,
    Truncated,
    no_messages,
)
from waterclock.storage.sources.postgres.pgoutput import Relation
from waterclock.storage.sources.postgres.texts import Values, decode
from waterclock.storage.sources.postgres.tuples import UNCHANGED, Buffer, Fields, Places

REMEDY = "add it to the source once more: ALTER SOURCE ... ADD TABLE"
_AT_ONCE_BYTES = 16 << 20
_TEXTS = pa.string()
_OLD, _NEW = b"O"[0], b"N"[0]


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction: where it ends in the write-ahead log, and its messages, each of which stands
    behind a header of the replication protocol.
    """

    end: int
    messages: list[bytes]

    @property
    def offset(self) -> int:
        """Its source time: it is known iff the log is known up to its end."""
        return self.end - 1


@dataclass(slots=True)
class _Pile:
    """Changes of a table, all of the same form, in their order."""

    relation: Relation
    messages: list[bytes] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    size: int = 0


class Decoder:
    """Decodes one stream from its beginning: what it was told of a table's form counts later."""

    def __init__(self, tables: Iterable[UpstreamTable], header: int) -> None:
        """`header` is the length of what stands before each message."""
        self._tables: dict[int, list[UpstreamTable]] = {}
        for table in tables:
            self._tables.setdefault(table.oid, []).append(table)
        self._header = header
        self._relations: dict[int, Relation] = {}
        self._piles: dict[bytes, _Pile] = {}

    def decode(self, transactions: Iterable[Transaction]) -> Iterator[Messages]:
        """All messages of the transactions, those of an output in their order."""
        for transaction in transactions:
            yield from self._gather(transaction)
        for key in list(self._piles):
            yield from self._emptied(key)

    def _gather(self, transaction: Transaction) -> Iterator[Messages]:
        place, offset, piles = self._header, transaction.offset, self._piles
        pile = self._only_pile({each[place : place + 5] for each in transaction.messages})
        if pile is not None:
            pile.messages += transaction.messages
            pile.offsets += repeat(offset, len(transaction.messages))
            pile.size += sum(map(len, transaction.messages))
            if pile.size > _AT_ONCE_BYTES:
                yield from self._emptied(pile.relation.oid.to_bytes(4))
            return
        for message in transaction.messages:
            kind = message[place]
            if kind in pgoutput.CHANGES:
                key = message[place + 1 : place + 5]
                pile = piles.get(key)
                if pile is None:
                    oid = int.from_bytes(key)
                    if oid not in self._tables:
                        continue
                    if oid not in self._relations:
                        raise pgoutput.malformed()
                    pile = piles[key] = _Pile(self._relations[oid])
                pile.messages.append(message)
                pile.offsets.append(offset)
                pile.size += len(message)
                if pile.size > _AT_ONCE_BYTES:
                    yield from self._emptied(key)
            elif kind == pgoutput.RELATION:
                yield from self._formed(pgoutput.relation(message, place))
            elif kind == pgoutput.TRUNCATE:
                for oid in pgoutput.truncate(message, place).oids:
                    yield from self._truncated(oid)
            elif kind not in pgoutput.IGNORED:
                raise pgoutput.malformed()

    def _only_pile(self, heads: set[bytes]) -> _Pile | None:
        """The pile that messages with these kinds and tables go to, all of them; None if there is
        no such pile yet, or if they have to be looked at one by one.
        """
        tables = {head[1:] for head in heads}
        if len(tables) != 1 or not all(head[0] in pgoutput.CHANGES for head in heads):
            return None
        return self._piles.get(tables.pop())

    def _formed(self, relation: Relation) -> Iterator[Messages]:
        """The form of a table from here on."""
        if self._relations.get(relation.oid) == relation:
            return
        yield from self._emptied(relation.oid.to_bytes(4))
        self._relations[relation.oid] = relation
        for table in self._editions(relation.oid):
            reason = _difference(table, relation)
            if reason is not None:
                yield self._failed(table, reason)

    def _editions(self, oid: int) -> tuple[UpstreamTable, ...]:
        """All that is read of a table."""
        return tuple(self._tables.get(oid, ()))

    def _truncated(self, oid: int) -> Iterator[Messages]:
        self._piles.pop(oid.to_bytes(4), None)  # it is all gone anyway, but not what was given
        for table in self._editions(oid):
            yield Truncated(table.output, None, no_messages())

    def _failed(self, table: UpstreamTable, reason: str) -> TableFailed:
        left = self._tables.pop(table.oid)
        left.remove(table)
        if left:
            self._tables[table.oid] = left
        return failed(table, reason)

    def _emptied(self, key: bytes) -> Iterator[Messages]:
        """What a pile says. It is one no longer."""
        pile = self._piles.pop(key, None)
        if pile is None:
            return
        for table in self._editions(pile.relation.oid):
            yield from self._decoded(table, pile)

    def _decoded(self, table: UpstreamTable, pile: _Pile) -> Iterator[Messages]:
        lost = False
        for diff, batch in self._rows(table, pile):
            if batch is None:
                lost = True
            elif batch.num_rows:
                yield Messages(table.output, None, with_diff(batch, diff))
        if lost:
            told = "a change came without the row as it was before"
            yield self._failed(table, f"{told}, so its REPLICA IDENTITY is not FULL any more")

    def _rows(
        self, table: UpstreamTable, pile: _Pile
    ) -> Iterator[tuple[int, pa.RecordBatch | None]]:
        """The rows that go and those that come; None if it is not known which go."""
        buffer = Buffer.of(pile.messages)
        offsets = np.array(pile.offsets, np.int64)
        count = len(pile.relation.attributes)
        kinds = buffer.bytes_at(buffer.starts + self._header)
        rows = buffer.starts + self._header + 6
        marks = buffer.bytes_at(rows - 1)
        inserted, updated = kinds == pgoutput.INSERT, kinds == pgoutput.UPDATE
        if not (marks[~inserted] == _OLD).all():
            yield -1, None
            return
        if not (marks[inserted] == _NEW).all():
            raise pgoutput.malformed()
        pick = _Pick(table, pile.relation, buffer)
        gone, ends = buffer.walk(rows[~inserted], count)
        yield -1, pick.batch(gone, offsets[~inserted])
        after = ends[updated[~inserted]]
        if not (buffer.bytes_at(after) == _NEW).all():
            raise pgoutput.malformed()
        come, _ = buffer.walk(rows[inserted], count)
        yield 1, pick.batch(come, offsets[inserted])
        new, _ = buffer.walk(after + 1, count)
        of_updates = updated[~inserted]
        kept = [
            each.where(each.kinds == UNCHANGED, _at(old, of_updates))
            for each, old in zip(new, gone, strict=True)
        ]
        yield 1, pick.batch(kept, offsets[updated])


def _at(fields: Fields, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Fields:
    return Fields(fields.kinds[chosen], fields.starts[chosen], fields.lengths[chosen])


@dataclass(frozen=True, slots=True)
class _Pick:
    """The wanted columns of rows in a buffer."""

    table: UpstreamTable
    relation: Relation
    buffer: Buffer

    def batch(self, fields: list[Fields], offsets: Places) -> pa.RecordBatch:
        places = {attribute.name: i for i, attribute in enumerate(self.relation.attributes)}
        texts = [self.buffer.texts(fields[places[c.name]]) for c in self.table.columns]
        return rows_of(self.table, texts, offsets)


def rows_of(table: UpstreamTable, texts: list[pa.StringArray], offsets: Places) -> pa.RecordBatch:
    """Rows from the texts of their columns, with their offsets, and with what is wrong with them,
    if anything is.
    """
    found = [decode(text, c.held) for text, c in zip(texts, table.columns, strict=True)]
    wrong = _wrong(table, found, texts)
    columns = [values.column for values in found]
    if table.errors.column is not None:
        told = {row: reason_of(message) for row, message in wrong.items()}
        columns.append(_sparse(told, len(offsets)))
    columns.append(pa.array(offsets, pa.int64()))
    fields = [*row_schema(table.rows), pa.field(OFFSET, pa.int64(), nullable=False)]
    if wrong:
        keys = {row: _key(texts, row) for row in wrong}
        columns += [_sparse(wrong, len(offsets)), _sparse(keys, len(offsets))]
        fields += [pa.field(ERROR, pa.string()), pa.field(KEY, pa.string())]
    if wrong and table.errors.keeps_bytes:
        rows = {row: _as_json(table, texts, row) for row in wrong}
        columns += [pa.nulls(len(offsets), pa.binary()), _sparse(rows, len(offsets), pa.binary())]
        fields += RAW_FIELDS
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _wrong(
    table: UpstreamTable, found: list[Values], texts: list[pa.StringArray]
) -> dict[int, str]:
    """For each row that can not be held, why."""
    told: dict[int, str] = {}
    for column, values, text in zip(table.columns, found, texts, strict=True):
        for row, reason in values.wrong.items():
            told.setdefault(row, f"22003 {_named(table, column)}: {reason}; {_AS_TEXT}")
        if not column.nullable and text.null_count:
            for row in np.flatnonzero(text.is_null().to_numpy(zero_copy_only=False)).tolist():
                reason = f"it is null, which it could not be when the source was created; {REMEDY}"
                told.setdefault(row, f"23502 {_named(table, column)}: {reason}")
    return told


_AS_TEXT = "name the column in TEXT COLUMNS of the source to have it as text"


def _named(table: UpstreamTable, column: UpstreamColumn) -> str:
    return f'column "{column.name}" of table {table.shown}'


def _key(texts: list[pa.StringArray], row: int) -> str:
    """A row as text, the same each time that it is seen."""
    values = (text[row].as_py() for text in texts)
    return subject_of(f"({', '.join('NULL' if value is None else value for value in values)})")


def _as_json(table: UpstreamTable, texts: list[pa.StringArray], row: int) -> bytes:
    """A row as an object of the texts of its columns."""
    values = zip(table.columns, texts, strict=True)
    return msgspec.json.encode({column.name: text[row].as_py() for column, text in values})


def _sparse(values: Mapping[int, Any], count: int, kind: pa.DataType = _TEXTS) -> pa.Array:
    return pa.array([values.get(row) for row in range(count)], kind)


def with_diff(batch: pa.RecordBatch, diff: int) -> pa.RecordBatch:
    """The rows with a diff, as messages have them: behind the columns that all have."""
    diffs = pa.repeat(pa.scalar(diff, pa.int64()), batch.num_rows)
    place = batch.schema.get_field_index(OFFSET) + 1
    return batch.add_column(place, pa.field(DIFF, pa.int64(), nullable=False), diffs)


def failed(table: UpstreamTable, reason: str) -> TableFailed:
    """The table can not be followed any more."""
    message = f"55000 table {table.shown} can not be followed any more: {reason}; {REMEDY}"
    return TableFailed(table.output, None, no_messages(), message)


def _difference(table: UpstreamTable, relation: Relation) -> str | None:
    """Why the form of the table does not do."""
    if relation.identity != pgoutput.FULL:
        return "its REPLICA IDENTITY is not FULL any more"
    found = {attribute.name: attribute for attribute in relation.attributes}
    for column in table.columns:
        attribute = found.get(column.name)
        if attribute is None:
            return f'column "{column.name}" was dropped or renamed upstream'
        if (attribute.type, attribute.modifier) != (column.type, column.modifier):
            return f'the type of column "{column.name}" was changed upstream'
    return None
