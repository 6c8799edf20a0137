"""BANK: the transfers of the consistency test, which arrive up to ten seconds out of order.

Each transfer moves 1 from one of ten accounts to another, or to itself. The i-th of n happens in
second 60*i/n and arrives in the order of that second plus a delay of up to ten. However many have
arrived, what all accounts hold together is 0: a view that says otherwise has seen a half of one.

The order of arrival needs the number of all transfers, so it is known from the start, and the
generator ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa

from waterclock.model.schema import Column, Int, Schema, Timestamp
from waterclock.storage.sources.generators.api import Options, Piece, messages
from waterclock.storage.sources.generators.draws import Ints

NAME = "transfers"
DEFAULT_TRANSFERS = 20_000
ACCOUNTS = 10
SECONDS = 60
DELAY_S = 10
_FIRST_SECOND = np.datetime64("2021-01-01T00:00:00", "us")
_ROWS = Schema(
    (
        Column("id", Int(64), nullable=False),
        Column("from_account", Int(64), nullable=False),
        Column("to_account", Int(64), nullable=False),
        Column("amount", Int(64), nullable=False),
        Column("ts", Timestamp(zoned=True), nullable=False),
    )
)
_PIECE = 100_000


@dataclass(frozen=True, slots=True)
class Bank:
    """Implements `Generator`."""

    options: Options

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return {NAME: _ROWS}

    @property
    def is_split(self) -> bool:
        return False

    @property
    def ticks_at_once(self) -> int:
        return 10_000_000

    @property
    def ends_at(self) -> int | None:
        return self.options.maximum or DEFAULT_TRANSFERS

    def pieces(self, start: int, end: int) -> Iterable[Piece]:
        for first in range(start, end, _PIECE):
            last = min(first + _PIECE, end)
            yield Piece(NAME, first, last, last - first)

    def make(self, output: str, first: int, last: int) -> pa.RecordBatch:
        assert output == NAME
        count = self.ends_at
        assert count is not None
        order, givers, takers = _transfers(self.options.seed, count)
        ids = order[first:last]
        seconds = SECONDS * ids // count
        times = pa.array(_FIRST_SECOND + seconds.astype("timedelta64[s]"))
        stamps = times.cast(pa.timestamp("us", tz="UTC"))
        one = np.ones(len(ids), np.int64)
        return messages(_ROWS, [ids, givers[ids], takers[ids], one, stamps], np.arange(first, last))


@lru_cache(maxsize=4)
def _transfers(seed: int, count: int) -> tuple[Ints, Ints, Ints]:
    """The ids in the order of arrival, and who gives and takes, by id."""
    pick = np.random.default_rng(seed)
    givers = pick.integers(0, ACCOUNTS, count)
    takers = pick.integers(0, ACCOUNTS, count)
    seconds = SECONDS * np.arange(count) // count
    arrival = seconds + pick.uniform(0, DELAY_S, count)
    return np.argsort(arrival, kind="stable"), givers, takers
