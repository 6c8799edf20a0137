"""TPCH: the benchmark's tables at a scale factor, and then orders that come and go.

The first tick is the snapshot, one transaction. Each later tick is one refresh: some orders come
with their lines, and as many of the oldest go, so that the size stays. At the n-th refresh of k
orders each, orders (n-1)k to nk-1 go, in the order in which they are numbered, and those after all
others come; so what a refresh does follows from its number.

Tables are cut into chunks of fixed size, each made from a random generator of its own, so that any
rows can be had without those before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from waterclock.model.schema import Schema
from waterclock.persist.rows import row_schema
from waterclock.storage.sources.generators.api import Options, Piece, in_order, messages
from waterclock.storage.sources.tpch import rows
from waterclock.storage.sources.tpch.tables import TABLES, rows_at

_CHUNK = 10_000
_ORDERS_CHUNK = 1_000
_CHUNKS_AT_ONCE = 10
"""Chunks generated per task."""
_PER_REFRESH = 1_500
"""Orders that come and go at each refresh, at scale factor 1."""
_LINES = 4
"""Lines of an order, on average."""
_SNAPSHOT = -1
"""In front of the number of a piece that is a part of the snapshot."""
_NUMBER = {name: number for number, name in enumerate(TABLES)}


@dataclass(frozen=True, slots=True)
class Tpch:
    """Implements `Generator`."""

    options: Options

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {name: table.schema for name, table in TABLES.items()}

    @property
    def is_split(self) -> bool:
        return True

    @property
    def ticks_at_once(self) -> int:
        return max(1, 50_000 // self._refreshed)

    @property
    def ends_at(self) -> int | None:
        maximum = self.options.maximum
        return None if maximum is None else maximum + 1

    @property
    def _refreshed(self) -> int:
        return max(1, round(_PER_REFRESH * self.options.scale))

    # Pieces: chunks of the snapshot have negative numbers, refreshes are their offsets.

    def pieces(self, start: int, end: int) -> Iterable[Piece]:
        if start == 0:
            for name in TABLES:
                yield from self._snapshot_pieces(name)
        first = max(start, 1)
        if first < end:
            count = 2 * self._refreshed * (end - first)
            yield Piece("orders", first, end, count)
            yield Piece("lineitem", first, end, count * _LINES)

    def _snapshot_pieces(self, name: str) -> Iterator[Piece]:
        chunks = self._chunks(name)
        for first in range(0, chunks, _CHUNKS_AT_ONCE):
            last = min(first + _CHUNKS_AT_ONCE, chunks)
            size = _ORDERS_CHUNK * _LINES if name == "lineitem" else _chunk_size(name)
            yield Piece(name, _SNAPSHOT - first, _SNAPSHOT - last, size * (last - first))

    def _chunks(self, name: str) -> int:
        if TABLES[name].per_scale is None and name in ("region", "nation"):
            return 1
        count = self._count(name)
        return -(-count // _chunk_size(name))

    def _count(self, name: str) -> int:
        """How many keys the table's chunks are cut from."""
        counted = {"partsupp": "part", "lineitem": "orders"}.get(name, name)
        return rows_at(self.options.scale, counted)

    def make(self, output: str, first: int, last: int) -> pa.RecordBatch:
        if first < 0:
            chunks = range(_SNAPSHOT - first, _SNAPSHOT - last)
            made = [self._chunk(output, chunk, self._count_or_all(output)) for chunk in chunks]
            batch = pa.concat_batches(made)
            zeros = np.zeros(batch.num_rows, np.int64)
            return messages(TABLES[output].schema, batch.columns, zeros)
        made = [self._refresh(output, offset) for offset in range(first, last)]
        return in_order(pa.concat_batches(made))

    def _count_or_all(self, name: str) -> int | None:
        return None if name in ("region", "nation") else self._count(name)

    def _refresh(self, output: str, offset: int) -> pa.RecordBatch:
        size, first = self._refreshed, self._count("orders")
        gone = self._orders(output, (offset - 1) * size, offset * size)
        come = self._orders(output, first + (offset - 1) * size, first + offset * size)
        return pa.concat_batches([_at(output, gone, offset, -1), _at(output, come, offset, 1)])

    def _orders(self, output: str, first: int, last: int) -> pa.RecordBatch:
        """The orders of these numbers, or their lines."""
        chunks = range(first // _ORDERS_CHUNK, (last - 1) // _ORDERS_CHUNK + 1)
        found = pa.concat_batches([self._chunk(output, chunk, None) for chunk in chunks])
        lower, upper = rows.sparse_keys(np.array([first, last]))
        keys = np.asarray(found.column(0))
        return found.filter(pa.array((keys >= lower) & (keys < upper)))

    def _chunk(self, name: str, chunk: int, count: int | None) -> pa.RecordBatch:
        """The rows of a chunk, as far as their numbers are below the count."""
        if name in ("orders", "lineitem"):
            made = _orders_chunk(self.options.seed, self.options.scale, chunk)[name]
            if count is None or (chunk + 1) * _ORDERS_CHUNK <= count:
                return made
            upper = rows.sparse_keys(np.array([count]))[0]
            return made.filter(pa.array(np.asarray(made.column(0)) < upper))
        return self._other_chunk(name, chunk, count)

    def _other_chunk(self, name: str, chunk: int, count: int | None) -> pa.RecordBatch:
        if count is None:
            return _batch(name, rows.fixed()[name])
        pick = np.random.default_rng([self.options.seed, _NUMBER[name], chunk])
        keys = np.arange(chunk * _CHUNK, min((chunk + 1) * _CHUNK, count)) + 1
        makers: dict[str, Callable[[], Mapping[str, rows.Column]]] = {
            "supplier": lambda: rows.suppliers(pick, keys),
            "part": lambda: rows.parts(pick, keys),
            "partsupp": lambda: rows.offers(pick, keys, rows_at(self.options.scale, "supplier")),
            "customer": lambda: rows.customers(pick, keys),
        }
        return _batch(name, makers[name]())


def _chunk_size(name: str) -> int:
    return _ORDERS_CHUNK if name in ("orders", "lineitem") else _CHUNK


@lru_cache(maxsize=8)
def _orders_chunk(seed: int, scale: float, chunk: int) -> dict[str, pa.RecordBatch]:
    """A chunk of orders and of their lines, which refreshes ask for several times in a row."""
    pick = np.random.default_rng([seed, _NUMBER["orders"], chunk])
    numbers = np.arange(chunk * _ORDERS_CHUNK, (chunk + 1) * _ORDERS_CHUNK)
    made = rows.orders(pick, rows.sparse_keys(numbers), scale)
    return {name: _batch(name, columns) for name, columns in made.items()}


def _batch(name: str, columns: Mapping[str, rows.Column]) -> pa.RecordBatch:
    schema = row_schema(TABLES[name].schema)
    return pa.RecordBatch.from_arrays(rows.arrays(columns, schema), schema=schema)


def _at(name: str, batch: pa.RecordBatch, offset: int, diff: int) -> pa.RecordBatch:
    offsets = np.full(batch.num_rows, offset)
    return messages(TABLES[name].schema, batch.columns, offsets, np.full(batch.num_rows, diff))
