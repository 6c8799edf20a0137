"""Rows of TPC-H, made column by column from random numbers.

Sizes, keys and distributions follow the specification, with which text columns agree only where a
query looks at them. Columns are made whole, by NumPy; money is counted in cents until it becomes a
decimal.

Each function makes the rows of the keys it is given from the generator it is given, and nothing
else; how a table is cut into such parts is the caller's choice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from waterclock.storage.sources.tpch.tables import rows_at
from waterclock.storage.sources.tpch.words import (
    COLORS,
    CONTAINER_1,
    CONTAINER_2,
    INSTRUCTIONS,
    MODES,
    NATIONS,
    PRIORITIES,
    REGIONS,
    SEGMENTS,
    TEXT,
    TYPE_1,
    TYPE_2,
    TYPE_3,
)

Ints = npt.NDArray[np.int64]
Column = Any
"""Texts as a list, anything else as an array."""

FIRST_DAY = int(np.datetime64("1992-01-01").astype(int))
LAST_ORDER = int(np.datetime64("1998-08-02").astype(int))
CURRENT = int(np.datetime64("1995-06-17").astype(int))
"""Today in the benchmark: what was received before has been returned or accepted."""


def arrays(columns: Mapping[str, Column], schema: pa.Schema) -> list[pa.Array]:
    """The columns in the order and of the types of the schema."""
    return [_array(columns[field.name], field.type) for field in schema]


def _array(values: Column, kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return _decimals(np.asarray(values, np.int64), kind)
    if pa.types.is_date(kind):
        return pa.array(np.asarray(values, np.int32), pa.int32()).cast(kind)
    return pa.array(values, kind)


def _decimals(cents: Ints, kind: pa.DataType) -> pa.Array:
    """Whole cents as decimals."""
    halves = np.stack((cents, cents >> 63), axis=1)
    return pa.Array.from_buffers(kind, len(cents), [None, pa.py_buffer(halves.tobytes())])


def sparse_keys(numbers: Ints) -> Ints:
    """Order keys: of each 32 only the first 8 are used, so that there is room for new ones."""
    return (numbers // 8) * 32 + numbers % 8 + 1


def retail_cents(part: Ints) -> Ints:
    """The price of a part, which its key decides."""
    return 90_000 + (part // 10) % 20_001 + 100 * (part % 1000)


def supplier_of(part: Ints, place: Ints, suppliers: int) -> Ints:
    """The suppliers of a part: four different ones, if there are so many.

    Below scale 0.01, the step of the specification would come upon the same one twice.
    """
    shift = (part - 1) // suppliers if suppliers >= 100 else 0
    return (part + place * (suppliers // 4 + shift)) % suppliers + 1


def fixed() -> dict[str, dict[str, Column]]:
    return {
        "region": {
            "r_regionkey": np.arange(len(REGIONS)),
            "r_name": REGIONS,
            "r_comment": ["a region"] * len(REGIONS),
        },
        "nation": {
            "n_nationkey": np.arange(len(NATIONS)),
            "n_name": [name for name, _ in NATIONS],
            "n_regionkey": np.array([region for _, region in NATIONS]),
            "n_comment": ["a nation"] * len(NATIONS),
        },
    }


def chosen(pick: np.random.Generator, options: Sequence[str], count: int) -> list[str]:
    """Random ones of some texts."""
    return [options[place] for place in pick.integers(0, len(options), count)]


def comments(pick: np.random.Generator, count: int, words: int = 4) -> list[str]:
    """Random texts of a few words."""
    return [" ".join(TEXT[w] for w in row) for row in pick.integers(0, len(TEXT), (count, words))]


def _phones(pick: np.random.Generator, nations: Ints) -> list[str]:
    digits = pick.integers((100, 100, 1000), (1000, 1000, 10_000), (len(nations), 3))
    return [f"{n + 10}-{a}-{b}-{c}" for n, (a, b, c) in zip(nations, digits, strict=True)]


def suppliers(pick: np.random.Generator, keys: Ints) -> dict[str, Column]:
    """Suppliers with these keys."""
    count = len(keys)
    nations = pick.permutation(count) % len(NATIONS)  # even, so that small scales have them all
    said = comments(pick, count)
    for place in pick.choice(count, max(1, count // 100), replace=False):
        said[place] = "Customer slow Complaints " + said[place]
    return {
        "s_suppkey": keys,
        "s_name": [f"Supplier#{key:09}" for key in keys],
        "s_address": [f"street {key}" for key in keys],
        "s_nationkey": nations,
        "s_phone": _phones(pick, nations),
        "s_acctbal": pick.integers(-99_999, 1_000_000, count),
        "s_comment": said,
    }


def parts(pick: np.random.Generator, keys: Ints) -> dict[str, Column]:
    """Parts with these keys."""
    count = len(keys)
    makers, brands = pick.integers(1, 6, count), pick.integers(1, 6, count)
    kinds = zip(*(chosen(pick, t, count) for t in (TYPE_1, TYPE_2, TYPE_3)), strict=True)
    boxes = zip(*(chosen(pick, c, count) for c in (CONTAINER_1, CONTAINER_2)), strict=True)
    return {
        "p_partkey": keys,
        "p_name": [" ".join(pick.choice(COLORS, 5, replace=False)) for _ in keys],
        "p_mfgr": [f"Manufacturer#{maker}" for maker in makers],
        "p_brand": [f"Brand#{m}{b}" for m, b in zip(makers, brands, strict=True)],
        "p_type": [" ".join(parts) for parts in kinds],
        "p_size": pick.integers(1, 51, count),
        "p_container": [" ".join(parts) for parts in boxes],
        "p_retailprice": retail_cents(keys),
        "p_comment": comments(pick, count, 2),
    }


def offers(pick: np.random.Generator, part_keys: Ints, suppliers: int) -> dict[str, Column]:
    """What is offered of these parts, if there are so many suppliers."""
    each = min(4, suppliers)
    keys = np.repeat(part_keys, each)
    count = len(keys)
    return {
        "ps_partkey": keys,
        "ps_suppkey": supplier_of(keys, np.tile(np.arange(each), len(part_keys)), suppliers),
        "ps_availqty": pick.integers(1, 10_000, count),
        "ps_supplycost": pick.integers(100, 100_001, count),
        "ps_comment": comments(pick, count, 2),
    }


def customers(pick: np.random.Generator, keys: Ints) -> dict[str, Column]:
    """Customers with these keys."""
    count = len(keys)
    nations = pick.integers(0, len(NATIONS), count)
    return {
        "c_custkey": keys,
        "c_name": [f"Customer#{key:09}" for key in keys],
        "c_address": [f"road {key}" for key in keys],
        "c_nationkey": nations,
        "c_phone": _phones(pick, nations),
        "c_acctbal": pick.integers(-99_999, 1_000_000, count),
        "c_mktsegment": chosen(pick, SEGMENTS, count),
        "c_comment": comments(pick, count),
    }


def orders(pick: np.random.Generator, keys: Ints, scale: float) -> dict[str, dict[str, Column]]:
    """Orders with these keys, and their lines."""
    count = len(keys)
    buyers = pick.integers(1, rows_at(scale, "customer") + 1, count)
    buyers = np.where(buyers % 3 == 0, np.maximum(buyers - 1, 1), buyers)
    dates = pick.integers(FIRST_DAY, LAST_ORDER + 1, count)
    lines = _lines(pick, keys, dates, scale)
    owner = lines.pop("owner")
    price = lines["l_extendedprice"] * (100 - lines["l_discount"]) * (100 + lines["l_tax"])
    total = np.bincount(owner, price / 10_000, count).round().astype(np.int64)
    shipped = np.bincount(owner, np.array(lines["l_linestatus"]) == "F", count)
    sizes = np.bincount(owner, minlength=count)
    status = np.where(shipped == sizes, "F", np.where(shipped == 0, "O", "P"))
    made = {
        "o_orderkey": keys,
        "o_custkey": buyers,
        "o_orderstatus": status.tolist(),
        "o_totalprice": total,
        "o_orderdate": dates,
        "o_orderpriority": chosen(pick, PRIORITIES, count),
        "o_clerk": [f"Clerk#{clerk:09}" for clerk in pick.integers(1, 1001, count)],
        "o_shippriority": np.zeros(count, np.int64),
        "o_comment": comments(pick, count, 5),
    }
    return {"orders": made, "lineitem": lines}


def _lines(pick: np.random.Generator, keys: Ints, dates: Ints, scale: float) -> dict[str, Column]:
    """One to seven lines for each order; `owner` has the place of a line's order."""
    sizes = pick.integers(1, 8, len(keys))
    owner = np.repeat(np.arange(len(keys)), sizes)
    count = len(owner)
    bought = pick.integers(1, rows_at(scale, "part") + 1, count)
    supplied = rows_at(scale, "supplier")
    quantity = pick.integers(1, 51, count)
    shipped = dates[owner] + pick.integers(1, 122, count)
    received = shipped + pick.integers(1, 31, count)
    returned = np.where(pick.integers(0, 2, count) == 0, "R", "A")
    return {
        "owner": owner,
        "l_orderkey": keys[owner],
        "l_partkey": bought,
        "l_suppkey": supplier_of(bought, pick.integers(0, min(4, supplied), count), supplied),
        "l_linenumber": np.arange(count) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1,
        "l_quantity": quantity * 100,
        "l_extendedprice": quantity * retail_cents(bought),
        "l_discount": pick.integers(0, 11, count),
        "l_tax": pick.integers(0, 9, count),
        "l_returnflag": np.where(received <= CURRENT, returned, "N").tolist(),
        "l_linestatus": np.where(shipped > CURRENT, "O", "F").tolist(),
        "l_shipdate": shipped,
        "l_commitdate": dates[owner] + pick.integers(30, 91, count),
        "l_receiptdate": received,
        "l_shipinstruct": chosen(pick, INSTRUCTIONS, count),
        "l_shipmode": chosen(pick, MODES, count),
        "l_comment": comments(pick, count, 2),
    }
