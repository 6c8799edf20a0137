"""A small world around a store, for tests: shards with one reader and one writer, and rows of every
SQL type.

Rows come back as *frozen* values, which compare as rows do in the database: one NaN equals another,
zero and minus zero differ, and nested values are tuples.
"""

from __future__ import annotations

import itertools
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from datetime import UTC, date, datetime, time
from decimal import Decimal as Exact
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from waterclock.model.collection import Update
from waterclock.model.schema import (
    Array,
    Bool,
    Bytes,
    Column,
    ColumnType,
    Date,
    Decimal,
    Field,
    Float,
    Int,
    Interval,
    Json,
    Numeric,
    Schema,
    Struct,
    Text,
    TimeOfDay,
    Timestamp,
    Uuid,
)
from waterclock.model.timeline import EPOCH_MILLIS
from waterclock.persist.blob.api import Blob
from waterclock.persist.blob.memory import MemoryBlob
from waterclock.persist.consensus.api import Consensus
from waterclock.persist.consensus.memory import MemoryConsensus
from waterclock.persist.numerics import parts_of
from waterclock.persist.parts import EVERYTHING, Selection, write_batch
from waterclock.persist.reading import changes, snapshot
from waterclock.persist.records import (
    AnyEvent,
    Appended,
    Batch,
    Bound,
    Capability,
    Created,
    Downgraded,
    Granted,
    Right,
    keys_of,
)
from waterclock.persist.retry import Retry
from waterclock.persist.rows import DIFF, TIME, updates
from waterclock.persist.schema_codec import encode_schema
from waterclock.persist.state import State
from waterclock.persist.store import Store

Triples = list[tuple[tuple[Any, ...], int, int]]

IMPATIENT = Retry(attempts=40, sleep=lambda _: None)
"""Retries without pauses, often enough for any simulated run of bad luck."""

NUMBERS = Schema((Column("n", Int(64), nullable=False),))

_owners = itertools.count()


def open_store(
    blob: Blob | None = None, consensus: Consensus | None = None, retry: Retry = IMPATIENT
) -> Store:
    """A store that is the newest owner of the data."""
    return Store.open(
        blob or MemoryBlob(), consensus or MemoryConsensus(), f"owner-{next(_owners)}", retry
    )


def create(store: Store, shard: str, schema: Schema = NUMBERS, start: int = 0) -> None:
    """A shard with a reader and a writer at `start`."""
    events: list[AnyEvent] = [
        Created(shard, EPOCH_MILLIS.id, encode_schema(schema), None, start),
        Granted(shard, Capability(f"r-{shard}", Right.READ, start, None)),
        Granted(shard, Capability(f"w-{shard}", Right.WRITE, start, None)),
    ]
    store.commit(lambda _: (list(events), None))


def append(store: Store, shard: str, upper: Bound, table: pa.Table | pa.RecordBatch | None) -> None:
    """Append as the shard's writer, unchecked."""
    with ExitStack() as stack:
        batch = None if table is None else write_batch(store, shard, table, stack)

        def plan(state: State) -> tuple[list[AnyEvent], None]:
            numbered = None if batch is None else batch.numbered(state.next_batch)
            return [Appended(shard, f"w-{shard}", upper, numbered)], None

        store.commit(plan)


def move_since(store: Store, shard: str, since: Bound) -> None:
    """Downgrade the shard's reader; None drops it."""
    store.commit(lambda _: ([Downgraded(shard, f"r-{shard}", since)], None))


def numbers(triples: Iterable[tuple[int, int, int]]) -> pa.RecordBatch:
    """Updates of `NUMBERS` from `(n, time, diff)`."""
    return updates(NUMBERS, [((n,), time, diff) for n, time, diff in triples])


def batches_of(store: Store, shard: str) -> tuple[Batch, ...]:
    return store.read(lambda state: tuple(state.shards[shard].batches.values()))


def snapshot_batches(
    store: Store, shard: str, as_of: int, selection: Selection = EVERYTHING
) -> Iterator[pa.RecordBatch]:
    """The shard's contents with its blobs pinned."""

    def look(state: State) -> tuple[tuple[pa.Schema, tuple[Batch, ...]], list[str]]:
        found = state.shards[shard]
        batches = tuple(found.batches.values())
        return (found.columns, batches), keys_of(batches)

    with store.pinned(look) as (columns, batches):
        yield from snapshot(store, columns, batches, as_of, selection)


def contents(
    store: Store, shard: str, as_of: int, selection: Selection = EVERYTHING
) -> dict[Any, int]:
    """How often each frozen row is in the shard at the time."""
    counts: Counter[Any] = Counter()
    for batch in snapshot_batches(store, shard, as_of, selection):
        for row, at, diff in frozen_triples(batch):
            assert at == as_of, "a snapshot is at one time"
            counts[row] += diff
    assert all(counts.values()), "a snapshot has no update that cancels another"
    return dict(counts)


def changes_of(
    store: Store, shard: str, start: int, end: Bound, selection: Selection = EVERYTHING
) -> list[tuple[Any, int, int]]:
    columns = store.read(lambda state: state.shards[shard].columns)
    found = changes(store, columns, batches_of(store, shard), start, end, selection)
    return [triple for batch in found for triple in frozen_triples(batch)]


def frozen(value: Any) -> Any:
    """The value as something hashable that is equal exactly to what the database finds equal."""
    match value:
        case float():
            return "NaN" if value != value else ("float", struct.pack(">d", value))
        case list():
            return ("list", *(frozen(element) for element in value))
        case dict():
            return ("struct", *((name, frozen(part)) for name, part in value.items()))
        case bool():
            return ("bool", value)
    return value


def frozen_triples(table: pa.Table | pa.RecordBatch) -> list[tuple[Any, int, int]]:
    """The updates as frozen `(row, time, diff)`."""
    columns = [
        [frozen(value) for value in table.column(name).to_pylist()]
        for name in table.schema.names
        if name not in (TIME, DIFF)
    ]
    times, diffs = table.column(TIME).to_pylist(), table.column(DIFF).to_pylist()
    return [(tuple(column[i] for column in columns), times[i], diffs[i]) for i in range(len(times))]


def model_updates(triples: Iterable[tuple[Any, int, int]]) -> list[Update[Any, int]]:
    """Frozen triples as updates of the model."""
    return [Update(row, EPOCH_MILLIS.time(time), diff) for row, time, diff in triples]


_INTERVAL = {"months": 14, "days": -3, "micros": 5_000_000}
_POINT = Struct((Field("x", Float(64)), Field("name", Text())))
_DEEP = Struct((Field("point", _POINT), Field("tags", Array(Text())), Field("n", Int(32))))

SAMPLES: dict[str, tuple[ColumnType, list[Any]]] = {
    "flag": (Bool(), [True, False]),
    "i16": (Int(16), [0, 1, -1, 2**15 - 1, -(2**15)]),
    "i32": (Int(32), [0, 1, -1, 2**31 - 1, -(2**31)]),
    "i64": (Int(64), [0, 1, -1, 2**63 - 1, -(2**63)]),
    "f32": (Float(32), [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf")]),
    "f64": (Float(64), [0.0, -0.0, 5e-324, 1.7e308, float("nan"), float("inf"), float("-inf")]),
    "money": (Decimal(9, 2), [Exact("0.00"), Exact("-1234567.89"), Exact("9999999.99")]),
    "huge": (Decimal(38, 0), [Exact(10**38 - 1), Exact(1 - 10**38), Exact(0)]),
    "fine": (Decimal(38, 38), [Exact("0." + "9" * 38), Exact("-0." + "9" * 38)]),
    "own": (Numeric(), [parts_of(Exact(n)) for n in ("1.0", "1.00", "-0.5", "9" * 38, "0e-36")]),
    "label": (Text(), ["", "a", "ab", "exactly8", "nine byte", "naïve ☃ 水时计", "\0", "x" * 100]),
    "raw": (Bytes(), [b"", b"\0", b"\0\0", b"\xff" * 17]),
    "day": (Date(), [date.min, date(1970, 1, 1), date.max]),
    "clock": (TimeOfDay(), [time.min, time(12, 30, 0, 1), time.max]),
    "wall": (Timestamp(zoned=False), [datetime.min, datetime(1970, 1, 1), datetime.max]),
    "moment": (
        Timestamp(zoned=True),
        [datetime(1, 1, 2, tzinfo=UTC), datetime(2038, 1, 19, 3, 14, 8, 1, tzinfo=UTC)],
    ),
    "span": (Interval(), [_INTERVAL, {"months": 0, "days": 0, "micros": 0}]),
    "guid": (Uuid(), [b"\0" * 16, bytes(range(16)), b"\xff" * 16]),
    "doc": (Json(), ["null", '{"a": [1, 2]}', '""']),
    "ints": (Array(Int(32)), [[], [None], [0], [1, None, 3], list(range(20))]),
    "grid": (Array(Array(Text())), [[], [[]], [None], [["a"], []], [["a", None], None, [""]]]),
    "point": (
        _POINT,
        [{"x": 1.0, "name": "p"}, {"x": None, "name": None}, {"x": -0.0, "name": ""}],
    ),
    "path": (
        Array(_POINT),
        [[], [None], [{"x": float("nan"), "name": None}, {"x": 0.0, "name": "q"}]],
    ),
    "deep": (
        _DEEP,
        [
            {"point": None, "tags": [], "n": 1},
            {"point": {"x": 2.5, "name": None}, "tags": [None, "t"], "n": None},
        ],
    ),
}
"""For each of several types: values of it, the extreme and the awkward ones among them."""

EVERY_TYPE = Schema(tuple(Column(name, kind) for name, (kind, _) in SAMPLES.items()))


def values(name: str) -> st.SearchStrategy[Any]:
    """Null, or one of the samples of the column."""
    return st.none() | st.sampled_from(SAMPLES[name][1])


def rows_of(names: tuple[str, ...]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(*(values(name) for name in names))


def schema_of(names: tuple[str, ...]) -> Schema:
    return Schema(tuple(Column(name, SAMPLES[name][0]) for name in names))
