"""Load generators: rows as a function of seed and offset, and what holds in them at every tick."""

from __future__ import annotations

import pickle
from collections import Counter as Multiset
from typing import Any

import pyarrow as pa
import pytest

from waterclock.storage.reclock.progress import Range, SourceFrontier
from waterclock.storage.sources.api import Surroundings, message_schema
from waterclock.storage.sources.errors import InvalidSource
from waterclock.storage.sources.generators import auction
from waterclock.storage.sources.generators.api import Generator, Options
from waterclock.storage.sources.generators.connector import (
    KIND,
    LoadGenerator,
    encoded,
    generator_of,
)

Rows = list[tuple[tuple[Any, ...], int, int]]
KINDS = ("counter", "auction", "bank", "tpch")


def options(kind: str, **more: Any) -> Options:
    return Options(**{"kind": kind, "tick_ms": 1000, "created_ms": 0, "scale": 0.001, **more})


def made(generator: Generator, start: int, end: int) -> dict[str, Rows]:
    """All rows of a range, with offset and diff, by output."""
    found: dict[str, Rows] = {name: [] for name in generator.outputs}
    for piece in generator.pieces(start, end):
        batch = generator.make(piece.output, piece.first, piece.last)
        assert batch.schema == message_schema(generator.outputs[piece.output])
        batch.validate(full=True)
        *columns, offsets, diffs = (column.to_pylist() for column in batch.columns)
        assert offsets == sorted(offsets)
        found[piece.output] += zip(zip(*columns, strict=True), offsets, diffs, strict=True)
    return found


def at(found: dict[str, Rows], offset: int) -> dict[str, list[tuple[Any, ...]]]:
    """The contents after a tick; nothing is there twice, or taken out that was not there."""
    contents = {}
    for name, rows in found.items():
        counts: Multiset[tuple[Any, ...]] = Multiset()
        for row, when, diff in rows:
            if when <= offset:
                counts[row] += diff
        assert set(counts.values()) <= {0, 1}
        contents[name] = [row for row, count in counts.items() if count]
    return contents


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_a_function_of_seed_and_offset(kind: str) -> None:
    generator = generator_of(options(kind, seed=7))
    whole = made(generator, 0, 300 if kind != "tpch" else 9)
    end = 300 if kind != "tpch" else 9
    for cut in (1, 2, end // 2):
        first, second = made(generator, 0, cut), made(generator, cut, end)
        for name, rows in whole.items():
            assert Multiset(first[name] + second[name]) == Multiset(rows)
    again = made(pickle.loads(pickle.dumps(generator)), 0, end)
    assert again == whole


@pytest.mark.parametrize("kind", ["auction", "bank", "tpch"])
def test_another_seed_gives_other_rows(kind: str) -> None:
    one, other = (made(generator_of(options(kind, seed=seed)), 0, 3) for seed in (1, 2))
    assert one != other


def test_counter_counts() -> None:
    rows = made(generator_of(options("counter")), 2, 5)["counter"]
    assert rows == [((3,), 2, 1), ((4,), 3, 1), ((5,), 4, 1)]


def test_counter_keeps_the_newest() -> None:
    found = made(generator_of(options("counter", cardinality=3)), 0, 10)
    assert sorted(at(found, 1)["counter"]) == [(1,), (2,)]
    assert sorted(at(found, 9)["counter"]) == [(8,), (9,), (10,)]


def test_bank_transfers_are_those_of_the_consistency_test() -> None:
    rows = made(generator_of(options("bank", seed=42, maximum=20_000)), 0, 20_000)["transfers"]
    ids = [row[0] for row, _, _ in rows]
    assert sorted(ids) == list(range(20_000))
    assert ids != sorted(ids)
    accounts = {account for row, _, _ in rows for account in row[1:3]}
    assert accounts == set(range(10))
    assert {row[3] for row, _, _ in rows} == {1}
    seconds = [row[4].second for row, _, _ in rows]
    assert {row[0]: row[4].second for row, _, _ in rows} == {i: 60 * i // 20_000 for i in ids}
    latest = 0
    for second in seconds:
        latest = max(latest, second)
        assert second > latest - 11  # at most ten seconds out of order
    assert generator_of(options("bank", maximum=20_000)).ends_at == 20_000


@pytest.mark.semantics(114, 154)
def test_auction_refers_only_to_what_is_there() -> None:
    found = made(generator_of(options("auction")), 0, 300)
    for tick in (0, 1, 2, 99, 100, 101, 120, 121, 299):
        contents = at(found, tick)
        keys = {name: {row[0] for row in rows} for name, rows in contents.items()}
        assert all(len(keys[name]) == len(rows) for name, rows in contents.items())
        assert {row[1] for row in contents["users"]} <= keys["organizations"]
        assert {row[1] for row in contents["accounts"]} == keys["users"]
        assert {row[1] for row in contents["auctions"]} <= keys["users"]
        assert {row[1] for row in contents["bids"]} <= keys["users"]
        assert {row[2] for row in contents["bids"]} <= keys["auctions"]
        assert len(contents["bids"]) == auction.BIDS_PER_TICK * min(tick, auction.BID_LIFE_TICKS)
        life = auction.AUCTION_LIFE_TICKS
        assert len(contents["auctions"]) == auction.AUCTIONS_PER_TICK * min(tick, life)
        assert len(contents["users"]) == auction.FIRST_USERS + tick


def test_auction_changes_balances() -> None:
    found = made(generator_of(options("auction")), 0, 60)
    before, after = ({row[0]: row[2] for row in at(found, t)["accounts"]} for t in (0, 59))
    assert sum(before[user] != after[user] for user in before) > 90


def test_tpch_keeps_its_size_and_its_references() -> None:
    generator = generator_of(options("tpch", scale=0.002))
    found = made(generator, 0, 12)
    start, late = at(found, 0), at(found, 11)
    assert {name: len(rows) for name, rows in start.items() if name != "lineitem"} == {
        "region": 5,
        "nation": 25,
        "supplier": 20,
        "part": 400,
        "partsupp": 1600,
        "customer": 300,
        "orders": 3000,
    }
    for contents in (start, late):
        orders = {row[0]: row for row in contents["orders"]}
        assert len(orders) == 3000
        assert {row[0] for row in contents["lineitem"]} == set(orders)
        offered = {row[:2] for row in contents["partsupp"]}
        assert {row[1:3] for row in contents["lineitem"]} <= offered
        assert {row[1] for row in orders.values()} <= {row[0] for row in contents["customer"]}
    gone = {row[0] for row in start["orders"]} - {row[0] for row in late["orders"]}
    assert len(gone) == 11 * 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "clock"},
        {"tick_ms": 0},
        {"maximum": 0},
        {"cardinality": -1},
        {"scale": 0},
        {"seed": -1},
    ],
)
def test_options_that_make_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidSource):
        generator_of(options(**{"kind": "counter", **wrong}))


class Hands:
    """A clock, and executors that note what they did."""

    def __init__(self) -> None:
        self.now = 0
        self.slices: list[tuple[int, int]] = []

    def __call__(self) -> int:
        return self.now

    def run(self, make: Any, slices: Any, schema: pa.Schema) -> Any:
        self.slices += slices
        for each in slices:
            batch = pickle.loads(pickle.dumps(make))(*each)
            assert batch.schema == schema
            yield batch


def opened(hands: Hands, **more: Any) -> LoadGenerator:
    given = options(**{"kind": "counter", **more})
    connector = KIND.open(encoded(given), Surroundings(hands, hands))
    assert isinstance(connector, LoadGenerator)
    return connector


def test_the_frontier_follows_the_clock_and_never_goes_back() -> None:
    hands = Hands()
    connector = opened(hands, maximum=5)
    assert connector.start() == SourceFrontier.single(0)
    assert connector.probe().frontier == SourceFrontier.single(1)
    hands.now = 2500
    assert connector.probe().frontier == SourceFrontier.single(3)
    connector.commit(SourceFrontier.single(3))
    hands.now = 0
    assert connector.probe().frontier == SourceFrontier.single(3)
    hands.now = 10**9
    probe = connector.probe()
    assert (probe.frontier, probe.is_final) == (SourceFrontier.single(5), True)


def test_a_long_absence_is_made_up_for_in_parts() -> None:
    hands = Hands()
    connector = opened(hands, kind="auction")
    hands.now = 50_000_000
    probe = connector.probe()
    assert probe.frontier == SourceFrontier.single(20_000)
    assert probe.known == SourceFrontier.single(50_001)
    assert not probe.is_final


def test_large_ranges_are_made_on_executors() -> None:
    hands = Hands()
    connector = opened(hands)
    small = list(connector.read([Range(None, 0, 10)]))
    assert not hands.slices
    assert small[0].batch.num_rows == 10
    large = list(connector.read([Range(None, 0, 1_000_000)]))
    assert len(hands.slices) == 10
    assert sum(each.batch.num_rows for each in large) == 1_000_000
