"""AUCTION: an auction house, with organizations, users, their accounts, auctions and bids.

The first tick opens the house: organizations, users, and an account for each user. Each later tick
is one transaction in the proportions of the Nexmark benchmark: one user comes, three auctions are
opened, 46 bids are made on auctions of the last ticks, and some accounts change their balance. Bids
are taken out after a while, and auctions after all their bids, so that the contents do not grow
without end.

Every row refers to rows that are there at the same time: a bid's auction and buyer, an auction's
seller, a user's organization, an account's user. Ids are keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from waterclock.model.schema import Column, ColumnType, Int, Schema, Text, Timestamp
from waterclock.storage.sources.generators.api import Options, Piece, in_order, messages
from waterclock.storage.sources.generators.draws import Ints, below

ORGANIZATIONS = 10
FIRST_USERS = 100
AUCTIONS_PER_TICK = 3
BIDS_PER_TICK = 46
BALANCES_PER_TICK = 4
BIDDING_TICKS = 20
"""For how many ticks bids are made on an auction."""
BID_LIFE_TICKS = 100
AUCTION_LIFE_TICKS = BIDDING_TICKS + BID_LIFE_TICKS
_PIECE = 2_000
_FIRST_DAY = np.datetime64("2024-01-01T00:00:00", "us")
_ITEMS = ("Signed Memorabilia", "Best Pizza in Town", "City Bar Crawl", "Custom Art", "Gift Basket")
_FIRST = ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn", "Gil", "Hana", "Ivo", "Jo")
_LAST = ("Abel", "Bern", "Cruz", "Dorn", "Ekel", "Fink", "Gold", "Hahn")


def _schema(**columns: ColumnType) -> Schema:
    return Schema(tuple(Column(name, kind, nullable=False) for name, kind in columns.items()))


_INT, _TEXT, _TIME = Int(64), Text(), Timestamp(zoned=True)
OUTPUTS = {
    "organizations": _schema(id=_INT, name=_TEXT),
    "users": _schema(id=_INT, org_id=_INT, name=_TEXT),
    "accounts": _schema(id=_INT, user_id=_INT, balance=_INT),
    "auctions": _schema(id=_INT, seller=_INT, item=_TEXT, end_time=_TIME),
    "bids": _schema(id=_INT, buyer=_INT, auction_id=_INT, amount=_INT, bid_time=_TIME),
}


@dataclass(frozen=True, slots=True)
class Auction:
    """Implements `Generator`."""

    options: Options

    @property
    def outputs(self) -> Mapping[str, Schema]:
        return OUTPUTS

    @property
    def is_split(self) -> bool:
        return True

    @property
    def ticks_at_once(self) -> int:
        return 20_000

    @property
    def ends_at(self) -> int | None:
        maximum = self.options.maximum
        return None if maximum is None else maximum + 1  # the first tick only opens the house

    def pieces(self, start: int, end: int) -> Iterable[Piece]:
        for first in range(start, end, _PIECE):
            last = min(first + _PIECE, end)
            for output, rows in (("users", 1), ("accounts", 9), ("auctions", 6), ("bids", 92)):
                yield Piece(output, first, last, rows * (last - first))
            if first == 0:
                yield Piece("organizations", first, last, ORGANIZATIONS)

    def make(self, output: str, first: int, last: int) -> pa.RecordBatch:
        make: dict[str, Callable[[int, int], pa.RecordBatch]] = {
            "organizations": self._organizations,
            "users": self._users,
            "accounts": self._accounts,
            "auctions": self._auctions,
            "bids": self._bids,
        }
        return in_order(make[output](first, last))

    def _draw(self, bound: int, stream: int, places: Ints) -> Ints:
        return below(bound, self.options.seed, stream, places)

    def _times(self, ticks: Ints) -> pa.Array:
        """The moments of ticks, on a calendar that begins on the same day for every source."""
        since = (ticks * self.options.tick_ms * 1000).astype("timedelta64[us]")
        return pa.array(_FIRST_DAY + since).cast(pa.timestamp("us", tz="UTC"))

    def _organizations(self, first: int, last: int) -> pa.RecordBatch:
        assert first == 0 < last
        ids = np.arange(ORGANIZATIONS)
        names = [f"Organization {each}" for each in ids]
        return messages(OUTPUTS["organizations"], [ids, names], np.zeros(len(ids), np.int64))

    # Users are numbered as they come: the first ones at tick 0, then one at each tick.

    def _users(self, first: int, last: int) -> pa.RecordBatch:
        ids = _ids_of_users(first, last)
        names = [
            f"{_FIRST[a]} {_LAST[b]}"
            for a, b in zip(
                self._draw(len(_FIRST), 1, ids), self._draw(len(_LAST), 2, ids), strict=True
            )
        ]
        columns = [ids, self._draw(ORGANIZATIONS, 3, ids), names]
        return messages(OUTPUTS["users"], columns, _tick_of_user(ids))

    def _accounts(self, first: int, last: int) -> pa.RecordBatch:
        """A new account for each user; and those of the first users change, in turn."""
        ids = _ids_of_users(first, last)
        opened = messages(
            OUTPUTS["accounts"], [ids, ids, self._balance(ids, ids * 0)], _tick_of_user(ids)
        )
        changes = np.arange(max(first - 1, 0), last - 1).repeat(BALANCES_PER_TICK)
        turn = changes * BALANCES_PER_TICK + np.tile(
            np.arange(BALANCES_PER_TICK), len(changes) // BALANCES_PER_TICK
        )
        account, version = turn % FIRST_USERS, turn // FIRST_USERS
        gone = [account, account, self._balance(account, version)]
        come = [account, account, self._balance(account, version + 1)]
        ones = np.ones(len(turn), np.int64)
        return pa.concat_batches(
            [
                opened,
                messages(OUTPUTS["accounts"], gone, changes + 1, -ones),
                messages(OUTPUTS["accounts"], come, changes + 1, ones),
            ]
        )

    def _balance(self, account: Ints, version: Ints) -> Ints:
        return self._draw(10_000, 4, account * 1_000_003 + version)

    # Tick n, from 1 on, opens auctions 3(n-1) to 3n-1 and makes bids 46(n-1) to 46n-1.

    def _auctions(self, first: int, last: int) -> pa.RecordBatch:
        come = np.arange(max(first, 1), last)
        gone = come - AUCTION_LIFE_TICKS
        gone = gone[gone >= 1]
        return pa.concat_batches(
            [
                self._auctions_of(come, come, 1),
                self._auctions_of(gone, gone + AUCTION_LIFE_TICKS, -1),
            ]
        )

    def _auctions_of(self, ticks: Ints, offsets: Ints, diff: int) -> pa.RecordBatch:
        ids = _each(ticks, AUCTIONS_PER_TICK)
        opened = ticks.repeat(AUCTIONS_PER_TICK)
        items = [_ITEMS[place] for place in self._draw(len(_ITEMS), 5, ids)]
        sellers = self._draw(FIRST_USERS, 6, ids)
        ends = self._times(opened + BIDDING_TICKS)
        at = offsets.repeat(AUCTIONS_PER_TICK)
        return messages(
            OUTPUTS["auctions"], [ids, sellers, items, ends], at, np.full(len(ids), diff)
        )

    def _bids(self, first: int, last: int) -> pa.RecordBatch:
        come = np.arange(max(first, 1), last)
        gone = come - BID_LIFE_TICKS
        gone = gone[gone >= 1]
        return pa.concat_batches(
            [self._bids_of(come, come, 1), self._bids_of(gone, gone + BID_LIFE_TICKS, -1)]
        )

    def _bids_of(self, ticks: Ints, offsets: Ints, diff: int) -> pa.RecordBatch:
        ids = _each(ticks, BIDS_PER_TICK)
        made = ticks.repeat(BIDS_PER_TICK)
        back = np.minimum(self._draw(BIDDING_TICKS, 7, ids), made - 1)
        auctions = (made - back - 1) * AUCTIONS_PER_TICK + self._draw(AUCTIONS_PER_TICK, 8, ids)
        buyers = self._draw(2**62, 9, ids) % (FIRST_USERS + made)
        amounts = self._draw(500, 10, ids) + 1
        columns = [ids, buyers, auctions, amounts, self._times(made)]
        at = offsets.repeat(BIDS_PER_TICK)
        return messages(OUTPUTS["bids"], columns, at, np.full(len(ids), diff))


def _ids_of_users(first: int, last: int) -> Ints:
    """The users that come in the ticks."""
    lower = 0 if first == 0 else FIRST_USERS + first - 1
    return np.arange(lower, FIRST_USERS + last - 1)


def _tick_of_user(ids: Ints) -> Ints:
    return np.maximum(ids - FIRST_USERS + 1, 0)


def _each(ticks: Ints, count: int) -> Ints:
    """The numbers of the things that come at ticks, so many at each from tick 1 on."""
    return ((ticks - 1)[:, None] * count + np.arange(count)).ravel()
