"""Changes of the data: orders come, are changed and go; the other tables change under them.

All changes at a time are consistent: an order goes with its lines, and no key is there twice. Some
changes aim at what the queries select, since at small scales random ones would miss it: orders of
great quantity, parts of the brands that are asked for, suppliers that move to other nations.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from waterclock.storage.sources.tpch.words import (
    COLORS,
    NATIONS,
    PRIORITIES,
    REGIONS,
    SEGMENTS,
)
from waterclock.testing.tpch.generate import as_table, orders, sparse_keys
from waterclock.testing.tpch.tables import TABLES, rows_at

Row = tuple[Any, ...]
Key = tuple[Any, ...]
_HOT_BRANDS = (("Brand#23", "MED BOX"), ("Brand#12", "SM CASE"), ("Brand#34", "LG BOX"))
_HOT_TYPES = ("ECONOMY ANODIZED STEEL", "PROMO PLATED BRASS", "MEDIUM POLISHED TIN")


@dataclass(frozen=True, slots=True)
class Changes:
    """What goes from and comes to each table at one time."""

    gone: dict[str, list[Row]]
    come: dict[str, list[Row]]

    @property
    def rows(self) -> int:
        sides = (self.gone, self.come)
        return sum(len(rows) for side in sides for rows in side.values())


def rows_of(table: pa.Table) -> list[Row]:
    """The rows of a table."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


class Refresh:
    """The tables as they are now, and random changes of them."""

    def __init__(self, tables: Mapping[str, pa.Table], scale: float, seed: int = 1) -> None:
        self._pick = random.Random(seed)
        self._scale = scale
        self._live = {
            name: {_key(name, row): row for row in rows_of(table)} for name, table in tables.items()
        }
        self._orders = rows_at(scale, "orders")
        self._before: dict[str, dict[Key, Row]] = {}

    def next(self) -> Changes:
        """The changes at the next time."""
        self._before = {}
        actions: list[Callable[[], None]] = [self._new_order, self._end_order]
        actions += self._pick.sample(self._others(), self._pick.randrange(3, 7))
        for action in actions:
            action()
        return self._changes()

    def _others(self) -> list[Callable[[], None]]:
        return [
            self._new_order,
            self._end_order,
            self._move_line,
            self._move_line,
            self._move_order,
            self._move_customer,
            self._new_customer,
            self._move_supplier,
            self._move_part,
            self._move_partsupp,
            self._end_partsupp,
            self._move_nation,
        ]

    def _changes(self) -> Changes:
        gone: dict[str, list[Row]] = {}
        come: dict[str, list[Row]] = {}
        for name, before in self._before.items():
            now = self._live[name]
            gone[name] = [row for key, row in before.items() if row != now.get(key) and row]
            come[name] = [now[key] for key in before if key in now and now[key] != before[key]]
        return Changes(gone, come)

    def _put(self, name: str, key: Key, row: Row | None) -> None:
        live = self._live[name]
        self._before.setdefault(name, {}).setdefault(key, live.get(key, ()))
        if row is None:
            live.pop(key, None)
        else:
            live[key] = row

    def _update(self, name: str, key: Key, **fields: Any) -> None:
        names = TABLES[name].schema.names
        old = self._live[name][key]
        self._put(name, key, tuple(fields.get(n, v) for n, v in zip(names, old, strict=True)))

    def _any(self, name: str) -> Key:
        """The key of some row: drawn by place, for a choice from a dict is not uniform in time."""
        live = self._live[name]
        return self._pick.choice(list(live))

    def _money(self, low: int, high: int) -> Decimal:
        return Decimal(self._pick.randrange(low, high)).scaleb(-2)

    def _new_order(self) -> None:
        self._orders += 1
        draw = np.random.default_rng(self._pick.randrange(2**32))
        made = orders(draw, sparse_keys(np.array([self._orders])), self._scale)
        for name, columns in made.items():
            for row in rows_of(as_table(name, columns)):
                self._put(name, _key(name, row), row)
        if self._pick.random() < 0.5:
            self._heat(int(sparse_keys(np.array([self._orders]))[0]))

    def _heat(self, order: int) -> None:
        """Make an order one of those that some query looks for, and comes out on top of it."""
        [steel, *_] = [
            *(key for key, row in self._live["part"].items() if row[4] == _HOT_TYPES[0]),
            self._any("part"),
        ]
        segment, nation, ordered, line = self._pick.choice(
            (
                ("BUILDING", 0, date(1995, 3, 1), {"l_shipdate": date(1995, 4, 1)}),
                ("BUILDING", 0, date(1993, 11, 1), {"l_returnflag": "R"}),
                ("MACHINERY", 1, date(1996, 1, 10), {"l_shipdate": date(1996, 2, 1)}),
                ("MACHINERY", 2, date(1995, 6, 1), {"l_partkey": steel[0]}),
                ("FURNITURE", 3, date(1996, 7, 1), {}),
            )
        )
        customer = (self._live["orders"][order,][1],)
        if customer in self._live["customer"]:
            self._update("customer", customer, c_mktsegment=segment, c_nationkey=nation)
        self._update("orders", (order,), o_orderdate=ordered)
        price = self._money(9_000_000, 12_000_000)
        for key in self._lines_of(order):
            fields = {**line, "l_quantity": Decimal("50.00"), "l_extendedprice": price}
            self._update("lineitem", key, **fields)

    def _lines_of(self, order: int) -> list[Key]:
        keys = [(order, number) for number in range(1, 8)]
        return [key for key in keys if key in self._live["lineitem"]]

    def _end_order(self) -> None:
        key = self._any("orders")
        for line in self._lines_of(key[0]):
            self._put("lineitem", line, None)
        self._put("orders", key, None)

    def _move_line(self) -> None:
        pick = self._pick
        match pick.randrange(4):
            case 0:
                self._update(
                    "lineitem", self._any("lineitem"), l_quantity=Decimal(pick.randrange(1, 51))
                )
            case 1:
                fields: dict[str, Any] = {
                    "l_shipmode": "AIR",
                    "l_shipinstruct": "DELIVER IN PERSON",
                }
                hot = [k for k, row in self._live["part"].items() if row[3:7:3] in _HOT_BRANDS]
                if hot:
                    part = pick.choice(hot)[0]
                    fields.update(l_partkey=part, l_quantity=Decimal(pick.choice((1, 5, 15, 25))))
                self._update("lineitem", self._any("lineitem"), **fields)
            case 2:
                key = self._any("lineitem")
                late = self._live["lineitem"][key][11]
                self._update("lineitem", key, l_commitdate=late.replace(day=1), l_receiptdate=late)
            case _:
                self._put("lineitem", self._any("lineitem"), None)

    def _move_order(self) -> None:
        pick = self._pick
        fields: dict[str, Any] = pick.choice(
            (
                {"o_orderpriority": pick.choice(PRIORITIES)},
                {"o_custkey": self._any("customer")[0]},
                {"o_orderstatus": pick.choice("FOP")},
                {"o_comment": "special pending requests"},
            )
        )
        self._update("orders", self._any("orders"), **fields)

    def _move_customer(self) -> None:
        nation = self._pick.randrange(len(NATIONS))
        self._update(
            "customer",
            self._any("customer"),
            c_nationkey=nation,
            c_phone=f"{nation + 10}-555-555-5555",
            c_acctbal=self._money(-99_999, 1_000_000),
            c_mktsegment=self._pick.choice(SEGMENTS),
        )

    def _new_customer(self) -> None:
        """A customer whose orders may already be there: one that nobody has goes, or comes back."""
        key = max(self._live["customer"])[0] + 1
        old = self._live["customer"][self._any("customer")]
        self._put("customer", (key,), (key, f"Customer#{key:09}", *old[2:]))

    def _move_supplier(self) -> None:
        comment = self._pick.choice(("bold", "Customer many Complaints", "Customer no complaints"))
        self._update(
            "supplier",
            self._any("supplier"),
            s_nationkey=self._pick.randrange(len(NATIONS)),
            s_acctbal=self._money(-99_999, 1_000_000),
            s_comment=comment,
        )

    def _move_part(self) -> None:
        pick = self._pick
        brand, container = pick.choice(_HOT_BRANDS)
        name = pick.choice(("forest", "green", pick.choice(COLORS))) + " " + pick.choice(COLORS)
        fields: dict[str, Any] = pick.choice(
            (
                {"p_brand": brand, "p_container": container, "p_size": pick.randrange(1, 6)},
                {"p_type": pick.choice(_HOT_TYPES), "p_size": 15},
                {"p_name": name, "p_size": pick.choice((49, 14, 23, 45))},
            )
        )
        self._update("part", self._any("part"), **fields)

    def _move_partsupp(self) -> None:
        self._update(
            "partsupp",
            self._any("partsupp"),
            ps_availqty=self._pick.randrange(1, 10_000),
            ps_supplycost=self._money(100, 100_001),
        )

    def _end_partsupp(self) -> None:
        self._put("partsupp", self._any("partsupp"), None)

    def _move_nation(self) -> None:
        if self._pick.random() < 0.3:
            region = self._pick.randrange(len(REGIONS))
            self._update("nation", self._any("nation"), n_regionkey=region)


def _key(name: str, row: Row) -> Key:
    names = TABLES[name].schema.names
    return tuple(row[names.index(each)] for each in TABLES[name].key)
