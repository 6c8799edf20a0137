"""Records that the Kinesis Producer Library has packed into one."""

from __future__ import annotations

import pytest
from kinesis_fakes import FakeRuntime, FakeStream, Life

from waterclock.storage.sources.kinesis.aggregation import Packed, unpacked
from waterclock.storage.sources.kinesis.records import batches_of
from waterclock.storage.sources.kinesis.shards import Shard
from waterclock.storage.sources.kinesis.stream import Record
from waterclock.testing.kinesis import aggregated, key_hash

ALL = Shard("a")
SEVERAL = [("x", b"1"), ("y", b""), ("x", b"2" * 300)]


def test_packed_records_in_their_order() -> None:
    assert unpacked(aggregated(SEVERAL), ALL) == [Packed(key, data) for key, data in SEVERAL]
    assert unpacked(aggregated([]), ALL) == []


def test_a_packed_record_counts_in_its_own_shard_only() -> None:
    half = 2**127
    low, high = Shard("low", (), 0, half - 1), Shard("high", (), half, 2**128 - 1)
    keys = [f"k{n}" for n in range(20)]
    data = aggregated([(key, b"") for key in keys])
    in_low, in_high = unpacked(data, low), unpacked(data, high)
    assert in_low is not None
    assert in_high is not None
    assert [each.key for each in in_low] == [key for key in keys if key_hash(key) < half]
    assert len(in_low) + len(in_high) == 20
    chosen = aggregated([("k", b"l"), ("k", b"h"), ("k", b"?")], [0, half, None])
    found = unpacked(chosen, high)
    assert found is not None
    assert [each.data for each in found if each.hash is not None] == [b"h"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xf3\x89\x9a\xc2",
        b"\xf3\x89\x9a\xc2" + b"x" * 40,
        aggregated(SEVERAL)[:-1],
        aggregated(SEVERAL)[:-1] + b"!",
        aggregated([("x", b"1")]).replace(b"\x0a\x01x", b"\x0a\x01y"),
    ],
)
def test_what_only_looks_like_it_is_an_ordinary_record(data: bytes) -> None:
    assert unpacked(data, ALL) is None


def test_packed_records_share_a_number_and_are_seen_together() -> None:
    record = Record(10**100, "outer", aggregated(SEVERAL), 1500)
    [batch] = batches_of([record, Record(10**100 + 1, "k", b"plain", 2000)], ALL)
    rows = batch.to_pylist()
    assert [row["value"] for row in rows] == [b"1", b"", b"2" * 300, b"plain"]
    assert [row["key"] for row in rows] == [b"x", b"y", b"x", b"k"]
    assert [int(row["offset"]) - 10**100 for row in rows] == [0, 0, 0, 1]
    stream = FakeStream(FakeRuntime())
    stream.add(ALL)
    held = stream.held["a"].records
    stream.put("a", "one")
    held.append(Record(held[-1].number + 1, "k", aggregated(SEVERAL), held[-1].arrived_ms))
    life = Life(stream)
    life.settle()
    assert life.values == ["one", "1", "", "2" * 300]


def test_slices_are_bounded() -> None:
    records = [Record(n, "k", b"x" * (1 << 20), 0) for n in range(1, 41)]
    batches = list(batches_of(records, ALL))
    assert max(batch.nbytes for batch in batches) < 20 << 20
    assert sum(batch.num_rows for batch in batches) == 40
