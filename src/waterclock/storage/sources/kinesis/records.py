"""Records of a shard as Arrow, in slices that fit into memory; packed ones are unpacked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from waterclock.storage.formats.api import LONG_RECORDS
from waterclock.storage.sources.kinesis.aggregation import unpacked
from waterclock.storage.sources.kinesis.shards import Shard
from waterclock.storage.sources.kinesis.stream import Record

_BATCH_ROWS = 50_000
_BATCH_BYTES = 16 << 20


@dataclass(slots=True)
class _Slice:
    """Rows that were not given yet."""

    keys: list[bytes] = field(default_factory=list)
    values: list[bytes] = field(default_factory=list)
    offsets: list[str] = field(default_factory=list)
    micros: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, key: str, data: bytes, record: Record) -> None:
        self.keys.append(key.encode())
        self.values.append(data)
        self.offsets.append(str(record.number))
        self.micros.append(record.arrived_ms * 1000)
        self.size += len(data)

    @property
    def is_large(self) -> bool:
        return len(self.keys) >= _BATCH_ROWS or self.size >= _BATCH_BYTES


def batches_of(records: Sequence[Record], shard: Shard) -> Iterator[pa.RecordBatch]:
    """The records (see `LONG_RECORDS`), in their order."""
    rows = _Slice()
    for record in records:
        packed = unpacked(record.data, shard)
        if packed is None:
            rows.add(record.key, record.data, record)
        else:
            for each in packed:
                rows.add(each.key, each.data, record)
        if rows.is_large:
            yield _batch(rows, shard)
            rows = _Slice()
    if rows.keys:
        yield _batch(rows, shard)


def no_records() -> pa.RecordBatch:
    """A batch without rows."""
    return pa.RecordBatch.from_pylist([], schema=LONG_RECORDS)


def _batch(rows: _Slice, shard: Shard) -> pa.RecordBatch:
    count = len(rows.keys)
    columns = {
        "key": pa.array(rows.keys, pa.binary()),
        "value": pa.array(rows.values, pa.binary()),
        "partition": pa.repeat(pa.scalar(shard.id), count),
        "offset": pa.array(rows.offsets, pa.string()),
        "timestamp": pa.array(rows.micros, LONG_RECORDS.field("timestamp").type),
        "headers": pa.nulls(count, LONG_RECORDS.field("headers").type),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=LONG_RECORDS)
